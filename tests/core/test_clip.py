import json

import numpy as np
import pytest
from builders import chain_skeleton, full_deformer, grid_mesh, random_motion
from safetensors import safe_open
from safetensors.numpy import save_file

from understudy import Clip, Deformer, FileError, InputError, Poses, Skin
from understudy.core.clip import ClipSpan, cut_clips


def clip(name="walk", frames=4, bones=3, **about):
    return Clip(name, random_motion(chain_skeleton(bones), frames), **about)


def with_clips(*clips):
    mesh, skeleton = grid_mesh(), chain_skeleton()
    return Deformer(mesh, skeleton, skin=Skin.rigid(np.arange(mesh.vertex_count) % 3), clips=clips)


def test_a_clip_counts_and_lasts():
    walk = clip(frames=12, frame_rate=24, start_frame=101)
    assert (walk.frame_count, walk.bone_count, walk.start_frame) == (12, 3, 101)
    assert walk.world_from_bone.dtype == np.float64


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("", np.zeros((1, 1, 3, 4))), "clip name"),
        (("a", np.zeros((0, 1, 3, 4))), "no frames"),
        (("a", np.zeros((1, 1, 4, 4))), "expected shape"),
        (("a", np.full((1, 1, 3, 4), np.nan)), "NaN"),
        (("a", np.zeros((1, 1, 3, 4)), 0.0), "frame_rate"),
        (("a", np.zeros((1, 1, 3, 4)), 24.0, 1.5), "start_frame"),
    ],
)
def test_a_wrong_clip_says_what_is_wrong(arguments, says):
    with pytest.raises(InputError, match=says):
        Clip(*arguments)


def test_a_clip_must_suit_the_skeleton():
    with pytest.raises(InputError, match="'walk' has 2 bones, the skeleton has 3"):
        with_clips(clip(bones=2))
    with pytest.raises(InputError, match="duplicate name"):
        with_clips(clip(), clip())


def test_deform_clip_is_deform_of_its_bones():
    walk, run = clip(), clip("run", 2)
    deformer = with_clips(walk, run)
    np.testing.assert_array_equal(deformer.deform_clip(1), deformer.deform(run.world_from_bone))
    with pytest.raises(InputError, match="clip number"):
        deformer.deform_clip(2)
    with pytest.raises(InputError, match="no clips"):
        full_deformer().deform_clip()


def test_clips_are_cut_in_order():
    bones = random_motion(chain_skeleton(), 7)
    first, second = cut_clips(bones, [ClipSpan("a", 3, 30.0, 5), ClipSpan("b", 4)])
    np.testing.assert_array_equal(
        np.concatenate([first.world_from_bone, second.world_from_bone]), bones
    )
    assert (first.frame_rate, first.start_frame, second.frame_rate) == (30.0, 5, None)
    with pytest.raises(InputError, match="7"):
        cut_clips(bones, [ClipSpan("a", 3)])


def test_poses_know_their_clips():
    mesh = grid_mesh()
    vertices = np.tile(mesh.vertices, (5, 1, 1))
    poses = Poses(mesh, vertices, spans=(ClipSpan("a", 2), ClipSpan("b", 3)))
    assert [c.frame_count for c in poses.clips(np.zeros((5, 1, 3, 4)))] == [2, 3]
    assert [c.name for c in Poses(mesh, vertices, name="whole").clips(np.zeros((5, 1, 3, 4)))] == [
        "whole"
    ]
    assert poses.take(np.arange(2)).spans == ()
    with pytest.raises(InputError, match="frames"):
        Poses(mesh, vertices, spans=(ClipSpan("a", 2),))


def test_a_file_keeps_its_clips(tmp_path):
    deformer = with_clips(clip(frame_rate=30, start_frame=7), clip("run", 2))
    deformer.save(tmp_path / "a.understudy")
    loaded = Deformer.load(tmp_path / "a.understudy")
    assert [(c.name, c.frame_rate, c.start_frame) for c in loaded.clips] == [
        ("walk", 30.0, 7),
        ("run", None, 0),
    ]
    for number in range(2):
        np.testing.assert_array_equal(
            loaded.clips[number].world_from_bone, deformer.clips[number].world_from_bone
        )
        np.testing.assert_array_equal(loaded.deform_clip(number), deformer.deform_clip(number))


@pytest.mark.parametrize(
    "change",
    [
        lambda a, h: a.pop("clip.1.world_from_bone"),
        lambda a, h: a.__setitem__("clip.0.world_from_bone", a["clip.0.world_from_bone"][:, :2]),
        lambda a, h: a["clip.0.world_from_bone"].__setitem__((0, 0, 0, 0), np.nan),
        lambda a, h: h["clips.names"].__setitem__(0, 3),
        lambda a, h: a["clips.frame_rates"].__setitem__(0, -1),
        lambda a, h: a.__setitem__("clips.frame_rates", np.array([24, 24])),
        lambda a, h: a.__setitem__("clips.start_frames", np.array([0.5, 1])),
        lambda a, h: h["clips.names"].__setitem__(0, "run"),
        lambda a, h: h["clips.names"].pop(0),
        lambda a, h: h.update({"clips.names": "none"}),
    ],
)
def test_a_damaged_clip_is_found(tmp_path, change):
    path = tmp_path / "a.understudy"
    with_clips(clip(), clip("run", 2)).save(path)
    with safe_open(str(path), framework="numpy") as opened:
        header = json.loads(opened.metadata()["understudy"])
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    change(arrays, header)
    save_file(arrays, str(path), metadata={"understudy": json.dumps(header)})
    with pytest.raises(FileError, match="damaged"):
        Deformer.load(path)
