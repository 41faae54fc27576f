import re
from contextlib import suppress

import numpy as np
import pytest
from builders import grid_mesh
from hypothesis import given, settings
from hypothesis import strategies as st
from ply_forms import FORMS, write_in_form

from understudy import FileError, InputError, Mesh, Poses, UnderstudyError
from understudy.core.clip import ClipSpan
from understudy.io.npz import write_recorded_poses
from understudy.io.registry import ReadOptions, read_sequence
from understudy.io.sequences import (
    frame_numbers,
    read_obj,
    read_ply,
    sequence_from_arrays,
    write_obj,
    write_ply,
)


def mixed_mesh() -> Mesh:
    """A triangle, a quad, a pentagon and another triangle, with UVs and two materials."""
    rng = np.random.default_rng(0)
    corners = [0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 0, 1, 1, 3, 6]
    uvs = rng.random((len(corners), 2))
    return Mesh(
        rng.normal(size=(8, 3)),
        [3, 4, 5, 3],
        corners,
        corner_uvs=uvs,
        materials=("skin", "cloth 100%"),
        polygon_material=[0, 0, 1, 0],
    )


def frames_of(mesh, count=12, seed=0):
    rng = np.random.default_rng(seed)
    return mesh.vertices + 0.05 * rng.normal(size=(count, mesh.vertex_count, 3)).astype(np.float32)


def write_frames(folder, mesh, frames, suffix=".obj", digits=1):
    folder.mkdir(parents=True, exist_ok=True)
    for number, frame in enumerate(frames):
        path = folder / f"walk_{number + 5:0{digits}d}{suffix}"
        write_obj(path, mesh, frame) if suffix == ".obj" else write_ply(path, mesh, frame)
    return folder


def same_polygons(a, b):
    return np.array_equal(a.polygon_sizes, b.polygon_sizes) and np.array_equal(
        a.polygon_vertices, b.polygon_vertices
    )


def test_obj_round_trip(tmp_path):
    mesh = mixed_mesh()
    write_obj(tmp_path / "a.obj", mesh)
    read = read_obj(tmp_path / "a.obj")
    np.testing.assert_array_equal(read.vertices, mesh.vertices)
    np.testing.assert_array_equal(read.corner_uvs, mesh.corner_uvs)
    np.testing.assert_array_equal(read.polygon_material, mesh.polygon_material)
    assert same_polygons(read, mesh)
    assert read.materials == mesh.materials


@pytest.mark.parametrize("form", FORMS)
def test_ply_round_trip(tmp_path, form):
    many = Mesh(np.random.default_rng(0).normal(size=(300, 3)), [300, 3], [*range(300), 0, 1, 2])
    for mesh in (mixed_mesh(), grid_mesh(), many):
        write_in_form(tmp_path / "a.ply", mesh, form)
        read = read_ply(tmp_path / "a.ply")
        np.testing.assert_array_equal(read.vertices, mesh.vertices)
        assert same_polygons(read, mesh)


