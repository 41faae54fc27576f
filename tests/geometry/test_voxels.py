"""Voxels of a body agree with its winding numbers; balls fill it."""

import numpy as np
import pytest

from understudy.geometry.inside import are_inside, interior_balls, solid_voxels, surface_samples


def torus(rings=24, sides=12, radius=1.0, thickness=0.35):
    around, across = np.meshgrid(
        np.linspace(0, 2 * np.pi, rings, endpoint=False),
        np.linspace(0, 2 * np.pi, sides, endpoint=False),
        indexing="ij",
    )
    away = radius + thickness * np.cos(across)
    points = np.stack(
        [away * np.cos(around), away * np.sin(around), thickness * np.sin(across)], axis=-1
    ).reshape(-1, 3)
    corner = lambda i, j: (i % rings) * sides + j % sides
    faces = [
        face
        for i in range(rings)
        for j in range(sides)
        for face in (
            [corner(i, j), corner(i + 1, j), corner(i + 1, j + 1)],
            [corner(i, j), corner(i + 1, j + 1), corner(i, j + 1)],
        )
    ]
    return points, np.array(faces)


@pytest.mark.parametrize("flip", [False, True])
def test_voxels_are_filled_where_the_winding_number_says_inside(flip):
    vertices, faces = torus()
    solid = solid_voxels(vertices, faces[:, ::-1] if flip else faces, 50)
    at = np.argwhere(np.ones_like(solid.filled))[::7]
    points = solid.origin + solid.spacing * (at + 0.5)
    np.testing.assert_array_equal(solid.contains(points), are_inside(points, vertices, faces))


def test_a_small_hole_and_a_second_shell_do_no_harm():
    vertices, faces = torus()
    whole = solid_voxels(vertices, faces, 50).filled
    pierced = solid_voxels(vertices, np.delete(faces, [40, 41], axis=0), 50).filled
    assert (whole != pierced).mean() < 0.01
    twice = np.concatenate([faces, faces + len(vertices)])
    both = solid_voxels(np.concatenate([vertices, vertices]), twice, 50).filled
    np.testing.assert_array_equal(both, whole)


def test_points_far_away_are_in_no_voxel():
    vertices, faces = torus()
    solid = solid_voxels(vertices, faces, 50)
    assert not solid.contains(np.array([[9.0, 0, 0], [-9.0, 0, 0], [0, 0, 0]])).any()
    assert solid.contains(np.array([[1.0, 0, 0]])).all()
    centres = solid.surface_centres()
    assert len(centres)
    assert solid.contains(centres).all()


def test_a_mesh_without_area_has_no_inside():
    vertices, none = torus()[0], np.zeros((0, 3), int)
    assert not solid_voxels(vertices, none, 20).filled.any()
    assert not len(interior_balls(vertices, none)[0])
    point = np.zeros((3, 3))
    assert not solid_voxels(point, np.array([[0, 1, 2]]), 20).filled.any()
    assert not len(surface_samples(point, np.array([[0, 1, 2]]), 10)[0])


def test_balls_touch_the_surface_from_inside():
    vertices, faces = torus(48, 24)
    centres, radii = interior_balls(vertices, faces, 60)
    assert len(centres) > 30
    around = np.hypot(centres[:, 0], centres[:, 1]) - 1.0
    to_ring = np.hypot(around, centres[:, 2])
    assert np.median(to_ring) < 0.1  # the largest balls of a torus are in its middle
    assert (radii > 0).all()
    assert (radii + to_ring < 0.36).all()
