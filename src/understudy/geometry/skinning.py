"""Skinning: one blended transform per vertex, applied to a point. The clear NumPy reference every
other implementation is tested against.

Linear blend:        v = (sum_k w_k M_k) (p, 1)
Dual quaternion:     Kavan et al. 2008, with bones that may scale. Each M = (R S, t) is split by
                     polar decomposition; the stretches S blend linearly and act first, the rigid
                     parts (R, t) blend as dual quaternions. One bone alone gives exactly M p.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from understudy.geometry.transforms import apply

BLENDS = ("linear", "dual_quaternion")


def weight_matrix(bone_index: np.ndarray, weight: np.ndarray, bone_count: int) -> sp.csr_matrix:
    """(V,K) indices and weights as a sparse (V,B) float32 matrix."""
    vertex_count, influences = bone_index.shape
    starts = np.arange(0, vertex_count * influences + 1, influences)
    return sp.csr_matrix(
        (weight.reshape(-1), bone_index.reshape(-1), starts), shape=(vertex_count, bone_count)
    )


def linear_blend(matrices: np.ndarray, weights: sp.csr_matrix, points: np.ndarray) -> np.ndarray:
    """matrices (T,B,3,4), weights (V,B), points (T,V,3) or (V,3) -> (T,V,3)."""
    pose_count, bone_count = matrices.shape[:2]
    flat = np.moveaxis(matrices, 1, 0).reshape(bone_count, -1)
    blended = (weights @ flat).reshape(-1, pose_count, 3, 4)
    return apply(np.moveaxis(blended, 0, 1), points)


def dual_quaternion_blend(
    matrices: np.ndarray, bone_index: np.ndarray, weight: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """matrices (T,B,3,4), bone_index and weight (V,K), points (T,V,3) or (V,3) -> (T,V,3).

    Signs are taken relative to each vertex's first influence, so that q and -q, the same rotation,
    never cancel.
    """
    rotation, stretch = polar(matrices[..., :3])
    real = quaternion_from_rotation(rotation)
    dual = 0.5 * quaternion_product(
        np.concatenate([np.zeros_like(matrices[..., :1, 3]), matrices[..., 3]], axis=-1), real
    )
    pivot = real[:, bone_index[:, 0]]
    q, e, s = 0.0, 0.0, 0.0
    for k in range(bone_index.shape[1]):
        bone, w = bone_index[:, k], weight[:, k, None]
        sign = np.where(
            np.sum(pivot * real[:, bone], axis=-1, keepdims=True) < 0, -1.0, 1.0
        ).astype(weight.dtype)
        q = q + w * sign * real[:, bone]
        e = e + w * sign * dual[:, bone]
        s = s + w[..., None] * stretch[:, bone]
    norm = np.linalg.norm(q, axis=-1, keepdims=True)
    q, e = q / norm, e / norm
    shift = 2.0 * (
        q[..., :1] * e[..., 1:] - e[..., :1] * q[..., 1:] + np.cross(q[..., 1:], e[..., 1:])
    )
    stretched = np.einsum(
        "tvij,tvj->tvi", s, np.broadcast_to(points, (len(matrices), *points.shape[-2:]))
    )
    twice = 2.0 * np.cross(q[..., 1:], stretched)
    return stretched + q[..., :1] * twice + np.cross(q[..., 1:], twice) + shift


def polar(linear: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X = R S with R a proper rotation and S symmetric: (...,3,3) -> two (...,3,3). A mirroring X
    keeps its reflection in S.
    """
    u, sigma, vt = np.linalg.svd(linear)
    flip = np.sign(np.linalg.det(u @ vt))
    u = u.copy()
    u[..., :, 2] *= flip[..., None]
    sigma = sigma.copy()
    sigma[..., 2] *= flip
    return u @ vt, np.swapaxes(vt, -1, -2) @ (sigma[..., None] * vt)


def quaternion_from_rotation(rotation: np.ndarray) -> np.ndarray:
    """Unit quaternions (...,4), real part first, from rotations (...,3,3): the best-conditioned of
    the four classical formulas.

    >>> quaternion_from_rotation(np.eye(3)).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    r = rotation
    xx, yy, zz = r[..., 0, 0], r[..., 1, 1], r[..., 2, 2]
    squares = np.stack(
        [1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz], axis=-1
    )
    a, b, c = r[..., 2, 1] - r[..., 1, 2], r[..., 0, 2] - r[..., 2, 0], r[..., 1, 0] - r[..., 0, 1]
    d, e, f = r[..., 1, 0] + r[..., 0, 1], r[..., 0, 2] + r[..., 2, 0], r[..., 2, 1] + r[..., 1, 2]
    rows = np.stack(
        [
            np.stack([squares[..., 0], a, b, c], axis=-1),
            np.stack([a, squares[..., 1], d, e], axis=-1),
            np.stack([b, d, squares[..., 2], f], axis=-1),
            np.stack([c, e, f, squares[..., 3]], axis=-1),
        ],
        axis=-2,
    )
    best = np.argmax(squares, axis=-1)
    chosen = np.take_along_axis(rows, best[..., None, None], axis=-2)[..., 0, :]
    return chosen / np.linalg.norm(chosen, axis=-1, keepdims=True)


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Hamilton product of (...,4) quaternions, real part first."""
    real = a[..., :1] * b[..., :1] - np.sum(a[..., 1:] * b[..., 1:], axis=-1, keepdims=True)
    imaginary = a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + np.cross(a[..., 1:], b[..., 1:])
    return np.concatenate([real, imaginary], axis=-1)
