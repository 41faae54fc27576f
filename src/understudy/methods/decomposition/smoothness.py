"""Smooth weights: neighbours along mesh edges should have similar weights.

The term is  s F sum over edges (i,j) of c_ij |w_i - w_j|^2  with c_ij = (1/deg_i + 1/deg_j) / 2,
smoothness s and F frames. The weight step solves every vertex on its own, so the term is replaced
by an upper bound that separates: with m the present mean of the two ends,

    |w_i - w_j|^2  <=  2 |w_i - m|^2 + 2 |w_j - m|^2

which pulls every vertex towards an anchor. The bound is exact at the present weights. A step that
lowers the bound therefore never raises the error.
"""

from __future__ import annotations

import numpy as np

from understudy.core.mesh import Mesh
from understudy.geometry.adjacency import adjacency_matrix
from understudy.geometry.laplacian import vertex_degrees
from understudy.geometry.skinning import weight_matrix
from understudy.methods.decomposition.weight_solve import Smoother


def weight_smoother(
    mesh: Mesh, order: np.ndarray, smoothness: float, frames: int
) -> Smoother | None:
    """Return a function that gives the anchor and strength of the smoothness term.

    order       (V,) the mesh vertex that each vertex of the solver is
    smoothness  s; zero: no term
    frames      F

    The function takes index (V,K), weight (V,K) and the number of bones, and returns anchor (V,B)
    and strength (V,). Without smoothness or without edges the result is None.
    """
    if not smoothness or not len(mesh.edges):
        return None
    count = len(order)
    solver_index = np.empty(count, np.int64)
    solver_index[order] = np.arange(count)
    edges = solver_index[mesh.edges]
    degree = np.bincount(edges.reshape(-1), minlength=count)
    share = smoothness * frames * (1 / degree[edges[:, 0]] + 1 / degree[edges[:, 1]]) / 2
    graph = adjacency_matrix(edges, count, share)
    total = vertex_degrees(graph)

    def pull(index: np.ndarray, weight: np.ndarray, bones: int) -> tuple[np.ndarray, np.ndarray]:
        dense = weight_matrix(index, weight, bones).toarray()
        mean = (dense + (graph @ dense) / np.maximum(total, 1e-300)[:, None]) / 2
        return np.ascontiguousarray(mean), 2 * total

    return pull
