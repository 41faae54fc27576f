"""Rotational regression: deformation gradients predicted from bone rotations, then solved for.

Wang, Pulli and Popovic 2007, "Real-Time Enveloping with Rotational Regression", as FDDA section 4.2
compares with it: K = 2 bones per triangle as published, and K = 15, without the reduced
formulation. For triangle k with best bone b, with all rotations relative to the rest pose:

    D_k         = [v2-v1, v3-v1, n]_pose [v2-v1, v3-v1, n]_rest^-1   deformation gradient; n is the
                                                                     scaled normal
    D_k         = R_b exp(r_k) S_k                                   polar decomposition, relative
                                                                     to the bone
    (r_k, S_k)  = A_k [1, log(R_b^T R_j) for K bones j]              ridge regression, 3 + 6 numbers
                                                                     from 1 + 3 K
    v           = argmin sum_k sum over edges ij of k |v_j - v_i - D_k e_ij|^2
                       + sum over anchors a |v_a - M_b rest_a|^2     one sparse solve per pose

Readings and departures:
- Wang et al. scale and rotate the rotation vector of a joint. A linear regression on the rotation
  vectors of several joints contains that. Rotations are relative to the best bone, not to parents,
  so that any bone can be selected.
- The best bone is one of the K. The other K-1 are selected greedily, each time the one that
  explains most of the residual, in steps of several bones once a few are selected.
- All three edges of a triangle are matched, so its corners are treated alike.
- Anchors: gradients do not determine positions, and their errors accumulate along a limb. The most
  rigid vertex of every connected component is placed by its best bone (FDDA: "at least one vertex
  in each mesh"). So is every vertex that follows its best bone to within `near_rigid` of the height
  (root mean square), and the share `anchor_share` of the vertices of each bone that follow it best.
  Without the last, random poses leave limbs without an anchor, and the result is worse than rigid
  skinning (`notes/baselines.md`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.core.skeleton import Skeleton
from understudy.geometry.adjacency import adjacency_matrix, connected_components
from understudy.geometry.skinning import polar
from understudy.geometry.transforms import apply, compose
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors
from understudy.system import checks
from understudy_benchmarks.baselines.rotations import (
    polar_rotation,
    rotation_matrix,
    rotation_vector,
)

_RIDGE = 1e-4  # as if each rotation were known to a hundredth of a radian
_POOL = 32  # candidate bones per triangle: those that explain most on their own
_TRIANGLES_AT_ONCE = 512
_BLOCK_VALUES = 2**22
# The six entries of a symmetric matrix.
_SHEAR = np.array([[0, 0], [1, 1], [2, 2], [0, 1], [0, 2], [1, 2]])


@dataclass(frozen=True, eq=False)
class _Group:
    """The triangles whose best bone is `bone`.

    triangles     (n,)
    others        (n,K-1) the other bones that each triangle reads
    coefficients  (n,1+3(K-1),9) float32, A
    """

    bone: int
    triangles: np.ndarray
    others: np.ndarray
    coefficients: np.ndarray


@dataclass(frozen=True, eq=False)
class RotationalRegression:
    """A fitted model.

    groups        triangles by their best bone
    anchors       (a,) vertices that are placed by a bone
    anchor_bones  (a,) that bone
    edge_ends     (3M,2) vertices of the three edges of each triangle
    scatter       (V,3M) transpose of the difference matrix of the edges
    solver        factor of the normal matrix of edges and anchors
    """

    mesh: Mesh
    skeleton: Skeleton
    groups: tuple[_Group, ...]
    anchors: np.ndarray
    anchor_bones: np.ndarray
    edge_ends: np.ndarray
    scatter: sp.csr_matrix
    solver: SuperLU

    def deform(self, poses: Poses) -> np.ndarray:
        """The vertices (T,V,3) float32 from the bones of `poses`."""
        return np.concatenate(list(self.deform_blocks(poses)))

    def deform_blocks(self, poses: Poses) -> Iterator[np.ndarray]:
        """Yield the same, a few poses at a time."""
        _, world_from_bone = poses.need_bones("rotational_regression")
        size = max(1, _BLOCK_VALUES // (9 * max(1, len(self.mesh.triangles))))
        for start in range(0, poses.pose_count, size):
            yield self._deform_block(world_from_bone[start : start + size])

    def _deform_block(self, world_from_bone: np.ndarray) -> np.ndarray:
        matrix = compose(world_from_bone, self.skeleton.bone_from_world)
        gradients = self._gradients(polar(matrix[..., :3])[0])
        rest = self.mesh.vertices.astype(np.float64)
        edges = rest[self.edge_ends[:, 1]] - rest[self.edge_ends[:, 0]]
        # (t,M,3 edges,3)
        wanted = np.matmul(gradients[:, :, None], edges.reshape(-1, 3, 3, 1)[None])[..., 0]
        right = self.scatter @ np.moveaxis(wanted.reshape(len(matrix), -1, 3), 0, 1).reshape(
            len(edges), -1
        )
        placed = apply(matrix[:, self.anchor_bones], rest[self.anchors])
        centre = placed.mean(axis=1, keepdims=True)  # solve relative to the character
        np.add.at(
            right, self.anchors, np.moveaxis(placed - centre, 0, 1).reshape(len(self.anchors), -1)
        )
        solved = self.solver.solve(right).reshape(-1, len(matrix), 3)
        return (np.moveaxis(solved, 1, 0) + centre).astype(np.float32)

    def _gradients(self, rotations: np.ndarray) -> np.ndarray:
        """Deformation gradients (t,M,3,3) from rotations of the bones (t,B,3,3)."""
        result = np.empty((len(rotations), len(self.mesh.triangles), 3, 3))
        for group in self.groups:
            features = _relative(rotations, group.bone, np.unique(group.others))
            places = np.searchsorted(np.unique(group.others), group.others)
            mine = np.moveaxis(features[:, places], 1, 0).reshape(
                len(group.triangles), len(rotations), -1
            )
            # (n,t,9)
            found = np.matmul(mine, group.coefficients[:, 1:]) + group.coefficients[:, :1]
            stretch = np.empty((*found.shape[:2], 3, 3))
            stretch[..., _SHEAR[:, 0], _SHEAR[:, 1]] = stretch[..., _SHEAR[:, 1], _SHEAR[:, 0]] = (
                found[..., 3:]
            )
            turned = np.matmul(
                rotations[None, :, group.bone], np.matmul(rotation_matrix(found[..., :3]), stretch)
            )
            result[:, group.triangles] = np.swapaxes(turned, 0, 1)
        return result


def fit(
    poses: Poses,
    bones: int = 2,
    max_poses: int | None = 500,
    near_rigid: float = 0.001,
    anchor_share: float = 0.05,
) -> RotationalRegression:
    """Fit the model to `poses`.

    bones         K, number of bones per triangle: 2 as published, or 15 as in FDDA
    max_poses     upper limit of poses, evenly spaced; None: all
    near_rigid    vertices whose error is below this fraction of the height when they follow one
                  bone become anchors
    anchor_share  share of the vertices of each bone that become anchors, the most rigid first
    """
    checks.between(bones, "bones", 1)
    checks.between(near_rigid, "near_rigid", 0)
    checks.between(anchor_share, "anchor_share", 0, 1)
    skeleton, mesh = poses.need_skeleton("rotational_regression"), poses.mesh
    if max_poses is not None and max_poses < poses.pose_count:
        checks.between(max_poses, "max_poses", 2)
        poses = poses.take(evenly(poses.pose_count, int(max_poses)))
    errors = rigid_errors(poses)
    _, world_from_bone = poses.need_bones("rotational_regression")
    rotations = polar(compose(world_from_bone, skeleton.bone_from_world)[..., :3])[0]
    others = min(int(bones), skeleton.bone_count) - 1
    triangle_bone = (
        best_bone(errors[mesh.triangles].sum(axis=1))
        if len(mesh.triangles)
        else np.zeros(0, np.int32)
    )
    groups = []
    for bone in np.unique(triangle_bone):
        mine = np.flatnonzero(triangle_bone == bone)
        features = _relative(rotations, int(bone), np.arange(skeleton.bone_count)).reshape(
            len(rotations), -1
        )
        spans = [
            mine[start : start + _TRIANGLES_AT_ONCE]
            for start in range(0, len(mine), _TRIANGLES_AT_ONCE)
        ]
        fits = [
            _regress(features, _targets(poses, span, rotations[:, bone]), others) for span in spans
        ]
        groups.append(_Group(int(bone), mine, *(np.concatenate(part) for part in zip(*fits))))
    anchors, anchor_bones = _anchors(
        mesh, errors, near_rigid * mesh.height * np.sqrt(poses.pose_count), anchor_share
    )
    return RotationalRegression(
        mesh, skeleton, tuple(groups), anchors, anchor_bones, *_edge_system(mesh, anchors)
    )


def _relative(rotations: np.ndarray, bone: int, others: np.ndarray) -> np.ndarray:
    """Rotation vectors of the bones `others` (n,) relative to `bone`: (t,B,3,3) -> (t,n,3)."""
    return rotation_vector(
        np.matmul(np.swapaxes(rotations[:, bone], 1, 2)[:, None], rotations[:, others])
    )


def _frames(corners: np.ndarray) -> np.ndarray:
    """[v2-v1, v3-v1, n] as columns: corners (...,3 corners,3) -> (...,3,3).

    n is the normal, scaled like an edge.
    """
    one, two = corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :]
    normal = np.cross(one, two)
    normal /= np.sqrt(
        np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), np.finfo(float).tiny)
    )
    return np.stack([one, two, normal], axis=-1)


def _targets(poses: Poses, triangles: np.ndarray, bone_rotation: np.ndarray) -> np.ndarray:
    """Rotation vector and stretch of each triangle in the frame of its bone: (t,n,9).

    triangles      (n,)
    bone_rotation  (t,3,3)
    """
    corners = poses.mesh.triangles[triangles]
    vertices, place = np.unique(corners, return_inverse=True)
    rest = _frames(poses.mesh.vertices.astype(np.float64)[corners])
    sides = np.linalg.norm(rest, axis=1)
    # A triangle without area at rest has no gradient and follows its bone.
    flat = np.abs(np.linalg.det(rest)) <= 1e-6 * sides.max(axis=1) ** 3
    rest[flat] = np.eye(3)
    posed = _frames(
        poses.read_vertices(vertices).astype(np.float64)[:, place.reshape(corners.shape)]
    )
    local = np.matmul(
        np.matmul(np.swapaxes(bone_rotation, 1, 2)[:, None], posed), np.linalg.inv(rest)
    )
    local[:, flat] = np.eye(3)
    # A triangle that collapses in this pose has no defined rotation; use none.
    collapsed = np.linalg.det(local) < 1e-9
    rotation = polar_rotation(np.where(collapsed[..., None, None], np.eye(3), local))
    stretch = np.matmul(np.swapaxes(rotation, -1, -2), local)
    return np.concatenate(
        [rotation_vector(rotation), stretch[..., _SHEAR[:, 0], _SHEAR[:, 1]]], axis=-1
    )


def _regress(
    features: np.ndarray, targets: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Select `count` bones per triangle (n,count) and their coefficients (n,1+3 count,9) float32.

    features  (t,3B) rotation vectors of all bones
    targets   (t,n,9)
    Orthogonal matching pursuit in blocks of three features, from Gram matrices.
    """
    triangles, bone_count = targets.shape[1], features.shape[1] // 3
    feature_mean, target_mean = features.mean(axis=0), targets.mean(axis=0)
    centred = features - feature_mean
    gram = centred.T @ centred
    gram[np.diag_indices(len(gram))] += _RIDGE * len(features)
    cross = (
        (centred.T @ (targets - target_mean).reshape(len(targets), -1))
        .reshape(bone_count, 3, triangles, 9)
        .transpose(2, 0, 1, 3)
    )
    blocks = gram.reshape(bone_count, 3, bone_count, 3)
    own = np.linalg.inv(blocks[np.arange(bone_count), :, np.arange(bone_count)])
    score = np.einsum("nbiy,bij,nbjy->nb", cross, own, cross, optimize=True)
    pool = np.argsort(-score, axis=1, kind="stable")[
        :, : max(min(_POOL, bone_count), min(2 * count, bone_count))
    ]
    rows = np.arange(triangles)[:, None]
    pool_cross, pool_own = cross[rows, pool], own[pool]
    score = np.take_along_axis(score, pool, axis=1)
    picked = np.zeros((triangles, 0), np.int64)  # positions in the pool
    while True:
        step = min(count - picked.shape[1], max(1, picked.shape[1] // 2))
        score[rows, picked] = -np.inf
        picked = np.concatenate(
            [picked, np.argsort(-score, axis=1, kind="stable")[:, :step]], axis=1
        )
        chosen = pool[rows, picked]
        width = 3 * chosen.shape[1]
        inner = (
            blocks[chosen[:, :, None], :, chosen[:, None, :]]
            .transpose(0, 1, 3, 2, 4)
            .reshape(triangles, width, width)
        )
        solved = np.linalg.solve(inner, pool_cross[rows, picked].reshape(triangles, width, 9))
        if chosen.shape[1] == count:
            break
        reach = (
            blocks[pool[:, :, None], :, chosen[:, None, :]]
            .transpose(0, 1, 3, 2, 4)
            .reshape(triangles, -1, width)
        )
        left = pool_cross - np.matmul(reach, solved).reshape(pool_cross.shape)
        score = np.einsum("npiy,npij,npjy->np", left, pool_own, left, optimize=True)
    means = feature_mean.reshape(-1, 3)[chosen].reshape(triangles, 1, width)
    constant = target_mean[:, None] - np.matmul(means, solved)
    return chosen, np.concatenate([constant, solved], axis=1).astype(np.float32)


def _anchors(
    mesh: Mesh, errors: np.ndarray, tolerance: float, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """The vertices that are placed by a bone (a,), and that bone (a,).

    errors     (V,B) squared error of each vertex with each bone, summed over the poses
    tolerance  root of the summed squared error below which a vertex is an anchor
    share      of the vertices of each bone, the most rigid ones, that are anchors
    The most rigid vertex of each connected component is an anchor too.
    """
    bones = best_bone(errors)
    miss = np.sqrt(errors[np.arange(len(bones)), bones])
    piece = connected_components(adjacency_matrix(mesh.edges, len(bones)))
    order = np.argsort(miss, kind="stable")
    first_of_piece = order[np.unique(piece[order], return_index=True)[1]]
    of_bone = [order[bones[order] == bone] for bone in np.unique(bones)]
    best = [mine[: int(np.ceil(share * len(mine)))] for mine in of_bone]
    rigid = np.concatenate([np.flatnonzero(miss <= tolerance), *best])
    anchors = np.union1d(first_of_piece, rigid)
    return anchors, bones[anchors]


def _edge_system(mesh: Mesh, anchors: np.ndarray) -> tuple[np.ndarray, sp.csr_matrix, SuperLU]:
    """The edges (3M,2), the transpose of their difference matrix (V,3M), and the solver."""
    ends = np.stack([mesh.triangles, np.roll(mesh.triangles, -1, axis=1)], axis=-1).reshape(-1, 2)
    row = np.repeat(np.arange(len(ends)), 2)
    sign = np.tile([-1.0, 1.0], len(ends))
    difference = sp.csr_matrix(
        (sign, (row, ends.reshape(-1))), shape=(len(ends), mesh.vertex_count)
    )
    anchored = sp.coo_matrix(
        (np.ones(len(anchors)), (anchors, anchors)), shape=(mesh.vertex_count, mesh.vertex_count)
    )
    normal = (difference.T @ difference + anchored).tocsc()
    solver = splu(
        normal,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return ends, difference.T.tocsr(), solver
