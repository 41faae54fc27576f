"""The alternating solve (Le & Deng 2012, section 4), and its two steps: transforms and weights.

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

Departures of the iterations:
- momentum: each iteration starts a little beyond the solution of the last one (`momentum`), because
  plain iterations converge slowly;
- stages: iterations with two influences, then with more than K, then with K. The solve ends in a
  local minimum, and bones that first settle where they alone explain motion lead to better ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.methods.decomposition.solve import kernels
from understudy.methods.decomposition.solve.momentum import WINDOW, Failure, Schedule, alternate
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    WeightProblem,
    WeightSearch,
    bone_matrices,
    with_exact_errors,
)
from understudy.methods.decomposition.solve.plan import Plan

RIDGE = 1e-9  # of the mean diagonal
SWEEPS = 3  # updates of every rigid bone in one iteration
_MIN_GAIN = 3e-4


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
    matrices = bone_matrices(transforms).copy()
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


@dataclass(frozen=True, eq=False)
class _Skinning:
    """The two steps for affine or rigid bones; transforms are (R,4B) arrays."""

    motion: Motion
    plan: Plan
    allowed: np.ndarray | None

    def solve_transforms(self, state: Fit) -> np.ndarray:
        if self.plan.rigid:
            return solve_rigid_transforms(self.motion, state, SWEEPS)
        return solve_transforms(self.motion, state, self.plan.individual or 0.0)

    def extrapolate(
        self, transforms: np.ndarray, previous: np.ndarray, momentum: float
    ) -> np.ndarray:
        ahead = transforms + momentum * (transforms - previous)
        return nearest_rigid(ahead) if self.plan.rigid else ahead

    def solve_weights(self, state: Fit, transforms: np.ndarray, thorough: bool) -> Fit:
        start = state.index, state.weight
        return solve_weights(
            self.motion, transforms, start, self.plan.search(thorough), self.allowed
        )

    def fail(self, state: Fit) -> Failure:
        return Failure.COUNT  # a later, more thorough search may still find better weights


def solve_alternating(
    motion: Motion,
    fit: Fit,
    plan: Plan,
    iterations: int,
    thorough: bool = True,
    record: Callable[[float], object] = lambda error: None,
    allowed: np.ndarray | None = None,
) -> Fit:
    """Return the fit after alternating iterations from `fit`, whose error never rises.

    iterations  planned number; fewer where nothing is gained, more while much is gained
    thorough    search the bones of every vertex thoroughly in every tenth iteration
    record      called with the squared error after each iteration
    allowed     (V,B) bool, the bones that each vertex may use; None: all
    """

    def report(error: float) -> None:
        record(error)
        plan.bar.figures(squared_error=error)
        plan.bar.note(plan.note(error))

    problem = _Skinning(motion, plan, allowed)
    schedule = Schedule(
        iterations,
        _MIN_GAIN,
        plan.extension,
        first_check=min(WINDOW + 1, iterations),
        thorough_every=10 if thorough else None,
    )
    start = problem.solve_weights(fit, fit.transforms, thorough=False)
    return alternate(problem, start, schedule, report)[0]


def solve_in_stages(motion: Motion, fit: Fit, plan: Plan, iterations: int) -> Fit:
    """Return the fit after stages of planned iterations: two influences, more than K, then K."""
    last = plan.search().places(fit.bones)
    between = 4 if plan.influences is None else last + 2
    if last > 2:
        fit = solve_alternating(motion, fit, replace(plan, influences=2), iterations)
        if between < fit.bones:
            fit = solve_alternating(motion, fit, replace(plan, influences=between), iterations)
    if fit.index.shape[1] > last:
        fit = solve_weights(motion, fit.transforms, no_weights(motion), plan.search(thorough=True))
    return solve_alternating(motion, fit, plan, iterations)
