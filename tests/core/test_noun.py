"""Arrays of nouns cannot be written to, and a noun prints as one line."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from builders import full_deformer
from parity.kinds import bounded
from posing_builders import small_character
from rigged_characters import make_character
from sequence_builders import fitted

from understudy import Clip, Mesh, Poses, Skin
from understudy.core.clip import ClipKeys
from understudy.core.joined_samples import JoinedVertices
from understudy.core.levels_of_detail import Parents
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian


def nouns():
    """Every noun of `core`, with all of its fields."""
    keys = ClipKeys(np.ones((3, 3), bool), np.ones((9, 12)))
    deformer = replace(
        bounded(full_deformer(virtual=True)),
        clips=[Clip.from_keys("walk", keys)],
        held_out_error=np.zeros(24),
    )
    character = make_character()
    return [deformer, small_character(), character, character.poses(), Parents.subset([1, 0])]


def arrays_of(value, path=""):
    """(path, array) of everything within a noun."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, tuple | list):
        for number, part in enumerate(value):
            yield from arrays_of(part, f"{path}[{number}]")
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from arrays_of(part, f"{path}[{name}]")
    elif is_dataclass(value):
        for field in fields(value):
            yield from arrays_of(getattr(value, field.name), f"{path}.{field.name}")


@pytest.mark.parametrize("noun", nouns(), ids=lambda noun: type(noun).__name__)
def test_no_array_of_a_noun_can_be_written_to(noun):
    found = dict(arrays_of(noun))
    assert len(found) > 1
    assert not [path for path, array in found.items() if array.flags.writeable]


def test_what_a_noun_computes_once_cannot_be_written_to():
    deformer = full_deformer()
    mesh, skeleton = deformer.mesh, deformer.skeleton
    computed = (mesh.triangles, mesh.edges, skeleton.bone_from_world, skeleton.roots)
    assert not any(array.flags.writeable for array in computed)


def test_editing_a_deformer_does_not_change_what_a_later_fit_learns():
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, 60, seed=0))
    first = fitted(poses, "lbs")
    expected = first.skin.weight.copy()
    with pytest.raises(ValueError, match="read-only"):
        first.skin.weight[:] = 0.25
    with pytest.raises(ValueError, match="read-only"):
        first.mesh.vertices[0] = 9
    np.testing.assert_array_equal(fitted(poses, "lbs").skin.weight, expected)
    even = np.full_like(expected, 1 / first.skin.influences)
    changed = replace(first, skin=replace(first.skin, weight=even))
    np.testing.assert_array_equal(changed.skin.weight, even)


def test_an_array_that_the_caller_writes_to_later_is_copied():
    points, weight = np.zeros((3, 3), np.float32), np.ones((3, 1), np.float32)
    mesh, skin = Mesh(points, [3], [0, 1, 2]), Skin(np.zeros((3, 1), int), weight)
    points[:], weight[:] = 7, 7
    assert not mesh.vertices.any()
    assert (skin.weight == 1).all()
    assert np.shares_memory(replace(mesh, unit="cm").vertices, mesh.vertices)


def test_poses_are_not_copied_and_what_is_read_of_them_is_read_only():
    mesh = Mesh(np.eye(3), [3], [0, 1, 2])
    vertices = np.zeros((5, 3, 3), np.float32)
    poses = Poses(mesh, vertices)
    assert np.shares_memory(poses.vertices, vertices)
    some = np.array([0, 2])
    for source in (poses, replace(poses, vertices=JoinedVertices([poses]))):
        read = (source.read_poses(0, 2), source.read_vertices(some), source.read(0, 2, some))
        blocks = [block for _, block in source.pose_blocks(2)]
        assert not any(array.flags.writeable for array in (*read, *blocks))


@pytest.mark.parametrize("noun", nouns(), ids=lambda noun: type(noun).__name__)
def test_a_noun_prints_as_one_line(noun):
    text = repr(noun)
    assert "\n" not in text
    assert len(text) < 600
    assert str(noun) == text


def test_a_deformer_prints_its_names_counts_and_units():
    text = repr(replace(full_deformer(), method="fdda"))
    for part in ("vertices=(24, 3)", "unit='cm'", "['bone0', ", "nets=3 Net", "method='fdda'"):
        assert part in text
