"""Averages and Laplacians over the neighbours of a vertex, all with uniform weights.

With A the adjacency (V,V) of `adjacency.py` and D the diagonal of the vertex degrees:

    symmetric Laplacian    D - A              positive semi-definite, zero on constant fields
    random-walk Laplacian  I - D^-1 A         a vertex minus the mean of its neighbours
    one-ring mean          (D + I)^-1 (A + I) the mean of the vertex and its neighbours

A vertex without neighbours has degree zero; each function says what its row is then.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def vertex_degrees(adjacency: sp.csr_matrix) -> np.ndarray:
    """Row sums of the adjacency: (V,) float64, the number of neighbours if edges weigh one."""
    return np.asarray(adjacency.sum(axis=1)).ravel()


def symmetric_laplacian(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """D - A: (V,V); the row of an isolated vertex is zero.

    >>> symmetric_laplacian(sp.csr_matrix([[0.0, 1.0], [1.0, 0.0]])).toarray().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    return sp.csr_matrix(sp.diags(vertex_degrees(adjacency)) - adjacency)


def random_walk_laplacian(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """I - D^-1 A: (V,V), for edges that weigh one; the row of an isolated vertex is zero.

    >>> path = sp.csr_matrix([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> random_walk_laplacian(path).toarray()[1].tolist()
    [-0.5, 1.0, -0.5]
    """
    degree = np.diff(adjacency.indptr)
    share = np.repeat(1.0 / np.maximum(degree, 1), degree)
    mean = sp.csr_matrix((share, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    return (sp.diags((degree > 0).astype(float)) - mean).tocsr()


def one_ring_mean(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """(D + I)^-1 (A + I): (V,V), rows sum to one; an isolated vertex keeps its own value.

    >>> one_ring_mean(sp.csr_matrix([[0.0, 1.0], [1.0, 0.0]])).toarray().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    closed = adjacency + sp.identity(adjacency.shape[0])
    return sp.diags(1 / vertex_degrees(closed)) @ closed
