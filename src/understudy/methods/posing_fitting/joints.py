"""Axes and orders of rotation of joints, found from how their bones turn.

A rig turns a ball joint by three angles in some order. In that order the angles of random poses are
independent of each other, and helper bones that take a share of one angle follow it linearly. In
any other order the angles depend on each other. So the order is chosen with which the least motion
of each angle is predicted by the other two.

Letters: T poses, B bones.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from understudy.core.skeleton import Skeleton
from understudy.geometry.bone_motion import (
    ORDERS,
    Joints,
    angles_of,
    local_rotations,
)
from understudy.geometry.skinning import polar

_POSES = 300
_HALF_TURN = 2.6  # radians; bones that turn farther get a reference rotation
_HINGE = 0.97  # share of the motion about one axis that makes a bone a hinge
_OBLIQUE = 0.97  # cosine of the angle between a hinge and the bone's own axis
_STILL = 5e-4  # radians
_STRAIGHT = (2, 0, 1)  # the order for joints that do not tell theirs


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Return the rotation vectors (...,3) in radians of rotation matrices (...,3,3)."""
    flat = rotation.reshape(-1, 3, 3)
    if not len(flat):
        return np.zeros((*rotation.shape[:-2], 3))
    return Rotation.from_matrix(flat).as_rotvec().reshape(*rotation.shape[:-2], 3)


def find_joints(
    skeleton: Skeleton, parents: np.ndarray, world_from_bone: np.ndarray, pelvis: int
) -> Joints:
    """Return the joints of the bones in poses (T,B,3,4).

    parents  (B,) the bone that each follows
    pelvis   the bone whose axes are those of the world
    """
    count = skeleton.bone_count
    rest = skeleton.world_from_bone
    some = np.unique(np.linspace(0, len(world_from_bone) - 1, _POSES).astype(np.int64))
    local, _, _ = local_rotations(world_from_bone[some], rest, parents)
    axes, _ = polar(rest[..., :3])
    reference = np.tile(np.eye(3), (count, 1, 1))
    order = np.full(count, ORDERS.index(_STRAIGHT), np.int32)
    vectors = rotation_vector(local)
    axes[pelvis] = np.eye(3)
    for bone in np.flatnonzero(np.abs(vectors).max(axis=(0, 2)) > _STILL):
        turns = local[:, bone]
        if bone != pelvis and np.linalg.norm(vectors[:, bone], axis=1).max() > _HALF_TURN:
            reference[bone], _ = polar(turns.mean(axis=0))
            turns = reference[bone].T @ turns
        if bone != pelvis:
            axes[bone] = _axes(rotation_vector(turns), axes[bone])
        order[bone] = _order(axes[bone].T @ turns @ axes[bone])
    return Joints(rest, parents, axes, order, reference)


def _axes(vectors: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the axes (3,3) of a joint: those of the bone, unless it is a hinge across them.

    vectors  (T,3) rotation vectors
    own      (3,3) the axes of the bone at rest
    """
    _, sizes, principal = np.linalg.svd(vectors, full_matrices=False)
    hinge = principal[0]
    along = own.T @ hinge
    nearest = int(np.abs(along).argmax())
    if sizes[0] ** 2 < _HINGE * (sizes**2).sum() or abs(along[nearest]) > _OBLIQUE:
        return own
    # The nearest axis of the bone is turned onto the hinge, the others by the least rotation.
    hinge = hinge * np.sign(along[nearest])
    from_axis = own[:, nearest]
    cross = np.cross(from_axis, hinge)
    skew = np.array([[0, -cross[2], cross[1]], [cross[2], 0, -cross[0]], [-cross[1], cross[0], 0]])
    turn = np.eye(3) + skew + skew @ skew / (1 + from_axis @ hinge)
    return turn @ own


def _order(turns: np.ndarray) -> int:
    """Return the order, as an index, in which angles of rotations (T,3,3) depend least."""
    angles = np.stack([angles_of(turns, order) for order in ORDERS])  # (6,T,3)
    centred = angles - angles.mean(axis=1, keepdims=True)
    scaled = centred / np.maximum(np.abs(centred).max(axis=1, keepdims=True), 1e-9)
    dependent = np.zeros(len(ORDERS))
    for axis in range(3):
        others = np.delete(scaled, axis, axis=2)
        one, two = others[..., 0], others[..., 1]
        terms = np.stack([np.ones_like(one), one, two, one * one, one * two, two * two], axis=2)
        gram = np.swapaxes(terms, 1, 2) @ terms
        gram += 1e-6 * len(turns) * np.eye(6)
        right = np.swapaxes(terms, 1, 2) @ centred[..., axis, None]
        dependent += (right * np.linalg.solve(gram, right)).sum(axis=(1, 2))
    for number, order in enumerate(ORDERS):
        # Beyond a right angle of the middle axis, a pose may have two sets of angles.
        middle = np.abs(angles[number, :, order[1]])
        dependent[number] += float(np.maximum(middle - np.pi / 2, 0).sum())
    usual = ORDERS.index(_STRAIGHT)
    best = int(dependent.argmin())
    return best if dependent[best] < 0.98 * dependent[usual] - 1e-12 else usual
