"""The least-squares reconstruction from differential coordinates and anchors, as a linear map that
is factored once and folded away.

Eq. 4, 5, 15 and 16 of the paper, with P the anchors' rows of the identity and omega (n,) their
weights:

    S = L_s^T W^2 L_s + P^T omega^2 P + Z^2
    d = S^-1 (L_s W^2 D delta  +  P^T omega^2 a  +  Z^2 h)

The paper has W = 1 and Z = 0. Least squares is at its best when every equation weighs the inverse
of its error, so here each differential coordinate may have a weight too (W, diagonal): where
nothing much moves, a net is hardly ever wrong, and the quiet parts keep together instead of taking
in what the lips get wrong. Z (diagonal) makes a weak anchor of every vertex: it is held to h, an
offset that its region's net predicts along with its differential coordinates, the more the better
that prediction is. With Z far above W this is `local`, with Z = 0 it is the paper's.

S depends on the mesh and the weights alone, so the two maps  delta -> S^-1 L_s W^2 D delta  and  a
-> S^-1 P^T omega^2 a  are constant matrices. A basis of delta goes through the first once (`fold`),
the second is the same for x, y and z (`anchor_basis`): nothing is left to solve at run time.

SuperLU without pivoting on a symmetric order is the sparse Cholesky here: S is positive definite,
SciPy has no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from understudy.core import checks
from understudy.methods.differential.laplacian import Laplacian

_AT_ONCE = 4  # right sides per call of SuperLU: of 1 to 300 the fastest, by up to ten times


@dataclass(frozen=True, eq=False)
class Weights:
    """anchor (n,) or a number: omega; row (V,): W; hold (V,): Z."""

    anchor: np.ndarray | float
    row: np.ndarray | float = 1.0
    hold: np.ndarray | float = 0.0


class Reconstruction:
    """S factored. anchors (n,) vertex numbers, at least one in each connected piece."""

    def __init__(self, laplacian: Laplacian, anchors: np.ndarray, weights: Weights):
        self.laplacian = laplacian
        self.anchors = np.asarray(anchors)
        count = len(laplacian.degree)
        anchor = np.broadcast_to(np.asarray(weights.anchor, np.float64), self.anchors.shape)
        row, hold = (
            np.broadcast_to(np.asarray(part, np.float64), (count,))
            for part in (weights.row, weights.hold)
        )
        checks.between(float(anchor.min()), "anchor weight", above=0)
        self._gather = sp.csr_matrix(laplacian.symmetric.T @ sp.diags(row**2))  # L_s W^2
        self._pick = sp.csr_matrix(
            (anchor**2, (self.anchors, np.arange(len(anchors)))), shape=(count, len(anchors))
        )
        nail = sp.csr_matrix((anchor**2, (self.anchors, self.anchors)), shape=(count, count))
        system = sp.csc_matrix(self._gather @ laplacian.symmetric + nail + sp.diags(hold**2))
        self._hold = hold**2
        self._factor = splu(
            system,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

    def _solved(self, right: np.ndarray) -> np.ndarray:
        """S^-1 times the columns of `right` (V,m)."""
        result = np.empty_like(right)
        for start in range(0, right.shape[1], _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            result[:, part] = self._factor.solve(np.asfortranarray(right[:, part]))
        return result

    def solve(
        self, delta: np.ndarray, anchored: np.ndarray, held: np.ndarray | None = None
    ) -> np.ndarray:
        """Coordinates delta (T,V,3), anchors a (T,n,3) and offsets h (T,V,3) -> displacements
        (T,V,3) float64: the slow, clear reference.
        """
        right = self._gather @ (
            _by_vertex(delta) * self.laplacian.degree[:, None]
        ) + self._pick @ _by_vertex(anchored)
        if held is not None:
            right += self._hold[:, None] * _by_vertex(held)
        return np.moveaxis(self._solved(right).reshape(delta.shape[1], len(delta), 3), 0, 1)

    def fold(self, basis: np.ndarray, vertices: np.ndarray | None = None) -> np.ndarray:
        """S^-1 L_s W^2 D U: a basis U (3n,P) of the coordinates of `vertices` (n,) (None: all) ->
        displacements of all, (3V,P) float64.
        """
        count = len(self.laplacian.degree)
        rows = np.arange(count) if vertices is None else vertices
        spread = np.zeros((count, 3 * basis.shape[1]))
        spread[rows] = self.laplacian.degree[rows, None] * basis.reshape(
            len(rows), 3 * basis.shape[1]
        )
        folded = self._solved(self._gather @ spread)
        return folded.reshape(3 * count, basis.shape[1])

    def fold_held(self, basis: np.ndarray, vertices: np.ndarray) -> np.ndarray:
        """S^-1 Z^2 B: a basis B (3n,P) of the offsets h of `vertices` (n,) -> displacements of all,
        (3V,P) float64.
        """
        count = len(self.laplacian.degree)
        spread = np.zeros((count, 3 * basis.shape[1]))
        spread[vertices] = self._hold[vertices, None] * basis.reshape(
            len(vertices), 3 * basis.shape[1]
        )
        return self._solved(spread).reshape(3 * count, basis.shape[1])

    def influence(self, vertices: np.ndarray) -> np.ndarray:
        """S^-1 L_s W^2 D restricted to the columns of `vertices` (n,): (V,n) float64, what a unit
        of each one's coordinate does to every vertex.
        """
        columns = self._gather[:, vertices].toarray() * self.laplacian.degree[vertices]
        return self._solved(columns)

    def response(self, vertex: int) -> np.ndarray:
        """S^-1 e_i: (V,) float64, what a unit pull at one vertex does to every vertex."""
        right = np.zeros(len(self.laplacian.degree))
        right[vertex] = 1.0
        return self._factor.solve(right)

    def anchor_basis(self) -> np.ndarray:
        """S^-1 P^T omega^2: (V,n) float64, the same for x, y and z."""
        return self._solved(self._pick.toarray())


def _by_vertex(field: np.ndarray) -> np.ndarray:
    """(T,n,3) -> (n, 3T) float64."""
    return np.moveaxis(np.asarray(field, np.float64), 1, 0).reshape(field.shape[1], -1)
