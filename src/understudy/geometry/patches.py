"""Vertex sets that overlap: a smooth partition of unity from hard labels, so that neighbouring sets share their border.

FDDA gives each vertex to one network; two networks disagree at the border and the surface tears (the seam). Here a vertex near a border is
predicted by all the networks around it, mixed with weights that change gradually from ring to ring of the mesh.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from understudy.mesh import Mesh


def soft_membership(mesh: Mesh, labels: np.ndarray, rings: int, least: float = 0.05) -> sp.csr_matrix:
    """(V,G) weights, each row non-negative and summing to one: labels (V,) in 0..G-1 (-1: in no set) averaged over `rings` rings.

    Shares below `least` are dropped, which bounds how far a set reaches. rings=0 gives the labels back.
    """
    members = np.flatnonzero(labels >= 0)
    count = int(labels.max(initial=-1)) + 1
    hard = sp.csr_matrix((np.ones(len(members)), (members, labels[members])), shape=(len(labels), count))
    if rings == 0 or not len(members):
        return hard
    edges = mesh.edges[(labels[mesh.edges] >= 0).all(axis=1)]
    ones = np.ones(len(edges))
    neighbours = sp.coo_matrix((ones, (edges[:, 0], edges[:, 1])), shape=(len(labels),) * 2)
    average = neighbours + neighbours.T + sp.identity(len(labels))
    average = sp.diags(1 / np.asarray(average.sum(axis=1)).reshape(-1)) @ average
    soft = hard
    for _ in range(rings):
        soft = average @ soft
    soft = soft.tocsr()
    soft.data[soft.data < least] = 0
    soft.eliminate_zeros()
    return sp.csr_matrix(sp.diags(1 / np.maximum(np.asarray(soft.sum(axis=1)).reshape(-1), 1e-30)) @ soft)
