"""Rotational regression: deformation gradients predicted from bone rotations, then a mesh that has
them.

Wang, Pulli & Popovic 2007, "Real-Time Enveloping with Rotational Regression", as FDDA section 4.2
compares with it: K = 2 bones per triangle as published and K = 15, without the reduced formulation.
For triangle k with best bone b, all rotations being against the rest pose:

    D_k = [v2-v1, v3-v1, n]_pose [v2-v1, v3-v1, n]_rest^-1          its deformation gradient, n the
    scaled normal D_k = R_b exp(r_k) S_k                                          in its bone's
    frame: a rotation vector and a scale/shear, by polar decomposition (r_k, S_k) = A_k [1,
    log(R_b^T R_j) for K bones j]              linear regression (ridge), 3 + 6 numbers from 1 + 3 K
    minimise  sum_k sum over edges ij of k |v_j - v_i - D_k e_ij|^2  +  sum over anchors a |v_a -
    M_b rest_a|^2      one sparse solve per pose

How it was read, and where it departs:
- Wang et al. scale and turn a joint's rotation vector to get the triangle's; regressing the
  rotation vector on the joints' rotation vectors contains that, and is what "linear regression from
  bone transformations" with many bones can mean. Bones are measured against the best bone rather
  than against their parents, so that any bone may be chosen.
- The best bone counts among the K, so K-1 others are picked for each triangle, the one that
  explains most of what is left at a time (in steps of several bones once a few are picked).
- All three edges of a triangle are matched, which treats its corners alike.
- Anchors: gradients say nothing about position, and their errors add up along a limb. Every
  connected piece has its most rigid vertex placed by its best bone (FDDA: "at least one vertex in
  each mesh"), and so is every vertex that follows its best bone to within `near_rigid` of the
  height (root mean square). That is the stronger reading: with one vertex per piece or per bone the
  result drifts and is two to five times worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from understudy.benchmarks.baselines.rotations import (
    polar_rotation,
    rotation_matrix,
    rotation_vector,
)
from understudy.core import checks
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.core.skeleton import Skeleton
from understudy.geometry.adjacency import adjacency_matrix, connected_components
from understudy.geometry.skinning import polar
from understudy.geometry.transforms import apply, compose
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors

_RIDGE = 1e-4  # as if each rotation were known to a hundredth of a radian
_POOL = 32  # bones looked at per triangle, those that explain most on their own
_TRIANGLES_AT_ONCE = 512
_BLOCK_VALUES = 2**22
_SHEAR = np.array(
    [[0, 0], [1, 1], [2, 2], [0, 1], [0, 2], [1, 2]]
)  # the six entries of a symmetric matrix


@dataclass(frozen=True, eq=False)
class _Group:
    """The triangles of one bone: triangles (n,), their bones (n,K-1), and coefficients (n,
    1+3(K-1), 9) float32.
    """

    bone: int
    triangles: np.ndarray
    others: np.ndarray
    coefficients: np.ndarray


@dataclass(frozen=True, eq=False)
class RotationalRegression:
    """Fitted. `anchors` (a,) vertices with their bones (a,); `edge_ends` (3M,2); `solver` the
    factor of the edges' and anchors' normal matrix.
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
        """(T,V,3) float32 from the bones of `poses`."""
        return np.concatenate(list(self.deform_blocks(poses)))

    def deform_blocks(self, poses: Poses) -> Iterator[np.ndarray]:
        """The same, a few poses at a time."""
        size = max(1, _BLOCK_VALUES // (9 * max(1, len(self.mesh.triangles))))
        for start in range(0, poses.pose_count, size):
            yield self._deform_block(poses.world_from_bone[start : start + size])

    def _deform_block(self, world_from_bone: np.ndarray) -> np.ndarray:
        matrix = compose(world_from_bone, self.skeleton.bone_from_world)
        gradients = self._gradients(polar(matrix[..., :3])[0])
        rest = self.mesh.vertices.astype(np.float64)
        edges = rest[self.edge_ends[:, 1]] - rest[self.edge_ends[:, 0]]
        wanted = np.matmul(gradients[:, :, None], edges.reshape(-1, 3, 3, 1)[None])[
            ..., 0
        ]  # (t,M,3 edges,3)
        right = self.scatter @ np.moveaxis(wanted.reshape(len(matrix), -1, 3), 0, 1).reshape(
            len(edges), -1
        )
        placed = apply(matrix[:, self.anchor_bones], rest[self.anchors])
        centre = placed.mean(
            axis=1, keepdims=True
        )  # solve around the character, wherever it stands
        np.add.at(
            right, self.anchors, np.moveaxis(placed - centre, 0, 1).reshape(len(self.anchors), -1)
        )
        solved = self.solver.solve(right).reshape(-1, len(matrix), 3)
        return (np.moveaxis(solved, 1, 0) + centre).astype(np.float32)

    def _gradients(self, rotations: np.ndarray) -> np.ndarray:
        """(t,M,3,3) from the bones' rotations (t,B,3,3)."""
        result = np.empty((len(rotations), len(self.mesh.triangles), 3, 3))
        for group in self.groups:
            features = _relative(rotations, group.bone, np.unique(group.others))
            places = np.searchsorted(np.unique(group.others), group.others)
            mine = np.moveaxis(features[:, places], 1, 0).reshape(
                len(group.triangles), len(rotations), -1
            )
            found = (
                np.matmul(mine, group.coefficients[:, 1:]) + group.coefficients[:, :1]
            )  # (n,t,9)
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
    poses: Poses, bones: int = 2, max_poses: int | None = 500, near_rigid: float = 0.001
) -> RotationalRegression:
    """Learn from `poses`, thinned evenly to `max_poses`.

    bones       K, the bones each triangle reads: the paper's 2, or FDDA's 15
    near_rigid  vertices that miss by less than this part of the height when they follow one bone
                become anchors
    """
    checks.between(bones, "bones", 1)
    checks.between(near_rigid, "near_rigid", 0)
    skeleton, mesh = poses.need_skeleton("rotational_regression"), poses.mesh
    if max_poses is not None and max_poses < poses.pose_count:
        checks.between(max_poses, "max_poses", 2)
        poses = poses.take(evenly(poses.pose_count, int(max_poses)))
    errors = rigid_errors(poses)
    rotations = polar(compose(poses.world_from_bone, skeleton.bone_from_world)[..., :3])[0]
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
        mesh, errors, near_rigid * mesh.height * np.sqrt(poses.pose_count)
    )
    return RotationalRegression(
        mesh, skeleton, tuple(groups), anchors, anchor_bones, *_edge_system(mesh, anchors)
    )