@pytest.mark.parametrize(
    "text",
    [
        "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n",
        "# a comment\r\nv 0 0 0\r\nv 1 0 0\r\nv 1 1 0\r\nv 0 1 0\r\nf 1 2 3 4\r\n",
        "\tv  0 0 0 0.5 0.5 0.5\nv 1 0 0 0 0 0\nv 1 1 0 0 0 0\nv 0 1 0 1 1 1 # last\no thing\ns "
        "off\n  f 1//1 2//1 3 4//2",
        "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvn 0 0 1\nf -4 -3 \\\n -2 -1\nv 9 9 9\n",
        "v 0 0 0\rv 1 0 0\rv 1 1 0\rv 0 1 0\rf 1 2 3 4",
    ],
)
def test_obj_as_others_write_it(tmp_path, text):
    (tmp_path / "a.obj").write_bytes(text.encode())
    read = read_obj(tmp_path / "a.obj")
    assert read.polygon_vertices.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(read.vertices[:4], [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    assert read.corner_uvs is None


def test_ply_as_others_write_it(tmp_path):
    header = (
        "ply\nformat ascii 1.0\ncomment made by hand\nelement camera 1\nproperty float f\nelement "
        "patch 2\nproperty list uchar int ids\n"
        "element vertex 3\nproperty uchar red\nproperty double z\nproperty float y\nproperty float "
        "x\n"
        "element face 2\nproperty uchar flags\nproperty list uchar int vertex_index\nproperty list "
        "uchar float texcoord\nend_header\n"
    )
    (tmp_path / "a.ply").write_text(
        header
        + "35\n2 8 9\n1 7\n255 3 2 1\n255 6 5 4\n255 9 8 7\n0 3 0 1 2 2 0.5 0.5\n1 3 2 1 0 0\n"
    )
    read = read_ply(tmp_path / "a.ply")
    np.testing.assert_array_equal(read.vertices, [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert read.polygon_vertices.tolist() == [0, 1, 2, 2, 1, 0]


@pytest.mark.parametrize("suffix", [".obj", ".ply"])
def test_a_folder_a_pattern_and_a_list_are_the_same(tmp_path, suffix):
    mesh = mixed_mesh()
    frames = frames_of(mesh)
    folder = write_frames(tmp_path / "walk", mesh, frames, suffix)
    (folder / "notes.txt").write_text("not a mesh")
    files = sorted(folder.glob(f"*{suffix}"))
    for source in (folder, str(folder), str(folder / f"walk_*{suffix}"), files):
        poses = read_sequence(source)
        np.testing.assert_array_equal(
            poses.vertices, frames
        )  # 5, 6, ... 9, 10, 11: counted, not spelled
        np.testing.assert_array_equal(poses.mesh.vertices, frames[0])
        assert same_polygons(poses.mesh, mesh)
        assert poses.skeleton is None
        assert poses.spans == (ClipSpan("walk", 12, None, 5),)
    if suffix == ".obj":
        np.testing.assert_array_equal(read_sequence(folder).mesh.corner_uvs, mesh.corner_uvs)


def test_npz_round_trip(tmp_path):
    for mesh in (mixed_mesh(), grid_mesh()):
        frames = frames_of(mesh)
        poses = Poses(
            mesh, frames, frame_rate=30.0, name="walk", spans=(ClipSpan("walk", 12, 30.0, 101),)
        )
        write_recorded_poses(poses, tmp_path / "walk.npz")
        read = read_sequence(tmp_path / "walk.npz")
        np.testing.assert_array_equal(read.vertices, frames)
        np.testing.assert_array_equal(read.mesh.vertices, mesh.vertices)
        np.testing.assert_array_equal(read.mesh.corner_uvs, mesh.corner_uvs)
        assert same_polygons(read.mesh, mesh)
        assert (read.spans, read.frame_rate) == (poses.spans, 30.0)


def test_several_clips_follow_each_other(tmp_path):
    mesh = grid_mesh()
    walk, run = frames_of(mesh, 3), frames_of(mesh, 4, seed=1)
    write_frames(tmp_path / "walk", mesh, walk)
    np.savez(tmp_path / "run.npz", vertices=run, faces=mesh.polygon_vertices.reshape(-1, 4))
    np.savez(
        tmp_path / "other.npz", vertices=run, faces=mesh.polygon_vertices.reshape(-1, 4)[:, ::-1]
    )  # inside out
    write_obj(tmp_path / "rest.obj", mesh)
    poses = read_sequence(
        [tmp_path / "walk", tmp_path / "run.npz", tmp_path / "run.npz"],
        ReadOptions(rest=tmp_path / "rest.obj"),
    )
    np.testing.assert_array_equal(poses.vertices, np.concatenate([walk, run, run]))
    np.testing.assert_array_equal(poses.mesh.vertices, mesh.vertices)
    assert [(s.name, s.frame_count) for s in poses.spans] == [("walk", 3), ("run", 4), ("run_2", 4)]
    with pytest.raises(InputError, match=r"clip 'other' has other polygons than clip 'walk'"):
        read_sequence([tmp_path / "walk", tmp_path / "other.npz"])


def test_rest_from_npz(tmp_path):
    mesh = grid_mesh()
    faces = mesh.polygon_vertices.reshape(-1, 4)
    np.savez(tmp_path / "run.npz", vertices=frames_of(mesh, 4), faces=faces)
    np.savez(tmp_path / "rest.npz", vertices=mesh.vertices, faces=faces)
    np.testing.assert_array_equal(
        read_sequence(tmp_path / "run.npz", ReadOptions(rest=tmp_path / "rest.npz")).mesh.vertices,
        mesh.vertices,
    )


@pytest.mark.parametrize("suffix", [".obj", ".ply"])
def test_a_frame_that_is_another_mesh(tmp_path, suffix):
    mesh, fewer = grid_mesh(8), grid_mesh(7)
    write = write_obj if suffix == ".obj" else write_ply
    folder = write_frames(tmp_path / "walk", mesh, frames_of(mesh, 3), suffix)
    write(folder / f"walk_8{suffix}", fewer)
    with pytest.raises(FileError, match=r"walk_8.*has 21 vertices, walk_5.* has 24"):
        read_sequence(folder)
    quads = mesh.polygon_vertices.reshape(-1, 4)
    write(
        folder / f"walk_8{suffix}", Mesh.from_faces(mesh.vertices, np.roll(quads[::-1], 1, axis=1))
    )
    assert read_sequence(folder).pose_count == 4  # the same polygons, listed otherwise
    order = np.random.default_rng(0).permutation(
        mesh.vertex_count
    )  # vertices in another order, with polygons to match
    write(
        folder / f"walk_8{suffix}", Mesh.from_faces(mesh.vertices[order], np.argsort(order)[quads])
    )
    with pytest.raises(
        InputError, match=r"walk_8.* other polygons than walk_5.*order of the vertices"
    ):
        read_sequence(folder)


def test_the_same_polygons_written_otherwise_are_the_same(tmp_path):
    mesh = grid_mesh()
    folder = write_frames(tmp_path / "walk", mesh, frames_of(mesh, 2))
    plain = re.sub(r"(?m)^vt.*\n", "", re.sub(r"/\d+", "", (folder / "walk_6.obj").read_text()))
    (folder / "walk_7.obj").write_text(plain)
    assert read_sequence(folder).pose_count == 3


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["walk_1", "walk_2", "walk_3"], [1, 2, 3]),
        (["s1_0010_v2", "s1_0012_v2", "s1_0014_v2"], [10, 12, 14]),  # every second frame
        (["f1", "f3"], [1, 3]),
        (["f7"], [7]),
        (["a", "b"], None),
        (["a1", "b2"], None),
        (["s1_f1", "s2_f2"], None),  # which of the two is the frame?
        (["body"], None),
    ],
)
def test_frame_numbers(names, numbers):
    assert frame_numbers(names) == numbers


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((1, 2, 4), r"walk: frame 3 is missing after walk_0002"),
        ((1, 2, 3, 7, 8), r"frame 4 to 6 is missing after walk_0003"),
        ((0, 2, 4, 8), r"frame 6 is missing after walk_0004"),
    ],
)
def test_a_missing_frame_is_an_error(tmp_path, numbers, says):
    for number in numbers:
        write_obj(tmp_path / "walk" / f"walk_{number:04d}.obj", grid_mesh())
    with pytest.raises(FileError, match=says):
        read_sequence(tmp_path / "walk")


