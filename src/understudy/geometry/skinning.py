"""Skinning in NumPy, the reference of the other implementations, and the influences it reads.

    linear            v = (sum_k w_k M_k) (p, 1)
    dual quaternion   v = rigid(sum_k w_k (q_k, e_k)) ((sum_k w_k S_k) p)

Dual quaternion blending follows Kavan et al. 2008, "Geometric skinning with approximate dual
quaternion blending". Departure: bones may scale and shear. Each M = (R S, t) is split by polar
decomposition; the stretches S blend linearly and act first, the rigid parts (R, t) blend as dual
quaternions (q, e). A vertex with a single bone gets exactly M p.

Letters: T poses, V vertices, B bones, K influences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.geometry.transforms import apply

if TYPE_CHECKING:
    import scipy.sparse as sp

BLENDS = ("linear", "dual_quaternion")
_BLOCK_VALUES = 2**16  # numbers that `blended_rows` adds at once: they fit the processor's cache


def weight_matrix(bone_index: np.ndarray, weight: np.ndarray, bone_count: int) -> sp.csr_matrix:
    """Influences as a sparse matrix (V,B) of the dtype of `weight`.

    bone_index, weight  (V,K); several influences of one bone add up
    bone_count          B

    >>> weight_matrix(np.array([[1, 0]]), np.array([[0.75, 0.25]]), 3).toarray().tolist()
    [[0.25, 0.75, 0.0]]
    """
    import scipy.sparse as sp

    vertex_count, influences = bone_index.shape
    starts = np.arange(0, vertex_count * influences + 1, influences)
    return sp.csr_matrix(
        (weight.reshape(-1), bone_index.reshape(-1), starts), shape=(vertex_count, bone_count)
    )


def linear_blend(
    matrices: np.ndarray, bone_index: np.ndarray, weight: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Points moved by linear blend skinning: (T,V,3).

    matrices            (T,B,3,4) transforms of the bones since rest
    bone_index, weight  (V,K)
    points              (T,V,3), or (V,3) for all poses
    """
    return apply(blended_matrices(matrices, bone_index, weight), points)


