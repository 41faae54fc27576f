"""The two steps of the alternating solve: the best transforms of all bones, the best skin weights.

With the design matrix X (V,4B), X_i = [w_ib v~_i]_b, and the transforms M (R,4B), the squared error
is |Y - X M^T|^2. All solvers start from its normal equations X^T X and X^T Y.

    affine  (X^T X + e I) M^T = X^T Y + e M_before^T, one linear system for all bones and frames.
            The small ridge e keeps what the vertices do not determine at its last value.
    rigid   one bone at a time, each by the optimal rotation and translation given the others, in
            every frame (Le & Deng 2012, section 4.3)

The weights of vertex i follow from R_bc = <M_b v~_i - y_i, M_c v~_i - y_i> (section 4.2). They sum
to one, so the squared error is w^T R w. Minimising it over w >= 0 is a quadratic program on the
simplex, solved exactly by an active set method.

Departure: the paper solves for dense weights, keeps the K bones that contribute most, and solves
again. Here the K bones are searched for directly, starting from the bones of the last iteration:
bones enter, and others leave, while that lowers the error. The result is never worse than the
start, so the alternating solve never raises its error. `native/weights.cpp` has the details.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.methods.decomposition.solve import kernels
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    WeightProblem,
    WeightSearch,
    with_exact_errors,
)

RIDGE = 1e-9  # of the mean diagonal


def solve_transforms(motion: Motion, fit: Fit, individual: float = 0.0) -> np.ndarray:
    """Return the affine transforms (R,4B) that fit best for the weights of `fit`.

    fit         weights, and the previous transforms
    individual  adds individual * sum over i, b of w_ib |M_b v~_i - y_i|^2, so that every bone also
                approximates its vertices by itself; without it, bones may drift far apart and
                cancel each other
    """
    bones = fit.bones
    gram, cross = kernels.normal_equations(
        motion.rest, fit.index, fit.weight, motion.targets, bones
    )
    if individual:
        every = np.arange(bones)
        gram.reshape(bones, 4, bones, 4)[every, :, every, :] += individual * kernels.moments(
            motion.rest, fit.index, fit.weight, bones
        )
        cross *= 1 + individual
    ridge = RIDGE * np.trace(gram) / len(gram) + 1e-300
    right = cross + ridge * fit.transforms.T
    return np.ascontiguousarray(kernels.solve_positive(gram, right, ridge).T)


def solve_rigid_transforms(motion: Motion, fit: Fit, sweeps: int) -> np.ndarray:
    """Return rigid transforms (3F,4B) for the weights of `fit`.

    fit     weights, and rigid transforms to start from
    sweeps  how often every bone is updated
    """
    gram, cross = kernels.normal_equations(
        motion.rest, fit.index, fit.weight, motion.targets, fit.bones
    )
    by_frame = lambda matrix: np.ascontiguousarray(matrix).reshape(-1, 3, 4 * fit.bones)
    return kernels.rigid_sweeps(gram, by_frame(cross.T), by_frame(fit.transforms), sweeps).reshape(
        fit.transforms.shape
    )


def nearest_rigid(transforms: np.ndarray) -> np.ndarray:
    """Return transforms (3F,4B) with their 3x3 parts replaced by the nearest rotations."""
    bones = transforms.shape[1] // 4
    matrices = transforms.reshape(-1, 3, bones, 4).transpose(0, 2, 1, 3).copy()
    matrices[..., :3] = kernels.nearest_rotations(matrices[..., :3])
    return np.ascontiguousarray(matrices.transpose(0, 2, 1, 3)).reshape(transforms.shape)


def fit_affine(motion: Motion, index: np.ndarray, weight: np.ndarray) -> Fit:
    """Return the best affine transforms for weights (V,K) on bones (V,K), with exact errors."""
    bones = int(index.max()) + 1
    fit = Fit(np.zeros((motion.rows, 4 * bones)), index, weight, motion.square)
    return with_exact_errors(motion, replace(fit, transforms=solve_transforms(motion, fit)))


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
