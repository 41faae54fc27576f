import numpy as np
import pytest

from understudy.geometry import pca
from understudy.geometry.pca import components_for_error, principal_components


def low_rank(samples, width, rank, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    data = (
        rng.normal(size=(samples, rank))
        * np.geomspace(10, 1, rank)
        @ np.linalg.qr(rng.normal(size=(width, rank)))[0].T
    )
    data = (data + noise * rng.normal(size=data.shape)).astype(np.float32)
    return data - data.mean(0)


@pytest.mark.parametrize("shape", [(40, 90), (90, 40), (700, 900)])
def test_the_span_is_that_of_a_full_svd(shape):
    data = low_rank(*shape, rank=8, noise=1e-3)
    directions, values = principal_components(data, 8)
    np.testing.assert_allclose(directions.T @ directions, np.eye(8), atol=1e-6)
    _, expected, rows = np.linalg.svd(data, full_matrices=False)
    np.testing.assert_allclose(values, expected[:8], rtol=1e-3)
    np.testing.assert_allclose(directions @ directions.T @ rows[:8].T, rows[:8].T, atol=2e-3)


def test_the_large_case_is_the_iterative_one_and_repeats_exactly(monkeypatch):
    data = low_rank(700, 900, rank=8, noise=1e-3)
    np.testing.assert_array_equal(
        principal_components(data, 8)[0], principal_components(data, 8)[0]
    )
    iterative = principal_components(data, 8)[1]
    monkeypatch.setattr(pca, "_EXACT_UP_TO", 10**6)
    np.testing.assert_allclose(iterative, principal_components(data, 8)[1], rtol=1e-4)


def test_nothing_moves_nothing_comes_back():
    directions, values = principal_components(np.zeros((20, 9), np.float32), 4)
    assert directions.shape == (9, 0)
    assert values.shape == (0,)


def test_the_count_is_the_smallest_that_keeps_the_error():
    data = low_rank(300, 60, rank=12)
    directions = principal_components(data, 20)[0].astype(np.float32)
    scale = np.ones(20)

    def left(count):
        kept = directions[:, :count]
        return np.linalg.norm((data - data @ kept @ kept.T).reshape(300, 20, 3), axis=2).mean()

    for error in (1.0, 0.3, 1e-3):
        count = components_for_error(data, directions, scale, error)
        assert left(count) <= error
        assert count == 0 or left(count - 1) > error
    assert components_for_error(data, directions, scale, 1e9) == 0
