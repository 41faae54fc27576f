"""What a skin leaves to the blend shapes, as displacements in rest space.

    r_ti = y_ti - T_ti (rest_i, 1)          residual; T_ti the blended transform, A_ti its 3x3 part
    d_ti = A_ti^-1 r_ti                     the displacement that removes it

A few blend shapes span a subspace of low rank. The displacements of that rank that show the
targets best minimise

    sum over t, i of  |A_ti d_ti - r_ti|^2      over d of rank S

which is not the truncation of A^-1 r: where a blend is nearly flat, A^-1 r is large and shows
little, and would take up the rank. So the truncation X is repeated, each time after a damped step
towards the targets:

    d_ti <- x_ti + (A^T A + h)^-1 A^T (r_ti - A x_ti)

Letters: F frames, V vertices, B bones, S blend shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import apply, compose

_FLATTEST = 0.05  # singular values below this fraction of the largest are raised to it
_DAMPING, _REPEATS = 0.1, 4  # h, as a fraction of the mean of A^T A; repetitions of the step
_BLOCK_VALUES = 4_000_000  # numbers of blended matrices at once
_COLUMNS = 8192  # coordinates converted to float64 at a time


@dataclass(frozen=True, eq=False)
class SkinnedFrames:
    """Frames of a skinned mesh, and where its vertices should be.

    rest             (V,3) vertices
    skeleton         B bones
    skin             linear
    world_from_bone  (F,B,3,4)
    targets          (F,V,3)
    """

    rest: np.ndarray
    skeleton: Skeleton
    skin: Skin
    world_from_bone: np.ndarray
    targets: np.ndarray

    def blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield a slice of frames, the matrices A (f,V,3,3) and the residuals r (f,V,3)."""
        rest = self.rest.astype(np.float64)
        count = self.skeleton.bone_count
        weights = weight_matrix(self.skin.bone_index, self.skin.weight.astype(np.float64), count)
        size = max(1, _BLOCK_VALUES // (12 * len(rest)))
        for start in range(0, len(self.targets), size):
            part = slice(start, min(start + size, len(self.targets)))
            matrices = compose(self.world_from_bone[part], self.skeleton.bone_from_world)
            flat = np.moveaxis(matrices, 1, 0).reshape(count, -1)
            blended = np.moveaxis((weights @ flat).reshape(len(rest), -1, 3, 4), 0, 1)
            residual = self.targets[part] - apply(blended, rest)
            yield part, np.ascontiguousarray(blended[..., :3]), residual


def residual_displacements(frames: SkinnedFrames) -> np.ndarray:
    """Return displacements (F,V,3) float32 in rest space that move the skin to its targets.

    Small singular values of A are raised before it is inverted, so where a blend is nearly flat the
    displacement stays moderate and covers the part of the residual that it can.
    """
    result = np.empty(frames.targets.shape, np.float32)
    for part, linear, residual in frames.blocks():
        result[part] = np.einsum("...ij,...j->...i", _inverse(linear), residual)
    return result


def low_rank_displacements(frames: SkinnedFrames, rank: int) -> np.ndarray:
    """Return displacements (F,V,3) float32 whose first `rank` components show the targets best."""
    result = np.zeros(frames.targets.shape, np.float32)
    flat = result.reshape(len(result), -1)
    for repeat in range(_REPEATS):
        if repeat:  # the mean is one of the components
            mean = flat.mean(axis=0, dtype=np.float64).astype(np.float32)
            flat -= mean
            left, values, right = frame_components(flat, rank - 1)
            flat[:] = (left * values).astype(np.float32) @ right.T.astype(np.float32) + mean
        for part, linear, residual in frames.blocks():
            transposed = np.swapaxes(linear, -1, -2)
            square = transposed @ linear
            hold = _DAMPING * max(float(np.einsum("...ii->...", square).mean()) / 3, 1e-12)
            missing = residual - np.einsum("...ij,...j->...i", linear, result[part])
            pull = np.einsum("...ij,...j->...i", transposed, missing)
            result[part] += np.linalg.solve(square + hold * np.eye(3), pull[..., None])[..., 0]
    return result


def frame_components(centred: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first components of rows (F,n): left (F,P), values (P,) and right (n,P).

    limit  largest P; components of less than a millionth of the first are left out

    They are computed from the products of the rows, because there are far fewer rows than columns.
    """
    count = len(centred)
    gram = np.zeros((count, count))
    for start in range(0, centred.shape[1], _COLUMNS):
        part = centred[:, start : start + _COLUMNS].astype(np.float64)
        gram += part @ part.T
    squares, left = np.linalg.eigh(gram)
    order = np.argsort(-squares, kind="stable")[: max(0, limit)]
    values = np.sqrt(np.maximum(squares[order], 0.0))
    order = order[values > 1e-6 * max(float(values[0]) if len(values) else 0.0, 1e-300)]
    values, left = values[: len(order)], left[:, order]
    right = (centred.T @ (left / values).astype(centred.dtype)).astype(np.float64)
    sign = np.sign(right[np.abs(right).argmax(axis=0), np.arange(len(order))])
    sign = np.where(sign == 0, 1.0, sign)  # the same on every processor
    return left * sign, values, right * sign


def _inverse(linear: np.ndarray) -> np.ndarray:
    """Return the inverse of matrices (...,3,3), with small singular values raised first."""
    scale = np.linalg.norm(linear, axis=(-2, -1))
    # A matrix with all singular values above the bound has at least this determinant.
    risky = np.abs(np.linalg.det(linear)) < 2 * _FLATTEST * np.maximum(scale, 1e-12) ** 3
    safe = np.where(risky[..., None, None], np.eye(3), linear)
    result = np.linalg.inv(safe)
    if risky.any():
        u, sigma, vt = np.linalg.svd(linear[risky])
        sigma = np.maximum(sigma, _FLATTEST * np.maximum(sigma[..., :1], 1e-12))
        result[risky] = np.swapaxes(vt, -1, -2) @ (np.swapaxes(u, -1, -2) / sigma[..., None])
    return result
