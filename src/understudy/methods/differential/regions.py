"""Regions: which vertices one net of differential coordinates answers for.

The paper has one net for the whole face, which reads every control and has to find out by itself
that a brow does not move the chin. With a few thousand poses it never quite does. Differential
coordinates are local, so they can be learned region by region, each net reading only what moves its
region; and unlike regions of positions (fdda's) they need no blending at the borders, because the
reconstruction joins them.

Regions are the cells of the mesh nearest to the first anchors, along its edges: anchors crowd where
the face moves most, so cells are small there.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import dijkstra

from understudy.core.mesh import Mesh
from understudy.geometry.adjacency import adjacency_matrix


def mesh_regions(mesh: Mesh, seeds: np.ndarray) -> list[np.ndarray]:
    """One array of vertices per seed (n,), disjoint, together all vertices. A piece of the mesh
    without a seed joins the nearest one in space.
    """
    if len(seeds) <= 1:
        return [np.arange(mesh.vertex_count)]
    edges = mesh.edges
    points = mesh.vertices.astype(np.float64)
    length = np.maximum(
        np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1), 1e-12
    )  # a zero would mean "no edge"
    graph = adjacency_matrix(edges, mesh.vertex_count, length)
    distance = dijkstra(graph, directed=False, indices=seeds)
    owner = distance.argmin(axis=0)
    lost = np.flatnonzero(~np.isfinite(distance.min(axis=0)))
    if lost.size:
        owner[lost] = np.linalg.norm(points[lost][:, None] - points[seeds][None], axis=2).argmin(
            axis=1
        )
    return [cell for cell in (np.flatnonzero(owner == s) for s in range(len(seeds))) if len(cell)]
