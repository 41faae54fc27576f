"""The joints of bones, found from how they move: what each follows, and the axes it turns about.

Rigs often leave deforming bones without the parent that an animator sees: a foot hangs on the
target of its own IK, a forearm on a bone that does not deform. In the poses such a joint still
stays in one place relative to the bone it is attached to. So bones that their parents do not carry
are attached again, beginning at the pelvis: always the bone next that moves least relative to some
bone that is attached already.

A rig turns a ball joint by three angles in some order. In that order the angles of random poses are
independent of each other, and helper bones that take a share of one angle follow it linearly. In
any other order the angles depend on each other. So the order is chosen with which the least motion
of each angle is predicted by the other two.

Letters: T poses, B bones.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from understudy.core.poses import evenly
from understudy.core.skeleton import Skeleton
from understudy.geometry.bone_motion import (
    ORDERS,
    Joints,
    angles_of,
    local_rotations,
    parents_first,
    split_stretch,
)
from understudy.geometry.skinning import polar
from understudy.geometry.transforms import cross_matrix
from understudy.methods.posing_fitting.levers import upwards

_POSES = 300
_HALF_TURN = 2.6  # radians; bones that turn farther get a reference rotation
_HINGE = 0.97  # share of the motion about one axis that makes a bone a hinge
_OBLIQUE = 0.97  # cosine of the angle between a hinge and the bone's own axis
_STILL = 5e-4  # radians
_STRAIGHT = (2, 0, 1)  # the order for joints that do not tell theirs
_CARRIED_POSES = 120
_CARRIED = 0.004  # of the size: how far a joint may move relative to the bone that carries it
_BETTER = 0.3  # a new parent must reduce that motion to this share
_BONES = 128  # at a time
_TURN = 0.003  # of the size: what a radian of relative rotation counts beside that motion
_NEAR = 0.002  # the same for a distance of the size


def find_parents(skeleton: Skeleton, world_from_bone: np.ndarray, pelvis: int) -> np.ndarray:
    """Return the bone (B,) that each follows in poses (T,B,3,4), -1 for roots; in any order."""
    parents = skeleton.parents.astype(np.int64)
    some = evenly(len(world_from_bone), _CARRIED_POSES)
    place = world_from_bone[some, :, :, 3]
    rest = skeleton.world_from_bone
    turn, _ = split_stretch(world_from_bone[some, :, :, :3] @ np.linalg.inv(rest[..., :3]))
    size = float(np.ptp(rest[..., 3], axis=0).max()) or 1.0
    every = np.arange(len(parents))
    above = upwards(parents, pelvis)
    roots = (parents < 0) & (every != above[-1])
    place = place - place.mean(axis=(0, 1))
    own = np.sqrt(((place - place.mean(axis=0)) ** 2).sum(axis=2).mean(axis=0))  # of roots
    child = np.flatnonzero(parents >= 0)
    own[child] = _carried_motion(place[:, child], place[:, parents[child]], turn[:, parents[child]])
    loose = np.flatnonzero(((own > _CARRIED * size) | roots) & ~np.isin(every, above))
    if not loose.size:
        return parents
    cost = np.concatenate(
        [
            _costs(place, turn, loose[start : start + _BONES], rest[..., 3], size)
            for start in range(0, len(loose), _BONES)
        ]
    )
    least = np.where(roots[loose], _CARRIED * size, 0.0)
    most = np.maximum(_BETTER * own[loose], least)
    moved, extra = cost[:, 0], cost[:, 1]
    allowed = (moved <= most[:, None]) & (every != loose[:, None])
    return _attached(parents, pelvis, loose, np.where(allowed, moved + extra, np.inf))


def symmetric_parents(parents: np.ndarray, given: np.ndarray, twins: np.ndarray) -> np.ndarray:
    """Return parents (B,) in which both bones of a pair follow the two bones of a pair.

    given  (B,) the parents of the skeleton; bones that kept theirs are not changed
    twins  (B,) the bone of the other side

    Poses are mirrored bone by bone, so both sides need the same tree.
    """
    result = parents.copy()
    for bone in np.flatnonzero(twins > np.arange(len(twins))):
        other, parent = twins[bone], parents[bone]
        changed = parents[bone] != given[bone] or parents[other] != given[other]
        if changed and parent >= 0 and parent not in (bone, other):
            result[other] = twins[parent]
    return result if len(parents_first(result)) == len(result) else parents


def _carried_motion(place: np.ndarray, carrier: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Return how far bones move relative to carriers, (n,), root mean square.

    place, carrier, turn  (T,n,3) and (T,n,3,3): places of both, rotations of the carriers
    """
    local = np.einsum("tnji,tnj->tni", turn, place - carrier)
    return np.sqrt(((local - local.mean(axis=0)) ** 2).sum(axis=2).mean(axis=0))


