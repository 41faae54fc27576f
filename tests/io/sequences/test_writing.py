"""Characters as recorded poses (`.npz`) and as mesh files, one per frame."""

from dataclasses import replace

import numpy as np
import pytest
from character_builders import hero
from ply_forms import FORMS, write_in_form

from understudy import InputError, Mesh
from understudy.geometry.normals import CornerNormals, vertex_normals
from understudy.io.registry import format_of, read_poses, write_character
from understudy.io.sequences import read_obj, read_ply
from understudy.system.errors import FileError


def assert_same_mesh(got, want, parts):
    for name in ("polygon_sizes", "polygon_vertices", "polygon_material"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name))
    np.testing.assert_allclose(got.corner_uvs, want.corner_uvs, atol=1e-6)
    assert list(got.parts) == parts
    for name in parts:
        np.testing.assert_array_equal(got.parts[name], want.parts[name])


def test_recorded_poses_keep_everything_but_skin_and_shapes(tmp_path):
    made = hero(unit="mm", up_axis="Z", handedness="left")
    write_character(made, tmp_path / "hero.npz")
    got, want = read_poses(tmp_path / "hero.npz"), made.poses()
    np.testing.assert_array_equal(got.vertices, want.vertices)
    np.testing.assert_array_equal(got.world_from_bone, want.world_from_bone)
    np.testing.assert_allclose(got.controls, want.controls)
    assert got.control_spec.names == want.control_spec.names
    assert got.skeleton.names == want.skeleton.names
    np.testing.assert_array_equal(got.skeleton.parents, want.skeleton.parents)
    np.testing.assert_array_equal(got.skeleton.world_from_bone, want.skeleton.world_from_bone)
    assert got.spans == want.spans
    assert_same_mesh(got.mesh, made.mesh, list(made.mesh.parts))
    np.testing.assert_array_equal(got.mesh.corner_normals, made.mesh.corner_normals)
    about = lambda mesh: (mesh.materials, mesh.unit, mesh.up_axis, mesh.handedness)
    assert about(got.mesh) == about(made.mesh)
    with pytest.raises(InputError, match="'hero v2' has no animation to record"):
        write_character(made.with_clips([]), tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clip_frames": [7, 5]}, "clip_frames add up to 12, expected 11"),
        ({"clip_frames": [11, 0]}, "none empty"),
        ({"clip_frame_rates": [-1.0, 2.0]}, "a rate is negative"),
        ({"clip_start_frames": [0.5, 1.0]}, "clip_start_frames: unexpected type"),
        ({"clip_names": None}, "clip_names is missing"),
        ({"part_sizes": [2**30] * 5}, "part_vertices: expected shape"),
        ({"part_names": None}, "belong together"),
        ({"part_vertices": None}, "belong together"),
        ({"polygon_material": np.full(38, 9)}, "polygon_material: index 9"),
        ({"corner_normals": np.zeros((3, 3))}, "corner_normals: expected shape"),
    ],
)
def test_what_is_wrong_in_recorded_poses_is_named(tmp_path, change, message):
    write_character(hero(), tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        arrays = {**file, **change}
    np.savez(tmp_path / "b.npz", **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(FileError, match=message):
        read_poses(tmp_path / "b.npz")


@pytest.mark.parametrize("suffix", [".obj", ".ply"])
def test_mesh_files_keep_frames_and_attributes(tmp_path, suffix):
    made = hero()
    made = made.with_clips(made.clips[:1])
    write_character(made, tmp_path / "out" / f"frame_####{suffix}")
    files = sorted((tmp_path / "out").glob(f"*{suffix}"))
    assert [file.name for file in files] == [f"frame_{k:04d}{suffix}" for k in range(12, 19)]
    got = read_poses(tmp_path / "out")
    np.testing.assert_allclose(got.vertices, made.evaluate_clip(made.clips[0]), atol=1e-6)
    assert got.spans[0].start_frame == 12
    assert sorted(got.mesh.materials) == sorted(made.mesh.materials)
    # In an OBJ file, materials are in the order of their use.
    order = [made.mesh.materials.index(name) for name in got.mesh.materials]
    mesh = replace(
        got.mesh,
        materials=made.mesh.materials,
        polygon_material=np.array(order)[got.mesh.polygon_material],
    )
    # "lower" crosses polygons, so it is neither an object nor a group.
    assert_same_mesh(mesh, made.mesh, [name for name in made.mesh.parts if name != "lower"])
    assert got.mesh.corner_normals is not None
    if suffix == ".obj":
        assert "newmtl cloth 01" in (tmp_path / "out" / "frame.mtl").read_text()
        assert "mtllib frame.mtl" in files[0].read_text()
    assert not list(tmp_path.glob(".understudy-*"))


def test_several_clips_go_to_folders_and_other_frames_are_refused(tmp_path):
    made = hero()
    out = tmp_path / "frames"
    assert format_of(f"{out}/", to="write").name == "mesh files"
    write_character(made, f"{out}/")
    assert sorted(p.name for p in out.iterdir()) == ["idle_2", "walk"]
    names = sorted(p.name for p in (out / "idle_2").glob("*.obj"))
    assert names == [f"idle_2_{k:04d}.obj" for k in range(4)]  # starts at -3, so it is renumbered
    write_character(made, f"{out}/")  # the same frames again
    walk = made.clips[0]
    shorter = replace(
        walk, world_from_bone=walk.world_from_bone[:3], shape_weights=walk.shape_weights[:3]
    )
    with pytest.raises(InputError, match=r"has walk_0015\.obj, which is no frame of this clip"):
        write_character(made.with_clips([shorter, made.clips[1]]), f"{out}/")
    write_character(made.with_clips([]), tmp_path / "rest.obj")
    np.testing.assert_allclose(read_obj(tmp_path / "rest.obj").vertices, made.mesh.vertices)


def test_groups_of_an_obj_that_share_vertices_are_kept(tmp_path):
    mesh = Mesh.from_faces(
        np.random.default_rng(0).normal(size=(5, 3)),
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]],
        parts={"upper half": [0, 1, 2, 3], "lower": [2, 3, 4], "loose": [0, 4]},
    )
    made = replace(hero(), mesh=mesh, skeleton=None, skin=None, shapes=(), clips=())
    write_character(made, tmp_path / "a.obj")
    got = read_obj(tmp_path / "a.obj").parts
    assert {name: part.tolist() for name, part in got.items()} == {
        "upper_half": [0, 1, 2, 3],
        "lower": [2, 3, 4],
    }


