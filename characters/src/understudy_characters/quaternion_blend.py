"""Rotations blended over the bones of each vertex, for many poses at once.

The deformation stacks of both characters rotate points with them. Letters: V vertices, B bones, T
poses. Quaternions have their real part first. Fields are (V,3,T) float32, so that each step streams
over poses.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse


def blend_quaternions(weights: sparse.csr_matrix, parts: np.ndarray) -> np.ndarray:
    """Quaternions blended by the weights and normalised: (V,4,T), or (V,8,T) if dual; float32.

    weights  (V,B)
    parts    (T,B,4) quaternions, or (T,B,8) dual quaternions
    """
    by_bone = np.moveaxis(parts, 0, 2).astype(np.float32)
    blend = (weights @ by_bone.reshape(len(by_bone), -1)).reshape(-1, *by_bone.shape[1:])
    blend /= np.sqrt(np.sum(blend[:, :4] ** 2, axis=1, keepdims=True))
    return blend


def rotate(points: np.ndarray, w: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Points (V,3,T) rotated by unit quaternions with real part w (V,T) and vector u (V,3,T)."""
    inner = cross(u, points)
    inner += w[:, None] * points
    result = cross(u, inner)
    result *= 2.0
    result += points
    return result


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cross product along axis 1 of (V,3,T)."""
    out = np.empty_like(b)
    for k in range(3):
        m, n = (k + 1) % 3, (k + 2) % 3
        np.multiply(a[:, m], b[:, n], out=out[:, k])
        out[:, k] -= a[:, n] * b[:, m]
    return out
