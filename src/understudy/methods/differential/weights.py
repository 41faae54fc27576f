"""Weights of the reconstruction before training, estimated from how much everything moves.

Weighted least squares weights each equation by the inverse of its error. Before training the errors
are unknown, but the error of a network is roughly a fraction of the size of what it predicts. So
the estimate is the inverse of that size. After training, errors on validation poses replace it
(`validation.py`).

Letters: T poses, V vertices, n anchors.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.differential.laplacian import Laplacian
from understudy.methods.differential.reconstruction import Weights

LEAST_MOTION = 1e-4  # of the height: smaller motions count as this
# Of the median over all vertices: smaller errors count as this. Few poses are measured, and a rare
# pose may be much worse than they show.
LEAST_ERROR = 0.15
_OFFSET_WEIGHT = 0.3  # relative to an anchor: errors of neighbouring offsets are correlated


def estimated_weights(
    laplacian: Laplacian, sample: np.ndarray, delta: np.ndarray, anchors: np.ndarray, height: float
) -> Weights:
    """The weights from displacements and differential coordinates (T,V,3) of some poses."""
    motion = np.maximum(rms(sample), LEAST_MOTION * height)
    coordinate = laplacian.degree * rms(delta)
    middle = max(float(np.median(coordinate)), 1e-4 * LEAST_MOTION * height)
    return Weights(
        middle / motion[anchors],
        middle / np.maximum(coordinate, LEAST_ERROR * middle),
        _OFFSET_WEIGHT * middle / motion,
    )


def rms(field: np.ndarray) -> np.ndarray:
    """The root mean square length of each vector over the poses: (T,n,3) -> (n,) float64."""
    return np.sqrt(
        np.einsum("tni,tni->n", field, field, optimize=True, dtype=np.float64) / max(1, len(field))
    )
