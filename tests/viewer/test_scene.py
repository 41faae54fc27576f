"""What a page is given: containers, packed frames and bones, regions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scene_reader import container_of, decode, file_of, whole_of
from tube_scene import tube_scene, tube_subjects

from understudy.core.skin import Skin
from understudy.io.understudy import load
from understudy.methods.registry import method_type
from understudy.rigs.base import animate
from understudy.rigs.registry import load_rig
from understudy.system.errors import InputError
from understudy.viewer.packing import TOLERANCE, Container, encode, pack_bones, pack_frames
from understudy.viewer.page import page_with_scene
from understudy.viewer.scene import Model, deformer_scene, group_of, poses_scene, rig_scene
from understudy.viewer.subjects import ViewJob


@given(
    st.lists(st.integers(-(2**27), 2**27), min_size=1, max_size=40),
    st.integers(0, 2),
)
def test_whole_numbers_survive(numbers, order):
    values = np.array(numbers)
    assert decode(encode(values, order), [len(values)], order).tolist() == numbers


def test_numbers_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match="32 bits"):
        encode(np.array([2**40]))


@pytest.mark.parametrize("length", [0, 1, 7, 8])
def test_files_survive(length):
    scene = Container({"title": "x"})
    scene.put_bytes("file", bytes(range(length)))
    assert file_of(container_of(scene.to_bytes()), "file") == bytes(range(length))


def test_packed_frames_are_within_the_error_they_state():
    poses = animate(load_rig("tube"), "wave")
    size = poses.mesh.height
    packed = pack_frames(poses.vertices, poses.mesh.vertices, size)
    shown = poses.mesh.vertices + packed.difference(0, poses.pose_count)
    distance = np.linalg.norm(shown - poses.vertices, axis=2)
    assert distance.max() == pytest.approx(packed.largest, rel=1e-3)
    assert distance.mean() == pytest.approx(packed.mean, rel=1e-3)
    assert packed.mean <= 2 * TOLERANCE * size
    assert packed.largest <= 20 * TOLERANCE * size


def test_frames_without_motion():
    rest = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    packed = pack_frames(np.stack([rest, rest]), rest, 1.0)
    assert np.abs(packed.difference(0, 2)).max() == 0


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_packed_bones_are_exact(far):
    poses = animate(load_rig("tube"), "whip")
    world = poses.world_from_bone.copy()
    world[..., 3] += far
    packed = pack_bones(world, poses.skeleton.parents, poses.mesh.height)
    shown = packed.world_from_bone(poses.skeleton.parents)
    assert packed.relative
    assert np.abs(shown - world).max() <= 1e-5 * poses.mesh.height + 1e-8 * far


def test_flat_bones_are_stored_as_they_are():
    world = np.tile(np.eye(3, 4), (4, 2, 1, 1))
    world[2, 0, :, :3] = 0
    packed = pack_bones(world, np.array([-1, 0]), 1.0)
    assert not packed.relative
    np.testing.assert_allclose(packed.world_from_bone(np.array([-1, 0])), world, atol=1e-6)


def test_a_scene_has_models_clips_errors_and_the_original(tmp_path):
    scene, rig = tube_scene()
    assert rig is not None
    assert [model["label"] for model in scene.about["models"]] == ["pca_regression", "lbs"]
    assert [clip["name"] for clip in scene.about["clips"]] == ["wave", "whip"]
    path = tmp_path / "model.understudy"
    path.write_bytes(file_of(container_of(scene.to_bytes()), "model.0"))
    model = load(path)
    assert model.storage == "float16"
    # What the page will compute is what was measured here.
    poses = animate(rig, "wave")
    distance = np.linalg.norm(
        model.deform(poses.world_from_bone, poses.controls) - poses.vertices, axis=2
    )
    np.testing.assert_allclose(
        scene.arrays["clip.0.errors"][0, 0], distance.mean(axis=1), atol=1e-4 * rig.mesh.height
    )


def test_one_stand_in_is_compared_with_its_own_skin():
    (first, _) = tube_subjects()
    scene = deformer_scene([Model("one", first.deformer)], "tube")
    assert [model["derived"] for model in scene.about["models"]] == [False, True]


def test_strangers_are_refused():
    face = method_of("lbs", load_rig("face"))
    with pytest.raises(InputError, match="another mesh"):
        deformer_scene([Model("a", tube_subjects()[0].deformer), Model("b", face)], "x")


def test_unknown_clips_are_refused():
    with pytest.raises(InputError, match="wave"):
        ViewJob(clips=("wafe",), rig=load_rig("tube")).scene(tube_subjects(), "tube")


def test_weights_add_up():
    scene, _ = tube_scene()
    weights = whole_of(scene, "skin.weight")
    np.testing.assert_allclose(weights.sum(axis=1), 255, atol=4)


def test_virtual_bones_and_anchors_are_shown():
    deformer = tube_subjects()[1].deformer
    skin = deformer.skin
    virtual = Skin(
        skin.bone_index[:, :1] * 0 + np.arange(len(skin.weight))[:, None] % 2,
        np.ones((len(skin.weight), 1)),
        virtual_index=[[0, 1], [1, 2]],
        virtual_weight=[[0.5, 0.5], [0.25, 0.75]],
    )
    made = replace(deformer, skin=virtual, posing=None, provenance={"anchors": [3, 5, -1, "x"]})
    scene = deformer_scene([Model("two_layer", made)], "tube")
    assert scene.about["regions"]["virtual_bones"] == 2
    assert set(whole_of(scene, "skin.virtual").tolist()) == {0, 1}
    assert whole_of(scene, "anchors").tolist() == [3, 5]  # what a forged header adds is left out


def test_poses_and_rigs_alone():
    rig = load_rig("tube")
    poses = animate(rig, "wave")
    scene = poses_scene(poses, "wave")
    assert scene.about["clips"][0]["frames"] == poses.pose_count
    assert scene.about["models"] == []
    assert rig_scene(rig).about["live"] == {"rig": "tube", "has_bones": True}


def test_the_same_scene_gives_the_same_page():
    pages = {page_with_scene(tube_scene()[0]) for _ in range(2)}
    assert len(pages) == 1


def test_titles_are_escaped():
    subjects = tube_subjects()
    scene, _ = ViewJob(rig=load_rig("tube")).scene(subjects[1:], "</title><script>alert(1)")
    assert "<script>alert" not in page_with_scene(scene)


def test_groups():
    assert group_of("toe_bend_R") == "Foot, right"
    assert group_of("mouth_corner_L") == "Mouth, left"


def method_of(name, rig):
    spec = rig.controls
    values = np.random.default_rng(1).uniform(spec.low, spec.high, (12, spec.count))
    return method_type(name)().fit(rig.evaluate(values), rig=rig)
