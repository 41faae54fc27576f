"""The alternating solve of a skinning decomposition (Le & Deng 2012, section 4).

    minimise over M, w   sum_f sum_i |sum_b w_ib M_fb v~_i - y_fi|^2
    subject to           w >= 0,  sum_b w_ib = 1,  at most K of w_i above zero

One iteration solves for the transforms M, then for the weights w (`solves`). Departures from the
paper, and why:
- momentum: each iteration starts a little beyond the solution of the last one (`momentum`), because
  plain iterations converge slowly;
- stages: iterations with two influences, then with more than K, then with K. The solve ends in a
  local minimum, and bones that first settle where they alone explain motion lead to better ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.methods.decomposition.solve.momentum import WINDOW, Failure, Schedule, alternate
from understudy.methods.decomposition.solve.motion import Fit, Motion
from understudy.methods.decomposition.solve.plan import Plan
from understudy.methods.decomposition.solve.solves import (
    nearest_rigid,
    no_weights,
    solve_rigid_transforms,
    solve_transforms,
    solve_weights,
)

SWEEPS = 3  # updates of every rigid bone in one iteration
_MIN_GAIN = 3e-4


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
