"""Affine transforms as (...,3,4) arrays, named by direction: `world_from_bone @ bone_from_rest`.

They multiply column vectors: the last column is the translation. All functions broadcast over
leading axes and keep the dtype. Transforms need not be rotations: bones of film rigs scale and
shear.
"""

from __future__ import annotations

import numpy as np

# Singular values below this fraction of the largest are raised to it before an inversion.
_FLATTEST = 1e-3
# `damped_inverse` damps singular values below this fraction of the largest.
_NARROWEST = 5e-3
_SAME_SIZE = 1e-5  # files have 32-bit numbers


def compose(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The transform (...,3,4) that applies `b` first, then `a`, both (...,3,4).

    >>> move = np.hstack([np.eye(3), [[1], [0], [0]]])
    >>> compose(move, move)[:, 3].tolist()
    [2.0, 0.0, 0.0]
    """
    linear = a[..., :3] @ b[..., :3]
    shift = a[..., :3] @ b[..., 3:] + a[..., 3:]
    return np.concatenate([linear, shift], axis=-1)


def inverse(a: np.ndarray) -> np.ndarray:
    """The inverse of affine transforms (...,3,4), with any scale and shear, by the adjugate."""
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
    """The inverse of transforms (...,3,4), with small singular values raised to a lower bound."""
    linear = transforms[..., :3]
    scale = np.linalg.norm(linear, axis=(-2, -1))
    risky = np.abs(np.linalg.det(linear)) < 10 * _FLATTEST * np.maximum(scale, 1e-12) ** 3
    if risky.any():
        u, sigma, vt = np.linalg.svd(linear[risky])
        sigma = np.maximum(sigma, _FLATTEST * np.maximum(sigma[..., :1], 1e-12))
        transforms = transforms.copy()
        transforms[risky, :, :3] = u @ (sigma[..., None] * vt)
    return inverse(transforms)


def damped_inverse(transforms: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The inverse (...,3,4) of transforms, damped along the axes that they flatten, and what it
    loses of a point: inverse(transform(p)) = p - lost @ p, lost (...,3,3); None: nothing.

    A singular value s below the bound c has the inverse s / c^2, which goes to 0 with s: along such
    an axis a transform hardly moves what is displaced, however far.
    """
    linear = transforms[..., :3]
    scale = np.linalg.norm(linear, axis=(-2, -1))
    risky = np.abs(np.linalg.det(linear)) <= _NARROWEST * scale**3
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        result = inverse(transforms)
    if not risky.any():
        return result, None
    u, sigma, vt = np.linalg.svd(linear[risky])
    least = np.maximum(_NARROWEST * sigma[..., :1], 1e-12)
    factor = sigma / np.square(np.maximum(sigma, least))
    v = np.swapaxes(vt, -1, -2)
    damped = v @ (factor[..., None] * np.swapaxes(u, -1, -2))
    result[risky] = np.concatenate([damped, -damped @ transforms[risky][..., 3:]], axis=-1)
    lost = np.zeros_like(linear)
    lost[risky] = v @ ((1 - factor * sigma)[..., None] * vt)
    return result, lost


def bone_sizes(rest: np.ndarray) -> np.ndarray:
    """The size of bones at rest (B,3,4), by volume, (B,); exactly 1 where it is that or nothing.

    >>> bone_sizes(np.stack([100 * np.eye(3, 4), np.eye(3, 4)])).round(6).tolist()
    [100.0, 1.0]
    """
    size = np.cbrt(np.abs(np.linalg.det(rest[..., :3])))
    return np.where((size > 0) & (np.abs(size - 1) > _SAME_SIZE), size, 1.0)


def apply(a: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (...,3) moved by transforms (...,3,4).

    A point is moved to the same bits alone as among others, which BLAS does not promise.
    """
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    shape = np.broadcast_shapes(a.shape[:-2], points.shape[:-1])
    result = np.empty((*shape, 3), np.result_type(a, points))
    for i in range(3):
        row = x * a[..., i, 0]
        row += y * a[..., i, 1]
        row += z * a[..., i, 2]
        row += a[..., i, 3]
        result[..., i] = row
    return result


def parent_from_bone(world_from_bone: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Each bone in the frame of its parent: (...,B,3,4); a root keeps its world transform.

    world_from_bone  (...,B,3,4)
    parents          (B,) index of each parent, -1 for a root

    FDDA (Bailey et al. 2018), section 3.2: the linear part is X_p^-1 X_j and the translation
    X_p^-1 (t_j - t_p), with the full inverse of X_p, so bones may scale and shear. A parent scaled
    to zero (a common way to hide a part) has no inverse; the bounded one keeps all numbers finite.
    """
    parents = np.asarray(parents)
    child = np.flatnonzero(parents >= 0)
    result = world_from_bone.copy()
    result[..., child, :, :] = compose(
        bounded_inverse(world_from_bone[..., parents[child], :, :]),
        world_from_bone[..., child, :, :],
    )
    return result


def world_from_local(local: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Each bone in the world, (...,B,3,4), of bones in their parents' frames, parents first."""
    result = np.array(local)
    for bone, parent in enumerate(parents.tolist()):
        if parent >= 0:
            result[..., bone, :, :] = compose(result[..., parent, :, :], local[..., bone, :, :])
    return result


def cross_matrix(vectors: np.ndarray) -> np.ndarray:
    """The matrices [v]x (...,3,3) of the cross products with vectors (...,3)."""
    x, y, z = np.moveaxis(vectors, -1, 0)
    zero = np.zeros_like(x)
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*x.shape, 3, 3)


def rotation_from_axis_angle(axis_angle: np.ndarray) -> np.ndarray:
    """Rotation matrices (...,3,3) of rotation vectors (...,3) in radians, by Rodrigues' formula."""
    angle = np.linalg.norm(axis_angle, axis=-1, keepdims=True)[..., None]
    cross = cross_matrix(np.asarray(axis_angle))
    sine = np.sinc(angle / np.pi)
    cosine = 0.5 * np.sinc(angle / (2 * np.pi)) ** 2
    return np.eye(3) + sine * cross + cosine * (cross @ cross)
