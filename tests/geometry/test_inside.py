"""Winding numbers, rays and medial points on a box whose inside is known."""

import numpy as np
import pytest

from understudy.geometry.inside import (
    are_inside,
    first_hits,
    medial_points,
    surface_points,
    winding_numbers,
)

CORNERS = np.array([[x, y, z] for x in (0.0, 4) for y in (0.0, 1) for z in (0.0, 1)])
FACES = np.array(
    [
        [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
        [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
    ]
)  # fmt: skip


def test_points_inside_and_outside_a_box():
    random = np.random.default_rng(0)
    points = random.uniform(-1, 5, size=(300, 3))
    inside = ((points > 0) & (points < [4, 1, 1])).all(axis=1)
    np.testing.assert_array_equal(are_inside(points, CORNERS, FACES), inside)
    np.testing.assert_array_equal(are_inside(points, CORNERS, FACES[:, ::-1]), inside)
    numbers = np.abs(winding_numbers(points, CORNERS, FACES))
    np.testing.assert_allclose(numbers, inside, atol=1e-9)


def test_without_triangles_nothing_is_inside():
    assert not are_inside(np.zeros((2, 3)), CORNERS, np.zeros((0, 3), int)).any()


@pytest.mark.parametrize("faces", [FACES, FACES[:, ::-1]])
def test_a_point_outside_moves_to_the_middle_of_the_box(faces):
    outside = np.array([[2.0, 1.4, 0.5], [1.0, 0.5, -2.0], [3.0, -0.1, 0.3]])
    middle = medial_points(outside, CORNERS, faces)
    np.testing.assert_allclose(middle, [[2, 0.5, 0.5], [1, 0.5, 0.5], [3, 0.5, 0.3]], atol=1e-3)
    assert are_inside(middle, CORNERS, faces).all()


def test_rays_and_distances():
    hits = first_hits(
        np.array([[1.0, 0.5, 0.5], [1.0, 5.0, 0.5]]), np.array([[1.0, 0, 0]] * 2), CORNERS[FACES]
    )
    np.testing.assert_allclose(hits, [3.0, np.inf])
    nearest = surface_points(np.array([[2.0, 3.0, 0.5]]), CORNERS, FACES)
    np.testing.assert_allclose(nearest, [[2.0, 1.0, 0.5]])
