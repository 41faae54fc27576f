"""Smooth weights: neighbours along mesh edges should agree.

The term is  s sum over edges (i,j) of c_ij |w_i - w_j|^2,  c_ij = (1/deg_i + 1/deg_j) / 2, times
             the number of frames. To solve for all
vertices at once without ever raising the error, each edge's part is bounded from above by 2 |w_i -
m|^2 + 2 |w_j - m|^2 about the present middle m of its two ends: a pull of every vertex towards an
anchor.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from understudy.core.mesh import Mesh
from understudy.geometry.adjacency import adjacency_matrix
from understudy.geometry.laplacian import vertex_degrees


def smoother(mesh: Mesh, order: np.ndarray, smoothness: float, frames: int) -> Callable | None:
    """A function of (index, weight, bones) to (anchor (V,B), strength (V,)) for vertices in
    `order`; None without smoothness or edges.
    """
    if not smoothness or not len(mesh.edges):
        return None
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    one, two = ends = place[mesh.edges].T
    degree = np.bincount(np.concatenate([one, two]), minlength=len(order))
    share = smoothness * frames * (1 / degree[one] + 1 / degree[two]) / 2
    graph = adjacency_matrix(ends.T, len(order), share)
    total = vertex_degrees(graph)

    def pull(index: np.ndarray, weight: np.ndarray, bones: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.repeat(np.arange(len(order)), index.shape[1])
        dense = np.asarray(
            sp.coo_matrix(
                (weight.reshape(-1), (rows, index.reshape(-1))), shape=(len(order), bones)
            ).todense()
        )
        middle = (dense + (graph @ dense) / np.maximum(total, 1e-300)[:, None]) / 2
        return np.ascontiguousarray(middle), 2 * total

    return pull
