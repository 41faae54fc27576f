"""Convex weights on given bones whose residual is smooth over the mesh.

Paper: Landreneau & Schaefer 2010, "Poisson-based weight reduction of animated meshes". Used by
`smooth` and `poisson`:

    minimise over w   |L r|^2 + mu |r|^2      r_i = sum_k w_ik f_ik,   w_i >= 0,   sum_k w_ik = 1

f_ik (q numbers) is the residual of vertex i with bone k alone, so r is the residual with the
weights w. L is the mesh Laplacian: a residual that varies slowly over the surface costs little, a
jump between neighbours costs much. The term with mu fixes what a Laplacian cannot see.

Solved by accelerated projected gradients with restarts (O'Donoghue & Candes 2015), all vertices at
once. |L r|^2 + mu |r|^2 <= c |r|^2 gives each vertex its own step, 1 / (c times the largest
eigenvalue of f_i f_i^T).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

_MU = 1e-2
_MAX_STEPS = 300
_CONVERGED = 1e-6  # relative decrease over ten steps below which the iteration ends


def fair_weights(
    features: np.ndarray, weight: np.ndarray, usable: np.ndarray, laplacian: sp.csr_matrix
) -> np.ndarray:
    """The weights (V,K) on the simplex that minimise the objective above.

    features   (V,K,q) f
    weight     (V,K) feasible weights to start from
    usable     (V,K) bool, the influences that may have a weight
    laplacian  (V,V) L
    """
    quadratic = (laplacian.T @ laplacian + _MU * sp.identity(len(weight))).tocsr()
    bound = float(np.abs(quadratic).sum(axis=1).max())
    features = np.where(usable[..., None], features, 0.0)
    curvature = np.linalg.eigvalsh(features @ features.transpose(0, 2, 1))[:, -1]
    steepness = bound * np.maximum(curvature, 1e-12 * float(curvature.max()))[:, None]
    if not steepness.max() > 0:  # every bone fits exactly
        return project_to_simplex(weight, usable)
    best = now = ahead = project_to_simplex(weight, usable)
    lowest, momentum = np.inf, 1.0
    for number in range(_MAX_STEPS):
        residual = np.einsum("vk,vkq->vq", ahead, features)
        gradient = np.einsum("vkq,vq->vk", features, quadratic @ residual)
        after = project_to_simplex(ahead - gradient / steepness, usable)
        faster = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        # Restart if the momentum points uphill.
        if np.sum((ahead - after) * (after - now) * steepness) > 0:
            faster, ahead = 1.0, after
        else:
            ahead = after + (momentum - 1) / faster * (after - now)
        now, momentum = after, faster
        if number % 10 == 9:
            residual = np.einsum("vk,vkq->vq", now, features)
            value = float(np.sum(residual * (quadratic @ residual)))
            gain, lowest, best = lowest - value, min(lowest, value), now if value < lowest else best
            if gain <= _CONVERGED * lowest:
                break
    return best


def project_to_simplex(weight: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex to each row, over its usable entries: (V,K).

    weight  (V,K)
    usable  (V,K) bool, at least one per row

    >>> rows, usable = np.array([[0.9, 0.5, 9.0]]), np.array([[True, True, False]])
    >>> project_to_simplex(rows, usable).round(3).tolist()
    [[0.7, 0.3, 0.0]]
    """
    low = np.where(usable, weight, -np.inf)
    down = -np.sort(-low, axis=1)
    excess = np.cumsum(np.where(np.isfinite(down), down, 0.0), axis=1) - 1
    threshold = excess / np.arange(1, weight.shape[1] + 1)
    positive = np.sum(down > threshold, axis=1)
    return np.maximum(low - threshold[np.arange(len(weight)), positive - 1][:, None], 0.0)


def random_walk_laplacian(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """I - D^-1 A: (V,V), for edges that weigh one; the row of an isolated vertex is zero.

    >>> path = sp.csr_matrix([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> random_walk_laplacian(path).toarray()[1].tolist()
    [-0.5, 1.0, -0.5]
    """
    degree = np.diff(adjacency.indptr)
    share = np.repeat(1.0 / np.maximum(degree, 1), degree)
    mean = sp.csr_matrix((share, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    return (sp.diags((degree > 0).astype(float)) - mean).tocsr()
