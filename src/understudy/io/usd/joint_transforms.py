"""Bone matrices as UsdSkel stores them: translation, rotation and scale in the parent's frame.

    parent_from_bone = T R S

A `SkelAnimation` holds translations and rotations as 32-bit numbers and scales as 16-bit numbers,
which round by at most 2.5e-4 of the scale. Each bone is stored relative to its parent as it was
rounded, so errors do not add up along a chain. The attribute `SCALES` keeps the 32-bit scales for
our own reader. Shear cannot be stored.

A joint that moves no vertex itself, as the upper one of the pair that stands for an affine bone,
may be larger by a uniform factor if its children are smaller by it. Of the factors near one that
16 bits hold, the one is taken for which the three scales round best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.core.character import Character
from understudy.core.errors import InputError
from understudy.geometry.skinning import quaternion_from_rotation
from understudy.geometry.transforms import apply, bounded_inverse, compose, inverse

SCALES = "understudy:scales"
# Largest displacement by shear that is written, as a fraction of the character's size.
_TOLERANCE = 1e-3
# Uniform factors between a joint and its children: near enough to one for engines to interpolate
# the two apart.
_FACTORS = np.unique(np.linspace(0.98, 1.02, 400).astype(np.float16)).astype(np.float64)


class JointAnimation(NamedTuple):
    """The joints of a clip.

    translations  (F,B,3) float32
    rotations     (F,B,4) float32, quaternions x y z w; neighbouring frames have the same sign
    scales        (F,B,3) float16
    exact_scales  (F,B,3) float32, before they were rounded
    world         (F,B,3,4) float64, the matrices that these numbers give
    """

    translations: np.ndarray
    rotations: np.ndarray
    scales: np.ndarray
    exact_scales: np.ndarray
    world: np.ndarray


def joint_animation(
    world_from_bone: np.ndarray, parents: np.ndarray, free: np.ndarray | None = None
) -> JointAnimation:
    """Return bone matrices as translations, rotations and scales.

    world_from_bone  (F,B,3,4)
    parents          (B,)
    free             (B,) bool, joints whose size does not matter because only their children move
                     vertices; None: no joint
    """
    frames, bones = world_from_bone.shape[:2]
    translations = np.empty((frames, bones, 3), np.float32)
    rotations = np.empty((frames, bones, 4), np.float32)
    scales = np.empty((frames, bones, 3), np.float16)
    exact_scales = np.empty((frames, bones, 3), np.float32)
    world = np.empty((frames, bones, 3, 4))
    meant = world_from_bone.copy()  # before rounding, with the factors of free joints
    for bone, parent in enumerate(parents.tolist()):
        local = world_from_bone[:, bone]
        if parent >= 0:
            corrected = compose(bounded_inverse(world[:, parent]), local)
            exact = compose(_inverse(meant[:, parent]), local)
            local = _nearer(corrected, exact, world[:, parent], local)
        if free is not None and free[bone]:
            factor = _best_factor(_rotation_and_scale(local[..., :3])[1])[:, None, None]
            local = np.concatenate([local[..., :3] / factor, local[..., 3:]], axis=2)
            meant[:, bone, :, :3] /= factor
        translation, rotation, scale = _stored(local)
        translations[:, bone], scales[:, bone] = translation, scale
        exact_scales[:, bone] = _rotation_and_scale(local[..., :3])[1]
        rotations[:, bone] = _continuous(rotation)
        placed = _matrix(translation, rotation, scale)
        world[:, bone] = compose(world[:, parent], placed) if parent >= 0 else placed
    return JointAnimation(translations, rotations, scales, exact_scales, world)


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


def free_joints(character: Character) -> np.ndarray:
    """Return which joints move no vertex and have children, (B,) bool."""
    skeleton, skin = character.skeleton, character.skin
    assert skeleton is not None  # the caller writes joints
    assert skin is not None
    free = np.zeros(skeleton.bone_count, bool)
    free[skeleton.parents[skeleton.parents >= 0]] = True
    free[skin.bone_index[skin.weight != 0]] = False
    return free


def _best_factor(scale: np.ndarray) -> np.ndarray:
    """Return the factor (F,) of `_FACTORS` by which scales (F,3) are divided to round best.

    Scales that 16 bits hold as they are, such as one, stay.
    """
    divided = scale[:, None] / _FACTORS[:, None]  # (F,n,3)
    error = np.abs(divided.astype(np.float16) - divided).max(axis=2) / np.abs(scale).max(
        axis=1, keepdims=True, initial=1e-30
    )
    exact = np.flatnonzero(_FACTORS == 1.0)[0]
    return _FACTORS[np.where(error[:, exact] < 1e-7, exact, error.argmin(axis=1))]


def _nearer(
    corrected: np.ndarray, exact: np.ndarray, parent: np.ndarray, wanted: np.ndarray
) -> np.ndarray:
    """Return, frame by frame, the local transform that ends nearer to `wanted`, all (F,3,4).

    corrected  in the parent as it was rounded
    exact      in the parent before rounding: better where the parent is nearly flat, whose inverse
               turns its rounding into shear
    """
    ends = [
        np.linalg.norm(compose(parent, _matrix(*_stored(local))) - wanted, axis=(-2, -1))
        for local in (corrected, exact)
    ]
    return np.where((ends[0] <= ends[1])[:, None, None], corrected, exact)


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
    limit = np.finfo(np.float16).max
    quaternion = quaternion_from_rotation(rotation)[:, [1, 2, 3, 0]].astype(np.float32)
    rounded = np.clip(scale, -limit, limit).astype(np.float16)
    return local[..., 3].astype(np.float32), quaternion, rounded


def _matrix(translation: np.ndarray, rotation: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the matrices (F,3,4) of what `_stored` returns."""
    linear = _rotation_matrix(rotation) * scale[:, None].astype(np.float64)
    return np.concatenate([linear, translation[..., None].astype(np.float64)], axis=2)


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


def _rotation_matrix(quaternion: np.ndarray) -> np.ndarray:
    """Return the matrices (F,3,3) of quaternions (F,4) x y z w, which need not be normalised."""
    q = quaternion.astype(np.float64)
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    x, y, z, w = np.moveaxis(q, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _continuous(quaternions: np.ndarray) -> np.ndarray:
    """Return quaternions (F,4) with signs that make neighbours close, so that players interpolate
    along the short way.
    """
    turns = np.einsum("fi,fi->f", quaternions[1:], quaternions[:-1]) < 0
    sign = np.concatenate([[1.0], np.where(np.cumsum(turns) % 2, -1.0, 1.0)])
    return quaternions * sign[:, None]
