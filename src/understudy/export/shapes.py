"""The correctives as blend shapes: a basis of the displacements of all frames, and its weights.

    d_t  = mean + sum over s of  a_ts b_s                   principal components of the frames
    d_t  = base + sum over s of  w_ts r_s b_s               w_ts = (a_ts - low_s) / r_s in 0..1
    base = mean + sum over s of  low_s b_s                  a blend shape whose weight is always 1

Offsets too small to be seen are dropped, and the weights are solved for again.

Weights are between 0 and 1, because some programs clamp them to that range (shape keys of Blender,
Unity if it is set so). Signed weights would lose half of the motion there.

Letters: F frames, V vertices, S blend shapes, P components.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.character import BlendShape
from understudy.export.residuals import frame_components

MAX_SHAPES = 128
# An offset that is invisible, as a fraction of the mesh's height: 0.05 mm of a human. A sum of
# many of them remains invisible.
INVISIBLE = 3e-5
_ENOUGH = 0.1  # root mean square error, in invisible offsets, below which no component is added


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
