"""From independent bones to a tree: its joints, motion, weights and rest shape.

The bones of a decomposition share vertices in any way that lowers its error, so a tree over them is
a poor start. A tree over clusters is better: each vertex follows one bone, and the joints are at
the borders of the clusters. The solve then follows `ssdr`: iterations with two influences, then
more than K, then K, on a sample of the vertices and frames. Then it searches for a better tree
(`tree_search`), and the last iterations use all vertices and frames.

If the bones already belong to a skeleton, they are best left as they are. Therefore the tree over
the given bones is tried first. If its error is invisible, nothing else is tried; else the better of
the two is used.

A joint outside the body costs as much as an error of its vertices (`joint_places`), from the first
tree on: joints that are moved inside at the end only would no longer fit weights and motion. Before
the last iterations, joints whose place the motion leaves open are placed by the shape
(`joint_places`); a joint that is still outside after them is fixed inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from understudy.core.poses import evenly
from understudy.methods.decomposition.bones.bone_count import INVISIBLE, relative_error
from understudy.methods.decomposition.bones.locality import connected_patches
from understudy.methods.decomposition.skeleton.articulated_fit import (
    FIRST_STEPS,
    ArticulatedFit,
    limit_influences,
    solve_articulated,
    solve_held_rest,
    solve_motion,
)
from understudy.methods.decomposition.skeleton.articulation import Articulation, NormalEquations
from understudy.methods.decomposition.skeleton.gauss_newton import JointPrior, solve_articulation
from understudy.methods.decomposition.skeleton.joint_places import Body, JointRegion, placed_joints
from understudy.methods.decomposition.skeleton.joints import (
    Borders,
    cluster_borders,
    pairwise_joints,
    spanning_tree,
)
from understudy.methods.decomposition.skeleton.tree_search import joined_where_shared, search_trees
from understudy.methods.decomposition.solve.motion import Fit, Motion, WeightSearch, dense_weights
from understudy.methods.decomposition.solve.solves import (
    nearest_rigid,
    no_weights,
    solve_rigid_transforms,
    solve_weights,
)
from understudy.methods.decomposition.solve.starts import split_transform
from understudy.system.progress import Task

_VERTICES, _FRAMES = 1500, 32  # size of the sample that the first iterations use
_REPEATS = 10  # of fitting rigid clusters and assigning the vertices again
_SPLIT_SHARE = 0.25  # of a cluster that a bone without vertices takes over
_ITERATIONS, _LAST_ITERATIONS = 50, 60
_NEIGHBOURS = 4  # sample vertices that another vertex takes its change of the rest shape from
_REST_REPEATS = 5  # of solving for the rest shape and weights of all vertices
_PLACED, _FIXED = 10.0, 1e3  # times the usual hold of joints that were placed inside the body
_OUTSIDE, _LAST_OUTSIDE = 0.03, 0.3  # cost of joints outside; see `ArticulatedFit`
_FIXED_ITERATIONS = 10  # where joints had to be fixed


def solve_skeleton(
    motion: Motion,
    start: Fit,
    triangles: np.ndarray,
    influences: int,
    bar: Task,
    note: Callable[[float], str],
) -> ArticulatedFit:
    """Return a tree over the bones of `start`, its motion, weights and rest shape.

    start       rigid transforms (3F,4B) and weights
    triangles   (M,3) of the mesh
    influences  largest number of bones per vertex
    bar         advances by three steps
    note        text beside the bar for a squared error
    """
    region = JointRegion.of(motion.rest[:, :3], triangles) if len(triangles) else None
    sample, found = _first_tree(motion, start, triangles, influences, region)
    bar.advance()

    if not _is_invisible(sample, found):
        enough = lambda fitted: _is_invisible(sample, fitted)
        last = min(influences, found.fit.bones)
        found = search_trees(sample, found, last, enough)
        found = joined_where_shared(sample, found, last)
    bar.advance()

    found = _finish(motion, found, triangles, influences, lambda error: bar.note(note(error)))
    bar.advance()
    return found


def _first_tree(
    motion: Motion, start: Fit, triangles: np.ndarray, influences: int, region: JointRegion | None
) -> tuple[Motion, ArticulatedFit]:
    """Return the sample of the motion, and the better of the two initial trees after iterations."""
    vertices, frames = _sample(motion)
    rows = (3 * frames[:, None] + np.arange(3)).reshape(-1)
    sample = motion.subset(vertices, rows)
    last = min(influences, start.bones)
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    given, clustered = (
        replace(tree, region=region, outside=_OUTSIDE)
        for tree in _initial_trees(motion, start, edges)
    )
    given = limit_influences(sample, solve_motion(sample, _take(given, vertices, frames)), last)
    given = solve_articulated(sample, given, last, _ITERATIONS)
    if _is_invisible(sample, given):
        return sample, given
    found = solve_motion(sample, _take(clustered, vertices, frames))
    for count in sorted({min(count, start.bones) for count in (2, 4, influences + 2)} - {last}):
        found = solve_articulated(sample, found, count, _ITERATIONS)
    found = solve_articulated(sample, limit_influences(sample, found, last), last, _ITERATIONS)
    return sample, min(found, given, key=lambda fitted: fitted.error)


def _finish(
    motion: Motion,
    found: ArticulatedFit,
    triangles: np.ndarray,
    influences: int,
    report: Callable[[float], object],
) -> ArticulatedFit:
    """Return the fit to all vertices and frames, from that of the sample; joints are inside."""
    vertices, frames = _sample(motion)
    last, more = min(influences, found.fit.bones), min(influences + 2, found.fit.bones)
    all_frames = motion.subset(vertices)
    body = Body(motion.rest[:, :3], triangles)
    found = _with_placed_joints(all_frames, _all_frames(all_frames, found, frames), body)
    found = _in_own_shape(_all_vertices(motion, all_frames.rest, found, more), triangles)
    found = solve_articulated(
        motion, found, more, _LAST_ITERATIONS // 2, fit_rest=True, extend=False
    )
    found = limit_influences(motion, found, last)
    found = solve_articulated(motion, found, last, _LAST_ITERATIONS, report, fit_rest=True)
    return _inside(motion, found, triangles, last)


def _sample(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices and frames that the first iterations use."""
    return evenly(motion.vertex_count, _VERTICES), evenly(motion.rows // 3, _FRAMES)


def _inside(
    motion: Motion, fitted: ArticulatedFit, triangles: np.ndarray, influences: int
) -> ArticulatedFit:
    """Return the fit, with joints that are still outside its rest shape fixed inside."""
    if not len(triangles):
        return fitted
    region = JointRegion.of(fitted.rest[:, :3], triangles)
    joints = region.nearest(fitted.pose.joints)
    joints[fitted.pose.tree.root] = fitted.pose.joints[fitted.pose.tree.root]
    if np.array_equal(joints, fitted.pose.joints):
        return fitted
    fixed = fitted.with_pose(replace(fitted.pose, joints=joints))
    fixed = solve_motion(motion, replace(fixed, hold=_FIXED, region=region))
    return solve_articulated(
        motion, fixed, influences, _FIXED_ITERATIONS, fit_rest=True, extend=False
    )


def _in_own_shape(fitted: ArticulatedFit, triangles: np.ndarray) -> ArticulatedFit:
    """Return the fit with its own rest shape as the region of its joints."""
    if not len(triangles):
        return fitted
    region = JointRegion.of(fitted.rest[:, :3], triangles)
    return replace(fitted, region=region, outside=_LAST_OUTSIDE)


def _is_invisible(motion: Motion, fitted: ArticulatedFit) -> bool:
    """Return whether the error of a fit is too small to be seen, so that no search is needed."""
    return relative_error(motion, fitted.error) <= INVISIBLE


def _initial_trees(
    motion: Motion, start: Fit, edges: np.ndarray
) -> tuple[ArticulatedFit, ArticulatedFit]:
    """Return the tree over the given bones, and the tree over clusters of vertices."""
    rest = motion.rest[:, :3]
    cluster = start.index[np.arange(motion.vertex_count), np.argmax(start.weight, axis=1)]
    given = _spanning_tree(start, motion.rest, main_borders(rest, cluster, edges, start.bones))
    clusters = _rigid_clusters(
        motion,
        replace(
            start, index=cluster[:, None].astype(np.int32), weight=np.ones((motion.vertex_count, 1))
        ),
    )
    borders = main_borders(rest, clusters.index[:, 0], edges, start.bones)
    return given, _spanning_tree(clusters, motion.rest, borders)


def main_borders(rest: np.ndarray, cluster: np.ndarray, edges: np.ndarray, bones: int) -> Borders:
    """Return the borders between the largest connected parts of clusters (V,).

    A bone may also move a few vertices elsewhere, which are no place for a joint.
    """
    part = connected_patches(cluster, edges)
    _, first, count = np.unique(part, return_index=True, return_counts=True)
    largest = np.full(bones, -1)
    order = np.argsort(count, kind="stable")
    largest[cluster[first[order]]] = part[first[order]]  # the largest is written last
    main = part == largest[cluster]
    return cluster_borders(rest, cluster, edges[main[edges].all(axis=1)], bones)


def _rigid_clusters(motion: Motion, fit: Fit) -> Fit:
    """Return the fit in which each vertex follows the rigid bone that suits it best.

    Bones without vertices take over part of the cluster with the largest error.
    """
    search, idle = WeightSearch(1), fit.bones
    for number in range(_REPEATS + fit.bones):
        transforms = solve_rigid_transforms(motion, fit, 2)
        fit = solve_weights(motion, transforms, (fit.index, fit.weight), search)
        unused = np.flatnonzero(np.bincount(fit.index[:, 0], minlength=fit.bones) == 0)
        if len(unused) < idle and len(unused) and fit.vertex_errors.any():
            transforms = fit.transforms.copy()
            columns = slice(4 * unused[0], 4 * unused[0] + 4)
            transforms[:, columns] = nearest_rigid(split_transform(motion, fit, _SPLIT_SHARE))
            fit = solve_weights(motion, transforms, no_weights(motion), search)
            idle = len(unused)
        elif number >= _REPEATS:
            break
    return fit


def _spanning_tree(fit: Fit, rest: np.ndarray, borders: Borders) -> ArticulatedFit:
    """Return the best tree over the bones of a fit, with their rotations and the root's motion."""
    joints, cost = pairwise_joints(fit.transforms, borders)
    tree = spanning_tree(cost)
    bones = np.ascontiguousarray(fit.transforms.reshape(-1, 3, fit.bones, 4).transpose(0, 2, 1, 3))
    at = joints[np.arange(fit.bones), tree.parents]
    at[tree.root] = 0
    rotations = np.ascontiguousarray(bones[..., :3])
    pose = Articulation(tree, at, rotations, bones[:, tree.root, :, 3])
    return ArticulatedFit(pose, fit, rest, at)


def _take(fitted: ArticulatedFit, vertices: np.ndarray, frames: np.ndarray) -> ArticulatedFit:
    """Return the fit of some vertices in some frames."""
    pose, fit = fitted.pose, fitted.fit
    pose = replace(pose, rotations=pose.rotations[frames], root_position=pose.root_position[frames])
    fit = replace(
        fit,
        index=fit.index[vertices],
        weight=fit.weight[vertices],
        vertex_errors=fit.vertex_errors[vertices],
        transforms=pose.transforms(),
    )
    return replace(fitted, pose=pose, fit=fit, rest=fitted.rest[vertices])


def _all_frames(motion: Motion, fitted: ArticulatedFit, frames: np.ndarray) -> ArticulatedFit:
    """Return the fit in all frames of `motion`, from a fit in some frames.

    Each frame starts from the nearest of those, or from rotations of independent bones, whichever
    is better.
    """
    pose, count = fitted.pose, motion.rows // 3
    if len(frames) == count:
        return fitted
    tree, joints = pose.tree, pose.joints
    with_rest = fitted.motion(motion)
    equations = NormalEquations.of(with_rest, fitted.fit)
    near = np.argmin(np.abs(np.arange(count)[:, None] - frames), axis=1)
    copied = Articulation(tree, joints, pose.rotations[near], pose.root_position[near])
    independent = solve_rigid_transforms(
        with_rest, replace(fitted.fit, transforms=copied.transforms()), 10
    )
    bones = independent.reshape(-1, 3, tree.bones, 4).transpose(0, 2, 1, 3)
    root = bones[:, tree.root]
    position = root[:, :, :3] @ joints[tree.root] + root[:, :, 3]
    rotated = Articulation(tree, joints, np.ascontiguousarray(bones[..., :3]), position)
    fixed = JointPrior(joints, np.full(tree.bones, 1e9 * count * motion.vertex_count))
    one, two = (
        solve_articulation(equations, start, fixed, FIRST_STEPS, min_gain=1e-3)
        for start in (copied, rotated)
    )
    better = equations.frame_errors(two.transforms()) < equations.frame_errors(one.transforms())
    rotations = np.where(better[:, None, None, None], two.rotations, one.rotations)
    position = np.where(better[:, None], two.root_position, one.root_position)
    start = Articulation(tree, joints, rotations, position)
    return solve_motion(motion, replace(fitted, pose=start))


def _with_placed_joints(motion: Motion, fitted: ArticulatedFit, body: Body) -> ArticulatedFit:
    """Return the fit with joints inside the body, where they are held from here on."""
    weight, rest = dense_weights(fitted.fit), fitted.rest[:, :3]
    joints = placed_joints(fitted.pose, weight, rest, body)
    placed = fitted.with_pose(replace(fitted.pose, joints=joints))
    return solve_motion(motion, replace(placed, hold=_PLACED))


def _all_vertices(
    motion: Motion, sample_rest: np.ndarray, fitted: ArticulatedFit, influences: int
) -> ArticulatedFit:
    """Return weights and rest shape of all vertices, from a fit to a sample.

    sample_rest  (n,4) the sample in the mesh of the sequence

    The other vertices first move with their neighbours in the sample: weights that are solved for
    at a rest shape which the transforms do not belong to are poor.
    """
    distance, near = cKDTree(sample_rest[:, :3]).query(
        motion.rest[:, :3], k=np.arange(1, min(_NEIGHBOURS, len(sample_rest)) + 1)
    )
    share = 1 / (distance**2 + 1e-6)
    shift = np.einsum(
        "vk,vki->vi", share / share.sum(axis=1, keepdims=True), (fitted.rest - sample_rest)[near]
    )
    rest, transforms = motion.rest + shift, fitted.pose.transforms()
    fit = solve_weights(
        replace(motion, rest=rest),
        transforms,
        no_weights(motion),
        WeightSearch(influences, from_all=True),
    )
    for _ in range(_REST_REPEATS):
        rest = solve_held_rest(motion, fit)
        fit = solve_weights(
            replace(motion, rest=rest),
            transforms,
            (fit.index, fit.weight),
            WeightSearch(influences),
        )
    return replace(fitted, fit=fit, rest=rest)
