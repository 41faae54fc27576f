"""Joints: no shear under any parent, the same motion, one root."""

import numpy as np
import pytest
from builders import chain_skeleton, full_deformer, random_motion

from understudy import Skeleton
from understudy.export.character import notes_on
from understudy.export.joints import Joints, make_joints, rigid
from understudy.geometry.transforms import compose, inverse


def shear_of(joints, frames):
    """The largest cosine between two axes of a joint in its parent's frame."""
    worst = 0.0
    for joint, parent in enumerate(joints.skeleton.parents):
        local = frames[:, joint]
        if parent >= 0:
            local = compose(inverse(frames[:, parent]), local)
        axes = local[..., :3] / np.linalg.norm(local[..., :3], axis=1, keepdims=True)
        gram = np.abs(np.swapaxes(axes, 1, 2) @ axes - np.eye(3))
        worst = max(worst, float(gram.max()))
    return worst


@pytest.mark.parametrize(("stretch", "shear"), [(0.0, 0.0), (0.3, 0.0), (0.3, 0.4)])
def test_joints_follow_the_bones_without_shear(stretch, shear):
    skeleton = chain_skeleton(4)
    clips = [random_motion(skeleton, frames, frames, stretch=stretch) for frames in (6, 9)]
    for clip in clips:  # two bones in the middle shear
        clip[:, 1:3, :, :3] = clip[:, 1:3, :, :3] @ np.array([[1, shear, 0], [0, 1, 0], [0, 0, 1]])
    joints = make_joints(skeleton, clips)
    for motion, bones in zip(joints.world_from_bone, clips):
        np.testing.assert_allclose(motion[:, joints.bone_joint], bones)
        assert shear_of(joints, motion) < 1e-4
    rest = joints.skeleton.world_from_bone[joints.bone_joint]
    np.testing.assert_allclose(rest, skeleton.world_from_bone)
    assert len(joints.skeleton.roots) == 1
    if shear == 0:  # a chain of translations, rotations and scales stays as it is
        assert joints.skeleton.names == skeleton.names
        np.testing.assert_array_equal(joints.skeleton.parents, skeleton.parents)
    assert (joints.pairs > 0) == (shear > 0)


def test_a_mirrored_bone_keeps_its_reflection():
    skeleton = Skeleton(("a", "b"), [-1, -1], np.tile(np.eye(3, 4), (2, 1, 1)))
    motion = random_motion(skeleton, 5, stretch=0.3)
    motion[..., :3] = motion[..., :3] @ np.array([[1.0, 0.4, 0], [0, 1, 0], [0, 0, -1]])
    joints = make_joints(skeleton, [motion])
    np.testing.assert_allclose(joints.world_from_bone[0][:, joints.bone_joint], motion)
    assert shear_of(joints, joints.world_from_bone[0]) < 1e-4
    assert joints.pairs == 2


def test_the_axes_of_a_pair_do_not_jump_between_frames():
    """The singular values swap their order on the way; the joints must not."""
    skeleton = Skeleton(("a",), [-1], np.eye(3, 4)[None])
    time = np.linspace(0, 1, 50)[:, None, None]
    stretch = (1 - time) * np.diag([1.5, 1.0, 0.8]) + time * np.diag([0.9, 1.3, 1.0])
    stretch = stretch + 0.05 * np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    motion = np.concatenate([stretch, np.zeros((50, 3, 1))], axis=2)[:, None]
    joints = make_joints(skeleton, [motion])
    upper = rigid(joints.world_from_bone[0][:, 0])[..., :3]
    turned = np.einsum("fij,fij->f", upper[1:], upper[:-1])  # trace of the step's rotation
    angle = np.degrees(np.arccos(np.clip((turned - 1) / 2, -1, 1)))
    assert angle.max() < 20


def test_names_that_are_taken_are_not_used_twice():
    skeleton = Skeleton(("root", "root_stretch"), [-1, -1], np.tile(np.eye(3, 4), (2, 1, 1)))
    motion = random_motion(skeleton, 3, stretch=0.3)
    motion[..., :3] = motion[..., :3] @ np.array([[1.0, 0.4, 0], [0, 1, 0], [0, 0, 1]])
    names = make_joints(skeleton, [motion]).skeleton.names
    assert len(set(names)) == len(names) == 5
    assert {"root", "root_stretch"} <= set(names)


@pytest.mark.parametrize("count", [1, 2])
def test_notes_agree_in_number(count):
    skeleton = Skeleton(("root",), [-1], np.eye(3, 4)[None])
    joints = Joints(skeleton, np.zeros(1, int), (), pairs=count, moved=count)
    pairs, moved = notes_on(joints, full_deformer())
    verbs = {1: ("1 bone that shears", "1 bone has"), 2: ("2 bones that shear", "2 bones have")}
    assert pairs.startswith(verbs[count][0])
    assert moved.startswith(verbs[count][1])