def _relative(rotations: np.ndarray, bone: int, others: np.ndarray) -> np.ndarray:
    """Rotation vectors of `others` in the frame of `bone`: (t,B,3,3) -> (t,n,3)."""
    return rotation_vector(
        np.matmul(np.swapaxes(rotations[:, bone], 1, 2)[:, None], rotations[:, others])
    )


def _frames(corners: np.ndarray) -> np.ndarray:
    """[v2-v1, v3-v1, n] as columns, n the normal scaled like an edge: corners (...,3 corners,3) ->
    (...,3,3).
    """
    one, two = corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :]
    normal = np.cross(one, two)
    normal /= np.sqrt(
        np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), np.finfo(float).tiny)
    )
    return np.stack([one, two, normal], axis=-1)


def _targets(poses: Poses, triangles: np.ndarray, bone_rotation: np.ndarray) -> np.ndarray:
    """(t, n, 9): rotation vector and scale/shear of each triangle in its bone's frame, (t,3,3)."""
    corners = poses.mesh.triangles[triangles]
    vertices, place = np.unique(corners, return_inverse=True)
    rest = _frames(poses.mesh.vertices.astype(np.float64)[corners])
    sides = np.linalg.norm(rest, axis=1)
    flat = (
        np.abs(np.linalg.det(rest)) <= 1e-6 * sides.max(axis=1) ** 3
    )  # no area at rest, no gradient: such a triangle follows its bone
    rest[flat] = np.eye(3)
    posed = _frames(
        poses.read_vertices(vertices).astype(np.float64)[:, place.reshape(corners.shape)]
    )
    local = np.matmul(
        np.matmul(np.swapaxes(bone_rotation, 1, 2)[:, None], posed), np.linalg.inv(rest)
    )
    local[:, flat] = np.eye(3)
    flattened = (
        np.linalg.det(local) < 1e-9
    )  # squashed in this pose: its rotation is anyone's guess, take none
    rotation = polar_rotation(np.where(flattened[..., None, None], np.eye(3), local))
    stretch = np.matmul(np.swapaxes(rotation, -1, -2), local)
    return np.concatenate(
        [rotation_vector(rotation), stretch[..., _SHEAR[:, 0], _SHEAR[:, 1]]], axis=-1
    )


def _regress(
    features: np.ndarray, targets: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pick `count` bones per triangle and regress on their rotations: features (t,3B), targets
    (t,n,9) -> (n,count), (n,1+3 count,9) float32.

    Orthogonal matching pursuit in blocks of three features, from products alone.
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
    picked = np.zeros((triangles, 0), np.int64)  # places in the pool
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


def _anchors(mesh: Mesh, errors: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices to place rigidly, and their bones: the most rigid of each connected piece, and all
    that miss by less than `tolerance`.
    """
    bones = best_bone(errors)
    miss = np.sqrt(errors[np.arange(len(bones)), bones])
    piece = connected_components(adjacency_matrix(mesh.edges, len(bones)))
    order = np.argsort(miss, kind="stable")
    first_of_piece = order[np.unique(piece[order], return_index=True)[1]]
    anchors = np.union1d(first_of_piece, np.flatnonzero(miss <= tolerance))
    return anchors, bones[anchors]


def _edge_system(mesh: Mesh, anchors: np.ndarray) -> tuple[np.ndarray, sp.csr_matrix, SuperLU]:
    """The triangles' edges (3M,2), the transpose of their difference matrix (V,3M), and the factor
    of the normal matrix with the anchors.
    """
    ends = np.stack([mesh.triangles, np.roll(mesh.triangles, -1, axis=1)], axis=-1).reshape(-1, 2)
    row = np.repeat(np.arange(len(ends)), 2)
    sign = np.tile([-1.0, 1.0], len(ends))
    difference = sp.csr_matrix(
        (sign, (row, ends.reshape(-1))), shape=(len(ends), mesh.vertex_count)
    )
    held = sp.coo_matrix(
        (np.ones(len(anchors)), (anchors, anchors)), shape=(mesh.vertex_count, mesh.vertex_count)
    )
    normal = (difference.T @ difference + held).tocsc()
    return (
        ends,
        difference.T.tocsr(),
        splu(
            normal,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        ),
    )
