"""Quadratic programs over the simplex: optimality conditions, exhaustive search, edge cases."""

from itertools import combinations

import numpy as np
import pytest

from understudy.geometry.simplex_qp import (
    SimplexQP,
    Supports,
    half_gradient,
    objective,
    solve_on_support,
    solve_simplex_qp,
    solve_sparse_simplex_qp,
)

N, B = 40, 7
ROWS = np.arange(N)


@pytest.fixture(scope="module")
def problems() -> SimplexQP:
    vectors = np.random.default_rng(0).normal(size=(N, B, 12)) + 0.5
    return SimplexQP(vectors @ vectors.transpose(0, 2, 1), np.full(N, 12.0))


def test_the_minimum_satisfies_the_optimality_conditions(problems):
    found = solve_simplex_qp(problems)
    assert (found.weight[found.used] > 0).all()
    np.testing.assert_allclose(found.weight.sum(axis=1), 1)
    slope, value = half_gradient(problems, ROWS, found)
    assert (slope.min(axis=1) >= value * (1 - 1e-6)).all()
    on_support = np.take_along_axis(slope, found.index, axis=1) / value[:, None]
    np.testing.assert_allclose(on_support[found.used], 1, atol=1e-9)
    np.testing.assert_allclose(value, objective(problems, ROWS, found))


def test_small_supports_are_exact_and_larger_ones_never_worse(problems):
    levels = solve_sparse_simplex_qp(problems, B)
    values = np.array([objective(problems, ROWS, level) for level in levels])
    assert (np.diff(values, axis=0) <= 1e-12 * values[0]).all()
    np.testing.assert_allclose(values[-1], objective(problems, ROWS, solve_simplex_qp(problems)))
    for size in (1, 2):
        best = np.full(N, np.inf)
        for chosen in combinations(range(B), size):
            start = Supports(np.tile(chosen, (N, 1)), np.full((N, size), 1 / size),
                             np.ones((N, size), bool))  # fmt: skip
            best = np.minimum(
                best, objective(problems, ROWS, solve_on_support(problems, ROWS, start))
            )
        np.testing.assert_allclose(values[size - 1], best)
    for size, level in enumerate(levels, 1):
        assert (level.sizes <= size).all()


def test_equal_variables_and_zero_matrices_have_a_solution():
    for matrix in (np.zeros((1, 3, 3)), np.ones((1, 3, 3))):
        found = solve_simplex_qp(SimplexQP(matrix, np.ones(1)))
        np.testing.assert_allclose(found.weight.sum(axis=1), 1)


def test_compact_sorts_and_cuts():
    support = Supports(
        np.array([[4, 0, 2]]), np.array([[0.2, 0.0, 0.8]]), np.array([[True, False, True]])
    )
    assert support.compact().index.tolist() == [[2, 4]]
    assert support.compact(1).weight.tolist() == [[0.8]]
    assert support.compact(4).used.tolist() == [[True, True, False, False]]
    assert support.drop(np.array([2])).compact().weight.tolist() == [[1.0]]
