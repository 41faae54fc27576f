"""The uniform Laplacian of a mesh, its differential coordinates, and the connected pieces a
reconstruction needs an anchor in.

Song, Shi & Reed 2020, Eq. 1 to 3: with A the adjacency of the polygons' own edges and D the
diagonal of vertex degrees,

    L_s = D - A          symmetric, positive semi-definite, one zero eigenvalue per connected piece
    D delta = L_s d      the differential coordinates of a displacement field d

Departure: a vertex without any edge has degree 0 and no differential coordinate; D^-1 reads 1
there, so that nothing is divided by zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from understudy.core.mesh import Mesh
from understudy.geometry.adjacency import adjacency_matrix, connected_components
from understudy.geometry.laplacian import symmetric_laplacian, vertex_degrees


@dataclass(frozen=True, eq=False)
class Laplacian:
    """symmetric (V,V) CSR float64: L_s; degree (V,) float64; piece (V,) int: which connected piece
    each vertex belongs to.
    """

    symmetric: sp.csr_matrix
    degree: np.ndarray
    piece: np.ndarray

    @staticmethod
    def of(mesh: Mesh) -> Laplacian:
        """
        >>> strip = Mesh.from_faces([[0, 0, 0], [1, 0, 0], [1, 1, 0]], [[0, 1, 2]])
        >>> Laplacian.of(strip).symmetric.toarray().tolist()
        [[2.0, -1.0, -1.0], [-1.0, 2.0, -1.0], [-1.0, -1.0, 2.0]]
        """
        adjacency = adjacency_matrix(mesh.edges, mesh.vertex_count)
        return Laplacian(
            symmetric_laplacian(adjacency),
            np.maximum(vertex_degrees(adjacency), 1.0),
            connected_components(adjacency),
        )

    def coordinates(self, displacements: np.ndarray) -> np.ndarray:
        """delta = D^-1 L_s d: displacements (T,V,3) -> (T,V,3) of the same dtype."""
        flat = np.moveaxis(displacements, 1, 0).reshape(len(self.degree), -1)
        delta = (self.symmetric @ flat) / self.degree[:, None]
        return np.moveaxis(delta.reshape(len(self.degree), len(displacements), 3), 0, 1).astype(
            displacements.dtype
        )
