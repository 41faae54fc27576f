"""The bases of the deformer, small: what a region's nets say is written anew in the few shapes it
really makes, near the region and far from it.

A region's folded basis F (3V,P) moves vertices all over the mesh, but far from the region only
smoothly, and near it the differential coordinates and the offsets (`reconstruction.py`) say nearly
the same. So with C (P,P) the second moments of the coefficients c over the training poses, near and
far rows are each cut to the rank that C leaves them,

    F C^1/2 = A,    A ~ (A V_r) V_r^T,    F c ~ Q T c      Q = A V_r (3n,r),   T = V_r^T C^-1/2
                    (r,P)

and T goes into the last layer of the region's nets:  T c = (T W_last) h + T b_last. r is the fewest
                                                      that leave no vertex more than `least` off
                                                      (rms
over the poses); rows that move their vertex less than that are dropped.

Letters: V vertices, n some of them, P coefficients of a region, r shapes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from understudy.core.networks import Basis, Net

_RINGS = 2
_FAINT = 1e-10  # of the largest: second moments below this are rounding


def near_and_far(
    folded: np.ndarray,
    moments: np.ndarray,
    region: np.ndarray,
    neighbours: sp.csr_matrix,
    least: float,
):
    """Cut a folded basis (V,3,P) in two and each to its rank: [(vertices (n,), Q (3n,r), T (r,P)),
    ...], without those that move nothing.

    moments  (P,P) second moments of the coefficients
    least    what does not count, in model units
    """
    values, vectors = np.linalg.eigh(moments)
    root = np.sqrt(np.maximum(values, _FAINT * max(values[-1], 1e-300)))
    shapes = folded.reshape(-1, len(moments)) @ (
        vectors * root
    )  # C^1/2 but for a rotation, which V_r takes up
    back = (vectors / root).T
    shapes = shapes.reshape(*folded.shape[:2], -1)
    reach = np.linalg.norm(shapes, axis=(1, 2))
    inside = np.zeros(len(folded))
    inside[region] = 1.0
    for _ in range(_RINGS):
        inside = inside + neighbours @ inside
    parts = []
    for rows in (
        np.flatnonzero((inside > 0) & (reach > least)),
        np.flatnonzero((inside == 0) & (reach > least)),
    ):
        if len(rows):
            matrix, turn = _cut(shapes[rows], least)
            parts.append((rows, matrix, turn.T @ back))
    return parts


def _cut(shapes: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """A (n,3,P) -> A V_r (3n,r) and V_r (P,r), r the fewest that leave no vertex more than
    `least`.
    """
    flat = shapes.reshape(-1, shapes.shape[2])
    vectors = np.linalg.eigh(flat.T @ flat)[1][:, ::-1]
    turned = flat @ vectors
    left = (
        np.square(turned)
        .reshape(len(shapes), 3, -1)
        .sum(axis=1)[:, ::-1]
        .cumsum(axis=1)[:, ::-1]
        .max(axis=0)
    )  # squared, from column k on
    small = np.flatnonzero(left <= least**2)
    rank = max(1, int(small[0])) if small.size else turned.shape[1]
    return turned[:, :rank], vectors[:, :rank]


def rewritten(net: Net, transfer: np.ndarray, outputs: np.ndarray) -> Net:
    """A net that writes transfer (r,P) times what it wrote, as coefficients `outputs` (r,)."""
    weights = (*net.weights[:-1], transfer @ net.weights[-1].astype(np.float64))
    biases = (*net.biases[:-1], transfer @ net.biases[-1].astype(np.float64))
    return replace(net, weights=weights, biases=biases, outputs=outputs)


def anchor_bases(
    matrix: np.ndarray,
    coefficients: np.ndarray,
    groups: list[np.ndarray],
    size: np.ndarray,
    least: float,
) -> list[Basis]:
    """The anchors' shared basis (V,n) in blocks of neighbouring anchors, each cut to the vertices
    it moves; coefficients (3,n), size (n,).
    """
    bases = []
    for group in groups:
        reach = np.linalg.norm(matrix[:, group] * size[group], axis=1)
        rows = np.flatnonzero(reach > least)
        if len(rows):
            bases.append(Basis(rows, matrix[np.ix_(rows, group)], coefficients[:, group]))
    return bases
