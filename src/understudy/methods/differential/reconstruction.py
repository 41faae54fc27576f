"""The least-squares reconstruction from differential coordinates and anchors, as a linear map.

Eq. 4, 5, 15 and 16 of Song, Shi and Reed 2020, with P the anchors' rows of the identity and
omega (n,) their weights:

    S = L_s^T W^2 L_s + P^T omega^2 P + Z^2
    d = S^-1 (L_s W^2 D delta  +  P^T omega^2 a  +  Z^2 h)

The paper has W = I and Z = 0. Departures:
- W (diagonal) weights each differential coordinate by the inverse of its error, as weighted least
  squares asks. Regions that hardly move have small errors and do not absorb those of the lips.
- Z (diagonal) weakly constrains every vertex to an offset h, which the network of its region
  predicts together with its differential coordinates. With Z much larger than W the method is
  `local`.

S depends on the mesh and the weights only, so the maps from delta, a and h to d are constant
matrices. The bases of delta and h are multiplied by them once (`fold_coordinates`, `fold_offsets`);
the map of the anchors is the same for x, y and z (`anchor_basis`). Nothing is solved at run time.

S is positive definite. SciPy has no sparse Cholesky factorisation, so SuperLU factors it without
pivoting, in a symmetric order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from understudy.methods.differential.laplacian import Laplacian
from understudy.system import checks, tasks

_COLUMNS_AT_ONCE = 4  # right-hand sides per call of SuperLU; more are slower
_TASK_COLUMNS = 32  # of one task


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of the equations.

    anchor      (n,) or a number, omega
    coordinate  (V,) or a number, the diagonal of W
    offset      (V,) or a number, the diagonal of Z
    """

    anchor: np.ndarray | float
    coordinate: np.ndarray | float = 1.0
    offset: np.ndarray | float = 0.0


class Reconstruction:
    """S, factored.

    laplacian  of the mesh
    anchors    (n,) vertices, at least one in each connected component
    weights    of the equations
    """

    def __init__(self, laplacian: Laplacian, anchors: np.ndarray, weights: Weights):
        self.laplacian = laplacian
        self.anchors = np.asarray(anchors)
        count = len(laplacian.degree)
        anchor = np.broadcast_to(np.asarray(weights.anchor, np.float64), self.anchors.shape)
        coordinate, offset = (
            np.broadcast_to(np.asarray(part, np.float64), (count,))
            for part in (weights.coordinate, weights.offset)
        )
        checks.between(float(anchor.min()), "anchor weight", above=0)
        self._coordinate_map = sp.csr_matrix(  # L_s W^2
            laplacian.symmetric.T @ sp.diags(coordinate**2)
        )
        self._anchor_map = sp.csr_matrix(  # P^T omega^2
            (anchor**2, (self.anchors, np.arange(len(anchors)))), shape=(count, len(anchors))
        )
        anchored = sp.csr_matrix((anchor**2, (self.anchors, self.anchors)), shape=(count, count))
        system = sp.csc_matrix(
            self._coordinate_map @ laplacian.symmetric + anchored + sp.diags(offset**2)
        )
        self._offset_square = offset**2  # Z^2
        self._factor = splu(
            system,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

    def _solved(self, right: np.ndarray) -> np.ndarray:
        """S^-1 times the columns of `right` (V,m)."""
        result = np.empty_like(right)

        def solve(first: int) -> None:
            for start in range(first, min(first + _TASK_COLUMNS, right.shape[1]), _COLUMNS_AT_ONCE):
                part = slice(start, start + _COLUMNS_AT_ONCE)
                result[:, part] = self._factor.solve(np.asfortranarray(right[:, part]))

        tasks.parallel_map(solve, range(0, right.shape[1], _TASK_COLUMNS))
        return result

    def solve(
        self, delta: np.ndarray, anchors: np.ndarray, offsets: np.ndarray | None = None
    ) -> np.ndarray:
        """The displacements (T,V,3) float64: the slow, clear reference of the folded bases.

        delta    (T,V,3) differential coordinates
        anchors  (T,n,3) displacements of the anchors, a
        offsets  (T,V,3) offsets of all vertices, h; None: zero
        """
        scaled = _by_vertex(delta) * self.laplacian.degree[:, None]
        right = self._coordinate_map @ scaled + self._anchor_map @ _by_vertex(anchors)
        if offsets is not None:
            right += self._offset_square[:, None] * _by_vertex(offsets)
        return np.moveaxis(self._solved(right).reshape(delta.shape[1], len(delta), 3), 0, 1)

    def fold_coordinates(self, basis: np.ndarray, vertices: np.ndarray) -> np.ndarray:
        """S^-1 L_s W^2 D U: displacements of all vertices, (3V,P) float64.

        basis     (3n,P) basis U of the differential coordinates of some vertices
        vertices  (n,)
        """
        degree = self.laplacian.degree
        spread = np.zeros((len(degree), 3 * basis.shape[1]))
        spread[vertices] = degree[vertices, None] * basis.reshape(len(vertices), 3 * basis.shape[1])
        folded = self._solved(self._coordinate_map @ spread)
        return folded.reshape(3 * len(degree), basis.shape[1])

    def fold_offsets(self, basis: np.ndarray, vertices: np.ndarray) -> np.ndarray:
        """S^-1 Z^2 B: displacements of all vertices, (3V,P) float64.

        basis     (3n,P) basis B of the offsets of some vertices
        vertices  (n,)
        """
        count = len(self.laplacian.degree)
        spread = np.zeros((count, 3 * basis.shape[1]))
        spread[vertices] = self._offset_square[vertices, None] * basis.reshape(
            len(vertices), 3 * basis.shape[1]
        )
        return self._solved(spread).reshape(3 * count, basis.shape[1])

    def influence(self, vertices: np.ndarray) -> np.ndarray:
        """The columns of S^-1 L_s W^2 D that belong to `vertices` (n,): (V,n) float64."""
        columns = self._coordinate_map[:, vertices].toarray() * self.laplacian.degree[vertices]
        return self._solved(columns)

    def response(self, vertex: int) -> np.ndarray:
        """S^-1 e_i of one vertex i: (V,) float64."""
        right = np.zeros(len(self.laplacian.degree))
        right[vertex] = 1.0
        return self._factor.solve(right)

    def anchor_basis(self) -> np.ndarray:
        """S^-1 P^T omega^2: (V,n) float64, the same for x, y and z."""
        return self._solved(self._anchor_map.toarray())


def _by_vertex(field: np.ndarray) -> np.ndarray:
    """(T,n,3) -> (n,3T) float64."""
    return np.moveaxis(np.asarray(field, np.float64), 1, 0).reshape(field.shape[1], -1)