def blended_matrices(
    matrices: np.ndarray, bone_index: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """The transforms (T,V,3,4) that blend bones (T,B,3,4) by bone_index, weight (V,K)."""
    pose_count, bone_count = matrices.shape[:2]
    kind = np.result_type(weight, matrices)
    flat = np.moveaxis(matrices, 1, 0).reshape(bone_count, -1).astype(kind, copy=False)
    blended = np.zeros((len(weight), flat.shape[1]), kind)
    rows = max(1, _BLOCK_VALUES // max(1, flat.shape[1]))
    for start in range(0, len(weight), rows):
        block = slice(start, start + rows)
        for k in range(weight.shape[1]):
            part = flat[bone_index[block, k]]
            part *= weight[block, k, None]
            blended[block] += part
    return np.moveaxis(blended.reshape(-1, pose_count, 3, 4), 0, 1)


def dual_quaternion_blend(
    matrices: np.ndarray, bone_index: np.ndarray, weight: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Points moved by dual quaternion skinning: (T,V,3).

    matrices            (T,B,3,4) transforms of the bones since rest
    bone_index, weight  (V,K)
    points              (T,V,3), or (V,3) for all poses

    Quaternions are taken with the sign nearest to the first influence of the vertex: q and -q are
    the same rotation and must not cancel.
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
    """X = R S (...,3,3): a rotation R and a symmetric S. A reflection in X stays in S."""
    u, sigma, vt = np.linalg.svd(linear)
    flip = np.sign(np.linalg.det(u @ vt))
    u = u.copy()
    u[..., :, 2] *= flip[..., None]
    sigma = sigma.copy()
    sigma[..., 2] *= flip
    return u @ vt, np.swapaxes(vt, -1, -2) @ (sigma[..., None] * vt)


def quaternion_from_rotation(rotation: np.ndarray) -> np.ndarray:
    """Unit quaternions (...,4), real part first, of rotations (...,3,3).

    Of the four classical formulas the best-conditioned one is used.

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
    s0, s1, s2, s3 = np.moveaxis(squares, -1, 0)
    every = ((s0, a, b, c), (a, s1, d, e), (b, d, s2, f), (c, e, f, s3))
    rows = np.stack([np.stack(row, axis=-1) for row in every], axis=-2)
    best = np.argmax(squares, axis=-1)
    chosen = np.take_along_axis(rows, best[..., None, None], axis=-2)[..., 0, :]
    return chosen / np.linalg.norm(chosen, axis=-1, keepdims=True)


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The Hamilton product a b of quaternions (...,4), real part first."""
    real = a[..., :1] * b[..., :1] - np.sum(a[..., 1:] * b[..., 1:], axis=-1, keepdims=True)
    imaginary = a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + np.cross(a[..., 1:], b[..., 1:])
    return np.concatenate([real, imaginary], axis=-1)


def dense_to_influences(
    weights: np.ndarray, max_influences: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Dense weights as index (V,K) int32 and weight (V,K), the largest magnitude first.

    weights         (V,B), any sign
    max_influences  largest K; smaller weights are dropped, and no row is scaled. None: no limit

    K is the largest number of non-zero weights in a row. Unused places have index 0 and weight 0.

    >>> index, weight = dense_to_influences(np.array([[0.0, 1.0, 0.0], [0.75, 0.0, 0.25]]))
    >>> index.tolist(), weight.tolist()
    ([[1, 0], [0, 2]], [[1.0, 0.0], [0.75, 0.25]])
    """
    count = max(1, int((weights != 0).sum(axis=1).max(initial=0)))
    if max_influences is not None:
        count = max(1, min(max_influences, count))
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")[:, :count]
    weight = np.take_along_axis(weights, order, axis=1)
    return np.where(weight != 0, order, 0).astype(np.int32), weight


def largest_first(
    index: np.ndarray, weight: np.ndarray, order: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Influences (V,K) with the largest magnitude first, without places that no vertex uses.

    order  (V,K) numbers to sort by instead

    >>> largest_first(np.array([[5, 7, 9]]), np.array([[0.0, 0.25, 0.75]]))[0].tolist()
    [[9, 7]]
    """
    places = np.argsort(-np.abs(weight) if order is None else order, axis=1, kind="stable")
    places = places[:, : max(1, int((weight != 0).sum(axis=1).max(initial=1)))]
    return np.take_along_axis(index, places, axis=1), np.take_along_axis(weight, places, axis=1)


def sparse_to_influences(weights: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """A sparse matrix (V,B) as `dense_to_influences`; it is brought into canonical form."""
    weights.sum_duplicates()
    weights.eliminate_zeros()
    counts = np.diff(weights.indptr)
    rows = np.repeat(np.arange(weights.shape[0]), counts)
    order = np.lexsort([-np.abs(weights.data), rows])
    rank = np.arange(len(rows)) - np.repeat(weights.indptr[:-1], counts)
    index = np.zeros((weights.shape[0], max(1, int(counts.max(initial=1)))), np.int32)
    weight = np.zeros(index.shape)
    index[rows, rank] = weights.indices[order]
    weight[rows, rank] = weights.data[order]
    return index, weight


def float32_weights(weight: np.ndarray) -> np.ndarray:
    """Weights (V,K) that sum to one as float32 rows that still do.

    The weight of the largest magnitude takes up the rounding error of its row.

    >>> float32_weights(np.array([[0.75, 0.25]])).tolist()
    [[0.75, 0.25]]
    """
    rounded = weight.astype(np.float32)
    rows, largest = np.arange(len(weight)), np.argmax(np.abs(weight), axis=1)
    rounded[rows, largest] += (1.0 - rounded.sum(axis=1, dtype=np.float64)).astype(np.float32)
    return rounded


def float32_influences(index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Influences (V,K) as int32 and `float32_weights`; places of weight zero get index 0."""
    rounded = float32_weights(weight)
    return np.where(rounded != 0, index, 0).astype(np.int32), rounded