@pytest.mark.parametrize("form", FORMS)
def test_ply_keeps_attributes_in_every_form(tmp_path, form):
    mesh = hero().mesh
    normals = vertex_normals(mesh.vertices, mesh.triangles)
    write_in_form(tmp_path / "a.ply", mesh, form, normals=normals)
    got = read_ply(tmp_path / "a.ply")
    np.testing.assert_allclose(got.vertices, mesh.vertices, atol=1e-6)
    np.testing.assert_allclose(got.corner_normals, normals[mesh.polygon_vertices], atol=1e-6)
    assert got.materials == mesh.materials
    assert_same_mesh(got, mesh, ["body", "eye.L", "eye.R", "fan"])


def test_corner_normals_follow_rotation_scale_and_stretch():
    mesh = hero().mesh
    carried = CornerNormals(
        mesh.vertices, mesh.polygon_sizes, mesh.polygon_vertices, mesh.corner_normals
    )
    np.testing.assert_allclose(carried.at(mesh.vertices), mesh.corner_normals, atol=1e-5)
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    moved = carried.at(3 * mesh.vertices @ turn.T + [1, 2, 3])
    np.testing.assert_allclose(moved, mesh.corner_normals @ turn.T, atol=1e-5)
    # Stretched: normals of the surface stay at right angles to it.
    flat = [[0.0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 1, 1]]
    square = Mesh.from_faces(flat, [[0, 1, 2, 3]])
    normal = np.tile([0, -np.sqrt(0.5), np.sqrt(0.5)], (4, 1))
    carried = CornerNormals(square.vertices, square.polygon_sizes, np.arange(4), normal)
    stretched = carried.at(square.vertices * [1, 1, 3])
    np.testing.assert_allclose(stretched[0], np.array([0, -3, 1]) / np.sqrt(10), atol=1e-6)
    collapsed = carried.at(square.vertices * [1, 0, 0])
    np.testing.assert_allclose(collapsed, normal, atol=1e-6)
