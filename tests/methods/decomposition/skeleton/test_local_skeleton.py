"""Skeletons of bones with a patch of the mesh each: joints that hold, and joints that slide."""

import numpy as np
import pytest
from jointed_arm import ARM_JOINTS, arm, tube

from understudy.geometry.transforms import parent_from_bone
from understudy.io.sequences import sequence_from_arrays
from understudy.methods.decomposition.skeleton.skeleton_fit import fit_skeleton


def sliding(poses, weights, bones, bone: int, by: float):
    """The arm with the bones from `bone` on moved away in some frames: poses and transforms."""
    moved, random = bones.copy(), np.random.default_rng(5)
    moved[:, bone:, :, 3] += by * random.normal(size=(len(bones), 1, 3))
    rest = poses.mesh.vertices.astype(np.float64)
    points = np.column_stack([rest, np.ones(len(rest))])
    vertices = np.einsum("vb,tbij,vj->tvi", weights, moved, points)
    return sequence_from_arrays(vertices, tube()[1], rest), moved


def gaps(fitted) -> np.ndarray:
    """How far each joint moves in its parent's frame (B-1,), sorted by x at rest."""
    skeleton = fitted.skeleton
    child = np.flatnonzero(skeleton.parents >= 0)
    child = child[np.argsort(skeleton.world_from_bone[child, 0, 3])]
    local = parent_from_bone(fitted.world_from_bone, skeleton.parents)[:, child][..., 3]
    rest = parent_from_bone(skeleton.world_from_bone, skeleton.parents)[child][..., 3]
    return np.sqrt(((local - rest) ** 2).sum(axis=2).mean(axis=0))


def error(fitted, poses) -> float:
    shown = fitted.deformer(poses, method="ssdr").deform_reference(fitted.world_from_bone)
    return float(np.abs(shown - poses.vertices).max())


@pytest.mark.parametrize("blend", [0.0, 0.2])
def test_bones_of_a_rig_only_rotate(blend):
    poses, weights, bones = arm(blend=blend)
    fitted = fit_skeleton(poses, weights, bones, influences=2, local=True)
    assert fitted.skeleton.bone_count == 4
    assert gaps(fitted).max() < 1e-9
    joints = fitted.skeleton.world_from_bone[:, :, 3]
    for joint in ARM_JOINTS[1:]:
        assert np.linalg.norm(joints - joint, axis=1).min() < 0.05


def test_a_joint_that_the_rig_slides_slides_alone():
    poses, weights, bones = arm(blend=0.2)
    slid, moved = sliding(poses, weights, bones, 2, 0.4)
    fitted = fit_skeleton(slid, weights, moved, influences=2, local=True)
    assert fitted.skeleton.bone_count == 4
    found = gaps(fitted)
    assert found[1] > 0.4  # root mean square of three coordinates
    assert np.delete(found, 1).max() < 0.02
    assert error(fitted, slid) < 0.05
    # The shape says where the joint is, although the motion does not.
    joints = fitted.skeleton.world_from_bone[:, :, 3]
    assert np.linalg.norm(joints - ARM_JOINTS[2], axis=1).min() < 0.25


def test_the_same_input_gives_the_same_skeleton():
    poses, weights, bones = arm(blend=0.2)
    slid, moved = sliding(poses, weights, bones, 2, 0.4)
    one, two = (fit_skeleton(slid, weights, moved, influences=2, local=True) for _ in range(2))
    np.testing.assert_array_equal(one.world_from_bone, two.world_from_bone)
    np.testing.assert_array_equal(one.skin.weight, two.skin.weight)
