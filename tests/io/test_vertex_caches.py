"""Readers and writers of vertex caches."""

import struct

import numpy as np
import pytest
from maya_writer import XML, maya_file
from mutated_files import read_mutated

from understudy import Character, CharacterClip, Mesh
from understudy.io.registry import ReadOptions, read_poses, write_character
from understudy.io.sequences import write_obj
from understudy.io.vertex_cache import VertexCache
from understudy.io.vertex_caches import (
    read_maya_cache,
    read_mdd,
    read_pc2,
    read_vertex_cache,
    write_mdd,
    write_pc2,
)
from understudy.system.errors import FileError, InputError

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(6, 10, 3)).astype(np.float32)


def cache(rate=None, start=3):
    return VertexCache(POINTS, start + np.arange(6), rate, "body")


@pytest.mark.parametrize("rate", [24.0, 30000 / 1001, 12.5])
def test_mdd_round_trip(tmp_path, rate):
    write_mdd(cache(rate), tmp_path / "a.mdd")
    found = read_vertex_cache(tmp_path / "a.mdd")
    np.testing.assert_array_equal(found.vertices, POINTS)
    assert found.frame_rate == pytest.approx(rate, rel=1e-4)
    assert found.start_frame == 3
    assert (tmp_path / "a.mdd").read_bytes()[:8] == struct.pack(">ii", 6, 10)


def test_pc2_round_trip(tmp_path):
    write_pc2(cache(), tmp_path / "a.pc2")
    found = read_vertex_cache(tmp_path / "a.pc2")
    np.testing.assert_array_equal(found.vertices, POINTS)
    assert found.frames.tolist() == [3, 4, 5, 6, 7, 8]
    assert found.frame_rate is None
    assert isinstance(found.vertices, np.memmap)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("dtype", [">f4", ">f8"])
def test_maya_one_file(tmp_path, wide, dtype):
    path = tmp_path / ("body.mcx" if wide else "body.mc")
    path.write_bytes(maya_file(POINTS, wide=wide, dtype=dtype, channels=("body", "body_n")))
    (tmp_path / "body.xml").write_text(XML.format(kind="OneFile"))
    for name in (path, tmp_path / "body.xml"):
        found = read_vertex_cache(name)
        np.testing.assert_array_equal(found.vertices, POINTS)
        assert (found.frame_rate, found.start_frame, found.name) == (24.0, 3, "body")
    np.testing.assert_array_equal(read_maya_cache(path, "body_n").vertices, -POINTS)
    with pytest.raises(InputError, match="unknown channel"):
        read_maya_cache(path, "head")


def test_maya_one_file_per_frame(tmp_path):
    (tmp_path / "body.xml").write_text(XML.format(kind="OneFilePerFrame"))
    for number, frame in enumerate(POINTS):
        data = maya_file([frame], start=250 * (8 + number), with_time=False)
        (tmp_path / f"bodyFrame{8 + number}.mcx").write_bytes(data)
    (tmp_path / "otherFrame1.mcx").write_bytes(b"not part of it")
    for name in ("body.xml", "bodyFrame10.mcx"):
        found = read_vertex_cache(tmp_path / name)
        np.testing.assert_array_equal(found.vertices, POINTS)
        assert found.frames.tolist() == list(range(8, 14))


def test_several_channels_without_xml_must_be_named(tmp_path):
    (tmp_path / "a.mcx").write_bytes(maya_file(POINTS, channels=("body", "head")))
    with pytest.raises(FileError, match="body, head"):
        read_vertex_cache(tmp_path / "a.mcx")


def test_between_samples_positions_are_interpolated():
    found = cache(24.0).at(np.array([0, 3, 3.5, 8, 9]) / 24)
    middle = (POINTS[0] + POINTS[1]) / 2
    want = np.stack([POINTS[0], POINTS[0], middle, POINTS[-1], POINTS[-1]])
    np.testing.assert_allclose(found, want, atol=1e-6)
    with pytest.raises(InputError, match="no frame rate"):
        cache().at([0.0])


def huge_mdd(path):
    path.write_bytes(struct.pack(">ii", 2**30, 2**30) + b"\0" * 100)


def huge_pc2(path):
    path.write_bytes(struct.pack("<12siiffi", b"POINTCACHE2\0", 1, 2**30, 0, 1, 900) + b"\0" * 99)


def huge_mcx(path):
    path.write_bytes(struct.pack(">4s4xQ", b"FOR8", 2**60) + b"CACH" + b"\0" * 99)