def test_a_frame_number_that_occurs_twice(tmp_path):
    for name in ("walk_1", "walk_01", "walk_2"):
        write_obj(tmp_path / f"{name}.obj", grid_mesh())
    with pytest.raises(FileError, match=r"frame number 1 occurs twice"):
        read_sequence(tmp_path)


@pytest.mark.parametrize("suffix", [".obj", ".npz"])
def test_a_single_frame_is_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    if suffix == ".obj":
        write_obj(path, grid_mesh())
    else:
        write_recorded_poses(Poses(grid_mesh(), frames_of(grid_mesh(), 1)), path)
    with pytest.raises(InputError, match=r"at least two frames, got one"):
        read_sequence(path)


def test_objects_and_groups_are_parts(tmp_path):
    (tmp_path / "a.obj").write_text(
        "g default\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 2 0 0\no left eye\ng eyes skin\n"
        "f 1 2 3\no body\ng\nf 1 3 4\ng skin\nusemtl red\nf 2 5 3\n"
    )
    parts = read_obj(tmp_path / "a.obj").parts
    assert {name: part.tolist() for name, part in parts.items()} == {
        "left eye": [0, 1, 2],
        "body": [0, 1, 2, 3, 4],
        "eyes": [0, 1, 2],
        "skin": [0, 1, 2, 4],
    }
    (tmp_path / "b.obj").write_text("v 0 0 0\r\nv 1 0 0\r\nv 1 1 0\r\no hat\r\nf 1 2 3\r\n")
    assert list(read_obj(tmp_path / "b.obj").parts) == ["hat"]


