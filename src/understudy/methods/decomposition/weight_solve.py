"""The weight step: the best skin weights for given transforms (Le & Deng 2012, section 4.2).

For vertex i, with R_bc = <M_b v~_i - y_i, M_c v~_i - y_i> and weights that sum to one, the squared
error is w^T R w. Minimising it over w >= 0 is a quadratic program on the simplex, solved exactly
by an active set method.

Departure: the paper solves for dense weights, keeps the K bones that contribute most, and solves
again. Here the K bones are searched for directly, starting from the bones of the last iteration:
bones enter, and others leave, while that lowers the error. The result is never worse than the
start, so the alternating solve never raises its error. `native/weights.cpp` has the details.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.fit import Fit, WeightProblem, WeightSearch
from understudy.methods.decomposition.motion import Motion


def solve_weights(
    motion: Motion,
    transforms: np.ndarray,
    start: tuple[np.ndarray, np.ndarray],
    search: WeightSearch,
    allowed: np.ndarray | None = None,
) -> Fit:
    """Return the fit of given transforms (R,4B) with the best weights found.

    start     index (V,k) int32 and weight (V,k) to start from; see `no_weights`
    search    how many influences, and how thoroughly to search
    allowed   (V,B) bool, the bones that each vertex may use; None: all
    """
    index, weight = start
    bones = transforms.shape[1] // 4
    missing = search.places(bones) - index.shape[1]
    if missing > 0:
        index, weight = (np.pad(array, ((0, 0), (0, missing))) for array in (index, weight))
    if allowed is not None:
        weight = np.where(np.take_along_axis(allowed, index.astype(np.int64), axis=1), weight, 0.0)
        total = weight.sum(axis=1, keepdims=True)
        weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    problem = WeightProblem(motion.rest, motion.targets, motion.square, transforms, allowed)
    index, weight, errors = kernels.solve_weights(problem, search, index, weight)
    return Fit(transforms, index, weight, errors)


def no_weights(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Return an empty start: index and weight (V,1) without any influence."""
    return np.zeros((motion.vertex_count, 1), np.int32), np.zeros((motion.vertex_count, 1))
