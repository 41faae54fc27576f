"""Skin weights as influences: a few bone indices and weights per vertex.

Letters: V vertices, B bones, K influences. `skinning.weight_matrix` is the way back to a matrix.
"""

from __future__ import annotations

import numpy as np


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
    """Influences as int32 and `float32_weights`; places of weight zero get index 0.

    index, weight  (V,K), weights of a row summing to one
    """
    rounded = float32_weights(weight)
    return np.where(rounded != 0, index, 0).astype(np.int32), rounded
