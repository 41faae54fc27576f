"""Rotations blended over the bones of each vertex, for many poses at once: what the stacks of the
built-in rigs turn points with.

Letters: V vertices, B bones, T poses. Quaternions have their real part first; fields are (V,3,T)
float32, so that each step streams over poses.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse


def blended(weights: sparse.csr_matrix, parts: np.ndarray) -> np.ndarray:
    """Quaternions or dual quaternions (T,B,4 or 8) blended by weights (V,B), the rotation of unit
    length: (V,4 or 8,T) float32.
    """
    by_bone = np.moveaxis(parts, 0, 2).astype(np.float32)
    blend = (weights @ by_bone.reshape(len(by_bone), -1)).reshape(-1, *by_bone.shape[1:])
    blend /= np.sqrt(np.sum(blend[:, :4] ** 2, axis=1, keepdims=True))
    return blend


def turned(points: np.ndarray, w: np.ndarray, u: np.ndarray) -> np.ndarray:
    """points (V,3,T) turned by the unit quaternions w (V,T), u (V,3,T)."""
    inner = cross(u, points)
    inner += w[:, None] * points
    result = cross(u, inner)
    result *= 2.0
    result += points
    return result


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product along axis 1 of (V,3,T)."""
    out = np.empty_like(b)
    for k in range(3):
        m, n = (k + 1) % 3, (k + 2) % 3
        np.multiply(a[:, m], b[:, n], out=out[:, k])
        out[:, k] -= a[:, n] * b[:, m]
    return out
