"""Principal components, and how many of them reach a given error.

Papers: FDDA (Bailey et al. 2018), section 3.3.2, for the choice of the number by the error in the
model's unit; Halko, Martinsson & Tropp 2011, "Finding structure with randomness", for the subspace
iteration Q <- qr(X^T X Q) that finds the first components of a large X (T,n).
"""

from __future__ import annotations

import numpy as np

_EXACT_UP_TO = 300  # smaller side of the data up to which the full SVD is computed
_OVERSAMPLING = 16  # additional directions of the subspace iteration
_ITERATIONS = 4


def principal_components(data: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The first principal directions of centred data, most important first.

    data     (T,n) centred rows
    limit    largest number of directions
    returns  directions (n,P) float64, orthonormal, and singular values (P,)

    Small problems are solved exactly, large ones by subspace iteration from a fixed start, whose
    cost grows with `limit` instead of n. The largest entry of each direction is positive, so the
    result does not depend on the signs that a solver chooses.

    >>> rows = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> directions, values = principal_components(rows, 1)
    >>> np.round(directions[:, 0], 6).tolist(), round(float(values[0]) ** 2, 6)
    ([1.0, 0.0], 18.0)
    """
    limit = max(0, min(limit, *data.shape))
    if min(data.shape) > max(_EXACT_UP_TO, 2 * limit):
        span = (
            np.random.default_rng(0)
            .normal(size=(data.shape[1], limit + _OVERSAMPLING))
            .astype(data.dtype)
        )
        for _ in range(_ITERATIONS):
            span = np.linalg.qr(data.T @ (data @ span))[0]
        reduced = data @ span
    else:
        span, reduced = None, data
    _, values, vectors = np.linalg.svd(reduced.astype(np.float64), full_matrices=False)
    keep = values[:limit] > (values[0] if len(values) else 0.0) * 1e-6
    values, vectors = values[:limit][keep], vectors[:limit][keep].T
    if span is not None:
        vectors = np.linalg.qr(span.astype(np.float64) @ vectors)[0]
    sign = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return vectors * np.where(sign == 0, 1, sign), values


def components_for_error(
    data: np.ndarray, directions: np.ndarray, unweight: np.ndarray, error: float
) -> int:
    """The smallest number of directions with a mean distance per vertex of at most `error`.

    data        (T,3n) centred rows, possibly scaled per vertex
    directions  (3n,P) orthonormal, most important first
    unweight    (n,) factor that undoes the scale of each vertex
    error       mean distance, in the model's unit
    """

    def mean_distance(count: int) -> float:
        kept = directions[:, :count]
        residual = (data - (data @ kept) @ kept.T).reshape(len(data), -1, 3)
        return float((np.linalg.norm(residual, axis=2) * unweight).mean())

    low, high = 0, directions.shape[1]  # the error falls with the count: bisect
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if mean_distance(middle) <= error else (middle + 1, high)
    return low
