"""A skeleton of bones with a patch of the mesh each that do not reproduce a motion, as of captures.

The tree and its joints are those of `joints`. Motion, weights and rest shape are solved for in
turn, with any bones at a vertex: iterations with few influences first, then with more than K, then
with K, on a sample of the vertices. As long as the error is visible, the weights are perturbed:
iterations with more or fewer influences than K, then with K, lead out of local minima, and are kept
where they lower the error. The last iterations use all vertices. Joints that have left the body by
then are fixed inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.spatial import cKDTree

from understudy.core.poses import evenly
from understudy.methods.decomposition.bones.bone_count import INVISIBLE, relative_error
from understudy.methods.decomposition.bones.patch_search import LocalBones
from understudy.methods.decomposition.skeleton.articulated_fit import (
    ArticulatedFit,
    fixed_inside,
    solve_articulated,
    solve_held_rest,
    solve_motion,
    unfitted,
)
from understudy.methods.decomposition.skeleton.body import Body
from understudy.methods.decomposition.skeleton.joints import tree_and_joints
from understudy.methods.decomposition.solve.motion import Motion, WeightSearch
from understudy.methods.decomposition.solve.solves import no_weights, solve_weights
from understudy.system.progress import Task

_VERTICES = 1500  # of the sample that the first iterations use
_ITERATIONS, _REST_ITERATIONS = 50, 60
_MORE = 2  # influences more than allowed
_PERTURBATIONS, _PERTURBED_ITERATIONS, _KEPT_ITERATIONS = (_MORE, -1), 25, 40
# At most so many repetitions; none after one that lowers the squared error by less than this share
_REPETITIONS, _MIN_GAIN = 4, 5e-3
_NEIGHBOURS = 4  # sample vertices that another vertex takes its change of the rest shape from
_REST_REPEATS = 5  # of solving for the rest shape and weights of all vertices
_FIXED_ITERATIONS = 20  # where joints had to be fixed


def solve_skeleton(
    motion: Motion,
    bones: LocalBones,
    triangles: np.ndarray,
    influences: int,
    bar: Task,
    note: Callable[[float], str],
) -> ArticulatedFit:
    """Return a tree over `bones`, its motion, weights and rest shape.

    triangles   (M,3) of the mesh
    influences  largest number of bones per vertex
    bar         advances by two steps
    note        text beside the bar for a squared error
    """
    tree, joints = tree_and_joints(motion, bones, Body(motion.rest[:, :3], triangles))
    places = lambda number: min(max(1, number), bones.fit.bones)
    vertices = evenly(motion.vertex_count, _VERTICES)
    sample = motion.subset(vertices)
    found = solve_motion(sample, unfitted(motion, bones.fit, tree, joints).of_vertices(vertices))
    last = places(influences)
    first = {places(count) for count in (2, 4, influences + _MORE)} - {last}
    for count in (*sorted(first), last):
        found = solve_articulated(sample, found, count, _ITERATIONS)
    iterated = partial(solve_articulated, fit_rest=True, extend=False)
    found = iterated(sample, found, last, _REST_ITERATIONS)
    for _ in range(_REPETITIONS):
        before = found.error
        if relative_error(sample, before) <= INVISIBLE:
            break
        for more in _PERTURBATIONS:
            other = iterated(sample, found, places(influences + more), _PERTURBED_ITERATIONS)
            other = iterated(sample, other, last, _KEPT_ITERATIONS)
            found = min(found, other, key=lambda fitted: fitted.error)
        if found.error >= (1 - _MIN_GAIN) * before:
            break
    bar.advance()
    more = places(influences + _MORE)
    found = _all_vertices(motion, sample.rest, found, more)
    found = iterated(motion, found, more, _REST_ITERATIONS // 2)
    report = lambda error: bar.note(note(error))
    found = solve_articulated(motion, found, last, _REST_ITERATIONS, report, fit_rest=True)
    found = fixed_inside(motion, found, triangles, last, _FIXED_ITERATIONS)
    bar.advance()
    return found


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
