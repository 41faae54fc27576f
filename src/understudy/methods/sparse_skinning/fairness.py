"""Convex weights on given bones whose result bends as the dense one does.

Landreneau & Schaefer 2010, "Poisson-based weight reduction of animated meshes":

    minimise over w   |L r|^2 + mu |r|^2,     r_i = sum_k w_ik f_ik,     w_i >= 0,  sum_k w_ik = 1

f_ik (q numbers) is what bone k alone would leave of vertex i's goal, so r is what the weights
leave, and L its mesh Laplacian: differences that vary slowly over the surface cost little, tears
cost much; mu holds what a Laplacian cannot see. Accelerated projected gradients with restarts, all
vertices at once: |L r|^2 <= c |r|^2 gives each vertex a step of its own, 1 / (c times the largest
eigenvalue of its f f^T).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

_HOLD = 1e-2  # mu
_STEPS = 300
_SETTLED = 1e-6  # relative gain over ten steps below which it is over


def fair_weights(
    features: np.ndarray, weight: np.ndarray, usable: np.ndarray, laplacian: sp.csr_matrix
) -> np.ndarray:
    """Weights (V,K) on the simplex from a feasible start: features (V,K,q), usable (V,K) bool,
    laplacian (V,V).
    """
    both = (laplacian.T @ laplacian + _HOLD * sp.identity(len(weight))).tocsr()
    bound = float(np.abs(both).sum(axis=1).max())
    features = np.where(usable[..., None], features, 0.0)
    curve = np.linalg.eigvalsh(features @ features.transpose(0, 2, 1))[:, -1]
    steep = bound * np.maximum(curve, 1e-12 * float(curve.max()))[:, None]
    if not steep.max() > 0:  # nothing to fit: every bone does as well
        return project(weight, usable)
    best = now = ahead = project(weight, usable)
    lowest, momentum = np.inf, 1.0
    for number in range(_STEPS):
        left = np.einsum("vk,vkq->vq", ahead, features)
        pull = both @ left
        after = project(ahead - np.einsum("vkq,vq->vk", features, pull) / steep, usable)
        faster = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        # Restart where the momentum points uphill (O'Donoghue & Candes 2015).
        if np.sum((ahead - after) * (after - now) * steep) > 0:
            faster, ahead = 1.0, after
        else:
            ahead = after + (momentum - 1) / faster * (after - now)
        now, momentum = after, faster
        if number % 10 == 9:
            left = np.einsum("vk,vkq->vq", now, features)
            value = float(np.sum(left * (both @ left)))
            gain, lowest, best = lowest - value, min(lowest, value), now if value < lowest else best
            if gain <= _SETTLED * lowest:
                break
    return best


def project(weight: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """The nearest point (V,K) of each row's simplex, over its usable places.

    >>> project(np.array([[0.9, 0.5, 9.0]]), np.array([[True, True, False]])).round(3).tolist()
    [[0.7, 0.3, 0.0]]
    """
    low = np.where(usable, weight, -np.inf)
    down = -np.sort(-low, axis=1)
    share = (np.cumsum(np.where(np.isfinite(down), down, 0.0), axis=1) - 1) / np.arange(
        1, weight.shape[1] + 1
    )
    held = np.sum(down > share, axis=1)
    return np.maximum(low - share[np.arange(len(weight)), held - 1][:, None], 0.0)
