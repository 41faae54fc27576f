"""The compiled kernels against the NumPy reference, and the properties of both."""

from dataclasses import replace

import decomposition_reference as reference
import numpy as np
import pytest

from understudy.methods.decomposition.solve import kernels
from understudy.methods.decomposition.solve.motion import WeightProblem, WeightSearch


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    rest = np.column_stack([rng.normal(size=(120, 3)), np.ones(120)])
    targets = rng.normal(size=(120, 18))
    return WeightProblem(rest, targets, (targets**2).sum(axis=1), rng.normal(size=(18, 4 * 9)))


def start(count, places):
    return np.zeros((count, places), np.int32), np.zeros((count, places))


@pytest.mark.parametrize("from_all", [False, True])
@pytest.mark.parametrize("places", [1, 2, 4, 9])
def test_weights_agree(problem, places, from_all):
    given = (problem, WeightSearch(places, 2, 5, from_all), *start(120, places))
    index, weight, value = kernels.solve_weights(*given)
    other_index, other_weight, other_value = reference.solve_weights(*given)
    np.testing.assert_allclose(value, other_value, rtol=1e-6)
    np.testing.assert_array_equal(index, other_index)
    np.testing.assert_allclose(weight, other_weight, atol=1e-6)


@pytest.mark.parametrize("from_all", [False, True])
@pytest.mark.parametrize("places", [2, 4])
def test_weights_on_allowed_bones_agree(problem, places, from_all):
    allowed = np.random.default_rng(1).random((120, 9)) < 0.4
    allowed[np.arange(120), np.arange(120) % 9] = True
    some = replace(problem, allowed=allowed)
    given = (some, WeightSearch(places, 2, 5, from_all), *start(120, places))
    index, weight, value = kernels.solve_weights(*given)
    np.testing.assert_allclose(value, reference.solve_weights(*given)[2], rtol=1e-6)
    assert allowed[np.arange(120)[:, None], index][weight > 0].all()
    np.testing.assert_allclose(weight.sum(axis=1), 1)
    assert value.mean() > kernels.solve_weights(problem, *given[1:])[2].mean()


@pytest.mark.parametrize("solver", [kernels, reference], ids=["compiled", "reference"])
def test_weights_are_convex_never_worse_and_their_error_is_exact(problem, solver):
    rng = np.random.default_rng(2)
    index = np.stack([rng.permutation(9)[:3] for _ in range(120)]).astype(np.int32)
    weight = rng.dirichlet(np.ones(3), 120)
    transforms = problem.transforms.reshape(18, 9, 4)

    def error(index, weight):
        blended = np.einsum("vk,rvkj,vj->vr", weight, transforms[:, index], problem.rest)
        return ((blended - problem.targets) ** 2).sum(axis=1)

    found, shares, value = solver.solve_weights(problem, WeightSearch(3), index, weight)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(error(found, shares), value, rtol=1e-9)
    assert (value <= error(index, weight) * (1 + 1e-12)).all()


def test_normal_equations_and_their_solution_agree(problem):
    rng = np.random.default_rng(3)
    rest, targets = problem.rest, problem.targets
    index = np.stack([rng.permutation(6)[:3] for _ in range(120)]).astype(np.int32)
    weight = rng.dirichlet(np.ones(3), 120)
    gram, cross = kernels.normal_equations(rest, index, weight, targets, 6)
    for mine, other in zip(
        (gram, cross), reference.normal_equations(rest, index, weight, targets, 6)
    ):
        np.testing.assert_allclose(mine, other, atol=1e-9)
    np.testing.assert_allclose(
        kernels.solve_positive(gram, cross, 1e-6),
        reference.solve_positive(gram, cross, 1e-6),
        atol=1e-6,
    )


def test_rigid_sweeps_agree(problem):
    rng = np.random.default_rng(4)
    design = rng.normal(size=(60, 20))
    gram, cross = design.T @ design, rng.normal(size=(7, 3, 20))
    identity = np.ascontiguousarray(np.tile(np.eye(3, 4), (7, 1, 5)))
    np.testing.assert_allclose(
        kernels.rigid_sweeps(gram, cross, identity, 4),
        reference.rigid_sweeps(gram, cross, identity, 4),
        atol=1e-6,
    )


def test_nearest_rotations_agree_and_bear_degenerate_matrices():
    rng = np.random.default_rng(5)
    matrices = rng.normal(size=(400, 3, 3))
    np.testing.assert_allclose(
        kernels.nearest_rotations(matrices), reference.nearest_rotations(matrices), atol=1e-6
    )
    matrices[0], matrices[1], matrices[2:40] = (
        0,
        -np.eye(3),
        rng.normal(size=(38, 3, 1)) * rng.normal(size=(38, 1, 3)),
    )
    rotations = kernels.nearest_rotations(matrices)
    np.testing.assert_allclose(
        rotations @ rotations.transpose(0, 2, 1), np.tile(np.eye(3), (400, 1, 1)), atol=1e-9
    )
    np.testing.assert_allclose(np.linalg.det(rotations), 1, atol=1e-9)
    match = lambda turns: np.einsum("nij,nij->n", turns, matrices)
    np.testing.assert_allclose(
        match(rotations), match(reference.nearest_rotations(matrices)), atol=1e-9
    )


def test_the_result_does_not_depend_on_the_number_of_threads(problem, monkeypatch):
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(kernels.threads, "count", lambda threads=threads: threads)
        search = WeightSearch(4, 2, 5)
        index, weight, _ = kernels.solve_weights(problem, search, *start(120, 4))
        results.append(
            (weight, *kernels.normal_equations(problem.rest, index, weight, problem.targets, 9))
        )
    for other in results[1:]:
        for mine, theirs in zip(results[0], other):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": np.full((120, 4), 9, np.int32)},
        {"square": np.zeros(119)},
        {"linear": np.zeros((120, 35))},
        {"gram": np.zeros((36, 35))},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_the_binding_refuses_wrong_shapes_and_bones(problem, wrong):
    index, weight = start(120, 4)
    given = {
        "rest": problem.rest,
        "square": np.zeros(120),
        "linear": problem.targets @ problem.transforms,
        "gram": problem.transforms.T @ problem.transforms,
        "index": index,
        "weight": weight,
    } | wrong
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kernels.compiled().solve_weights(
            **given, value=np.empty(120), candidates=2, exchanges=3, from_all=False, threads=1
        )


def test_moments_are_sums_over_the_vertices(problem):
    rng = np.random.default_rng(5)
    rest = problem.rest
    index = np.stack([rng.permutation(6)[:3] for _ in range(120)]).astype(np.int32)
    weight = rng.dirichlet(np.ones(3), 120)
    dense = np.zeros((120, 6))
    np.put_along_axis(dense, index.astype(np.int64), weight, axis=1)
    np.testing.assert_allclose(
        kernels.moments(rest, index, weight, 6),
        np.einsum("vb,vj,vk->bjk", dense, rest, rest),
        atol=1e-9,
    )
