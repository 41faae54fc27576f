"""Delta mush (Mancewicz et al. 2014): smooth the skinned surface, then put the fine detail back, turned with the smooth surface.

    s = S^n x,      e = (rest + d) - S^n (rest + d),      v_i = s_i + A_i A0_i^T e_i

A_i is the frame of the smoothed skinned surface at vertex i, A0_i that of the smoothed rest surface: two tangents, each a fixed sum of a vertex's
edges, made square. It evens out what skinning does and leaves the shapes alone. Letters: V vertices, T poses; fields are (V,3,T) float32.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from understudy.rigs.face.surface import Surface

ROUNDS = 4


class Mush:
    """Smoothing with the detail kept."""

    def __init__(self, surface: Surface):
        self._smoother = surface.smoother.astype(np.float32)
        rest = surface.points.astype(np.float32)[:, :, None]
        smooth = self._smooth(rest)
        self._tangents = _tangents(surface, smooth[:, :, 0].astype(np.float64))
        self._back = np.ascontiguousarray(np.swapaxes(self._frames(smooth)[..., 0], 1, 2))

    def apply(self, shaped: np.ndarray, skinned: np.ndarray) -> np.ndarray:
        """(V,3,T): shaped is the surface before skinning, skinned after."""
        detail = np.einsum("vij,vjt->vit", self._back, shaped - self._smooth(shaped), optimize=True)
        smooth = self._smooth(skinned)
        return smooth + np.einsum("vijt,vjt->vit", self._frames(smooth), detail, optimize=True)

    def _smooth(self, field: np.ndarray) -> np.ndarray:
        flat = field.reshape(len(field), -1)
        for _ in range(ROUNDS):
            flat = self._smoother @ flat
        return flat.reshape(field.shape)

    def _frames(self, points: np.ndarray) -> np.ndarray:
        """(V,3,3,T): columns tangent, bitangent, normal."""
        flat = points.reshape(len(points), -1)
        first, second = ((stencil @ flat).reshape(points.shape) for stencil in self._tangents)
        normal = _unit(np.cross(first, second, axis=1))
        first = _unit(first)
        return np.stack([first, np.cross(normal, first, axis=1), normal], axis=2)


def _tangents(surface: Surface, smooth: np.ndarray) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Two (V,V) stencils: sums of a vertex's edges, each edge weighted by how far it runs along one of two directions square to the normal."""
    normals = surface.normals
    helper = np.eye(3)[np.abs(normals).argmin(axis=1)]
    across = np.cross(helper, normals)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    i, j = surface.neighbours.row, surface.neighbours.col
    edge = smooth[j] - smooth[i]
    stencils = []
    for direction in (across, np.cross(normals, across)):
        weight = np.einsum("ei,ei->e", edge, direction[i])
        off = sparse.csr_matrix((weight, (i, j)), shape=(len(normals),) * 2)
        stencils.append(sparse.csr_matrix(off - sparse.diags(np.asarray(off.sum(axis=1)).ravel()), dtype=np.float32))
    return stencils[0], stencils[1]


def _unit(a: np.ndarray) -> np.ndarray:
    return a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-12)
