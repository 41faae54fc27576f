"""The motion of bones away from their rest pose: 12 numbers per bone, all zero at rest.

With A = X X0^-1 the linear part of a bone relative to its rest, the polar decomposition A = Q P
separates a rotation Q from a symmetric stretch P. Both are relative to the axes of the rest pose. A
joint has axes F of its own (columns x, y, z) and an order of rotation i, j, k:

    rotation  a (3)  Q = Q_parent C F R_i(a_i) R_j(a_j) R_k(a_k) F^T      angles in radians
    move      e (3)  t = t_parent + Q_parent (o + F e)                    o: the offset at rest
    stretch   p (6)  P = I + F [xx yy zz yz xz xy] F^T                    not inherited by children

C is a constant rotation, the `reference` of the joint: the identity, except for bones that turn
about half a turn away from their rest. A root has no parent: Q_parent = I, t_parent = 0.

Stretch that a child inherits appears as its own stretch and move, so every rig can be described.

Letters: T poses, B bones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.geometry.skinning import polar

CHANNELS = 12
_AXES = ("x", "y", "z")
CHANNEL_NAMES = (
    *(f"rotation {axis}" for axis in _AXES),
    *(f"move {axis}" for axis in _AXES),
    *(f"stretch {axis}" for axis in (*_AXES, "yz", "xz", "xy")),
)
ROTATION, MOVE, STRETCH = slice(0, 3), slice(3, 6), slice(6, 12)
ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
_ROW, _COLUMN = np.array([0, 1, 2, 1, 0, 0]), np.array([0, 1, 2, 2, 2, 1])
_MIDDLE = 1e-9  # cosine of the middle angle below which the outer two cannot be told apart


@dataclass(frozen=True, eq=False)
class Joints:
    """The joints of B bones.

    rest       (B,3,4) world_from_bone at rest
    parents    (B,), -1 for a root; in any order, without cycles
    axes       (B,3,3) rotations, F
    order      (B,) indices into ORDERS
    reference  (B,3,3) rotations, C
    """

    rest: np.ndarray
    parents: np.ndarray
    axes: np.ndarray
    order: np.ndarray
    reference: np.ndarray

    @cached_property
    def sequence(self) -> np.ndarray:
        """All bones, parents before children, (B,)."""
        return parents_first(self.parents)

    @property
    def offsets(self) -> np.ndarray:
        """Where each bone is at rest relative to its parent, (B,3), in the axes of the world."""
        place = self.rest[..., 3]
        return place - np.where((self.parents >= 0)[:, None], place[self.parents], 0.0)


def parents_first(parents: np.ndarray) -> np.ndarray:
    """Return the bones (B,) in an order in which each follows its parent.

    parents  (B,), -1 for a root. Bones on a cycle are not part of the result

    >>> parents_first(np.array([2, -1, 1])).tolist()
    [1, 2, 0]
    """
    children: list[list[int]] = [[] for _ in parents]
    result: list[int] = []
    for bone, parent in enumerate(parents.tolist()):
        (result if parent < 0 else children[parent]).append(bone)
    for bone in result:  # grows while it is read
        result.extend(children[bone])
    return np.array(result, dtype=np.int64)


def split_stretch(linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as `polar` for matrices (...,3,3) of which most are rotations, but faster.

    >>> q, p = split_stretch(np.diag([2.0, 1.0, 1.0]))
    >>> np.diag(p).round(6).tolist()
    [2.0, 1.0, 1.0]
    """
    flat = linear.reshape(-1, 3, 3)
    gram = np.einsum("nji,njk->nik", flat, flat)
    rigid = np.abs(gram - np.eye(3)).max(axis=(1, 2), initial=0) < 1e-9
    other = np.flatnonzero(~(rigid & (np.linalg.det(flat) > 0)))
    rotation, stretch = flat.copy(), np.broadcast_to(np.eye(3), flat.shape).copy()
    if other.size:
        rotation[other], stretch[other] = polar(flat[other])
    return rotation.reshape(linear.shape), stretch.reshape(linear.shape)


