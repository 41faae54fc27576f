"""The rasteriser on meshes small enough to know every pixel, and the look on a sphere."""

import sys
import time
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from builders import sphere

from understudy.evaluation import render as rasteriser
from understudy.evaluation import shading
from understudy.evaluation.camera import Camera
from understudy.evaluation.render import HeatMap, render, visible
from understudy.evaluation.report.html import png_bytes
from understudy.evaluation.shading import turbo
from understudy.geometry.normals import vertex_normals
from understudy.system.errors import InputError, MissingDependencyError

UNIT = np.array([[-1.0, -1, -1], [1, 1, 1]])  # frames the square -1..1


FRONT = Camera(view=(0, 0), size=(40, 40), fit_to=UNIT)


def flat(vertices, triangles, values=None, samples=1, **look):
    """A picture to measure: no lights, one sample a pixel, from the front, framing -1..1.

    values: shown as colours from 0 to 1.
    """
    heat = None if values is None else HeatMap(values, 0.0, 1.0)
    camera = replace(FRONT, **look)
    with no_lights():
        return render(vertices, triangles, camera, heat=heat, samples=samples)


def no_lights():
    """Colours as they are, for pictures that are measured."""
    plain = lambda normals, albedo, openness, studio: np.broadcast_to(albedo, normals.shape)
    return mock.patch.object(shading, "shade", plain)


def clay(vertices, triangles, size, **more):
    return render(vertices, triangles, Camera(size=size), **more)


def covered(picture):
    """(h,w) bool: where the picture differs from an empty one."""
    empty = flat(np.zeros((3, 3)), np.zeros((0, 3), int), size=picture.shape[1::-1])
    return (picture != empty).any(axis=2)


def test_a_triangle_covers_exactly_the_pixels_whose_centres_it_holds():
    corners = np.array([[-0.9, -0.7, 0], [0.8, -0.4, 0], [-0.2, 0.9, 0]])
    picture = flat(corners, [[0, 1, 2]])
    placed = FRONT.project(corners)[:, :2]
    x, y = np.meshgrid(np.arange(40) + 0.5, np.arange(40) + 0.5)
    sides = []
    for a, b in zip(placed, np.roll(placed, -1, axis=0)):
        sides.append((b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]))
    inside = np.all(np.array(sides) <= 0, axis=0) | np.all(np.array(sides) >= 0, axis=0)
    assert np.array_equal(covered(picture), inside)


def test_triangles_that_share_edges_leave_no_crack():
    rng = np.random.default_rng(0)
    n = 13
    grid = np.stack(np.meshgrid(np.linspace(-0.95, 0.95, n), np.linspace(-0.95, 0.95, n)), axis=-1)
    grid[1:-1, 1:-1] += rng.uniform(-0.05, 0.05, (n - 2, n - 2, 2))
    vertices = np.concatenate([grid.reshape(-1, 2), np.zeros((n * n, 1))], axis=1)
    a = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).reshape(-1)
    triangles = np.concatenate(
        [np.stack([a, a + 1, a + n], 1), np.stack([a + 1, a + n + 1, a + n], 1)]
    )
    whole = flat(
        vertices[[0, n - 1, n * n - 1, n * n - n]], [[0, 1, 2], [0, 2, 3]], size=(173, 173)
    )
    assert np.array_equal(covered(flat(vertices, triangles, size=(173, 173))), covered(whole))


@pytest.mark.parametrize("behind", [-0.9, -0.25, 0.0, 0.4])
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_nearer_triangle_wins_whatever_the_order(order, behind):
    square = np.array([[-1.0, -1, behind], [1, -1, behind], [0, 1, behind]])
    vertices = np.concatenate([square, square + np.array([0, 0, 0.5])])
    values = np.array([0.0] * 3 + [1.0] * 3)
    picture = flat(vertices, np.array([[0, 1, 2], [3, 4, 5]])[order], values=values)
    assert picture[20, 20].tolist() == turbo()[255].tolist()


def test_crossing_triangles_are_resolved_per_pixel():
    low, high = [[-1, -1, -1], [1, -1, 1], [0, 1, 0]], [[-1, -1, 1], [1, -1, -1], [0, 1, 0]]
    picture = flat(
        np.array(low + high, float),
        [[0, 1, 2], [3, 4, 5]],
        values=[0] * 3 + [1] * 3,
    )
    assert picture[30, 26].tolist() == turbo()[0].tolist()  # right: the first is nearer
    assert picture[30, 13].tolist() == turbo()[255].tolist()


