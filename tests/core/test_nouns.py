"""Mesh, Skeleton, ControlSpec and Poses: what they derive, and what they refuse."""

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import ControlSpec, FileError, InputError, Mesh, Poses, Skeleton


def test_polygons_become_fans_and_edges():
    mesh = Mesh(
        np.random.default_rng(0).normal(size=(6, 3)),
        polygon_sizes=[5, 3],
        polygon_vertices=[0, 1, 2, 3, 4, 4, 3, 5],
    )
    assert mesh.triangles.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4], [4, 3, 5]]
    assert mesh.edges.tolist() == [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4], [3, 5], [4, 5]]


def test_a_mesh_of_points_alone_has_no_triangles_and_no_edges():
    mesh = Mesh([[1, 2, 3]], polygon_sizes=[], polygon_vertices=[])
    assert mesh.triangles.shape == (0, 3)
    assert mesh.edges.shape == (0, 2)
    assert (
        mesh.height == 1.0
    )  # one point has no size; a percentage still needs something to divide by


def test_height_is_along_the_up_axis():
    box = [[0, 0, 0], [1, 2, 3]]
    assert Mesh(box, [], []).height == 2
    assert Mesh(box, [], [], up_axis="Z").height == 3
    assert Mesh([[0, 0, 0], [4, 0, 1]], [], []).height == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mesh(np.zeros((0, 3)), [], []), "the mesh is empty"),
        (lambda: Mesh([[0, 0, np.nan]], [], []), "mesh vertices: 1 of 3 numbers"),
        (lambda: Mesh(np.eye(3), [2], [0, 1]), "polygon 0 has 2 corners"),
        (lambda: Mesh(np.eye(3), [3], [0, 1, 3]), "polygon_vertices: index 3 is outside"),
        (lambda: Mesh(np.eye(3), [3], [0, 1]), "polygon_vertices: expected shape"),
        (lambda: Mesh(np.eye(3), [3], [0, 1, 2], unit="parsec"), "unknown unit 'parsec'"),
        (lambda: Mesh(np.eye(3), [3], [0, 1, 2], parts={"eyes": [7]}), "part 'eyes': index 7"),
        (
            lambda: Skeleton(("a", "b"), [1, -1], np.tile(np.eye(3, 4), (2, 1, 1))),
            "a parent must come before its child",
        ),
        (lambda: Skeleton(("a",), [-1], np.zeros((1, 3, 4))), "'a' is not invertible"),
        (lambda: ControlSpec(("a",), [1], [0]), "'a': the range 1..0 must be in order"),
        (lambda: ControlSpec(("a",), [0], [2], limit_high=[1]), "inside the limits"),
        (lambda: ControlSpec(("a", "a"), [0, 0], [1, 1]), "duplicate name"),
    ],
)
def test_wrong_nouns_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def poses(count=4, **change):
    mesh, skeleton = grid_mesh(), chain_skeleton()
    spec = ControlSpec(("bend",), [0], [1])
    parts = {
        "vertices": np.tile(mesh.vertices, (count, 1, 1)),
        "skeleton": skeleton,
        "world_from_bone": random_motion(skeleton, count),
        "control_spec": spec,
        "controls": np.arange(count)[:, None] * 0.1,
    }
    return Poses(mesh, **{**parts, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vertices": np.zeros((4, 5, 3))}, "has 5 vertices, the mesh has 24"),
        ({"vertices": np.full((4, 24, 3), np.nan)}, "NaN or infinite"),
        (
            {
                "vertices": np.zeros((0, 24, 3)),
                "world_from_bone": np.zeros((0, 3, 3, 4)),
                "controls": np.zeros((0, 1)),
            },
            "has no poses",
        ),
        ({"world_from_bone": None}, "belong together"),
        ({"world_from_bone": np.zeros((4, 2, 3, 4))}, "world_from_bone: expected shape"),
        ({"controls": np.zeros((3, 1))}, "controls: expected shape"),
        ({"control_spec": None}, "belong together"),
    ],
)
def test_poses_that_do_not_fit_together_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        poses(**change)


def test_take_keeps_order_and_everything_that_belongs_to_a_pose():
    whole = poses(6)
    some = whole.take([4, 1], name="some")
    assert some.controls[:, 0].tolist() == [0.4, 0.1]
    np.testing.assert_array_equal(some.world_from_bone, whole.world_from_bone[[4, 1]])
    assert some.name == "some"
    with pytest.raises(InputError, match="index 6 is outside"):
        whole.take([6])


def test_control_values_outside_the_limits_name_the_control():
    spec = ControlSpec(
        ("elbow", "knee"),
        [0, 0],
        [90, 90],
        limit_low=[-10, 0],
        limit_high=[100, 120],
        units=("deg", "deg"),
    )
    spec.check([[-10, 120]])
    with pytest.raises(
        InputError,
        match=r"control 'knee' is 121 at pose 1, outside what the rig accepts \(0..120 deg\)",
    ):
        spec.check([[0, 0], [0, 121]])
    with pytest.raises(InputError, match="NaN"):
        spec.check([[np.nan, 0]])
    with pytest.raises(InputError, match="expected shape"):
        spec.check([[0]])


def test_ranges_are_edited_in_a_small_file(tmp_path):
    spec = ControlSpec(
        ("elbow.L", "knee"),
        [0, 0],
        [90, 90],
        limit_low=[-10, 0],
        limit_high=[100, 120],
        units=("deg", ""),
    )
    file = tmp_path / "ranges.toml"
    file.write_text(spec.ranges_text())
    again = spec.with_ranges(file)
    assert (again.low.tolist(), again.high.tolist()) == (spec.low.tolist(), spec.high.tolist())
    shorter = [line for line in spec.ranges_text().splitlines() if not line.startswith('"knee')]
    file.write_text("\n".join(shorter))  # a deleted line takes a control out
    assert spec.with_ranges(file).high.tolist() == [90, 0]
    file.write_text('"elbow.L" = [-5, 50]\n')
    edited = spec.with_ranges(file)
    assert (edited.low[0], edited.high[0], edited.high[1]) == (-5, 50, 90)
    for text, message in (
        ("kne = [0, 1]", "did you mean 'knee'"),
        ("knee = 4", r"expected \[low, high\], got 4"),
        ("knee = [0, 500]", "inside the limits"),
        ('"*" = "all"', 'only "rest" is known'),
        ("knee = [", "cannot be read as a ranges file"),
    ):
        file.write_text(text)
        with pytest.raises((InputError, FileError), match=message):
            spec.with_ranges(file)
    with pytest.raises(FileError, match="no such ranges file"):
        spec.with_ranges(tmp_path / "none.toml")
