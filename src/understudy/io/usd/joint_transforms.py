"""Bone matrices as UsdSkel stores them: translation, rotation and scale in the parent's frame.

    parent_from_bone = T R S

A `SkelAnimation` holds translations and rotations as 32-bit numbers and scales as 16-bit numbers,
which round by up to 5e-4 of the scale. Where that is too coarse, a scale joint is put between a
joint and its parent, and the scale is stored as a product of two 16-bit numbers per axis:

    parent_from_bone = (T R S1) S2      S1 near S, S2 near one

The pairs of such numbers are dense enough for an error of about 2e-6. Each joint is stored relative
to its parent as it was rounded, so errors do not add up along a chain. Shear cannot be stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from understudy.core.character import Character
from understudy.core.poses import distinct_names
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.transforms import apply, bounded_inverse, compose, inverse
from understudy.io.trs import compose_trs, continuous, nearer, quaternion_of
from understudy.system.errors import InputError

SCALE_JOINTS = "understudy:scaleJoints"
# Largest displacement by shear that is written, as a fraction of the character's size.
_TOLERANCE = 1e-3
# A scale that 16 bits hold within this fraction of it needs no scale joint.
_PRECISION = 1e-5
# What S2 can be: near enough to one for players to interpolate S1 and S2 apart.
_FACTORS = np.unique(np.linspace(0.95, 1.05, 1000).astype(np.float16)).astype(np.float64)
# How much a squared distance of S2 from one counts against an error, so that most are near one.
_NEARNESS = 0.002


class JointAnimation(NamedTuple):
    """The joints of a clip.

    translations  (F,J,3) float32
    rotations     (F,J,4) float32, quaternions x y z w; neighbouring frames have the same sign
    scales        (F,J,3) float16
    world         (F,J,3,4) float64, the matrices that these numbers give
    """

    translations: np.ndarray
    rotations: np.ndarray
    scales: np.ndarray
    world: np.ndarray


def with_scale_joints(character: Character) -> tuple[Character, np.ndarray]:
    """Return a character with a scale joint above each joint whose scale 16 bits do not hold.

    A scale joint moves as the joint below it, which comes next. Also returned is which joints are
    scale joints, (J,) bool.
    """
    skeleton, skin = character.skeleton, character.skin
    if skeleton is None or skin is None:
        return character, np.zeros(0, bool)
    split = np.zeros(skeleton.bone_count, bool)
    for clip in character.clips:
        split |= _coarse(clip.world_from_bone, skeleton.parents)
    if not split.any():
        return character, split
    bone = np.repeat(np.arange(skeleton.bone_count), 1 + split)  # (J,) that each joint moves as
    joint = np.arange(skeleton.bone_count) + np.cumsum(split)  # (B,)
    is_scale = np.ones(len(bone), bool)
    is_scale[joint] = False
    above = np.where(skeleton.parents < 0, -1, joint[skeleton.parents])
    parents = above[bone]
    parents[joint[split]] = joint[split] - 1
    names = distinct_names(
        [*skeleton.names, *(f"{skeleton.names[k]}_scale" for k in np.flatnonzero(split))]
    )
    ordered = np.empty(len(bone), object)
    ordered[joint] = names[: skeleton.bone_count]
    ordered[is_scale] = names[skeleton.bone_count :]
    made = replace(
        character,
        skeleton=Skeleton(tuple(ordered.tolist()), parents, skeleton.world_from_bone[bone]),
        skin=Skin(joint[skin.bone_index], skin.weight, skin.blend),
        clips=tuple(
            replace(clip, world_from_bone=clip.world_from_bone[:, bone]) for clip in character.clips
        ),
    )
    return made, is_scale


def joint_animation(
    world_from_bone: np.ndarray, parents: np.ndarray, is_scale: np.ndarray
) -> JointAnimation:
    """Return bone matrices as translations, rotations and scales.

    world_from_bone  (F,J,3,4)
    parents          (J,)
    is_scale         (J,) bool, which joints `with_scale_joints` has added
    """
    frames, joints = world_from_bone.shape[:2]
    translations = np.empty((frames, joints, 3), np.float32)
    rotations = np.empty((frames, joints, 4), np.float32)
    scales = np.empty((frames, joints, 3), np.float16)
    world = np.empty((frames, joints, 3, 4))
    factors = np.ones((frames, 3), np.float16)
    for joint, parent in enumerate(parents.tolist()):
        if joint and is_scale[joint - 1]:
            translation, rotation, _ = _stored(np.tile(np.eye(3, 4), (frames, 1, 1)))
            scale = factors
        else:
            local = world_from_bone[:, joint]
            if parent >= 0:
                corrected = compose(bounded_inverse(world[:, parent]), local)
                exact = compose(_inverse(world_from_bone[:, parent]), local)
                off = lambda own, above=world[:, parent], wanted=local: np.linalg.norm(
                    compose(above, _matrix(*_stored(own))) - wanted, axis=(-2, -1)
                )
                local = nearer(corrected, exact, off)
            translation, rotation, scale = _stored(local)
            if is_scale[joint]:
                scale, factors = _product(_rotation_and_scale(local[..., :3])[1])
        translations[:, joint], scales[:, joint] = translation, scale
        rotations[:, joint] = continuous(rotation)
        placed = _matrix(translation, rotation, scale)
        world[:, joint] = compose(world[:, parent], placed) if parent >= 0 else placed
    return JointAnimation(translations, rotations, scales, world)


def local_matrices(world_from_bone: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Return transforms (J,3,4) in the frames of the parents, (J,4,4)."""
    square = affine(world_from_bone)
    local = np.linalg.inv(square)[parents] @ square
    return np.where((parents < 0)[:, None, None], square, local)