def test_values_are_interpolated_and_clamped_and_nan_is_grey():
    quad = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    faces = [[0, 1, 2], [0, 2, 3]]
    picture = flat(quad, faces, values=[0, 1, 1, 0])
    row = picture[20, 2:38].astype(int)
    line = np.stack([np.linspace(-1, 1, 201), np.zeros(201), np.zeros(201)], 1)
    x = FRONT.project(line)[:, 0]
    wanted = np.interp(np.arange(2, 38) + 0.5, x, np.linspace(0, 1, 201))
    assert np.abs(row - turbo()[(wanted * 255).round().astype(int)]).max() <= 6
    assert flat(quad, faces, values=[9] * 4)[20, 20].tolist() == turbo()[255].tolist()
    grey = flat(quad, faces, values=[np.nan] * 4)[20, 20]
    assert len(set(grey.tolist())) == 1


TETRA = np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])


def dot(at, size=0.2):
    """A small tetrahedron around a point: seen from every side."""
    return np.asarray(at) + size * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])


def centre(picture):
    rows, columns = np.nonzero(covered(picture))
    return columns.mean() - 19.5, 19.5 - rows.mean()  # right, up


@pytest.mark.parametrize(
    ("point", "view", "up_axis", "right", "up"),
    [
        ((0.6, 0, 0), (0, 0), "Y", 1, 0),  # +X on the viewer's right
        ((0, 0.6, 0), (0, 0), "Y", 0, 1),
        ((0, 0, 0.6), (90, 0), "Y", -1, 0),  # from +X the front of the character looks left
        ((0, 0.6, 0), (90, 0), "Y", 0, 1),
        ((0.6, 0, 0), (180, 0), "Y", -1, 0),
        ((0.6, 0, 0), (0, 0), "Z", 1, 0),  # Z up: the front is -Y
        ((0, 0, 0.6), (0, 0), "Z", 0, 1),
        ((0, -0.6, 0), (90, 0), "Z", -1, 0),
        ((0, 0, 0.6), (0, 45), "Y", 0, -1),  # from above, what is nearer is lower
    ],
)
def test_up_is_up_and_right_is_right(point, view, up_axis, right, up):
    found = centre(flat(dot(point), TETRA, view=view, up_axis=up_axis))
    assert [round(np.sign(x)) if abs(x) > 3 else 0 for x in found] == [right, up]


def test_the_front_view_looks_from_plus_z():
    vertices = np.concatenate([dot((0, 0, 0.5)), dot((0, 0, -0.5))])
    picture = flat(vertices, np.concatenate([TETRA, TETRA + 4]), values=[1] * 4 + [0] * 4)
    assert picture[20, 20].tolist() == turbo()[255].tolist()


def test_left_handed_coordinates_are_mirrored():
    assert centre(flat(dot((0.6, 0, 0)), TETRA, handedness="left"))[0] < -3


def test_empty_degenerate_and_broken_meshes_draw_what_is_whole():
    empty = flat(np.zeros((0, 3)), np.zeros((0, 3), int))
    assert empty.shape == (40, 40, 3)
    line = flat([[-1, 0, 0], [0, 0, 0], [1, 0, 0]], [[0, 1, 2], [0, 0, 0]])
    assert not covered(line).any()
    good = np.array([[-0.5, -0.5, 0], [0.5, -0.5, 0], [0, 0.5, 0]])
    for bad in (np.nan, np.inf, 1e200):
        vertices = np.concatenate([good, [[bad, 0, 0]]])
        assert np.array_equal(flat(vertices, [[0, 1, 2], [0, 1, 3]]), flat(good, [[0, 1, 2]]))
        assert clay(vertices, [[0, 1, 2], [0, 1, 3]], (30, 30)).shape == (30, 30, 3)


def test_one_exploded_vertex_does_not_spoil_the_depth_of_the_rest():
    square = np.array([[-1.0, -1, 0], [1, -1, 0], [0, 1, 0]])
    vertices = np.concatenate([square, square + np.array([0, 0, 0.01]), [[1e30, 1e30, -1e30]]])
    picture = flat(vertices, [[3, 4, 5], [0, 1, 2], [0, 1, 6]], values=[0] * 3 + [1] * 3 + [0])
    assert picture[20, 20].tolist() == turbo()[255].tolist()


