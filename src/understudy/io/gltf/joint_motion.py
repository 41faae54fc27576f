"""Bones as glTF animates them: translation, rotation and scale in the frame of the parent.

Each bone is expressed in its parent as the file has it, rounded to 32 bits. A child so corrects the
rounding of its parents, and errors do not add up along a limb.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from understudy.core.character import CharacterClip
from understudy.geometry.transforms import compose, inverse
from understudy.io.trs import compose_trs, continuous, decompose, nearer
from understudy.system.errors import InputError

# How far, relative to its size, a transform may be from one without shear. Scales that are uneven
# by rounding alone, as in files of other programs, add up to a few 1e-5 along a chain.
SHEAR_TOLERANCE = 1e-4
# Changes below this are rounding: of the size of the mesh for translations, else of one.
STILL = 1e-6


class JointMotion(NamedTuple):
    """One bone in the frame of its parent; F is 1 for a channel that does not change.

    translation  (F,3) float32
    rotation     (F,4) float32, signs continuous
    scale        (F,3) float32
    """

    translation: np.ndarray
    rotation: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True)
class ShearError:
    """The worst bone that translation, rotation and scale cannot represent.

    amount  distance of its matrix from the nearest without shear, relative to its size
    """

    amount: float
    bone: int
    clip: str
    frame: int


def joint_motion(
    parents: np.ndarray, world_from_bone: np.ndarray, size: float, clip: str = ""
) -> tuple[list[JointMotion], ShearError | None]:
    """Return the motion of every bone in its parent's frame, and the worst shear beyond tolerance.

    parents          (B,)
    world_from_bone  (F,B,3,4), in glTF's coordinates
    size             of the mesh
    clip             name, for the error; "" for the rest pose
    """
    stored = np.empty(world_from_bone.shape)
    result: dict[int, JointMotion] = {}
    worst = None
    for bones in _levels(parents):
        above = parents[bones]
        local = world = world_from_bone[:, bones]
        is_root = above[0] < 0
        if not is_root:
            parent = stored[:, above]
            exact = _in_parent(world_from_bone[:, above], world)
            off = lambda local, above=parent, world=world: _difference(
                compose(above, compose_trs(*decompose(local))), world, size
            )
            local = nearer(_in_parent(parent, world), exact, off)
        translation, rotation, scale = decompose(local)
        for place, bone in enumerate(bones.tolist()):
            motion = JointMotion(
                _held(translation[:, place], STILL * size),
                _held(continuous(rotation[:, place]), STILL),
                _held(_near_one(scale[:, place]), STILL),
            )
            result[bone] = motion
            stored[:, bone] = compose_trs(*motion)
        if not is_root:
            stored[:, bones] = compose(parent, stored[:, bones])
        amount = _difference(stored[:, bones], world, size)
        if amount.max() > max(SHEAR_TOLERANCE, 0.0 if worst is None else worst.amount):
            frame, which = np.unravel_index(amount.argmax(), amount.shape)
            worst = ShearError(float(amount.max()), int(bones[which]), clip, int(frame))
    return [result[bone] for bone in range(len(parents))], worst


def rigid_rest(world_from_bone: np.ndarray) -> np.ndarray:
    """Return rest transforms (B,3,4) without scale and shear, at the same places."""
    u, _, vt = np.linalg.svd(world_from_bone[:, :, :3])
    u[..., 2] *= np.linalg.det(u @ vt)[:, None]
    return np.concatenate([u @ vt, world_from_bone[:, :, 3:]], axis=2)


def refuse_shear(error: ShearError, names: Sequence[str]) -> InputError:
    """Return the error that says by how much a bone fails."""
    where = f"in clip {error.clip!r}, frame {error.frame}" if error.clip else "in the rest pose"
    return InputError(
        f"bone {names[error.bone]!r} {where}: glTF stores translation, rotation and scale, but "
        f"this transform also shears: it is {100 * error.amount:.2g} % away from any without "
        "shear. Make the bones rigid first, as understudy.export does"
    )


def clip_world(clip: CharacterClip, old_rest: np.ndarray, new_rest: np.ndarray) -> np.ndarray:
    """Return world_from_bone (F,B,3,4) of a clip for other rest transforms (B,3,4)."""
    change = compose(inverse(old_rest), new_rest)
    return compose(clip.world_from_bone, change[None])


def _levels(parents: np.ndarray) -> list[np.ndarray]:
    """Return the bones by depth: roots, their children, and so on."""
    depth = np.zeros(len(parents), np.int64)
    for bone, parent in enumerate(parents.tolist()):
        depth[bone] = depth[parent] + 1 if parent >= 0 else 0
    return [np.flatnonzero(depth == level) for level in range(int(depth.max(initial=-1)) + 1)]


def _in_parent(parent: np.ndarray, world: np.ndarray) -> np.ndarray:
    """Return transforms (...,3,4) in the frame of a parent (...,3,4).

    A parent scaled to zero has no frame. What is in it collapses with it, whatever its transform.
    """
    sizes = np.linalg.svd(parent[..., :3], compute_uv=False)
    flat = (sizes[..., 2] < 1e-9 * np.maximum(sizes[..., 0], 1.0)) | (sizes[..., 0] < 1e-9)
    safe = parent.copy()
    safe[flat, :, :3] = np.eye(3)
    local = compose(inverse(safe), world)
    local[flat] = np.eye(3, 4)
    return local


def _held(values: np.ndarray, tolerance: float) -> np.ndarray:
    """Return values (F,n) as float32; one row if they do not change by more than `tolerance`."""
    if len(values) == 1 or np.ptp(values, axis=0).max() <= tolerance:
        values = values[:1]
    return (values + 0.0).astype(np.float32)


def _near_one(scale: np.ndarray) -> np.ndarray:
    """Return scales (F,3), exactly one where they are that up to rounding."""
    return np.ones_like(scale) if np.abs(scale - 1).max() <= STILL else scale


def _difference(stored: np.ndarray, wanted: np.ndarray, size: float) -> np.ndarray:
    """Return the relative difference (F,n) of transforms (F,n,3,4).

    It is that of the 3x3 part, or that of the place if it is greater.
    """
    norm = lambda matrices: np.linalg.norm(matrices[..., :3], axis=(-2, -1))
    linear = norm(stored - wanted) / np.maximum(norm(wanted), 1e-9)
    distance = np.linalg.norm(wanted[..., 3], axis=-1)
    shift = np.linalg.norm(stored[..., 3] - wanted[..., 3], axis=-1)
    return np.maximum(linear, shift / np.maximum(distance, size))
