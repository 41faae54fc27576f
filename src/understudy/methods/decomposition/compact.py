"""A deformer with clips in as few bytes as its error allows.

Rest shape, weights and indices have 16 bits (`Deformer.half`). Bones without a place of their own
are placed at the centres of their vertices, so that rounding a rotation moves vertices little. A
bone has keys only in the frames that linear interpolation between other keys misses by more than
the tolerance, and the numbers of the keys have 16 bits on a grid, or 32 where a grid would be too
coarse. Bones of a skeleton have a
key in every frame, in 32 bits: interpolated or rounded matrices are no rotations.

A change dM of the transform of bone b displaces the vertices by w_ib dM v~_i. With the moments

    S_b = sum_i w_ib^2 v~_i v~_i^T      (v~ in the frame of the bone)

the sum of the squared displacements is tr(dM S_b dM^T), so no vertex is deformed to find the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from understudy.core.clip import Clip, ClipKeys
from understudy.core.deformer import Deformer
from understudy.core.skin import skin_weights
from understudy.core.storage import grid_step
from understudy.geometry.transforms import apply, compose, inverse
from understudy.system import checks

# The error E that storing may add: a tenth of the error of the fit raises it by half a percent at
# most, and 0.1 is far below what can be seen.
_SHARE, _LEAST = 0.1, 0.1
_HALF = 0.02  # what rounding the rest shape and the weights to 16 bits adds at most
_CURVE = 24  # numbers of an error curve that are kept
# Half of the tolerance, in squares, is for the numbers and half for frames without keys.
_FOR_NUMBERS = _FOR_KEYS = np.sqrt(0.5)


def default_tolerance(error: float) -> float:
    """Return the error E that storing may add to a fit with some error E.

    >>> default_tolerance(2.0), default_tolerance(0.01)
    (0.2, 0.1)
    """
    return max(_SHARE * error, _LEAST)


def compact(deformer: Deformer, tolerance: float) -> Deformer:
    """Return the deformer in 16 bits, with keys of its clips where they are needed.

    tolerance  the error E that may be added; 0: the deformer itself, with clips in float64

    A deformer without skin or clips is returned as it is.
    """
    checks.between(tolerance, "tolerance", 0)
    if deformer.skin is None or deformer.skeleton is None or not deformer.clips or not tolerance:
        return deformer
    deformer = _centred(deformer)
    if tolerance >= _HALF:
        deformer = _rest_on_grid(deformer)
    allowed = _Allowed.of(deformer, tolerance)
    clips = tuple(_with_keys(clip, allowed) for clip in deformer.clips)
    short = {
        name: _shortened(value) if name.endswith("_curve") else value
        for name, value in deformer.provenance.items()
    }
    smaller = replace(deformer, clips=clips, provenance=short)
    return smaller.half() if tolerance >= _HALF else smaller


def _shortened(curve: Sequence[float]) -> list[float]:
    """Return the first numbers of a curve and its last, with four digits."""
    kept = curve if len(curve) <= _CURVE else [*curve[: _CURVE - 1], curve[-1]]
    return [float(f"{number:.4g}") for number in kept]


def _centred(deformer: Deformer) -> Deformer:
    """Return the deformer with bones that are all at the origin moved to their vertices."""
    skeleton, skin = deformer.need_skin()
    if (skeleton.parents >= 0).any() or not np.array_equal(
        skeleton.world_from_bone, np.tile(np.eye(3, 4), (skeleton.bone_count, 1, 1))
    ):
        return deformer
    rest = deformer.mesh.vertices.astype(np.float64)
    weights = skin_weights(skin, skeleton.bone_count).power(2)
    total = np.asarray(weights.sum(axis=0)).reshape(-1, 1)
    centres = np.where(total > 1e-9, weights.T @ rest / np.maximum(total, 1e-9), rest.mean(axis=0))
    placed = skeleton.world_from_bone.copy()
    placed[:, :, 3] = centres
    return replace(
        deformer,
        skeleton=replace(skeleton, world_from_bone=placed),
        clips=tuple(
            replace(clip, world_from_bone=compose(clip.world_from_bone, placed), keys=None)
            for clip in deformer.clips
        ),
    )


def _rest_on_grid(deformer: Deformer) -> Deformer:
    """Return the deformer with its rest shape on a grid of 16 bits, if that cannot be seen."""
    rest = deformer.mesh.vertices.astype(np.float64)
    step = grid_step(np.ptp(rest, axis=0), spare=1)
    rounded = np.rint(rest / step) * step
    diagonal = float(np.linalg.norm(np.ptp(rest, axis=0))) or 1.0
    if 2000 * np.sqrt(((rounded - rest) ** 2).mean()) > _HALF * diagonal:
        return deformer
    return replace(deformer, mesh=replace(deformer.mesh, vertices=rounded.astype(np.float32)))


@dataclass(frozen=True, eq=False)
class _Allowed:
    """How much the transforms of bones may change.

    moments  (B,4,4) S of every bone
    square   (B,) sum of squared displacements in a frame that the tolerance allows
    joined   whether the bones belong to a skeleton
    """

    moments: np.ndarray
    square: np.ndarray
    joined: bool

    @staticmethod
    def of(deformer: Deformer, tolerance: float) -> _Allowed:
        skeleton, skin = deformer.need_skin()
        bones = skeleton.bone_count
        rest = deformer.mesh.vertices.astype(np.float64)
        weights = skin_weights(skin, bones).toarray() ** 2  # (V,B)
        into_bone = inverse(skeleton.world_from_bone)
        moments = np.empty((bones, 4, 4))
        for bone in range(bones):
            points = np.column_stack([apply(into_bone[bone], rest), np.ones(len(rest))])
            moments[bone] = (points * weights[:, bone, None]).T @ points
        diagonal = float(np.linalg.norm(np.ptp(rest, axis=0)))
        distance = np.sqrt(3) * tolerance * diagonal / 2000  # root mean square of a vertex
        joined = bool((skeleton.parents >= 0).any())
        return _Allowed(moments, weights.sum(axis=0) * distance**2, joined)

    def squares(self, change: np.ndarray, bone: int | slice) -> np.ndarray:
        """Return the squared displacements (...,) of changes (...,3,4) of bones, as shares."""
        moved = np.einsum("...ij,...jk,...ik->...", change, self.moments[bone], change)
        return moved / np.maximum(self.square[bone], 1e-300)


def _with_keys(clip: Clip, allowed: _Allowed) -> Clip:
    """Return the clip with keys where they are needed, in as few bits as possible."""
    transforms = clip.world_from_bone
    if allowed.joined:
        is_key = np.ones(transforms.shape[:2], bool)
        values = transforms.reshape(-1, 12).astype(np.float32)
        keys = ClipKeys(is_key, values)
        return Clip.from_keys(clip.name, keys, clip.frame_rate, clip.start_frame)
    is_key = np.stack(
        [
            _needed(transforms[:, bone], partial(allowed.squares, bone=bone))
            for bone in range(clip.bone_count)
        ],
        axis=1,
    )
    values = transforms[is_key].reshape(-1, 12)
    step = grid_step(np.ptp(values, axis=0), spare=1)
    on_grid = (np.rint(values / step) * step).astype(np.float32)
    change = np.zeros_like(transforms)
    change[is_key] = (on_grid - values).reshape(-1, 3, 4)
    if allowed.squares(change, slice(None)).mean() > _FOR_NUMBERS**2:
        on_grid = values.astype(np.float32)
    return Clip.from_keys(clip.name, ClipKeys(is_key, on_grid), clip.frame_rate, clip.start_frame)


def _needed(transforms: np.ndarray, squares: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return in which frames (F,) of one bone (F,3,4) keys are needed (Ramer-Douglas-Peucker).

    squares  takes changes (n,3,4) to their squared displacements (n,), as shares of the allowed
    """
    frames = len(transforms)
    needed = np.zeros(frames, bool)
    needed[[0, -1]] = True
    spans = [(0, frames - 1)]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        share = (np.arange(first + 1, last) - first)[:, None, None] / (last - first)
        between = transforms[first] + share * (transforms[last] - transforms[first])
        missed = squares(between - transforms[first + 1 : last])
        worst = int(np.argmax(missed))
        if missed[worst] > _FOR_KEYS**2:
            at = first + 1 + worst
            needed[at] = True
            spans += [(first, at), (at, last)]
    return needed