def test_far_from_the_origin_the_picture_is_the_same():
    vertices, triangles = sphere()
    near = clay(vertices, triangles, (80, 80))
    far = clay(vertices + 2.0**16, triangles, (80, 80))
    assert np.abs(near.astype(int) - far).max() <= 2


def test_the_same_mesh_gives_the_same_bytes():
    vertices, triangles = sphere()
    first, second = (
        clay(vertices, triangles, (90, 70), heat=HeatMap(vertices[:, 1], -1.0, 1.0))
        for _ in range(2)
    )
    assert png_bytes(first) == png_bytes(second)


def test_small_chunks_draw_the_same(monkeypatch):
    vertices, triangles = sphere()
    whole = clay(vertices, triangles, (60, 60))
    monkeypatch.setattr(rasteriser, "_CHUNK", 500)
    assert np.array_equal(clay(vertices, triangles, (60, 60)), whole)


def test_the_key_light_comes_from_the_upper_left_and_edges_are_smooth():
    vertices, triangles = sphere()
    picture = render(vertices, triangles, Camera(view=(0, 0), size=(200, 200)))
    picture = picture.astype(float).mean(axis=2)
    assert picture[60, 70] > picture[100, 100] > picture[150, 130]
    assert len(np.unique(picture[100])) > 50  # shaded, not flat


def test_both_sides_of_a_surface_are_lit_alike():
    vertices, triangles = sphere()
    assert np.array_equal(
        clay(vertices, triangles, (60, 60)), clay(vertices, triangles[:, ::-1], (60, 60))
    )


def test_fit_to_keeps_several_pictures_in_place():
    vertices, triangles = sphere(8, 12)
    half = covered(flat(vertices * 0.5, triangles)).sum()
    assert half == pytest.approx(covered(flat(vertices, triangles)).sum() / 4, rel=0.1)
    assert FRONT.world_width == pytest.approx(2 / 0.9)


def test_visible_knows_what_is_behind():
    vertices, triangles = sphere()
    seen = visible(vertices, triangles, Camera(view=(0, 0)))
    facing = vertex_normals(vertices, triangles)[:, 2]
    assert seen[facing > 0.3].all()
    assert not seen[facing < -0.3].any()


def test_colours_of_vertices_are_shown():
    quad = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    colours = np.tile([200, 40, 90], (4, 1))
    with no_lights():
        picture = render(quad, [[0, 1, 2], [0, 2, 3]], FRONT, colours=colours)
    assert picture[20, 20].tolist() == [200, 40, 90]
    with pytest.raises(InputError, match="colours"):
        render(quad, [[0, 1, 2]], FRONT, colours=colours[:2])


def test_vertex_normals_of_a_sphere_point_outwards():
    vertices, triangles = sphere()
    assert np.einsum("vc,vc->v", vertex_normals(vertices, triangles), vertices).min() > 0.99


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"view": (0, np.nan)}, "view angle"),
        ({"size": (0, 10)}, "picture size"),
        ({"up_axis": "X"}, "up axis"),
        ({"values": [1, 2]}, "values"),
        ({"samples": 0}, "samples"),
    ],
)
def test_wrong_arguments_are_named(options, words):
    with pytest.raises(InputError, match=words):
        flat(np.eye(3), [[0, 1, 2]], **options)
    with pytest.raises(InputError, match="index 7 is outside"):
        flat(np.eye(3), [[0, 1, 7]])


def test_a_body_of_27k_triangles_draws_fast():
    vertices, triangles = sphere(97, 140)
    clay(vertices, triangles, (60, 80))  # imports
    start = time.process_time()  # not the wall clock, which other processes slow down
    clay(vertices * [0.4, 1, 0.3], triangles, (600, 800))
    assert len(triangles) > 26_000
    assert time.process_time() - start < 5.0  # about 0.5 s on an idle core


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        png_bytes(np.zeros((2, 2, 3), np.uint8))
    assert flat(*sphere(8, 12)).any()  # clay needs neither


def test_every_side_draws():
    for view in ((0, 0), (90, 0), (180, 0), (35, 8)):
        assert covered(flat(*sphere(8, 12), view=view)).any()
