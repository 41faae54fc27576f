"""Regions: the vertices whose differential coordinates one network predicts.

The paper has one network for the whole face. It reads every control and must learn that a brow does
not move the chin, which takes more than a few thousand poses. Differential coordinates are local,
so each region can have its own network that reads only the inputs that move it. Unlike regions of
positions, they need no blending at the borders, because the reconstruction joins them.

Regions are the cells of the mesh nearest to their seeds along the edges. The seeds are the first
anchors, which are denser where the mesh moves most.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from understudy.core.mesh import Mesh


def mesh_regions(mesh: Mesh, seeds: np.ndarray) -> list[np.ndarray]:
    """The vertices (m,) of each region: disjoint, and together all vertices.

    seeds  (n,) vertices; a connected component without a seed joins the seed nearest in space
    """
    if len(seeds) <= 1:
        return [np.arange(mesh.vertex_count)]
    edges = mesh.edges
    points = mesh.vertices.astype(np.float64)
    # A length of zero would mean "no edge".
    length = np.maximum(np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1), 1e-12)
    graph = sp.csr_matrix((length, (edges[:, 0], edges[:, 1])), shape=(mesh.vertex_count,) * 2)
    distance = dijkstra(graph, directed=False, indices=seeds)
    owner = distance.argmin(axis=0)
    lost = np.flatnonzero(~np.isfinite(distance.min(axis=0)))
    if lost.size:
        owner[lost] = np.linalg.norm(points[lost][:, None] - points[seeds][None], axis=2).argmin(
            axis=1
        )
    return [cell for cell in (np.flatnonzero(owner == s) for s in range(len(seeds))) if len(cell)]
