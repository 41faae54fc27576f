"""Normals and smoothing of quads, on two of them that share an edge and a vertex without any."""

import numpy as np
import pytest

from understudy_characters.quad_mesh import quad_normals, quad_smoothing

QUADS = np.array([[0, 1, 2, 3], [1, 4, 5, 2]])


def test_smoothing_keeps_constants_where_there_are_neighbours_and_averages_by_hand():
    smoother = quad_smoothing(QUADS, 7)
    np.testing.assert_allclose(smoother @ np.ones(7), [1, 1, 1, 1, 1, 1, 0.5])
    field = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    assert (smoother @ field)[0] == 0.5 * 1 + 0.5 * (2 + 8) / 2
    assert (smoother @ field)[2] == pytest.approx(0.5 * 4 + 0.5 * (2 + 8 + 32) / 3)


def test_normals_are_unit_vectors_that_weigh_larger_quads_more():
    flat = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [4, 0], [4, 1], [9, 9]])
    points = np.column_stack([flat, np.zeros(7)]).astype(float)
    points[[4, 5], 2] = 3.0  # the larger quad leans back by 45 degrees
    normals = quad_normals(points, QUADS)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), [1] * 6 + [0])
    lean = np.array([-1, 0, 1]) / np.sqrt(2)
    np.testing.assert_allclose(normals[[0, 4]], [[0, 0, 1], lean], atol=1e-12)
    assert normals[1] @ lean > normals[1] @ [0, 0, 1]
