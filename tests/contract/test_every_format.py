"""What holds for every registered format, also for those of plug-ins."""

import inspect
from dataclasses import fields, replace

import needs
import numpy as np
import pytest
from builders import full_deformer
from rigged_characters import make_character

from understudy import MissingDependencyError, UnderstudyError
from understudy.io.format import AS_IT_IS, Format, ReadOptions
from understudy.io.formats import formats
from understudy.io.registry import (
    format_of,
    read_cache,
    read_character,
    read_mesh,
    read_poses,
    read_sequence,
    write_character,
    write_deformer,
)
from understudy.system.progress import SILENT

READERS = [field.name for field in fields(Format) if field.name.startswith("read_")]
ALL = {known.name: known for known in formats()}
BLENDER = ("fbx", "alembic")


def named(able):
    """Names of the formats that are able to do something; those that start Blender are slow."""
    return [
        pytest.param(name, marks=pytest.mark.slow if name in BLENDER else ())
        for name, known in ALL.items()
        if able(known)
    ]


def usable(path, to="read"):
    try:
        return format_of(path, to=to)
    except MissingDependencyError as problem:
        needs.missing(str(problem))


def bare_character():
    """Bones and one clip, which every format of characters holds."""
    full = make_character()
    clip = full.clips[0]
    clip = replace(clip, shape_weights=np.zeros((clip.frame_count, 0)))
    return replace(full, shapes=(), clips=(clip,))


def written(character, known, folder):
    """A file of the format, and what it is read as."""
    suffix = next(s for s in known.suffixes if s not in known.only_read)
    path = folder / f"hero{suffix}"
    usable(path, to="write")
    write_character(character, path)
    return path if path.exists() else folder


def test_no_suffix_belongs_to_two_formats():
    suffixes = [suffix for known in ALL.values() for suffix in known.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in suffixes)


@pytest.mark.parametrize("name", ALL)
def test_readers_are_called_alike(name):
    found = [read for field in READERS if (read := getattr(ALL[name], field)) is not None]
    for read in found:
        assert list(inspect.signature(read).parameters) == ["path", "options", "progress"]
    assert found or ALL[name].write_deformer


@pytest.mark.parametrize("name", ALL)
def test_every_reader_refuses_what_is_not_there_and_what_is_not_of_its_kind(name, tmp_path):
    known = ALL[name]
    for number, suffix in enumerate(known.suffixes):
        absent, wrong = tmp_path / f"absent{suffix}", tmp_path / f"wrong{number}{suffix}"
        wrong.write_bytes(b"\0not a file of this kind\n" * 9)
        for reader in READERS:
            read = getattr(known, reader)
            for path in (absent, wrong) if read else ():
                usable(path)
                with pytest.raises(UnderstudyError, match=path.stem):
                    read(path, AS_IT_IS, SILENT)


@pytest.mark.parametrize("name", named(lambda known: known.write_character and known.holds_poses))
def test_a_character_that_is_written_is_read_again(name, tmp_path):
    known = ALL[name]
    character = bare_character()
    path = written(character, known, tmp_path)
    usable(path)
    (tmp_path / "rest").mkdir()
    rest = tmp_path / "rest" / "rest.obj"
    write_character(replace(character, clips=()), rest)
    options = ReadOptions(unit="cm", up_axis="Z")
    if known.read_cache is not None:
        options = replace(options, rest=rest)
    poses = read_poses(path, options)
    clip = character.clips[0]
    np.testing.assert_allclose(poses.vertices, character.evaluate_clip(clip), atol=2e-5)
    np.testing.assert_array_equal(poses.mesh.polygon_vertices, character.mesh.polygon_vertices)
    assert (poses.mesh.unit, poses.mesh.up_axis) == ("cm", "Z")
    assert read_poses(path, replace(options, frame_rate=clip.frame_rate)).frame_rate is not None
    cache = read_cache(path)
    np.testing.assert_allclose(cache.vertices, poses.vertices, atol=2e-5)
    if known.read_character is not None and known.holds_skin:
        again = read_character(path)
        assert again.skin is not None
        assert set(again.skeleton.names) == set(character.skeleton.names)
    if known.read_mesh is not None and path.is_file():
        assert read_mesh(path).vertex_count == character.mesh.vertex_count
    if known.read_clips is not None or known.is_one_frame:
        frames = read_sequence(path)
        assert frames.skeleton is None
        np.testing.assert_allclose(frames.vertices, poses.vertices, atol=2e-5)


@pytest.mark.parametrize("name", named(lambda known: known.write_character or known.write_deformer))
def test_a_file_that_cannot_be_written_leaves_nothing(name, tmp_path):
    known = ALL[name]
    (tmp_path / "file").write_text("in the way")
    suffix = next(s for s in known.suffixes if s not in known.only_read)
    path = tmp_path / "file" / f"hero{suffix}"
    usable(path, to="write")
    write, what = write_deformer, full_deformer()
    if known.write_deformer is None:
        write, what = write_character, bare_character()
    with pytest.raises(UnderstudyError, match="file"):
        write(what, path)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
