"""The uniform Laplacian of a mesh and the differential coordinates of a displacement field.

Song, Shi and Reed 2020, Eq. 1 to 3. With A the adjacency of the polygons' edges and D the diagonal
of vertex degrees:

    L_s = D - A          symmetric, positive semi-definite, one zero eigenvalue per component
    D delta = L_s d      the differential coordinates delta of a displacement field d

Every connected component of the mesh needs an anchor, since L_s determines d up to a constant.

Departure: a vertex without edges has degree 0 and no differential coordinate. Its entry of D is set
to 1 to avoid a division by zero.
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
