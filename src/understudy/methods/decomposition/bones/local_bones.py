"""Rigid bones that move one patch of the mesh each, as many as the motion shows.

The bones of a decomposition come first, as many as leave nothing visible. Every bone is divided
into the connected patches that it moves (`locality`), and vertices keep to the bones of their own
and of neighbouring patches. Then bones are added: the patches with the largest errors are split
where the error is largest (`patch_search`).

When nothing can be seen any more, the bones of the rig are near. They reproduce the motion exactly
if a vertex may also use a few bones two patches away, as the weights of rigs do. From the start
that would let bones spread over the body, so it comes last: patches are split and bones removed in
turn until the error is negligible, with as few bones as possible. On small meshes several starts
are tried, and the bones whose joints come apart least are taken.

Where the body hardly bends, in an idle animation, all limits of the error are too coarse. The
search is then repeated with limits in proportion (`patch_search.precision`), and its bones are
taken if they reproduce the motion and their joints come apart no more.

A rig that deforms by more than its bones (correctives, dual quaternions) has no such bones. Then
bones of neighbouring patches are removed while nothing can be seen.

A motion that not even these reproduce is not that of a rig: a capture, a soft body. It needs more
and more bones, each of which lowers the error by less than the share gamma of `bone_count`.
A rig that scales its parts gets many small bones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from understudy.core.poses import evenly
from understudy.methods.decomposition.bones.bone_count import relative_error
from understudy.methods.decomposition.bones.locality import connections, shells, thinned
from understudy.methods.decomposition.bones.patch_search import (
    LocalBones,
    PatchSearch,
    Search,
    alternated,
    replacement_costs,
)
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    chosen_bones,
    dense_weights,
    rows_of,
    single_bone_fit,
    strongest,
    with_exact_errors,
)
from understudy.methods.decomposition.solve.solves import solve_rigid_transforms

_VERTICES, _FRAMES = 2400, 64  # of the sample that bones are added and removed on
_RIG_INFLUENCES = 4  # of a vertex in most rigs
_SMALL_MESH = 800  # vertices
_CLOSED = 1e-3  # of the size: joints that come apart by less are equally good
_MORE = 4 / 3  # times the bones that leave nothing visible
_LAST_ITERATIONS, _LAST_SWEEPS = 20, 20
_ALIKE = 0.01  # E of replacing a bone by one that moves alike

# From a motion, its bones and the triangles of the mesh; see `find_local_bones`.
Sliding = Callable[[Motion, LocalBones, np.ndarray], float]


def find_local_bones(
    motion: Motion,
    start: Fit,
    triangles: np.ndarray,
    influences: int,
    sliding: Sliding,
    note: Callable[[str], object] = lambda text: None,
) -> LocalBones | None:
    """Return rigid bones that leave nothing visible; None: the motion is not that of a rig.

    start       the bones of a decomposition, rigid
    triangles   (M,3)
    influences  largest number of bones per vertex
    sliding     how far the joints of bones come apart, as a share of the size
    note        called with a text about the bones whenever they change
    """
    some = _Sample.of(motion, start, triangles)
    apart = partial(_apart, sliding, some.motion, triangles)
    on_sample = partial(_on_sample, some, influences, apart, note)
    found = on_sample()
    if found is None:
        return None
    search = Search().of_small_motion(some.motion, found)
    if search.scale < 1:
        finer = on_sample(search)
        if some.motion.vertex_count < motion.vertex_count:  # nothing tells what is inside the body
            apart = partial(_apart, sliding, some.motion, triangles[:0])
        found = found if finer is None or apart(finer) > apart(found) else finer
    return _merged(motion, some.whole(motion, found), triangles)


def patch_bones(motion: Motion, start: Fit, triangles: np.ndarray, influences: int) -> LocalBones:
    """Return as many rigid bones with a patch each as `start` has, whatever error they leave.

    start       rigid bones, anywhere on the mesh
    triangles   (M,3)
    influences  largest number of bones per vertex
    """
    some = _Sample.of(motion, start, triangles)
    search = PatchSearch(some.motion, some.pairs, influences)
    return some.whole(motion, search.of_number(some.start, start.bones))


@dataclass(frozen=True, eq=False)
class _Sample:
    """Some vertices and frames of a motion, on which bones are added and removed.

    motion     of the sample
    start      the bones to start from
    pairs      (n,2) its neighbouring vertices
    all_pairs  (m,2) those of the whole mesh
    nearest    (V,) the vertex of the sample that is nearest to each of the mesh
    vertices   (v,) and frames (f,) of the sample
    """

    motion: Motion
    start: Fit
    pairs: np.ndarray
    all_pairs: np.ndarray
    nearest: np.ndarray
    vertices: np.ndarray
    frames: np.ndarray

    @staticmethod
    def of(motion: Motion, start: Fit, triangles: np.ndarray) -> _Sample:
        rest = motion.rest[:, :3]
        all_pairs = connections(rest, triangles)
        vertices = evenly(motion.vertex_count, _VERTICES)
        pairs, nearest = thinned(rest, all_pairs, vertices)
        frames = evenly(motion.rows // 3, _FRAMES)
        rows = rows_of(frames)
        few = Fit(
            np.ascontiguousarray(start.transforms[rows]),
            start.index[vertices],
            start.weight[vertices],
            start.vertex_errors[vertices],
        )
        sample = motion.subset(vertices, rows)
        return _Sample(sample, few, pairs, all_pairs, nearest, vertices, frames)

    def whole(self, motion: Motion, found: LocalBones) -> LocalBones:
        """Return bones of the sample on all vertices and frames of `motion`."""
        if 3 * len(self.frames) < motion.rows:
            found = _in_all_frames(motion.subset(self.vertices), found, self.frames)
        return _on_all_vertices(motion, self.all_pairs, found, self.nearest)


def _on_sample(
    some: _Sample,
    influences: int,
    apart: Callable[[LocalBones], float],
    note: Callable[[str], object],
    search: Search = Search(),  # noqa: B008
) -> LocalBones | None:
    """Return bones of a sample; None: there are none.

    apart   how far joints come apart
    search  how to search; if its scale is less than one, only bones that reproduce the motion count
    """
    sample = some.motion
    patches = PatchSearch(sample, some.pairs, influences, search, note)
    found = patches.found(some.start)
    if found is None:
        return None
    fewer = patches.pruned(found, patches.small)
    exact = _exact(sample, found, fewer, influences, search.for_exact_bones(), note)
    otherwise = fewer if search.scale == 1 else None
    if sample.vertex_count > _SMALL_MESH:
        return next(exact, otherwise)
    key = lambda bones: (apart(bones), bones.fit.bones)
    return min(exact, key=key, default=otherwise)


def _apart(sliding: Sliding, sample: Motion, triangles: np.ndarray, bones: LocalBones) -> float:
    """Return how far joints come apart, which those of the rig's own bones do least.

    It is the median, as a share of the size; distances that cannot be told apart are equal.
    """
    return max(sliding(sample, bones, triangles), _CLOSED)


def _exact(
    sample: Motion,
    found: LocalBones,
    fewer: LocalBones,
    influences: int,
    search: Search,
    note: Callable[[str], object],
) -> Iterator[LocalBones]:
    """Yield bones that reproduce the motion, those with few influences first.

    found  bones that leave nothing visible
    fewer  those that are left if bones are removed while nothing can be seen

    The search starts from either. Many more bones than `fewer` has are not those of the rig: they
    are removed while the error is small.
    """
    for places in sorted({min(_RIG_INFLUENCES, influences), influences}):
        patches = PatchSearch(sample, found.pairs, places, search, note)
        for start in (found, fewer):
            exact = patches.exact(start)
            if exact is not None:
                yield patches.pruned(exact, patches.small / 2, math.ceil(_MORE * fewer.fit.bones))


def _in_all_frames(motion: Motion, found: LocalBones, frames: np.ndarray) -> LocalBones:
    """Return the bones in all frames, each started from the nearest of `frames` (f,)."""
    fit, count = found.fit, motion.rows // 3
    near = np.argmin(np.abs(np.arange(count)[:, None] - frames), axis=1)
    by_frame = fit.transforms.reshape(len(frames), 3, -1)[near]
    fit = replace(fit, transforms=np.ascontiguousarray(by_frame.reshape(3 * count, -1)))
    transforms = solve_rigid_transforms(motion, fit, _LAST_SWEEPS)
    return replace(found, fit=replace(fit, transforms=transforms))


def _on_all_vertices(
    motion: Motion, pairs: np.ndarray, found: LocalBones, nearest: np.ndarray
) -> LocalBones:
    """Return the bones on all vertices, from a fit to a sample.

    nearest  (V,) the vertex of the sample whose weights and patch each vertex takes over

    Iterations start from the weights of the sample, and from the patches alone. Which of the two
    ends better cannot be told before.
    """
    patch, few = found.patch[nearest], found.fit
    alone = single_bone_fit(motion, patch, few.bones)
    rigid = np.tile(np.eye(3, 4), (motion.rows // 3, few.bones))
    weights = few.index[nearest], few.weight[nearest]
    starts = [Fit(few.transforms, *weights, motion.square), replace(alone, transforms=rigid)]
    places = few.index.shape[1]
    ends = [
        alternated(
            motion, replace(found, fit=fit, patch=patch, pairs=pairs), places, _LAST_ITERATIONS
        )
        for fit in starts
    ]
    return min(ends, key=lambda bones: bones.fit.error)


def _merged(motion: Motion, found: LocalBones, triangles: np.ndarray) -> LocalBones:
    """Return the bones, those of separate shells merged that move together."""
    shell = shells(motion.vertex_count, triangles)
    while found.fit.bones > 1:
        fit = found.fit
        holds = np.zeros((fit.bones, shell.max() + 1))
        holds[found.patch, shell] = 1
        cost = np.where(holds @ holds.T > 0, np.inf, replacement_costs(motion, fit))
        bone, other = np.unravel_index(np.argmin(cost), cost.shape)
        if relative_error(motion, motion.rows // 3 * cost[bone, other]) > _ALIKE:
            break
        found = _with_one_bone(motion, found, int(bone), int(other))
    return found


def _with_one_bone(motion: Motion, found: LocalBones, bone: int, other: int) -> LocalBones:
    """Return the bones without `bone`, whose vertices follow `other`."""
    fit = found.fit
    left = np.delete(np.arange(fit.bones), bone)
    number = np.searchsorted(left, np.arange(fit.bones))
    number[bone] = number[other]
    weights = dense_weights(fit)
    weights[:, other] += weights[:, bone]
    weights = weights[:, left]
    places = min(fit.index.shape[1], len(left))
    index, weight = strongest(weights, places)
    transforms = chosen_bones(fit.transforms, left)
    merged = with_exact_errors(motion, Fit(transforms, index, weight, fit.vertex_errors))
    return replace(found, fit=merged, patch=number[found.patch])
