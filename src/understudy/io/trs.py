"""Translation, rotation and scale: what glTF and USD store of a transform.

Quaternions are (x, y, z, w), as these formats write them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.geometry.skinning import polar, quaternion_from_rotation

# Quaternions must have length one. Some files round them to a few digits, and viewers use them as
# they are; so does this reader, up to this difference.
NEARLY_UNIT = 0.01
PATHS = ("translation", "rotation", "scale")


def rotation_of(quaternions: np.ndarray) -> np.ndarray:
    """Return rotation matrices (...,3,3) of unit quaternions (...,4).

    >>> rotation_of(np.array([0.0, 0.0, 0.0, 1.0])).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    x, y, z, w = np.moveaxis(np.asarray(quaternions, np.float64), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion_of(rotations: np.ndarray) -> np.ndarray:
    """Return unit quaternions (...,4) of rotation matrices (...,3,3)."""
    return quaternion_from_rotation(np.asarray(rotations, np.float64))[..., [1, 2, 3, 0]]


def compose_trs(translation: np.ndarray, quaternion: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return transforms (...,3,4) of translations (...,3), quaternions (...,4), scales (...,3).

    Each may be a single one for all.

    >>> compose_trs(np.zeros((5, 3)), np.array([[0, 0, 0, 1]]), np.ones((1, 3))).shape
    (5, 3, 4)
    """
    linear = rotation_of(quaternion) * np.asarray(scale, np.float64)[..., None, :]
    shift = np.asarray(translation, np.float64)[..., None]
    shape = np.broadcast_shapes(linear.shape[:-2], shift.shape[:-2])
    parts = [np.broadcast_to(part, (*shape, *part.shape[-2:])) for part in (linear, shift)]
    return np.concatenate(parts, axis=-1)


def decompose(transforms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return translations (...,3), quaternions (...,4) and scales (...,3) of (...,3,4).

    The scale is the length of each column; a mirrored transform has a negative scale along x.
    Where the columns are not orthogonal (shear), the rotation is the nearest one, and
    `compose_trs` does not give the transform back.
    """
    linear = transforms[..., :3]
    scale = np.linalg.norm(linear, axis=-2)
    largest = scale.max(axis=-1, keepdims=True)
    flat = scale <= 1e-9 * np.maximum(largest, 1e-300)
    safe = np.where(flat, 1.0, scale)
    # A column without length has no direction; the nearest rotation completes it from the others.
    directions = np.where(flat[..., None, :], 0.0, linear / safe[..., None, :])
    mirrored = np.linalg.det(linear) < 0
    directions[..., 0] *= np.where(mirrored, -1.0, 1.0)[..., None]
    scale = np.where(flat, 0.0, scale)
    scale[..., 0] *= np.where(mirrored, -1.0, 1.0)
    return transforms[..., 3].copy(), quaternion_of(polar(directions)[0]), scale


def nearer(
    corrected: np.ndarray, exact: np.ndarray, off: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return, frame by frame, the local transform (...,3,4) that ends nearer to where it should.

    corrected  in the parent as it is stored
    exact      in the parent before rounding: better where the parent is nearly flat, whose inverse
               turns its rounding into shear
    off        how far (...) local transforms end from there
    """
    return np.where((off(corrected) <= off(exact))[..., None, None], corrected, exact)


def continuous(quaternions: np.ndarray) -> np.ndarray:
    """Return quaternions (F,4) with signs such that each is near the one before it.

    >>> continuous(np.array([[0, 0, 0, 1.0], [0, 0, 0, -1.0]])).tolist()[1][3]
    1.0
    """
    dots = np.sum(quaternions[1:] * quaternions[:-1], axis=1)
    signs = np.cumprod(np.concatenate([[1.0], np.where(dots < 0, -1.0, 1.0)]))
    return quaternions * signs[:, None]
