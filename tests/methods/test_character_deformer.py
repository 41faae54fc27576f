"""A rigged character as a deformer, and which poses are held out."""

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import BlendShape, Character, CharacterClip, Deformer, InputError, Skin
from understudy.core.clip import ClipSpan
from understudy.core.poses import Poses
from understudy.jobs.split import split_poses
from understudy.methods.character_deformer import deformer_of_character

RNG = np.random.default_rng(3)


def character(shapes=2, bones=True):
    mesh = grid_mesh()
    skeleton = chain_skeleton()
    weight = RNG.random((mesh.vertex_count, 3)).astype(np.float32)
    skin = Skin(np.tile([0, 1, 2], (len(weight), 1)), weight / weight.sum(axis=1, keepdims=True))
    made = [
        BlendShape(f"s{k}", np.arange(k, 9), RNG.normal(size=(9 - k, 3))) for k in range(shapes)
    ]
    motion = random_motion(skeleton, 20) if bones else np.zeros((20, 0, 3, 4))
    clip = CharacterClip("move", motion, RNG.normal(size=(20, shapes)))
    return Character(mesh, skeleton if bones else None, skin if bones else None, made, (clip,))


@pytest.mark.parametrize(("shapes", "bones"), [(2, True), (0, True), (2, False)])
def test_the_deformer_is_the_character_exactly(shapes, bones, tmp_path):
    made = character(shapes, bones)
    deformer_of_character(made).save(tmp_path / "c.understudy")
    poses = made.poses()
    moved = Deformer.load(tmp_path / "c.understudy").deform(poses.world_from_bone, poses.controls)
    np.testing.assert_allclose(moved, poses.vertices, atol=2e-5)


def poses_of(*counts, frame_rate=None):
    total = sum(counts)
    mesh = grid_mesh()
    vertices = np.arange(total)[:, None, None] + mesh.vertices
    spans = tuple(ClipSpan(f"clip{k}", n) for k, n in enumerate(counts)) if len(counts) > 1 else ()
    return Poses(mesh, vertices, frame_rate=frame_rate, spans=spans)


def frames(poses):
    return poses.read_poses(0, poses.pose_count)[:, 0, 0].round().astype(int).tolist()


def test_the_last_poses_of_a_sample_are_held_out():
    split = split_poses(poses_of(100))
    assert frames(split.fit) == list(range(85))
    assert [frames(p) for p in split.held_out.values()] == [list(range(85, 100))]


def test_whole_clips_are_held_out():
    split = split_poses(poses_of(60, 30, 10))
    assert list(split.held_out) == ["clip1", "clip2"]
    assert frames(split.fit) == list(range(60))


def test_named_clips_are_held_out():
    split = split_poses(poses_of(30, 30, 30), ["clip1"])
    assert frames(split.held_out["clip1"]) == list(range(30, 60))
    assert frames(split.fit) == [*range(30), *range(60, 90)]


def test_a_clip_longer_than_the_rest_is_not_held_out():
    split = split_poses(poses_of(20, 80))
    assert frames(split.fit) == list(range(85))


@pytest.mark.parametrize(
    ("counts", "clips", "message"),
    [
        ((10,), (), "at least 16"),
        ((50,), ("walk",), "one clip"),
        ((50, 50), ("walk",), "walk"),
        ((50, 50), ("clip0", "clip1"), "every clip"),
    ],
)
def test_what_cannot_be_split_is_said(counts, clips, message):
    with pytest.raises(InputError, match=message):
        split_poses(poses_of(*counts), clips)
