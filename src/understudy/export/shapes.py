"""The correctives as blend shapes: a basis of the displacements of all frames, and its weights.

    d_t  = mean + sum over s of  a_ts b_s                   principal components of the frames
    d_t  = base + sum over s of  w_ts r_s b_s               w_ts = (a_ts - low_s) / r_s in 0..1
    base = mean + sum over s of  low_s b_s                  a blend shape whose weight is always 1

Offsets too small to be seen are dropped, and the weights are solved for again. Weights are between
0 and 1, because some programs clamp them to that range.

What a skin leaves to them are displacements in rest space:

    r_ti = y_ti - T_ti (rest_i, 1)          residual; T_ti the blended transform, A_ti its 3x3 part
    d_ti = A_ti^-1 r_ti                     the displacement that removes it

A few blend shapes span a subspace of low rank. The displacements of that rank that show the
targets best minimise

    sum over t, i of  |A_ti d_ti - r_ti|^2      over d of rank S

which is not the truncation of A^-1 r: where a blend is nearly flat, A^-1 r is large and shows
little, and would take up the rank. So the truncation X is repeated, each time after a damped step
towards the targets:

    d_ti <- x_ti + (A^T A + h)^-1 A^T (r_ti - A x_ti)

Letters: F frames, V vertices, B bones, S blend shapes, P components.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from understudy.core.character import BlendShape
from understudy.core.deformer import Deformer
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import apply, compose

MAX_SHAPES = 128
# An offset that is invisible, as a fraction of the mesh's height: 0.05 mm of a human. A sum of
# many of them remains invisible.
INVISIBLE = 3e-5
_ENOUGH = 0.1  # root mean square error, in invisible offsets, below which no component is added
_DAMPING, _REPEATS = 0.1, 4  # h, as a fraction of the mean of A^T A; repetitions of the step
_BLOCK_VALUES = 4_000_000  # numbers of blended matrices at once
_COLUMNS = 8192  # coordinates converted to float64 at a time


@dataclass(frozen=True, eq=False)
class ShapeBasis:
    """A basis of displacements: d = mean + basis @ a.

    mean       (3V,) float64
    basis      (3V,P) float64; P may be 0
    invisible  the smallest offset worth a place in a blend shape
    """

    mean: np.ndarray
    basis: np.ndarray
    invisible: float

    @staticmethod
    def of(displacements: np.ndarray, count: int, height: float) -> ShapeBasis:
        """Return a basis of displacements (F,V,3) that needs at most `count` blend shapes."""
        flat = displacements.reshape(len(displacements), -1)
        mean = flat.mean(axis=0, dtype=np.float64)
        centred = (flat - mean).astype(np.float32)
        invisible = INVISIBLE * height
        return ShapeBasis(mean, _sparse_components(centred, count - 1, invisible), invisible)

    def scores(self, displacements: np.ndarray) -> np.ndarray:
        """Return a (F,P) float64, with which the basis fits displacements (F,V,3) best."""
        centred = (displacements.reshape(len(displacements), -1) - self.mean).astype(np.float32)
        right = (centred @ self.basis.astype(np.float32)).astype(np.float64)
        return right @ self._inverse_gram

    def projection(self) -> np.ndarray:
        """Return the matrix (P,3V) float64 with scores(d) = projection @ (d - mean)."""
        return self._inverse_gram @ self.basis.T

    @property
    def _inverse_gram(self) -> np.ndarray:
        return np.linalg.pinv(self.basis.T @ self.basis, rcond=1e-10, hermitian=True)

    def shapes(self, scores: np.ndarray) -> tuple[tuple[BlendShape, ...], np.ndarray, np.ndarray]:
        """Return blend shapes whose weights are between 0 and 1 for scores (F,P).

        returns  S shapes, and matrix (S,P) and offset (S,) float64: weights = matrix @ a + offset
        """
        low, high = scores.min(axis=0), scores.max(axis=0)
        scale = np.maximum(high - low, 1e-12)
        base = (self.mean + self.basis @ low).reshape(-1, 3)
        count = self.basis.shape[1]
        matrix, offset = np.diag(1 / scale), -low / scale
        shapes = [
            BlendShape.from_dense(
                f"corrective_{k:03d}", (self.basis[:, k] * scale[k]).reshape(-1, 3)
            )
            for k in range(count)
        ]
        if np.abs(base).max() >= self.invisible:
            shapes.insert(0, BlendShape.from_dense("corrective_base", base, self.invisible / 4))
            matrix = np.concatenate([np.zeros((1, count)), matrix])
            offset = np.concatenate([[1.0], offset])
        return tuple(shapes), matrix, offset


def corrective_shapes(
    displacements: np.ndarray, count: int, height: float
) -> tuple[tuple[BlendShape, ...], np.ndarray]:
    """Return at most `count` blend shapes, and their weights (F,S) float32 between 0 and 1.

    displacements  (F,V,3) in rest space
    height         of the mesh, which decides what is visible

    >>> bulge = np.array([0.0, 1, 0.5])[:, None, None] * np.array([[0, 0, 0], [1, 0, 0]])
    >>> shapes, weights = corrective_shapes(bulge, 8, height=2.0)
    >>> [shape.vertices.tolist() for shape in shapes], weights.round(3).tolist()
    ([[1]], [[0.0], [1.0], [0.5]])
    """
    if count < 1 or np.abs(displacements).max(initial=0.0) < INVISIBLE * height:
        return (), np.zeros((len(displacements), 0), np.float32)
    found = ShapeBasis.of(displacements, count, height)
    scores = found.scores(displacements)
    shapes, matrix, offset = found.shapes(scores)
    weights = scores @ matrix.T + offset
    return shapes, np.clip(weights, 0, 1).astype(np.float32)


def _sparse_components(centred: np.ndarray, limit: int, invisible: float) -> np.ndarray:
    """Return at most `limit` components (3V,P) of centred rows (F,3V), without small offsets."""
    _, values, directions = frame_components(centred, limit)
    square = float(np.einsum("ij,ij->", centred, centred, dtype=np.float64))
    left = square - np.concatenate([[0.0], np.cumsum(values**2)])  # after 0, 1, ... components
    enough = (_ENOUGH * invisible) ** 2 * centred.size / 3
    needed = min(len(values), int(np.argmax(np.append(left, 0.0) <= enough)))
    basis = directions[:, :needed]
    reach = np.abs(centred @ basis).max(axis=0, initial=0.0) * np.abs(basis)  # largest offsets
    seen = (reach.reshape(len(basis) // 3, 3, needed).max(axis=1) >= invisible).repeat(3, axis=0)
    sparse = np.where(seen, basis * values[:needed], 0.0)
    strength = np.linalg.norm(sparse, axis=0)
    order = np.argsort(-strength, kind="stable")
    return sparse[:, order[strength[order] > 0]]


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


def own_shapes(deformer: Deformer) -> tuple[BlendShape, ...] | None:
    """Return the blend shapes of `deformer`, one per control; None: its correctives are others.

    They are those that `deformer_of_character` stores: each control is one coefficient, each basis
    has one column.
    """
    deformer = deformer.folded
    spec = deformer.control_spec
    if spec is None or deformer.mean is not None or len(deformer.nets) != 1:
        return None
    net, features, every = deformer.nets[0], deformer.features, np.arange(spec.count)
    is_identity = (
        len(net.weights) == 1
        and np.array_equal(net.weights[0], np.eye(spec.count))
        and not net.biases[0].any()
        and np.array_equal(net.inputs, every)
        and np.array_equal(net.outputs, every)
        and np.array_equal(features.columns, 12 * deformer.bone_count + every)
        and not np.isfinite([features.low, features.high]).any()
    )
    columns = [basis.coefficients.tolist() for basis in deformer.bases]
    alone = all(len(column) == 1 for column in columns)
    alone = alone and len({number for (number,) in columns}) == len(columns)
    if not is_identity or not alone or any(basis.shared for basis in deformer.bases):
        return None
    still = np.zeros(0, int), np.zeros((0, 3))
    moved = {
        column[0]: (basis.vertices, basis.matrix.reshape(-1, 3))
        for column, basis in zip(columns, deformer.bases)
    }
    return tuple(
        BlendShape(name, *moved.get(number, still)) for number, name in enumerate(spec.names)
    )
