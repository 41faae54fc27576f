"""Principal components chosen by the error they leave, in the model's units (FDDA section
3.3.2).
"""

from __future__ import annotations

import numpy as np

_EXACT_UP_TO = 300
_OVERSAMPLING = 16
_ITERATIONS = 4


def principal_components(data: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `limit` principal directions of centred rows: data (T,n) -> directions (n,P)
    orthonormal float64, singular values (P,).

    Small problems are solved exactly; large ones by subspace iteration from a fixed start (Halko,
    Martinsson and Tropp 2011), whose cost grows with `limit` instead of with n. Each direction's
    largest entry is positive, so that no solver's choice of sign shows in the result.

    >>> directions, values = principal_components(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0],
    ... [0.0, -1.0]]), 1)
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
    """The fewest of `directions` that leave a mean distance per vertex of at most `error`.

    data        (T,3n) centred rows, maybe scaled per vertex
    directions  (3n,P) orthonormal, most important first
    unweight    (n,) factor that brings a vertex's row back to model units
    """

    def left(count: int) -> float:
        kept = directions[:, :count]
        rest = (data - (data @ kept) @ kept.T).reshape(len(data), -1, 3)
        return float((np.linalg.norm(rest, axis=2) * unweight).mean())

    low, high = 0, directions.shape[1]  # the error falls with the count: bisect
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if left(middle) <= error else (middle + 1, high)
    return low
