"""Joints that a translation, rotation and scale describe: what files of engines store.

A bone in the frame of its parent is L = parent^-1 X. It is a translation, rotation and scale
exactly if the columns of the 3x3 part of L are orthogonal. That fails in two cases:

- The parent is scaled more along one axis than along another. The bone is then given to the nearest
  ancestor under which it has no shear, else to the root.
- The bone itself is sheared, as affine bones are. It becomes a pair of joints, by the singular
  value decomposition X = U S V^T: a joint with the rotation U and the scale S, and below it a joint
  with the rotation V^T. The pair is exact.

`rigid` joints drop scale and shear instead; what that changes is left to the blend shapes.

Letters: F frames, B bones, J joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from understudy.core.poses import distinct_names
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import polar
from understudy.geometry.transforms import compose, inverse

_SHEAR = 1e-5  # cosine between two axes of a joint up to which they count as orthogonal
_FLAT = 1e-6  # smallest scale of a parent, as a fraction of its largest
ROOT, STRETCH = "root", "_stretch"


@dataclass(frozen=True, eq=False)
class Joints:
    """The joints that stand for the bones of a skeleton.

    skeleton         J joints, with one root
    bone_joint       (B,) the joint that moves as each bone does
    world_from_bone  one (F,J,3,4) per clip
    pairs            how many bones became a pair of joints
    moved            how many bones have another parent than in the original skeleton
    """

    skeleton: Skeleton
    bone_joint: np.ndarray
    world_from_bone: tuple[np.ndarray, ...]
    pairs: int
    moved: int

    def skin(self, skin: Skin) -> Skin:
        """Return a skin of the bones as a skin of the joints."""
        return Skin(self.bone_joint[skin.bone_index], skin.weight, skin.blend)

    def moved_by(self, world_from_bone: np.ndarray) -> np.ndarray:
        """Return joints (F,J,3,4) for bones (F,B,3,4); those that move no vertex stay at rest."""
        result = np.tile(self.skeleton.world_from_bone, (len(world_from_bone), 1, 1, 1))
        result[:, self.bone_joint] = world_from_bone
        return result


def make_joints(
    skeleton: Skeleton, clips: Sequence[np.ndarray], others: np.ndarray | None = None
) -> Joints:
    """Return joints that follow the bones of `skeleton` exactly.

    clips   one (F,B,3,4) per clip, the bones in its frames
    others  (n,B,3,4) further poses that the joints must be able to take, or None
    """
    frames = [skeleton.world_from_bone[None], *clips, *([] if others is None else [others])]
    bones = np.concatenate(frames)
    names: list[str] = []
    parents: list[int] = []
    motion: list[np.ndarray] = []  # (frames,3,4) of each joint
    joint = np.zeros(skeleton.bone_count, np.int32)
    pairs = moved = 0

    def add(name: str, parent: int, transforms: np.ndarray) -> int:
        names.append(name)
        parents.append(parent)
        motion.append(transforms)
        return len(names) - 1

    def parent_of(bone: int, transforms: np.ndarray) -> int:
        """Return the joint of the nearest ancestor under which `transforms` have no shear."""
        above = skeleton.parents[bone]
        while above >= 0:
            candidate = motion[joint[above]]
            if _invertible(candidate) and _unsheared(compose(inverse(candidate), transforms)):
                return int(joint[above])
            above = skeleton.parents[above]
        return -1

    lengths = [len(frame) for frame in frames]
    for bone, name in enumerate(skeleton.names):
        transforms = bones[:, bone]
        found = parent_of(bone, transforms)
        if found < 0 and not _unsheared(transforms):
            stretched = _stretch(transforms, lengths)
            found = add(
                _unused(name + STRETCH, skeleton.names), parent_of(bone, stretched), stretched
            )
            pairs += 1
        elif skeleton.parents[bone] >= 0 and found != joint[skeleton.parents[bone]]:
            moved += 1
        joint[bone] = add(name, found, transforms)
    world = np.stack(motion, axis=1)
    above = np.array(parents)
    if (above < 0).sum() > 1:
        world = np.concatenate([np.tile(np.eye(3, 4), (len(bones), 1, 1, 1)), world], axis=1)
        names.insert(0, _unused(ROOT, names))
        above = np.concatenate([[-1], above + 1])
        joint = joint + 1
    cuts = np.cumsum(lengths)
    parts = np.split(world, cuts[:-1])
    return Joints(
        Skeleton(tuple(distinct_names(names)), above, world[0]),
        joint,
        tuple(np.ascontiguousarray(part) for part in parts[1 : 1 + len(clips)]),
        pairs,
        moved,
    )


def rigid(world_from_bone: np.ndarray) -> np.ndarray:
    """Return transforms (...,3,4) with their nearest rotations, and the same origins."""
    rotation, _ = polar(world_from_bone[..., :3])
    return np.concatenate([rotation, world_from_bone[..., 3:]], axis=-1)


def _unused(name: str, taken: Sequence[str]) -> str:
    """Return `name`, with underscores appended until no other joint has it."""
    while name in taken:
        name += "_"
    return name


def _unsheared(transforms: np.ndarray) -> bool:
    """Return whether the axes of all transforms (n,3,4) are orthogonal."""
    linear = transforms[..., :3]
    gram = np.swapaxes(linear, -1, -2) @ linear
    length = np.sqrt(np.einsum("...ii->...i", gram))
    # An axis far shorter than the others has no direction that matters.
    length = np.maximum(length, 1e-9 * length.max(axis=-1, keepdims=True) + 1e-300)
    cosine = gram / (length[..., :, None] * length[..., None, :])
    return bool(np.abs(cosine[..., [0, 0, 1], [1, 2, 2]]).max(initial=0.0) < _SHEAR)


def _invertible(transforms: np.ndarray) -> bool:
    """Return whether no transform (n,3,4) is scaled nearly flat."""
    sigma = np.linalg.svd(transforms[..., :3], compute_uv=False)
    return bool((sigma[..., 2] > _FLAT * sigma[..., 0]).all())


def _stretch(transforms: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return the upper joint of a pair: rotation U, scale S and the origin of each transform.

    transforms  (n,3,4), clip after clip
    lengths     frames of each clip

    The singular values of a frame have no order of their own, and their axes no sign. They are
    taken as those of the frame before, so that engines can interpolate between frames.
    """
    u, sigma, vt = np.linalg.svd(transforms[..., :3])
    # U and V become rotations; a reflection stays in the scale.
    flip_u = np.where(np.linalg.det(u) < 0, -1.0, 1.0)
    flip_v = np.where(np.linalg.det(vt) < 0, -1.0, 1.0)
    u[:, :, 2] *= flip_u[:, None]
    vt[:, 2, :] *= flip_v[:, None]
    sigma[:, 2] *= flip_u * flip_v
    turns = _axis_turns()
    before = np.eye(3)
    starts = set(np.cumsum([0, *lengths])[:-1].tolist())
    for frame in range(len(u)):
        if frame in starts:
            before = np.eye(3) if frame == 0 else vt[0].T
        # U S V^T = (U P) (P^T S P) (V P)^T for every turn P of the axes.
        likeness = np.einsum("ij,kjl,il->k", vt[frame].T, turns, before)
        best = turns[int(likeness.argmax())]
        u[frame] = u[frame] @ best
        vt[frame] = best.T @ vt[frame]
        sigma[frame] = np.abs(best.T) @ sigma[frame]
        before = vt[frame].T
    return np.concatenate([u * sigma[:, None, :], transforms[..., 3:]], axis=-1)


def _axis_turns() -> np.ndarray:
    """Return the 24 rotations that map coordinate axes to coordinate axes, (24,3,3)."""
    found = []
    for order in permutations(range(3)):
        for signs in product((1.0, -1.0), repeat=3):
            turn = np.zeros((3, 3))
            turn[order, range(3)] = signs
            if np.linalg.det(turn) > 0:
                found.append(turn)
    return np.array(found)
