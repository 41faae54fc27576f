"""The least-squares reconstruction from differential coordinates and anchors, as a linear map.

Eq. 1 to 5, 15 and 16 of Song, Shi and Reed 2020. With A the adjacency of the polygons' edges and D
the diagonal of vertex degrees, the uniform Laplacian of a mesh is L_s = D - A, and the differential
coordinates delta of a displacement field d follow from D delta = L_s d. Every connected component
needs an anchor, since L_s determines d up to a constant. With P the anchors' rows of the identity
and omega (n,) their weights:

    S = L_s^T W^2 L_s + P^T omega^2 P + Z^2
    d = S^-1 (L_s W^2 D delta  +  P^T omega^2 a  +  Z^2 h)

The paper has W = I and Z = 0. Departures:
- A vertex without edges has degree 0 and no differential coordinate. Its entry of D is set to 1 to
  avoid a division by zero.
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

Letters: T poses, V vertices, n anchors, P columns of a basis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from understudy.core.mesh import Mesh
from understudy.geometry.adjacency import (
    adjacency_matrix,
    connected_components,
    symmetric_laplacian,
    vertex_degrees,
)
from understudy.system import checks, tasks

_COLUMNS_AT_ONCE = 4  # right-hand sides per call of SuperLU; more are slower
_TASK_COLUMNS = 32  # of one task
LEAST_MOTION = 1e-4  # of the height: smaller motions count as this
# Of the median over all vertices: smaller errors count as this. Few poses are measured, and a rare
# pose may be much worse than they show.
LEAST_ERROR = 0.15
_OFFSET_WEIGHT = 0.3  # relative to an anchor: errors of neighbouring offsets are correlated


@dataclass(frozen=True, eq=False)
class Laplacian:
    """The Laplacian of one mesh.

    symmetric  (V,V) CSR float64, L_s
    degree     (V,) float64, the diagonal of D
    shell      (V,) int32, the connected component (shell) of each vertex
    """

    symmetric: sp.csr_matrix
    degree: np.ndarray
    shell: np.ndarray

    @staticmethod
    def of(mesh: Mesh) -> Laplacian:
        """The Laplacian of a mesh.

        >>> triangle = Mesh.from_faces([[0, 0, 0], [1, 0, 0], [1, 1, 0]], [[0, 1, 2]])
        >>> Laplacian.of(triangle).symmetric.toarray().tolist()
        [[2.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, -1.0, 2.0]]
        """
        adjacency = adjacency_matrix(mesh.edges, mesh.vertex_count)
        return Laplacian(
            symmetric_laplacian(adjacency),
            np.maximum(vertex_degrees(adjacency), 1.0),
            connected_components(adjacency),
        )

    @property
    def shell_count(self) -> int:
        """The number of connected components (shells)."""
        return int(self.shell.max()) + 1

    def coordinates(self, displacements: np.ndarray) -> np.ndarray:
        """delta = D^-1 L_s d: displacements (T,V,3) -> (T,V,3) of the same dtype."""
        flat = np.moveaxis(displacements, 1, 0).reshape(len(self.degree), -1)
        delta = (self.symmetric @ flat) / self.degree[:, None]
        return np.moveaxis(delta.reshape(len(self.degree), len(displacements), 3), 0, 1).astype(
            displacements.dtype
        )


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
    """S, factored, for anchors (n,), at least one in each connected component."""

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
        """S^-1 L_s W^2 D U: (3V,P) float64, of a basis U (3n,P) of coordinates of vertices (n,)."""
        return self._folded(basis, vertices, self.laplacian.degree, self._coordinate_map)

    def fold_offsets(self, basis: np.ndarray, vertices: np.ndarray) -> np.ndarray:
        """S^-1 Z^2 B: (3V,P) float64, of a basis B (3n,P) of offsets of vertices (n,)."""
        return self._folded(basis, vertices, self._offset_square)

    def _folded(
        self,
        basis: np.ndarray,
        vertices: np.ndarray,
        scale: np.ndarray,
        matrix: sp.csr_matrix | None = None,
    ) -> np.ndarray:
        """S^-1 times `matrix` times `scale` (V,) times the basis of some vertices."""
        width = basis.shape[1]
        right = np.zeros((len(scale), 3 * width))
        right[vertices] = scale[vertices, None] * basis.reshape(len(vertices), 3 * width)
        right = right if matrix is None else matrix @ right
        return self._solved(right).reshape(3 * len(scale), width)

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


def estimated_weights(
    laplacian: Laplacian, sample: np.ndarray, delta: np.ndarray, anchors: np.ndarray, height: float
) -> Weights:
    """The weights before training, from displacements and coordinates (T,V,3) of some poses.

    The errors are then unknown, but that of a network is roughly a fraction of the size of what it
    predicts. So the weights are the inverse of that size, until errors on validation poses replace
    them (`validation.py`).
    """
    motion = np.maximum(rms(sample), LEAST_MOTION * height)
    coordinate = laplacian.degree * rms(delta)
    middle = max(float(np.median(coordinate)), 1e-4 * LEAST_MOTION * height)
    return Weights(
        middle / motion[anchors],
        middle / np.maximum(coordinate, LEAST_ERROR * middle),
        _OFFSET_WEIGHT * middle / motion,
    )


def rms(field: np.ndarray) -> np.ndarray:
    """The root mean square length of each vector over the poses: (T,n,3) -> (n,) float64."""
    return np.sqrt(
        np.einsum("tni,tni->n", field, field, optimize=True, dtype=np.float64) / max(1, len(field))
    )
