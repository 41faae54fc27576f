"""The alternating minimisation with momentum, on a small problem with a known minimum."""

from dataclasses import dataclass

import pytest

from understudy.methods.decomposition.solve.momentum import Extension, Failure, Schedule, alternate

PLAN = Schedule(40, min_gain=1e-12, extension=Extension(gain=1e-12, factor=1))


@dataclass(frozen=True)
class State:
    """The error (x - y)^2 + 0.01 (x - 3)^2 of transforms x and weights y; its minimum is zero."""

    x: float
    y: float

    @property
    def error(self) -> float:
        return (self.x - self.y) ** 2 + 0.01 * (self.x - 3) ** 2


class Problem:
    """Exact steps, each in one unknown; failures are answered with `on_failure`."""

    def __init__(self, on_failure=Failure.COUNT):
        self.on_failure, self.thorough, self.failures = on_failure, [], 0

    def solve_transforms(self, state: State) -> float:
        return (state.y + 0.01 * 3) / 1.01

    def extrapolate(self, transforms: float, previous: float, momentum: float) -> float:
        return transforms + momentum * (transforms - previous)

    def solve_weights(self, state: State, transforms: float, thorough: bool) -> State:
        self.thorough.append(thorough)
        return State(transforms, transforms)

    def fail(self, state: State) -> Failure:
        self.failures += 1
        return self.on_failure


class Stuck(Problem):
    """A transform step that always raises the error."""

    def solve_transforms(self, state: State) -> float:
        return state.x - 1


def test_the_error_never_rises_and_momentum_reaches_the_minimum():
    result, errors = alternate(Problem(), State(0.0, 0.0), PLAN)
    plain = 0.0
    for _ in range(len(errors) - 1):
        plain = (plain + 0.03) / 1.01
    assert all(after <= before for before, after in zip(errors, errors[1:]))
    assert abs(result.x - 3) < 0.1 * abs(plain - 3)
    assert errors[-1] == result.error


def test_every_tenth_iteration_searches_thoroughly():
    problem = Problem()
    alternate(problem, State(0.0, 0.0), Schedule(10, 0.0, Extension(0.0, 1), first_check=99))
    assert problem.thorough.count(True) in (1, 2)  # twice if the extrapolation is undone
    assert problem.thorough[-1]


def test_iterations_continue_while_the_error_falls():
    slow = Schedule(3, min_gain=1e-9, extension=Extension(gain=1e-3, factor=4), first_check=3)
    _, errors = alternate(Problem(), State(0.0, 0.0), slow)
    assert len(errors) - 1 > 3
    strict = Schedule(3, min_gain=1e-9, extension=Extension(gain=1.0, factor=4), first_check=3)
    _, errors = alternate(Problem(), State(0.0, 0.0), strict)
    assert len(errors) - 1 == 3


@pytest.mark.parametrize(
    ("reaction", "failures", "recorded"),
    [(Failure.STOP, 1, 0), (Failure.RETRY, 40, 0), (Failure.COUNT, 5, 5)],
)
def test_a_failed_iteration_is_undone(reaction, failures, recorded):
    problem, start = Stuck(reaction), State(3.0, 3.0)
    result, errors = alternate(problem, start, PLAN)
    assert result == start
    assert problem.failures == failures
    assert len(errors) - 1 == recorded