def angles_of(rotation: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Return angles (...,3) about x, y, z of R_i(a_i) R_j(a_j) R_k(a_k) (...,3,3), order i, j, k.

    Of two sets of angles the one nearer to zero: the middle angle may exceed a right angle.
    """
    i, j, k = order
    sign = 1.0 if (j - i) % 3 == 1 else -1.0
    r = rotation
    level = np.hypot(r[..., i, i], r[..., i, j])
    first = np.arctan2(-sign * r[..., j, k], r[..., k, k])
    middle = np.arctan2(sign * r[..., i, k], level)
    last = np.arctan2(-sign * r[..., i, j], r[..., i, i])
    # Without the middle angle's cosine only the sum of the outer angles is known.
    alone = np.arctan2(sign * r[..., k, j], r[..., j, j])
    locked = level < _MIDDLE
    first, last = np.where(locked, alone, first), np.where(locked, 0.0, last)
    turned = lambda a: a - np.copysign(np.pi, a)
    other = (turned(first), np.copysign(np.pi, middle) - middle, turned(last))
    angles, others = np.empty((*r.shape[:-2], 3)), np.empty((*r.shape[:-2], 3))
    for axis, one, two in zip(order, (first, middle, last), other):
        angles[..., axis], others[..., axis] = one, two
    nearer = (others**2).sum(axis=-1) < (angles**2).sum(axis=-1)
    return np.where(nearer[..., None], others, angles)


def rotation_of(angles: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Return R_i(a_i) R_j(a_j) R_k(a_k), (...,3,3), of angles (...,3) about x, y and z.

    >>> rotation_of(np.array([0, 0, np.pi / 2]), (0, 1, 2)).round(6)[0].tolist()
    [0.0, -1.0, 0.0]
    """
    result = _axis_rotation(angles[..., order[0]], order[0])
    for axis in order[1:]:
        result = result @ _axis_rotation(angles[..., axis], axis)
    return result


def local_rotations(
    world_from_bone: np.ndarray, rest: np.ndarray, parents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Q_parent^T Q (T,B,3,3), Q (T,B,3,3) and P (T,B,3,3) of bones (T,B,3,4)."""
    turn, stretch = split_stretch(world_from_bone[..., :3] @ np.linalg.inv(rest[..., :3]))
    child = np.flatnonzero(parents >= 0)
    local = turn.copy()
    local[:, child] = np.swapaxes(turn[:, parents[child]], 2, 3) @ turn[:, child]
    return local, turn, stretch


def motion_of_bones(world_from_bone: np.ndarray, joints: Joints) -> np.ndarray:
    """Return the motion (T,B,12) of bones (T,B,3,4)."""
    local, turn, stretch = local_rotations(world_from_bone, joints.rest, joints.parents)
    child = np.flatnonzero(joints.parents >= 0)
    above = joints.parents[child]
    place = world_from_bone[..., 3]
    offset = place.copy()
    offset[:, child] = np.einsum("tbji,tbj->tbi", turn[:, above], place[:, child] - place[:, above])
    return joint_motion(local, offset - joints.offsets, stretch, joints)


def joint_motion(
    local: np.ndarray, move: np.ndarray, stretch: np.ndarray, joints: Joints
) -> np.ndarray:
    """Return the motion (T,B,12) of rotations (T,B,3,3), moves (T,B,3) and stretches (T,B,3,3).

    All are in the axes of the rest pose: Q_parent^T Q, F e and P of the module's docstring.
    """
    axes = joints.axes
    motion = np.empty((*local.shape[:2], CHANNELS))
    turned = np.swapaxes(axes, 1, 2) @ np.swapaxes(joints.reference, 1, 2) @ local @ axes
    for number, order in enumerate(ORDERS):
        of = np.flatnonzero(joints.order == number)
        motion[:, of, ROTATION] = angles_of(turned[:, of], order)
    motion[..., MOVE] = np.einsum("bji,tbj->tbi", axes, move)
    within = np.swapaxes(axes, 1, 2) @ (stretch - np.eye(3)) @ axes
    motion[..., STRETCH] = within[..., _ROW, _COLUMN]
    return motion


def joint_transforms(
    motion: np.ndarray, joints: Joints
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arguments of `joint_motion` for a motion (T,B,12)."""
    axes = joints.axes
    local = np.empty((*motion.shape[:2], 3, 3))
    for number, order in enumerate(ORDERS):
        of = np.flatnonzero(joints.order == number)
        local[:, of] = rotation_of(motion[:, of, ROTATION], order)
    local = joints.reference @ axes @ local @ np.swapaxes(axes, 1, 2)
    stretch = np.zeros_like(local)
    stretch[..., _ROW, _COLUMN] = stretch[..., _COLUMN, _ROW] = motion[..., STRETCH]
    stretch = np.eye(3) + axes @ stretch @ np.swapaxes(axes, 1, 2)
    return local, np.einsum("bij,tbj->tbi", axes, motion[..., MOVE]), stretch


def bones_of_motion(motion: np.ndarray, joints: Joints) -> np.ndarray:
    """Return world_from_bone (T,B,3,4) of a motion (T,B,12)."""
    turn, move, stretch = joint_transforms(motion, joints)
    place = joints.offsets + move
    for b in joints.sequence:
        p = joints.parents[b]
        if p >= 0:
            turn[:, b] = turn[:, p] @ turn[:, b]
            place[:, b] = place[:, p] + np.einsum("tij,tj->ti", turn[:, p], place[:, b])
    linear = turn @ stretch @ joints.rest[..., :3]
    return np.concatenate([linear, place[..., None]], axis=-1)


def mirrored_motion(
    motion: np.ndarray, joints: Joints, mirror: np.ndarray, axis: int
) -> np.ndarray:
    """Return the motion (T,B,12) of the other side, across the plane at right angles to `axis`.

    mirror  (B,) the bone whose motion each bone receives; that of a root is relative to its rest
    """
    flip = np.ones(3)
    flip[axis] = -1.0
    local, move, stretch = (array[:, mirror] for array in joint_transforms(motion, joints))
    both = flip[:, None] * flip
    return joint_motion(local * both, move * flip, stretch * both, joints)


def _axis_rotation(angle: np.ndarray, axis: int) -> np.ndarray:
    """Return rotations (...,3,3) about one coordinate axis."""
    result = np.zeros((*np.shape(angle), 3, 3))
    j, k = (axis + 1) % 3, (axis + 2) % 3
    cosine, sine = np.cos(angle), np.sin(angle)
    result[..., axis, axis] = 1.0
    result[..., j, j] = result[..., k, k] = cosine
    result[..., k, j], result[..., j, k] = sine, -sine
    return result
