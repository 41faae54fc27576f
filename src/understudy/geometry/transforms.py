"""Affine transforms as (...,3,4) arrays, named by direction: `world_from_bone @ bone_from_rest`.

All functions broadcast over leading axes and keep the input's dtype. Nothing here assumes
rotations: bones of film rigs scale and shear.
"""

from __future__ import annotations

import numpy as np

# Below this ratio of its largest axis a transform's smallest axis is treated as this ratio.
_FLATTEST = 1e-3


def compose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The transform that applies `b` first, then `a`: (...,3,4) x (...,3,4) -> (...,3,4).

    >>> move = np.hstack([np.eye(3), [[1], [0], [0]]])
    >>> compose(move, move)[:, 3].tolist()
    [2.0, 0.0, 0.0]
    """
    linear = a[..., :3] @ b[..., :3]
    shift = a[..., :3] @ b[..., 3:] + a[..., 3:]
    return np.concatenate([linear, shift], axis=-1)


def inverse(a: np.ndarray) -> np.ndarray:
    """The inverse of (...,3,4) affine transforms, by the adjugate: exact for scale and shear,
    vectorised.
    """
    m = a[..., :3]
    rows = np.stack(
        [
            np.cross(m[..., 1, :], m[..., 2, :]),
            np.cross(m[..., 2, :], m[..., 0, :]),
            np.cross(m[..., 0, :], m[..., 1, :]),
        ],
        axis=-1,
    )
    det = np.sum(m[..., 0, :] * rows[..., :, 0], axis=-1)
    linear = rows / det[..., None, None]
    return np.concatenate([linear, -linear @ a[..., 3:]], axis=-1)


def bounded_inverse(transforms: np.ndarray) -> np.ndarray:
    """The inverse of (...,3,4) transforms; nearly singular ones are inverted with their small
    singular values raised.
    """
    linear = transforms[..., :3]
    scale = np.linalg.norm(linear, axis=(-2, -1))
    risky = np.abs(np.linalg.det(linear)) < 10 * _FLATTEST * np.maximum(scale, 1e-12) ** 3
    if risky.any():
        u, sigma, vt = np.linalg.svd(linear[risky])
        sigma = np.maximum(sigma, _FLATTEST * np.maximum(sigma[..., :1], 1e-12))
        transforms = transforms.copy()
        transforms[risky, :, :3] = u @ (sigma[..., None] * vt)
    return inverse(transforms)


def apply(a: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Transforms (...,3,4) applied to points (...,3)."""
    return np.einsum("...ij,...j->...i", a[..., :3], points) + a[..., 3]


def parent_from_bone(world_from_bone: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Each bone in its parent's frame: (...,B,3,4) -> (...,B,3,4); a root keeps its world transform
    (FDDA section 3.2).

    The linear part is X_p^-1 X_j and the translation X_p^-1 (t_j - t_p), with the full inverse of
    X_p, so scale and shear are borne. A parent scaled to nothing (a common way to hide a part) has
    no inverse; the bounded one keeps every number finite.
    """
    parents = np.asarray(parents)
    child = np.flatnonzero(parents >= 0)
    result = world_from_bone.copy()
    result[..., child, :, :] = compose(
        bounded_inverse(world_from_bone[..., parents[child], :, :]),
        world_from_bone[..., child, :, :],
    )
    return result


def rotation_from_axis_angle(axis_angle: np.ndarray) -> np.ndarray:
    """Rotation matrices (...,3,3) from rotation vectors (...,3) in radians (Rodrigues), exact at
    zero.
    """
    angle = np.linalg.norm(axis_angle, axis=-1, keepdims=True)[..., None]
    x, y, z = np.moveaxis(np.asarray(axis_angle), -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*x.shape, 3, 3)
    sine = np.sinc(angle / np.pi)
    cosine = 0.5 * np.sinc(angle / (2 * np.pi)) ** 2
    return np.eye(3) + sine * cross + cosine * (cross @ cross)
