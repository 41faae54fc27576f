"""The bases of the deformer, small: near a region as they are, far from it in a few broad shapes.

A region's folded basis moves vertices all over the mesh, but far from the region it can only do so smoothly: there its rows have a low rank. So they
are kept as  F = Q T  with few columns in Q, and T goes into the last layer of the region's nets, which then also write the few numbers that Q reads:

    d_near = B c,        d_far = Q (T c) = Q c',         c' = T W_last h + T b_last

Rows that can move their vertex no further than `NOTHING` are dropped, and Q is cut where no row loses more than that.

Letters: V vertices, P coefficients of a region, r broad shapes.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from understudy.networks import Basis, Net

NOTHING = 1e-6  # of the height: below this, for a coefficient vector of the usual size, a row does not count
_RINGS = 2


def near_and_far(folded: np.ndarray, size: np.ndarray, region: np.ndarray, neighbours: sp.csr_matrix, least: float):
    """Cut a folded basis (V,3,P): vertices near the region, then vertices far from it that it still moves, and their Q (3n,r) and T (r,P).

    size   (P,) the usual size of each coefficient
    least  what does not count, in model units
    """
    reach = np.linalg.norm(folded * size, axis=(1, 2))
    inside = np.zeros(len(folded))
    inside[region] = 1.0
    for _ in range(_RINGS):
        inside = inside + neighbours @ inside
    near = np.flatnonzero((inside > 0) & (reach > least))
    far = np.flatnonzero((inside == 0) & (reach > least))
    rows = (folded[far] * size).reshape(-1, len(size))
    if not len(far):
        return near, far, np.zeros((0, 0)), np.zeros((0, len(size)))
    gram = rows.T @ rows
    _, vectors = np.linalg.eigh(gram)
    vectors = vectors[:, ::-1]
    rank = len(size)
    projected = rows @ vectors
    left = np.cumsum(np.square(projected[:, ::-1]).reshape(len(far), 3, -1).sum(axis=1), axis=1)[:, ::-1]  # squared loss of a vertex from column k on
    worst = left.max(axis=0)
    small = np.flatnonzero(worst <= least**2)
    rank = int(small[0]) if small.size else rank
    keep = vectors[:, :rank]
    return near, far, projected[:, :rank], keep.T / np.maximum(size, 1e-30)


def widened(net: Net, own: np.ndarray, extra: np.ndarray, transfer: np.ndarray) -> Net:
    """A net that writes coefficients `own` (P,) and also transfer (r,P) of them, as coefficients `extra` (r,)."""
    weight, bias = net.weights[-1].astype(np.float64), net.biases[-1].astype(np.float64)
    weights = (*net.weights[:-1], np.concatenate([weight, transfer @ weight]))
    biases = (*net.biases[:-1], np.concatenate([bias, transfer @ bias]))
    return Net(net.inputs, weights, biases, np.concatenate([own, extra]), net.activation)


def anchor_bases(matrix: np.ndarray, coefficients: np.ndarray, groups: list[np.ndarray], size: np.ndarray, least: float) -> list[Basis]:
    """The anchors' shared basis (V,n) in blocks of neighbouring anchors, each cut to the vertices it moves; coefficients (3,n), size (n,)."""
    bases = []
    for group in groups:
        reach = np.linalg.norm(matrix[:, group] * size[group], axis=1)
        rows = np.flatnonzero(reach > least)
        if len(rows):
            bases.append(Basis(rows, matrix[np.ix_(rows, group)], coefficients[:, group]))
    return bases
