"""Skin weights of FBX files from Maya.

Maya's exporter leaves out weights below 0.001, and the rest of the row is written as it is. The
missing weight is known, the bones are not. Scaling the row up moves a vertex by about 5e-4 of the
distance between its bones; giving the weight to bones that neighbouring vertices follow is closer.
In a scene that Maya itself imported from FBX those weights are gone, and Maya scales rows up.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from understudy.geometry.adjacency import polygon_edges

_PRUNED = 1.05e-3  # weights below it may have been left out, rounding included
_MOST_MISSING = 0.01
_NOTHING = 1e-6


def restore_pruned(
    weights: sp.csr_matrix, polygon_sizes: np.ndarray, corners: np.ndarray
) -> sp.csr_matrix:
    """Return weights (V,K) with the weight that pruning removed given to plausible clusters.

    polygon_sizes, corners  the polygons, for the neighbours of a vertex

    Only rows that sum to slightly less than one change. A cluster gets part of the missing weight
    if the vertex lacks it and a neighbour has it, in proportion to the neighbours' weights.

    >>> rows = sp.csr_matrix([[0.6, 0.3992, 0.0], [0.6, 0.398, 0.002], [0.6, 0.398, 0.002]])
    >>> restored = restore_pruned(rows, np.array([3]), np.array([0, 1, 2]))
    >>> restored.toarray()[0].round(4).tolist()
    [0.6, 0.3992, 0.0008]
    """
    missing = 1.0 - np.asarray(weights.sum(axis=1)).reshape(-1)
    absent = weights.shape[1] - np.diff(weights.indptr)
    rows = np.flatnonzero(
        (missing > _NOTHING) & (missing <= np.minimum(_MOST_MISSING, _PRUNED * absent))
    )
    if not rows.size:
        return weights
    a, b = polygon_edges(polygon_sizes, corners).T
    shape = (weights.shape[0], weights.shape[0])
    neighbours = sp.csr_matrix((np.ones(2 * len(a)), (np.r_[a, b], np.r_[b, a])), shape)
    near = (neighbours[rows] @ weights).tocsr()
    own = weights[rows]
    own.data = np.ones_like(own.data)
    near = sp.csr_matrix(near - near.multiply(own))  # clusters that the vertex lacks
    total = np.asarray(near.sum(axis=1)).reshape(-1)
    scale = np.divide(missing[rows], total, out=np.zeros(len(rows)), where=total > 0)
    near = sp.diags(scale) @ near
    place = sp.csr_matrix((np.ones(len(rows)), (rows, np.arange(len(rows)))), (shape[0], len(rows)))
    return sp.csr_matrix(weights + place @ near)
