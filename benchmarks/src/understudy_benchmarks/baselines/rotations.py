"""Rotations of many small matrices: polar rotation, logarithm and exponential.

All work component by component over the leading axes, which is fast in NumPy.
"""

from __future__ import annotations

import numpy as np

_STEPS = 12


def polar_rotation(matrices: np.ndarray) -> np.ndarray:
    """The rotation nearest to each matrix (...,3,3) of positive determinant.

    Newton's iteration X <- (s X + X^-T / s) / 2 with s = det(X)^(-1/3) (Higham 1986).

    >>> polar_rotation(np.diag([2.0, 3.0, 1.0])).round(12).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    x = np.moveaxis(matrices, (-2, -1), (0, 1)).copy()
    for _ in range(_STEPS):
        cofactors = _cofactors(x)
        det = np.maximum(np.sum(x[0] * cofactors[0], axis=0), np.finfo(x.dtype).tiny)
        size = np.cbrt(det)
        following = 0.5 * (x / size + cofactors * (size / det))
        moved = np.abs(following - x).max(initial=0.0)
        x = following
        if moved < 1e-6:
            break
    return np.moveaxis(x, (0, 1), (-2, -1))


def rotation_vector(rotations: np.ndarray) -> np.ndarray:
    """Axis times angle of rotations: (...,3,3) -> (...,3), angles in 0..pi.

    >>> turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> (rotation_vector(turn) / np.pi).tolist()
    [0.0, 0.0, 0.5]
    """
    r = np.moveaxis(rotations, (-2, -1), (0, 1))
    twice_sine = np.stack([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]])
    length = np.sqrt(np.sum(twice_sine**2, axis=0))
    cosine = np.clip((r[0, 0] + r[1, 1] + r[2, 2] - 1) / 2, -1.0, 1.0)
    angle = np.arctan2(0.5 * length, cosine)
    vector = twice_sine * np.where(length > 1e-6, angle / np.maximum(length, 1e-12), 0.5)
    turned = np.flatnonzero((cosine < -0.999).reshape(-1))
    # Near half a turn the sine vanishes; the axis a follows from the symmetric part of the matrix,
    # cos I + (1 - cos) a a^T.
    if len(turned):
        flat = r.reshape(3, 3, -1)[..., turned]
        columns = (
            0.5 * (flat + np.swapaxes(flat, 0, 1))
            - np.eye(3)[..., None] * cosine.reshape(-1)[turned]
        )
        norms = np.sqrt(np.sum(columns**2, axis=0))
        axis = np.take_along_axis(columns, norms.argmax(axis=0)[None, None], axis=1)[
            :, 0
        ] / norms.max(axis=0)
        sign = np.where(np.sum(axis * twice_sine.reshape(3, -1)[:, turned], axis=0) < 0, -1.0, 1.0)
        vector.reshape(3, -1)[:, turned] = axis * sign * angle.reshape(-1)[turned]
    return np.moveaxis(vector, 0, -1)


def rotation_matrix(vectors: np.ndarray) -> np.ndarray:
    """Matrices of rotation vectors: (...,3) -> (...,3,3), by unit quaternions.

    >>> rotation_matrix(np.array([0.0, 0.0, np.pi / 2])).round(12)[0].tolist()
    [0.0, -1.0, 0.0]
    """
    half = 0.5 * np.moveaxis(vectors, -1, 0)
    angle = np.sqrt(np.sum(half**2, axis=0))
    w = np.cos(angle)
    x, y, z = half * np.where(angle > 1e-8, np.sin(angle) / np.maximum(angle, 1e-12), 1.0)
    rows = np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
        ]
    )
    return np.moveaxis(rows, (0, 1), (-2, -1))


def _cofactors(x: np.ndarray) -> np.ndarray:
    """det(X) X^-T of (3,3,...)."""
    result = np.empty_like(x)
    for i in range(3):
        a, b = x[(i + 1) % 3], x[(i + 2) % 3]
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            result[i, j] = a[k] * b[m] - a[m] * b[k]
    return result
