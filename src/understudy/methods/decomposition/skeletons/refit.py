"""The way from bones that knew nothing of each other to a tree, its motion, its weights and its
rest shape.

The bones of a decomposition share vertices in any way that lowers its error, so a tree over them is
a poor start. Better is one over clusters that belong to one bone each: their borders are where
joints are. From there as in `ssdr`: rounds with two influences, then more than K, then K, on a
sample of the vertices and frames; then the tree is searched (`regraft`), and at last come rounds on
all. A skin that is a tree's already is best left as it is, so the tree over the bones as they came
is tried as well, and the better one goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from understudy.core.poses import evenly
from understudy.core.progress import Task
from understudy.methods.decomposition.alternating_solve import (
    Fit,
    Search,
    dense_weights,
    nearest_rigid,
    rigid_bones,
    with_weights,
)
from understudy.methods.decomposition.clusters import split_off
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.skeletons.articulated_fit import (
    FIRST_STEPS,
    Character,
    fewer,
    fitted,
    held_rest,
    rounds,
)
from understudy.methods.decomposition.skeletons.articulation import Articulation, Moments
from understudy.methods.decomposition.skeletons.gauss_newton import JointPrior, refined
from understudy.methods.decomposition.skeletons.joints import (
    Borders,
    borders,
    joints_of_pairs,
    spanning_tree,
)
from understudy.methods.decomposition.skeletons.tree_search import improved
from understudy.methods.decomposition.solve import no_weights

_VERTICES, _FRAMES = 2000, 64  # that the first rounds work on
_CHOOSINGS = 10  # of clusters: every vertex anew, every bone anew
_SPLIT = 0.25  # of a cluster that a bone without vertices takes over
_ROUNDS, _LAST_ROUNDS = 50, 60
_NEIGHBOURS, _SETTLE = (
    4,
    5,
    # vertices that another takes its shift of the rest shape from, and how often it and the
    # weights are
    # then chosen again
)
_SHARED = 1e-3  # sum of products of weights from which two bones share vertices at all
# mean square of a turn, about six degrees: axes that bones turn less about do not say where a joint
# is
_CENTRE = 1e-2


def articulated(
    motion: Motion,
    start: Fit,
    edges: np.ndarray,
    influences: int,
    bar: Task,
    note: Callable[[float], str],
) -> Character:
    """A tree for the bones of `start` (rigid, (3F,4B)), its motion, weights and rest shape: edges
    (E,2) of the mesh. `bar` advances by 4.
    """
    vertices, frames = evenly(motion.vertex_count, _VERTICES), evenly(motion.rows // 3, _FRAMES)
    rows = (3 * frames[:, None] + np.arange(3)).reshape(-1)
    few = motion.some(vertices, rows)
    labels = start.index[np.arange(motion.vertex_count), np.argmax(start.weight, axis=1)]
    as_given = _hung(start, motion.rest, borders(motion.rest[:, :3], labels, edges, start.bones))
    clusters = _clusters(
        motion,
        replace(
            start, index=labels[:, None].astype(np.int32), weight=np.ones((motion.vertex_count, 1))
        ),
    )
    clustered = _hung(
        clusters, motion.rest, borders(motion.rest[:, :3], clusters.index[:, 0], edges, start.bones)
    )
    last = min(influences, start.bones)
    given = rounds(
        few, fewer(few, fitted(few, _some(as_given, vertices, frames)), last), last, _ROUNDS
    )
    bar.advance()
    found = fitted(few, _some(clustered, vertices, frames))
    for count in sorted({min(count, start.bones) for count in (2, 4, influences + 2)} - {last}):
        found = rounds(few, found, count, _ROUNDS)
    found = min(
        rounds(few, fewer(few, found, last), last, _ROUNDS),
        given,
        key=lambda character: character.fit.error,
    )
    bar.advance()
    found = improved(few, found, last)
    bar.advance()
    every = motion.some(vertices)
    more = min(influences + 2, start.bones)
    found = _all_vertices(
        motion, every.rest, _centred(every, _all_frames(every, found, frames)), more
    )
    found = fewer(
        motion, rounds(motion, found, more, _LAST_ROUNDS // 2, fit_rest=True, most_times=1), last
    )
    found = rounds(
        motion,
        replace(found, errors=()),
        last,
        _LAST_ROUNDS,
        lambda error: bar.note(note(error)),
        fit_rest=True,
    )
    bar.advance()
    return found


def _centred(motion: Motion, character: Character) -> Character:
    """Joints moved to where their bones share vertices, as far as the motion leaves that open:
    along a hinge's axis a joint may be anywhere, and an artist looks for it inside the body. From
    here on they are held there.
    """
    pose = character.pose
    children = np.flatnonzero(np.arange(character.fit.bones) != pose.tree.root)
    against = pose.turns[:, pose.tree.parents[children]] - pose.turns[:, children]
    apart = np.einsum("tkij,tkil->kjl", against, against, optimize=True) / pose.frames
    joints = pose.joints.copy()
    weight = dense_weights(character.fit)
    shared = weight[:, children] * weight[:, pose.tree.parents[children]]
    total = shared.sum(axis=0)[:, None]
    meet = np.divide(
        shared.T @ character.rest[:, :3], total, out=joints[children], where=total > _SHARED
    )
    away = meet - joints[children]
    joints[children] += np.linalg.solve(apart + _CENTRE * np.eye(3), _CENTRE * away[..., None])[
        ..., 0
    ]
    return fitted(motion, character.posed(replace(pose, joints=joints)))


def _clusters(motion: Motion, fit: Fit) -> Fit:
    """One rigid bone per vertex, the one that explains it best. Bones that then have none get part
    of the cluster that is explained worst.
    """
    idle = fit.bones
    for number in range(_CHOOSINGS + fit.bones):
        fit = with_weights(motion, rigid_bones(motion, fit, 2), fit.index, fit.weight, Search(1))
        unused = np.flatnonzero(np.bincount(fit.index[:, 0], minlength=fit.bones) == 0)
        if len(unused) < idle and len(unused) and fit.value.any():
            columns = fit.columns.copy()
            columns[:, 4 * unused[0] : 4 * unused[0] + 4] = rigid_start(
                split_off(motion, fit, _SPLIT)
            )
            fit = with_weights(motion, columns, *no_weights(motion), Search(1))
            idle = len(unused)
        elif number >= _CHOOSINGS:
            break
    return fit


def _hung(fit: Fit, rest: np.ndarray, found: Borders) -> Character:
    """The tree over the bones of a fit; the root goes where it went, the others turn as they
    did.
    """
    joints, cost = joints_of_pairs(fit.columns, found)
    tree = spanning_tree(cost)
    bones = np.ascontiguousarray(fit.columns.reshape(-1, 3, fit.bones, 4).transpose(0, 2, 1, 3))
    at = joints[np.arange(fit.bones), tree.parents]
    at[tree.root] = 0
    return Character(
        Articulation(tree, at, np.ascontiguousarray(bones[..., :3]), bones[:, tree.root, :, 3]),
        fit,
        rest,
        at,
    )


def _some(character: Character, vertices: np.ndarray, frames: np.ndarray) -> Character:
    pose, fit = character.pose, character.fit
    pose = replace(pose, turns=pose.turns[frames], place=pose.place[frames])
    fit = replace(
        fit,
        index=fit.index[vertices],
        weight=fit.weight[vertices],
        value=fit.value[vertices],
        columns=pose.columns(),
    )
    return replace(character, pose=pose, fit=fit, rest=character.rest[vertices])


def _all_frames(motion: Motion, character: Character, frames: np.ndarray) -> Character:
    """The motion in all frames, from that in some: each frame starts like the nearest of those, or
    with the turns of bones fitted without joints.
    """
    pose, count = character.pose, motion.rows // 3
    if len(frames) == count:
        return character
    moved = character.moves(motion)
    moments = Moments.of(moved, character.fit)
    near = np.argmin(np.abs(np.arange(count)[:, None] - frames), axis=1)
    copied = Articulation(pose.tree, pose.joints, pose.turns[near], pose.place[near])
    loose = rigid_bones(moved, replace(character.fit, columns=copied.columns()), 10)
    bones = loose.reshape(-1, 3, pose.tree.bones, 4).transpose(0, 2, 1, 3)
    root = pose.tree.root
    place = bones[:, root, :, :3] @ pose.joints[root] + bones[:, root, :, 3]
    turned = Articulation(pose.tree, pose.joints, np.ascontiguousarray(bones[..., :3]), place)
    still = JointPrior(pose.joints, np.full(pose.tree.bones, 1e9 * count * motion.vertex_count))
    one, two = (
        refined(moments, start, still, FIRST_STEPS, least=1e-3) for start in (copied, turned)
    )
    better = moments.frame_errors(two.columns()) < moments.frame_errors(one.columns())
    turns = np.where(better[:, None, None, None], two.turns, one.turns)
    start = Articulation(
        pose.tree, pose.joints, turns, np.where(better[:, None], two.place, one.place)
    )
    return fitted(motion, replace(character, pose=start))


def _all_vertices(
    motion: Motion, known: np.ndarray, character: Character, influences: int
) -> Character:
    """Weights and rest shape of all vertices, from bones and a rest shape that were fitted to some,
    which came as `known` (n,4): the others rest shifted like those near them, for weights found at
    the rest that came are poor where the bones rest elsewhere.
    """
    away, near = cKDTree(known[:, :3]).query(
        motion.rest[:, :3], k=np.arange(1, min(_NEIGHBOURS, len(known)) + 1)
    )
    share = 1 / (away**2 + 1e-6)
    shift = np.einsum(
        "vk,vki->vi", share / share.sum(axis=1, keepdims=True), (character.rest - known)[near]
    )
    rest, columns = motion.rest + shift, character.pose.columns()
    fit = with_weights(
        replace(motion, rest=rest), columns, *no_weights(motion), Search(influences, from_all=True)
    )
    for _ in range(_SETTLE):
        rest = held_rest(motion, fit)
        fit = with_weights(
            replace(motion, rest=rest), columns, fit.index, fit.weight, Search(influences)
        )
    return replace(character, fit=fit, rest=rest)


def rigid_start(columns: np.ndarray) -> np.ndarray:
    """Bones (3F,4B) with their 3x3 parts made rotations."""
    return nearest_rigid(columns, np.ones(columns.shape[1] // 4, bool), columns)
