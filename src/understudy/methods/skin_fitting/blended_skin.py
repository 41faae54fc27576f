"""Hard labels made soft: sets of vertices that overlap, and a rigid skin that blends at its
borders. What closes FDDA's seam.

FDDA gives each vertex to one bone and one network. At the border of two sets the residuals of
neighbours live in different frames and two networks err differently, so the surface tears. Here
both change gradually, from ring to ring of the mesh.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.adjacency import adjacency_matrix
from understudy.geometry.laplacian import one_ring_mean
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import compose

# A blend of bones counts as collapsed where its volume falls below this share of the bones' own:
# two rotations 135 degrees apart, half and half.
_COLLAPSED = 0.15
_COLLAPSE_POSES = 300


def soft_membership(
    mesh: Mesh, labels: np.ndarray, rings: int, least: float = 0.05
) -> sp.csr_matrix:
    """(V,G) weights, each row non-negative and summing to one: labels (V,) in 0..G-1 (-1: in no
    set) averaged over `rings` rings.

    Shares below `least` are dropped, which bounds how far a set reaches. rings=0 gives the labels
    back.
    """
    members = np.flatnonzero(labels >= 0)
    count = int(labels.max(initial=-1)) + 1
    hard = sp.csr_matrix(
        (np.ones(len(members)), (members, labels[members])), shape=(len(labels), count)
    )
    if rings == 0 or not len(members):
        return hard
    edges = mesh.edges[(labels[mesh.edges] >= 0).all(axis=1)]
    average = one_ring_mean(adjacency_matrix(edges, len(labels)))
    soft = hard
    for _ in range(rings):
        soft = average @ soft
    soft = soft.tocsr()
    soft.data[soft.data < least] = 0
    soft.eliminate_zeros()
    return sp.csr_matrix(
        sp.diags(1 / np.maximum(np.asarray(soft.sum(axis=1)).reshape(-1), 1e-30)) @ soft
    )


def blended_skin(poses: Poses, bones: np.ndarray, rings: int, influences: int = 4) -> Skin:
    """The rigid skin of `bones` (V,) with its borders blended over `rings` rings of the mesh; 0
    leaves it rigid.

    A vertex whose blend comes near collapse in any of the example poses (two bones folded onto each
    other) keeps its single bone: a linear blend of opposite rotations has no inverse, and no
    displacement before skinning could mend it.
    """
    if rings == 0:
        return Skin.rigid(bones)
    shares = soft_membership(poses.mesh, np.asarray(bones), rings).toarray()
    order = np.argsort(-shares, axis=1, kind="stable")[:, :influences]
    weight = np.take_along_axis(shares, order, axis=1)
    weight /= weight.sum(axis=1, keepdims=True)
    order = np.where(weight > 0, order, order[:, :1])
    soft = np.flatnonzero((weight > 0).sum(axis=1) > 1)
    if len(soft):
        chosen = evenly(poses.pose_count, _COLLAPSE_POSES)
        matrices = compose(poses.world_from_bone[chosen], poses.skeleton.bone_from_world)[
            ..., :3
        ].astype(np.float32)
        by_bone = np.moveaxis(matrices, 1, 0).reshape(matrices.shape[1], -1)
        volume = np.abs(np.linalg.det(matrices)).T
        for part in np.array_split(soft, 1 + len(soft) // 8192):
            rows = weight_matrix(
                order[part].astype(np.int32), weight[part].astype(np.float32), matrices.shape[1]
            )
            blended = np.linalg.det((rows @ by_bone).reshape(len(part), -1, 3, 3))
            collapsed = part[(np.abs(blended) < _COLLAPSED * (rows @ volume)).any(axis=1)]
            order[collapsed] = np.asarray(bones)[collapsed, None]
            weight[collapsed] = np.eye(1, weight.shape[1])
    return Skin(order, weight)