@pytest.mark.parametrize(
    ("name", "write", "says"),
    [
        ("a.mdd", huge_mdd, "is truncated: 1073741824 frames"),
        ("a.pc2", huge_pc2, "is truncated"),
        ("a.mcx", huge_mcx, "claims"),
        ("a.mdd", lambda path: path.write_bytes(b"abc"), "is not an MDD file"),
        ("a.mdd", lambda path: path.write_bytes(struct.pack(">ii", -5, 7)), "-5 frames"),
        ("a.pc2", lambda path: path.write_bytes(b"POINTCACHE3\0" + b"\0" * 40), "is not a PC2"),
        ("a.mcx", lambda path: path.write_bytes(b"FOR8"), "is not a Maya cache"),
        ("a.xml", lambda path: path.write_text(XML.format(kind="OneFile")), "expected a.mcx"),
        ("a.xml", lambda path: path.write_text('<!DOCTYPE a [<!ENTITY b "c">]><a/>'), "is not the"),
        ("a.xml", lambda path: path.write_text("<a><b></a>"), "is not XML"),
        ("a.pc2", lambda path: path.mkdir(), "is not a file"),
        ("a.pc2", lambda path: None, "No such file"),
        ("a.abc", lambda path: path.write_text(""), "is not a vertex cache"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, name, write, says):
    write(tmp_path / name)
    with pytest.raises(FileError, match=says):
        read_vertex_cache(tmp_path / name)


def test_numbers_that_are_none(tmp_path):
    bad = POINTS.copy()
    bad[3, 2, 1] = np.nan
    write_pc2(VertexCache(bad, np.arange(6)), tmp_path / "a.pc2")
    with pytest.raises(FileError, match="NaN"):
        read_pc2(tmp_path / "a.pc2")
    (tmp_path / "a.mcx").write_bytes(maya_file(bad))
    with pytest.raises(FileError, match="NaN"):
        read_vertex_cache(tmp_path / "a.mcx")


@pytest.mark.parametrize("number", range(8))
def test_hostile_files_end_in_an_error(real_data, number):
    path = real_data / f"files/hostile/fuzz_{number:04}.mcx"
    with pytest.raises(FileError, match=path.name):
        read_vertex_cache(path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["mdd", "pc2", "mcx"])
def test_a_thousand_mutated_files(tmp_path, suffix):
    original = tmp_path / f"a.{suffix}"
    if suffix == "mcx":
        original.write_bytes(maya_file(POINTS))
    else:
        {"mdd": write_mdd, "pc2": write_pc2}[suffix](cache(24.0), original)
    folder = tmp_path / "mutated"
    folder.mkdir()
    read = lambda path: np.asarray(read_vertex_cache(path).vertices)
    assert read_mutated(original, folder, read, 1000, seed=15) > 300


@pytest.mark.slow
def test_mutated_descriptions(tmp_path):
    (tmp_path / "a.mcx").write_bytes(maya_file(POINTS))
    (tmp_path / "a.xml").write_text(XML.format(kind="OneFile"))
    folder = tmp_path / "mutated"
    folder.mkdir()
    (folder / "a.mcx").write_bytes(maya_file(POINTS))
    read = lambda path: read_vertex_cache(path).vertices
    assert read_mutated(tmp_path / "a.xml", folder, read, 1000, seed=16) > 100


@pytest.mark.parametrize("suffix", ["mdd", "pc2", "mcx"])
def test_a_cache_with_its_mesh_is_a_sequence(tmp_path, suffix):
    path = tmp_path / f"walk.{suffix}"
    mesh = Mesh.from_faces(POINTS[0], [[0, 1, 2], [3, 4, 5]])
    clip = CharacterClip("walk", np.zeros((6, 0, 3, 4)), np.zeros((6, 0)), 24.0, 3, POINTS)
    if suffix == "mcx":
        path.write_bytes(maya_file(POINTS))
    else:
        write_character(Character(mesh, clips=(clip,)), path)
    write_obj(tmp_path / "rest.obj", mesh)
    poses = read_poses(path, ReadOptions(rest=tmp_path / "rest.obj"))
    np.testing.assert_array_equal(poses.vertices, POINTS)
    assert poses.spans[0].start_frame == 3
    assert poses.frame_rate == (None if suffix == "pc2" else 24.0)
    assert poses.mesh.polygon_sizes.tolist() == [3, 3]
    with pytest.raises(InputError, match="add --rest"):
        read_poses(path)
    write_obj(tmp_path / "other.obj", Mesh.from_faces(POINTS[0, :5], [[0, 1, 2]]))
    with pytest.raises(InputError, match="the rest shape has 5"):
        read_poses(path, ReadOptions(rest=tmp_path / "other.obj"))


def test_several_clips_are_no_cache(tmp_path):
    mesh = Mesh.from_faces(POINTS[0], [[0, 1, 2]])
    with pytest.raises(InputError, match="holds one clip"):
        write_character(Character(mesh), tmp_path / "a.mdd")


def test_real_caches(real_data):
    folder = real_data / "files/fbx"
    box = read_pc2(folder / "max_cache_box_7500_binary_fpc/max_cache_box.pc2")
    assert (box.vertex_count, box.frames.tolist()) == (770, list(range(40, 51)))
    letter = read_maya_cache(folder / "maya_axes_anim_7700_ascii_fpc/YShape.mcx")
    assert (letter.vertices.shape, letter.frame_rate) == ((21, 26, 3), 24.0)


def test_uneven_times_have_no_rate(tmp_path):
    write_mdd(VertexCache(POINTS, [0, 1, 2, 3, 4, 9], 24.0), tmp_path / "a.mdd")
    assert read_mdd(tmp_path / "a.mdd").frame_rate is None
    with pytest.raises(FileError, match="evenly spaced"):
        write_pc2(VertexCache(POINTS, [0, 1, 2, 3, 4, 9], 24.0), tmp_path / "a.pc2")