def affine(matrices: np.ndarray) -> np.ndarray:
    """Return transforms (n,3,4) as (n,4,4)."""
    last = np.broadcast_to([0.0, 0, 0, 1], (len(matrices), 1, 4))
    return np.concatenate([matrices, last], axis=1)


def check_shear(character: Character, name: str, world: np.ndarray, stored: np.ndarray) -> None:
    """Raise if storing bones without shear moves a vertex far.

    name    of the clip
    world   (F,B,3,4) as they should be
    stored  (F,B,3,4) as they were rounded
    """
    skeleton, skin = character.skeleton, character.skin
    assert skeleton is not None  # the caller writes joints
    assert skin is not None
    vertices = character.mesh.vertices.astype(np.float64)
    low = np.full((skeleton.bone_count, 3), np.inf)
    high = -low
    for column in range(skin.influences):
        used = skin.weight[:, column] != 0
        np.minimum.at(low, skin.bone_index[used, column], vertices[used])
        np.maximum.at(high, skin.bone_index[used, column], vertices[used])
    bones = np.flatnonzero(np.isfinite(low[:, 0]))
    # The error of an affine map over a box is largest at one of its corners.
    pick = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, 8).T.astype(bool)
    corners = np.where(pick, high[bones, None], low[bones, None])  # (b,8,3)
    error = compose((stored - world)[:, bones], skeleton.bone_from_world[bones])
    # compose treats the difference as a transform, which is right: both map from the same frame.
    moved = np.linalg.norm(apply(error[:, :, None], corners), axis=-1)
    size = float(np.linalg.norm(np.ptp(vertices, axis=0))) or 1.0
    if moved.size and moved.max() > _TOLERANCE * size:
        frame, bone, _ = np.unravel_index(int(moved.argmax()), moved.shape)
        raise InputError(
            f"clip {name!r}: bone {skeleton.names[bones[bone]]!r} shears in frame {frame}; USD "
            f"joints hold translation, rotation and scale, which moves vertices by up to "
            f"{moved.max() / size:.2%} of the size. Refit the bones as rotations, or split them "
            "into pairs of joints, first (understudy.export)"
        )


def _coarse(world_from_bone: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Return which bones (F,B,3,4) have scales in their parents' frames that 16 bits round."""
    result = np.zeros(len(parents), bool)
    for bone, parent in enumerate(parents.tolist()):
        local = world_from_bone[:, bone]
        if parent >= 0:
            local = compose(_inverse(world_from_bone[:, parent]), local)
        scale = _rotation_and_scale(local[..., :3])[1]
        error = np.abs(_half(scale) - scale)
        result[bone] = (error > _PRECISION * np.abs(scale).max(axis=1, keepdims=True)).any()
    return result


def _product(scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two float16 arrays (F,3) whose product is nearest to `scale`; the second is near 1."""
    first = _half(scale[:, None] / _FACTORS[:, None])  # (F,n,3)
    error = np.abs(first * _FACTORS[:, None] - scale[:, None])
    error /= np.maximum(np.abs(scale), 1e-30)[:, None]
    best = (error + _NEARNESS * (_FACTORS[:, None] - 1) ** 2).argmin(axis=1)  # (F,3)
    chosen = np.take_along_axis(first, best[:, None], axis=1)[:, 0]
    return chosen.astype(np.float16), _FACTORS[best].astype(np.float16)


def _half(values: np.ndarray) -> np.ndarray:
    """Return numbers rounded to 16 bits, as float64."""
    limit = np.finfo(np.float16).max
    return np.clip(values, -limit, limit).astype(np.float16).astype(np.float64)


def _inverse(transforms: np.ndarray) -> np.ndarray:
    """Return the inverse of transforms (F,3,4), bounded for those that have none."""
    linear = transforms[..., :3]
    size = np.linalg.norm(linear, axis=(-2, -1))
    flat = np.abs(np.linalg.det(linear)) < 1e-10 * np.maximum(size, 1e-12) ** 3
    safe = np.where(flat[:, None, None], np.eye(3, 4), transforms)
    return np.where(flat[:, None, None], bounded_inverse(transforms), inverse(safe))


def _stored(local: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return translations (F,3), quaternions (F,4) x y z w and scales (F,3) as USD rounds them."""
    rotation, scale = _rotation_and_scale(local[..., :3])
    quaternion = quaternion_of(rotation).astype(np.float32)
    return local[..., 3].astype(np.float32), quaternion, _half(scale).astype(np.float16)


def _matrix(translation: np.ndarray, rotation: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the matrices (F,3,4) of what `_stored` returns."""
    rotation = rotation.astype(np.float64)
    rotation /= np.linalg.norm(rotation, axis=-1, keepdims=True)
    return compose_trs(translation, rotation, scale)


def _rotation_and_scale(linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rotations (F,3,3) and scales (F,3) whose product R S is nearest to `linear`."""
    scale = np.linalg.norm(linear, axis=1)
    rotation = linear
    for _ in range(3):  # one step is exact without shear
        safe = np.where(np.abs(scale) > 1e-12, scale, 1.0)
        u, _, vt = np.linalg.svd(linear / safe[:, None])
        rotation = u @ vt
        mirrored = np.linalg.det(rotation) < 0
        rotation[mirrored] *= -1
        scale = np.einsum("fij,fij->fj", rotation, linear)
    return rotation, scale
