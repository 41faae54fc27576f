"""Dense weights to influences, float32 rows that sum to one, and the error norms."""

import numpy as np
import pytest

from understudy.geometry.error_norms import box_error, half_diagonal, weight_error
from understudy.geometry.skinning import (
    dense_to_influences,
    float32_influences,
    float32_weights,
)


def test_influences_hold_the_largest_weights_of_any_sign():
    dense = np.array([[0.0, 1.5, -0.5, 0.0], [0.0, 0.0, 0.0, 1.0], [0.1, 0.2, 0.3, 0.4]])
    index, weight = dense_to_influences(dense)
    assert index.dtype == np.int32
    assert index.tolist() == [[1, 2, 0, 0], [3, 0, 0, 0], [3, 2, 1, 0]]
    rebuilt = np.zeros_like(dense)
    np.add.at(rebuilt, (np.arange(3)[:, None], index), weight)
    np.testing.assert_array_equal(rebuilt, dense)
    index, weight = dense_to_influences(dense, 2)
    assert weight.tolist() == [[1.5, -0.5], [1.0, 0.0], [0.4, 0.3]]


def test_float32_rows_sum_to_one_and_the_largest_takes_the_rounding():
    weight = np.random.default_rng(0).dirichlet(np.ones(9), 200)
    rounded = float32_weights(weight)
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(rounded.sum(axis=1, dtype=np.float64), 1, atol=1e-7)
    largest = weight.argmax(axis=1)
    others = np.arange(9) != largest[:, None]
    np.testing.assert_array_equal(rounded[others], weight.astype(np.float32)[others])


def test_weights_that_vanish_in_float32_get_index_zero():
    index, weight = float32_influences(np.array([[3, 5]]), np.array([[1.0, 1e-60]]))
    assert index.tolist() == [[3, 0]]
    assert weight.tolist() == [[1.0, 0.0]]


def test_error_norms():
    box = np.array([[0, 0, 0], [3, 4, 0]])
    assert half_diagonal(box) == 2.5
    assert box_error(0.5, box) == pytest.approx(200)
    assert box_error(0.5, box, unit=2.0) == pytest.approx(400)
    assert box_error(0.5, box[:1]) == pytest.approx(500)  # no extent: the model's own unit
    assert weight_error(8.0, 2) == 2