def test_nothing_is_claimed_about_up(tmp_path):
    for number, frame in enumerate(frames_of(grid_mesh(), 2)):
        write_obj(tmp_path / "walk" / f"{number}.obj", grid_mesh(), frame)
    mesh = read_sequence(tmp_path / "walk").mesh
    assert (mesh.up_axis, mesh.up, mesh.size_label) == ("unknown", "Y", "extent along Y")
    assert mesh.height == np.ptp(mesh.vertices[:, 1])
    assert grid_mesh(up_axis="Z").size_label == "height"


def sphere(n=40):
    """A smooth surface fine enough that its edges are short."""
    u, v = np.meshgrid(
        np.linspace(0, 2 * np.pi, n, endpoint=False), np.linspace(0.1, 3, n), indexing="ij"
    )
    at = np.arange(n * n).reshape(n, n)
    quads = np.stack([at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]], axis=-1).reshape(-1, 4)
    return np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)], axis=-1).reshape(
        -1, 3
    ), quads


def test_shuffled_vertices_are_found():
    points, quads = sphere()
    frames = np.tile(points, (4, 1, 1))
    sequence_from_arrays(frames, quads)
    frames[2] = frames[2][np.random.default_rng(0).permutation(len(points))]
    with pytest.raises(InputError, match=r"frame 2 .*order of its vertices"):
        sequence_from_arrays(frames, quads)


@pytest.mark.parametrize("factor", [0.001, 0.01, 0.1, 10, 39.37, 100, 1000])
def test_mixed_units_are_found(tmp_path, factor):
    points, quads = sphere(10)
    still = np.tile(points, (5, 1, 1))
    np.savez(tmp_path / "a.npz", vertices=still, faces=quads)
    np.savez(tmp_path / "b.npz", vertices=still * factor * 1.05, faces=quads)
    with pytest.raises(InputError, match=r"clip 'b' is about .* times .* mixed units"):
        read_sequence([tmp_path / "a.npz", tmp_path / "b.npz"])
    with pytest.raises(InputError, match="mixed units"):
        sequence_from_arrays(still, quads, rest=points * factor)
    with pytest.raises(InputError, match=r"frame 1 .*the frame before.*mixed units"):
        sequence_from_arrays(points * np.array([1, factor, 1, 1, 1])[:, None, None], quads)


def test_a_character_may_grow():
    points, quads = sphere(10)
    assert (
        sequence_from_arrays(
            points * np.geomspace(0.001, 1, 30)[:, None, None], quads, rest=0.5 * points
        ).pose_count
        == 30
    )


def test_nan_and_degenerate_meshes():
    points, quads = sphere(10)
    frames = np.tile(points, (5, 1, 1))
    broken = frames.copy()
    broken[3, 7, 1] = np.nan
    with pytest.raises(InputError, match=r"frame 3 .*NaN"):
        sequence_from_arrays(broken, quads)
    with pytest.raises(InputError, match="one point"):
        sequence_from_arrays(frames * 0, quads)
    with pytest.raises(InputError, match=r"frame 2 .*one point"):
        sequence_from_arrays(frames * np.array([1, 1, 0, 1, 1])[:, None, None], quads)
    with pytest.raises(InputError, match="no area"):
        sequence_from_arrays(frames * np.array([1, 0, 0]), quads)
    with pytest.raises(InputError, match="no polygons"):
        sequence_from_arrays(frames, np.zeros((0, 3), int))
    with pytest.raises(InputError, match="shape"):
        sequence_from_arrays(points, quads)
    with pytest.raises(InputError, match="outside"):
        sequence_from_arrays(frames, quads + 5)


