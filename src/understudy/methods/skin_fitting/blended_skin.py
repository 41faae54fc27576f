"""Soft vertex groups and a rigid skin with blended borders, to close the seams of FDDA.

FDDA (Bailey et al. 2018) assigns each vertex to one bone and one network. Across the border of two
groups the displacements are in different bone frames and the two networks have different errors,
which shows as a seam. Here the groups overlap and the skin weights change gradually, over a few
rings of the mesh: labels are averaged over one-ring neighbourhoods

    m <- (D + I)^-1 (A + I) m          A: adjacency of the vertices, D: their degrees

`rings` times, starting from the 0/1 membership m (V,G) of the hard labels.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.adjacency import adjacency_matrix, one_ring_mean
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import compose

# A blend of bones is collapsed if its volume is below this fraction of the volumes of its bones:
# equal weights of two rotations 135 degrees apart.
_COLLAPSED = 0.15
_COLLAPSE_POSES = 300  # poses in which a collapse is looked for


def soft_membership(
    mesh: Mesh, labels: np.ndarray, rings: int, least: float = 0.05
) -> sp.csr_matrix:
    """The membership of each vertex in each group: (V,G), rows non-negative and summing to one.

    labels  (V,) group of each vertex, 0..G-1, or -1 for none; such a vertex has a row of zeros
    rings   number of one-ring averages; 0 keeps the hard labels
    least   smaller memberships are dropped, which bounds the extent of a group
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
    """The rigid skin of one bone per vertex, with the borders between bones blended.

    poses       example poses with a skeleton
    bones       (V,) bone of each vertex
    rings       rings of the mesh that a border is blended over; 0 keeps the skin rigid
    influences  largest number of bones per vertex

    A vertex whose blended transform nearly collapses in an example pose keeps its single bone. A
    linear blend of opposite rotations has no inverse, so no displacement in the rest pose could
    correct it.
    """
    if rings == 0:
        return Skin.rigid(bones)
    skeleton, world_from_bone = poses.need_bones("a blended skin")
    shares = soft_membership(poses.mesh, np.asarray(bones), rings).toarray()
    order = np.argsort(-shares, axis=1, kind="stable")[:, :influences]
    weight = np.take_along_axis(shares, order, axis=1)
    weight /= weight.sum(axis=1, keepdims=True)
    order = np.where(weight > 0, order, order[:, :1])
    soft = np.flatnonzero((weight > 0).sum(axis=1) > 1)
    if len(soft):
        chosen = evenly(poses.pose_count, _COLLAPSE_POSES)
        matrices = compose(world_from_bone[chosen], skeleton.bone_from_world)[..., :3]
        matrices = matrices.astype(np.float32)
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
