"""An alternating minimisation with momentum.

An error depends on transforms and on weights. One iteration solves for the transforms with the
weights fixed, then for the weights with the transforms fixed. Neither step raises the error, but
progress is slow in flat valleys. Momentum speeds it up:

    x_k  = transforms for the weights of iteration k
    x'_k = x_k + m (x_k - x_{k-1})        extrapolate beyond the solution
    weights for x'_k; if that raises the error, weights for x_k, and m is halved

m starts at 0.5 and grows by 10 % per iteration up to 0.98. An iteration that does not lower the
error is undone, so the error never rises.

The transforms of a skinning decomposition are affine or rigid (`solves`), those of a
skeleton follow from joints and rotations (`skeleton.articulated_fit`). Both implement
`AlternatingProblem`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

_FIRST_MOMENTUM, _MAX_MOMENTUM, _GROWTH = 0.5, 0.98, 1.1
WINDOW = 5  # iterations over which progress is measured


class HasError(Protocol):
    """A state of the minimisation: transforms, weights, and their squared error."""

    @property
    def error(self) -> float: ...


State = TypeVar("State", bound=HasError)
Transforms = TypeVar("Transforms")


class Failure(Enum):
    """What follows an iteration that did not lower the error."""

    COUNT = "it counts as an iteration without progress"
    RETRY = "the problem was changed; the iteration does not count"
    STOP = "the minimisation ends"


class AlternatingProblem(Protocol[State, Transforms]):
    """The two steps of an iteration, and how to extrapolate."""

    def solve_transforms(self, state: State) -> Transforms:
        """Return the transforms for the weights of `state`."""

    def extrapolate(
        self, transforms: Transforms, previous: Transforms, momentum: float
    ) -> Transforms:
        """Return transforms + momentum (transforms - previous), made feasible."""

    def solve_weights(self, state: State, transforms: Transforms, thorough: bool) -> State:
        """Return the state with these transforms and its weights solved for."""

    def fail(self, state: State) -> Failure:
        """React to an iteration that did not lower the error of `state`."""


@dataclass(frozen=True)
class Extension:
    """When to run more iterations than planned.

    gain    relative decrease of the squared error over the last iterations that justifies more
    factor  upper limit, as a multiple of the planned number
    """

    gain: float
    factor: int


@dataclass(frozen=True)
class Schedule:
    """How many iterations to run.

    iterations      planned number
    min_gain        relative decrease of the squared error over the last iterations below which the
                    planned iterations end early
    extension       when to run more than planned
    first_check     number of iterations before the decrease is checked
    thorough_every  every so many iterations the bones of each vertex are searched thoroughly; None:
                    never
    """

    iterations: int
    min_gain: float
    extension: Extension
    first_check: int = WINDOW
    thorough_every: int | None = 10


def alternate(
    problem: AlternatingProblem[State, Transforms],
    state: State,
    schedule: Schedule,
    report: Callable[[float], object] = lambda error: None,
) -> tuple[State, list[float]]:
    """Minimise the error of a state; return the result, and the error at the start and thereafter.

    report  called with the squared error after each iteration
    """
    errors, momentum = [state.error], _FIRST_MOMENTUM
    previous: Transforms | None = None
    every = schedule.thorough_every
    for number in range(1, schedule.extension.factor * schedule.iterations + 1):
        thorough = every is not None and number % every == 0
        found = problem.solve_transforms(state)
        ahead = found if previous is None else problem.extrapolate(found, previous, momentum)
        after = problem.solve_weights(state, ahead, thorough)
        previous, momentum = found, min(_MAX_MOMENTUM, _GROWTH * momentum)
        if after.error > state.error:
            previous, momentum = None, 0.5 * momentum
            if ahead is not found:
                after = problem.solve_weights(state, found, thorough)
        if after.error <= state.error:
            state = after
        else:
            failure = problem.fail(state)
            if failure is Failure.STOP:
                break
            if failure is Failure.RETRY:
                continue
        errors.append(state.error)
        report(state.error)
        needed = schedule.min_gain if number < schedule.iterations else schedule.extension.gain
        done = len(errors) - 1
        if (
            done >= schedule.first_check
            and state.error >= (1 - needed) * errors[max(0, done - WINDOW)]
        ):
            break
    return state, errors