def _costs(
    place: np.ndarray, turn: np.ndarray, bones: np.ndarray, rest: np.ndarray, size: float
) -> np.ndarray:
    """Return how far bones (n,) move relative to every bone, and what else counts, (n,2,B)."""
    poses, count = place.shape[:2]
    frames = np.moveaxis(turn, 1, 2).reshape(3 * poses, -1)  # (3T,3B): a column per axis
    points = np.moveaxis(place, 1, 2).reshape(3 * poses, -1)  # (3T,B)
    # |local - its mean|^2 = |away|^2 - |mean of local|^2, all of it as products of matrices.
    mean = (frames.T @ points[:, bones] / poses).reshape(count, 3, -1)
    itself = (frames.reshape(3 * poses, count, 3) * points[:, :, None]).sum(axis=0) / poses
    square = (points**2).sum(axis=0) / poses
    away = square[bones] + square[:, None] - 2 * points.T @ points[:, bones] / poses
    moved = np.sqrt(np.maximum(away - ((mean - itself[:, :, None]) ** 2).sum(axis=1), 0))
    # The mean of rotations is shorter, the more they differ.
    columns = (3 * bones[:, None] + np.arange(3)).ravel()
    relative = (frames.T @ frames[:, columns] / poses).reshape(count, 3, len(bones), 3)
    length = np.sqrt((relative**2).sum(axis=(1, 3)) / 3)
    turned = np.sqrt(np.maximum(2 - 2 * length, 0))
    distance = np.linalg.norm(rest[:, None] - rest[bones], axis=2)
    return np.stack([moved.T, (_TURN * size * turned + _NEAR * distance).T], axis=1)


def _attached(parents: np.ndarray, pelvis: int, loose: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return parents (B,) with loose bones (n,) attached, the cheapest of cost (n,B) first."""
    result = parents.copy()
    result[loose] = -2
    # What the pelvis and the bones above it carry, with all that follows, is attached.
    inside = np.zeros(len(parents), bool)
    inside[upwards(parents, pelvis)] = True
    children = [np.flatnonzero(result == b) for b in range(len(parents))]

    def take(bone: int) -> None:
        waiting = [bone]
        while waiting:
            b = waiting.pop()
            inside[b] = True
            waiting.extend(int(c) for c in children[b] if not inside[c])

    for bone in np.flatnonzero(inside):
        take(int(bone))
    below = np.ones(len(parents), int)  # bones that follow each, with itself
    for b in parents_first(parents)[::-1]:
        if parents[b] >= 0:
            below[parents[b]] += below[b]
    left = set(range(len(loose)))
    while left:
        rows = np.array(sorted(left))
        open_cost = np.where(inside, cost[rows], np.inf)
        row, parent = divmod(int(open_cost.argmin()), len(parents))
        if not np.isfinite(open_cost[row, parent]):
            # Nothing carries these. The largest stays with its parent; others may follow it.
            bones = loose[rows]
            ready = (parents[bones] < 0) | inside[parents[bones]]
            row = int(np.where(ready, below[bones], -1).argmax())
            parent = int(parents[bones[row]])
        child = int(loose[rows[row]])
        result[child] = parent
        take(child)
        left.remove(int(rows[row]))
    # A bone that stays may have been given to what it follows.
    if len(parents_first(result)) != len(result):
        return parents
    return result


def rotation_vector(rotation: np.ndarray) -> np.ndarray:
    """Return the rotation vectors (...,3) in radians of rotation matrices (...,3,3)."""
    flat = rotation.reshape(-1, 3, 3)
    if not len(flat):
        return np.zeros((*rotation.shape[:-2], 3))
    return Rotation.from_matrix(flat).as_rotvec().reshape(*rotation.shape[:-2], 3)


def find_joints(
    skeleton: Skeleton, parents: np.ndarray, world_from_bone: np.ndarray, pelvis: int
) -> Joints:
    """Return joints in poses (T,B,3,4) for parents (B,); the axes of `pelvis` are the world's."""
    count = skeleton.bone_count
    rest = skeleton.world_from_bone
    some = evenly(len(world_from_bone), _POSES)
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
    skew = cross_matrix(np.cross(from_axis, hinge))
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
