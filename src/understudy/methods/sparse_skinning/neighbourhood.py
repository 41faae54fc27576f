"""Which vertices are neighbours, for smoothness and for propagation over the mesh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from understudy.core.mesh import Mesh

_NEAREST = 6  # neighbours given to a vertex that no polygon uses


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The mesh as a graph.

    starts      (V+1,) int64 and neighbours (N,) int32: those of vertex i are
                neighbours[starts[i]:starts[i+1]], in increasing order
    shells      (V,) int32, the connected piece each vertex belongs to
    """

    starts: np.ndarray
    neighbours: np.ndarray
    shells: np.ndarray

    @staticmethod
    def of(mesh: Mesh) -> Neighbourhood:
        """Edges of the polygons; a vertex without any is linked to the vertices nearest to it at
        rest, so that a point cloud has neighbours too.
        """
        edges = mesh.edges
        count = mesh.vertex_count
        alone = np.setdiff1d(np.arange(count), edges)
        if len(alone) and count > 1:
            near = cKDTree(mesh.vertices).query(mesh.vertices[alone], k=min(_NEAREST + 1, count))[1]
            pairs = np.column_stack([np.repeat(alone, near.shape[1]), near.reshape(-1)])
            edges = np.concatenate([edges, pairs[pairs[:, 0] != pairs[:, 1]]])
        graph = sp.coo_matrix(
            (np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(count, count)
        ).tocsr()
        return Neighbourhood._of_graph((graph + graph.T).tocsr())

    @staticmethod
    def _of_graph(graph: sp.csr_matrix) -> Neighbourhood:
        graph.sort_indices()
        shells = connected_components(graph, directed=False)[1]
        return Neighbourhood(
            graph.indptr.astype(np.int64), graph.indices.astype(np.int32), shells.astype(np.int32)
        )

    def reordered(self, order: np.ndarray) -> Neighbourhood:
        """The same graph with vertex order[i] as number i: order (V,)."""
        graph = sp.csr_matrix(
            (np.ones(len(self.neighbours)), self.neighbours, self.starts),
            shape=(len(order), len(order)),
        )
        return Neighbourhood._of_graph(graph[order][:, order].tocsr())

    @property
    def laplacian(self) -> sp.csr_matrix:
        """L = I - (mean of the neighbours): (V,V) float64; a row without neighbours is zero."""
        degree = np.diff(self.starts)
        count = len(degree)
        share = np.repeat(1.0 / np.maximum(degree, 1), degree)
        mean = sp.csr_matrix((share, self.neighbours, self.starts), shape=(count, count))
        return (sp.diags((degree > 0).astype(float)) - mean).tocsr()