def test_wrong_files(tmp_path):
    points, quads = sphere(10)
    frames = np.tile(points, (2, 1, 1))
    write = lambda **arrays: np.savez(tmp_path / "a.npz", **arrays)
    for arrays, says in (
        ({"faces": quads}, "no array called vertices"),
        ({"vertices": frames}, "no faces"),
        ({"vertices": np.full(frames.shape, "x"), "faces": quads}, "array of float32"),
        ({"vertices": frames[:, :, :2], "faces": quads}, "shape"),
        ({"vertices": frames, "faces": quads.astype(float)}, "whole numbers"),
        ({"vertices": frames, "faces": quads, "rest": points[:-1]}, "vertices|outside"),
        ({"vertices": frames[:0], "faces": quads}, "no frames"),
    ):
        write(**arrays)
        with pytest.raises(FileError, match=says):
            read_sequence(tmp_path / "a.npz")
    write(vertices=np.array([{"a": 1}], dtype=object), faces=quads)  # a pickle: refused, never run
    with pytest.raises(FileError, match=r"a\.npz"):
        read_sequence(tmp_path / "a.npz")
    np.save(tmp_path / "b.npy", frames)
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    for name, content in (
        ("b.npz", None),
        ("c.npz", b""),
        ("d.npz", b"PK\x03\x04"),
        ("e.obj", b""),
        ("f.ply", b"v 0 0 0"),
        ("g.obj", bytes(50)),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match=name):
            read_sequence(tmp_path / name)
    (tmp_path / "h.fbx").write_text("x")
    (tmp_path / "empty").mkdir()
    for source, says in (
        (tmp_path / "none.npz", "no such file"),
        (tmp_path / "none_*.obj", "no file matches"),
        (tmp_path / "h.fbx", r"expected a \.npz"),
        (tmp_path / "empty", "holds no"),
    ):
        with pytest.raises(FileError, match=says):
            read_sequence(source)
    with pytest.raises(InputError, match="nothing to read"):
        read_sequence([])
    write_obj(tmp_path / "empty" / "a.obj", grid_mesh())
    write_ply(tmp_path / "empty" / "a.ply", grid_mesh())
    with pytest.raises(FileError, match="both"):
        read_sequence(tmp_path / "empty")
    (tmp_path / "points.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n")
    with pytest.raises(FileError, match="no polygons"):
        read_sequence(tmp_path / "points.obj")


@pytest.mark.parametrize("kind", ["npz", "obj", *FORMS])
def test_every_truncation_is_an_error_or_a_shorter_mesh(tmp_path, kind):
    mesh = mixed_mesh()
    path = tmp_path / ("a.npz" if kind == "npz" else "a.obj" if kind == "obj" else "a.ply")
    if kind == "npz":
        write_recorded_poses(Poses(mesh, frames_of(mesh, 2)), path)
    elif kind == "obj":
        write_obj(path, mesh)
    else:
        write_in_form(path, mesh, kind)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, max(1, len(whole) // 150)):
        path.write_bytes(whole[:length])
        # a text file cut between two polygons, or inside a number, cannot be told from a whole one
        read = {".npz": read_sequence, ".obj": read_obj, ".ply": read_ply}[path.suffix]
        try:
            read(path)
        except UnderstudyError:
            continue
        assert kind in ("obj", "ascii")
    path.write_bytes(whole)
    if kind != "npz":
        write_frames(tmp_path, mesh, frames_of(mesh, 1), path.suffix)
        path.write_bytes(whole[:-20])
        with pytest.raises(
            UnderstudyError
        ):  # in a sequence it can: its polygons differ from the other frames'
            read_sequence([path, *tmp_path.glob("walk_*")])


@settings(max_examples=150, deadline=None)
@given(
    places=st.lists(st.integers(0, 400), min_size=1, max_size=4),
    byte=st.integers(0, 255),
    form=st.sampled_from(["obj", *FORMS]),
)
def test_damaged_files_give_an_error_or_a_mesh(tmp_path_factory, places, byte, form):
    path = tmp_path_factory.mktemp("damage") / ("a.obj" if form == "obj" else "a.ply")
    write_obj(path, mixed_mesh()) if form == "obj" else write_in_form(path, mixed_mesh(), form)
    data = bytearray(path.read_bytes())
    for place in places:
        data[place % len(data)] = byte
    path.write_bytes(bytes(data))
    with suppress(FileError):
        (read_obj if form == "obj" else read_ply)(path)
