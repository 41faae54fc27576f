"""Skeletons from sequences: the properties of every skeleton, and known skeletons."""

from dataclasses import replace

import numpy as np
import pytest
from jointed_arm import ARM_JOINTS, arm, tube

from understudy.core.skin import skin_weights
from understudy.geometry.transforms import (
    compose,
    inverse,
    parent_from_bone,
    rotation_from_axis_angle,
)
from understudy.io.sequences import sequence_from_arrays
from understudy.methods.decomposition.skeleton.skeleton_fit import SkeletonFit, fit_skeleton
from understudy.methods.decomposition.ssdr import Ssdr, SsdrConfig
from understudy.system.errors import InputError
from understudy_benchmarks.metrics import erms


def deformed(fitted: SkeletonFit, poses) -> np.ndarray:
    return fitted.deformer(poses, method="ssdr").deform_reference(fitted.world_from_bone)


def check_skeleton(fitted: SkeletonFit) -> None:
    """One root, rigid bones, fixed joints, errors that never rise, convex weights."""
    parents, world = fitted.skeleton.parents, fitted.world_from_bone
    assert (parents < 0).sum() == 1
    turns = world[..., :3]
    np.testing.assert_allclose(
        turns @ turns.swapaxes(-1, -2), np.broadcast_to(np.eye(3), turns.shape), atol=1e-10
    )
    np.testing.assert_allclose(np.linalg.det(turns), 1, atol=1e-10)
    local, at_rest = (
        parent_from_bone(world, parents)[..., 3],
        parent_from_bone(fitted.skeleton.world_from_bone, parents)[..., 3],
    )
    size = np.abs(at_rest).max() + np.abs(world[..., 3]).max() + 1e-300
    child = parents >= 0
    np.testing.assert_allclose(
        local[:, child], np.broadcast_to(at_rest[child], local[:, child].shape), atol=1e-11 * size
    )
    assert all(after <= before for before, after in zip(fitted.errors, fitted.errors[1:]))
    assert fitted.skin.weight.min() >= 0


def joints_of(fitted: SkeletonFit) -> np.ndarray:
    """The joints at rest (B-1,3), sorted by x."""
    child = fitted.skeleton.parents >= 0
    at = fitted.skeleton.world_from_bone[child, :, 3]
    return at[np.argsort(at[:, 0])]


@pytest.mark.parametrize("blend", [0.0, 0.2])
def test_an_exact_arm_is_found_from_its_bones(blend):
    poses, weights, bones = arm(blend=blend)
    fitted = fit_skeleton(poses, weights, bones)
    check_skeleton(fitted)
    np.testing.assert_allclose(
        joints_of(fitted), ARM_JOINTS[1:], atol=4e-3
    )  # a thousandth of its length
    assert np.abs(deformed(fitted, poses) - poses.vertices).max() < 2e-3
    assert fitted.skin.influences <= (weights > 0).sum(axis=1).max()
    # a chain whose root is one of its two middle bones
    assert sorted(fitted.skeleton.parents.tolist()) == [-1, 0, 0, 1]


def test_the_arm_is_found_from_a_decomposition():
    poses, _, _ = arm(blend=0.2)
    found = Ssdr(SsdrConfig(bones=4, influences=2, transforms="rigid")).fit(poses)
    weights = skin_weights(found.skin, 4).toarray()
    fitted = fit_skeleton(poses, weights, found.clips[0].world_from_bone, influences=2)
    check_skeleton(fitted)
    assert erms(poses.vertices, deformed(fitted, poses)) < 0.5
    np.testing.assert_allclose(joints_of(fitted)[:, 0], [1, 2, 3], atol=0.1)


def test_the_bones_motion_is_what_it_was():
    """Relative to rest, every bone moves as before."""
    poses, weights, bones = arm()
    fitted = fit_skeleton(poses, weights, bones)
    world_from_rest = compose(fitted.world_from_bone, inverse(fitted.skeleton.world_from_bone))
    owner = fitted.skin.bone_index[:, 0]
    np.testing.assert_allclose(
        world_from_rest[:, owner], bones[:, np.argmax(weights, axis=1)], atol=5e-3
    )


def test_position_rotation_and_scale_of_the_sequence_change_nothing():
    poses, weights, bones = arm(frames=12, blend=0.2, noise=0.01)
    first = fit_skeleton(poses, weights, bones)
    turn, shift = rotation_from_axis_angle(np.array([0.4, -1.0, 0.3])), np.array([5.0, -2.0, 1.0])
    there = lambda points: 3 * points @ turn.T + shift
    scene = np.column_stack([turn, shift / 3])
    turned = compose(compose(scene, bones), inverse(scene))
    turned[..., 3] *= 3
    mesh = replace(
        poses.mesh, vertices=there(poses.mesh.vertices.astype(np.float64)).astype(np.float32)
    )
    second = fit_skeleton(
        replace(
            poses, mesh=mesh, vertices=there(poses.vertices.astype(np.float64)).astype(np.float32)
        ),
        weights,
        turned,
    )
    assert second.errors[-1] == pytest.approx(3 * first.errors[-1], rel=0.02)
    np.testing.assert_array_equal(second.skeleton.parents, first.skeleton.parents)
    np.testing.assert_allclose(
        second.skeleton.world_from_bone[..., 3],
        there(first.skeleton.world_from_bone[..., 3]),
        atol=0.1,
    )


def test_same_input_same_result():
    poses, weights, bones = arm(frames=8, blend=0.2, noise=0.01)
    one, two = fit_skeleton(poses, weights, bones), fit_skeleton(poses, weights, bones)
    np.testing.assert_array_equal(one.world_from_bone, two.world_from_bone)
    np.testing.assert_array_equal(one.skin.weight, two.skin.weight)


def test_one_bone_is_a_root_that_moves():
    poses, _, bones = arm(frames=5)
    moved = sequence_from_arrays(
        np.einsum("tij,vj->tvi", bones[:, 0, :, :3], poses.mesh.vertices) + bones[:, 0, None, :, 3],
        [[0, 1, 2]],
        poses.mesh.vertices,
    )
    fitted = fit_skeleton(moved, np.ones((moved.vertex_count, 1)), bones[:, :1])
    check_skeleton(fitted)
    assert np.abs(deformed(fitted, moved) - moved.vertices).max() < 1e-4


def test_a_mesh_that_never_moves_keeps_its_bones_where_they_touch():
    rest, faces = tube()
    still = sequence_from_arrays(np.tile(rest, (3, 1, 1)), faces, rest)
    weights = np.eye(2)[(rest[:, 0] > 2).astype(int)]
    fitted = fit_skeleton(still, weights, np.tile(np.eye(3, 4), (3, 2, 1, 1)))
    check_skeleton(fitted)
    assert np.abs(deformed(fitted, still) - still.vertices).max() < 1e-5
    np.testing.assert_allclose(joints_of(fitted)[0], [2, 0, 0], atol=0.1)


@pytest.mark.slow
def test_disconnected_parts_form_one_tree():
    """Disconnected tetrahedra in a row, each on its own bone, moving apart: no joint is exact."""
    rng = np.random.default_rng(0)
    parts, frames = 13, 6
    rest = (
        np.array([[0.0, 0, 0], [0.4, 0, 0], [0, 0.4, 0], [0, 0, 0.4]])
        + np.arange(parts)[:, None, None] * [1.0, 0, 0]
    ).reshape(-1, 3)
    faces = (
        np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3]]) + 4 * np.arange(parts)[:, None, None]
    ).reshape(-1, 3)
    shift = np.cumsum(0.05 * rng.normal(size=(frames, parts, 3)), axis=1)
    bones = np.concatenate(
        [rotation_from_axis_angle(0.2 * rng.normal(size=(frames, parts, 3))), shift[..., None]],
        axis=-1,
    )
    weights = np.repeat(np.eye(parts), 4, axis=0)
    vertices = np.einsum(
        "vb,tbij,vj->tvi", weights, bones, np.column_stack([rest, np.ones(len(rest))])
    )
    fitted = fit_skeleton(sequence_from_arrays(vertices, faces, rest), weights, bones, influences=2)
    check_skeleton(fitted)
    assert fitted.skeleton.bone_count == parts
    # neighbours are joined to neighbours
    middle = fitted.skeleton.world_from_bone[:, 0, 3]
    child = fitted.skeleton.parents >= 0
    assert np.median(np.abs(middle[child] - middle[fitted.skeleton.parents[child]])) < 2


def test_the_errors_are_those_of_the_deformer():
    poses, weights, bones = arm(frames=8, blend=0.2, noise=0.02)
    fitted = fit_skeleton(poses, weights, bones)
    assert erms(poses.vertices, deformed(fitted, poses)) == pytest.approx(
        100 * fitted.errors[-1], abs=0.01
    )


def test_noise_in_the_rest_shape_is_removed():
    """The mesh is noisy and the frames are not: the fitted rest shape is that of the frames."""
    poses, weights, bones = arm(frames=16)
    rng = np.random.default_rng(1)
    noisy = poses.mesh.vertices + 0.02 * rng.normal(size=poses.mesh.vertices.shape)
    fitted = fit_skeleton(replace(poses, mesh=replace(poses.mesh, vertices=noisy)), weights, bones)
    check_skeleton(fitted)
    off = lambda rest: np.sqrt(((rest - poses.mesh.vertices) ** 2).mean())
    assert off(fitted.rest) < 0.3 * off(noisy)
    assert erms(poses.vertices, deformed(fitted, poses)) < 0.5


@pytest.mark.parametrize("influences", [1, 2, 9])
def test_no_vertex_follows_more_bones_than_allowed(influences):
    poses, _, bones = arm(frames=6, noise=0.05)
    weights = np.full((poses.vertex_count, 4), 0.25)
    fitted = fit_skeleton(poses, weights, bones, influences=influences)
    check_skeleton(fitted)
    assert fitted.skin.influences <= influences


def test_scale_in_the_bones_is_discarded():
    poses, weights, bones = arm(frames=8)
    stretched = bones.copy()
    stretched[..., :3] *= [1.1, 1.0, 0.9]
    check_skeleton(fit_skeleton(poses, weights, stretched))


def test_wrong_weights_bones_and_influences_are_refused():
    poses, weights, bones = arm(frames=3)
    with pytest.raises(InputError, match="sum to one"):
        fit_skeleton(poses, 2 * weights, bones)
    with pytest.raises(InputError, match="world_from_rest"):
        fit_skeleton(poses, weights, bones[:, :2])
    with pytest.raises(InputError, match="influences"):
        fit_skeleton(poses, weights, bones, influences=0)


def test_patches_are_joined_where_the_given_bones_leave_a_visible_error():
    poses, weights, bones = arm(blend=0.2)
    merged = np.column_stack([weights[:, 0], weights[:, 1], weights[:, 2] + weights[:, 3]])
    fitted = fit_skeleton(poses, merged, bones[:, :3], influences=2, local=True)
    check_skeleton(fitted)
    assert fitted.skeleton.bone_count == 4
    np.testing.assert_allclose(joints_of(fitted), ARM_JOINTS[1:], atol=0.05)


def test_a_bend_between_the_sampled_frames_is_not_lost():
    poses, weights, bones = arm(frames=200, blend=0.2)
    still = bones.copy()
    still[:, 3] = still[:, 2]  # the last two bones move as one,
    still[[51, 52], 3] = bones[[51, 52], 3]  # but for two frames
    rest = poses.mesh.vertices.astype(np.float64)
    points = np.column_stack([rest, np.ones(len(rest))])
    vertices = np.einsum("vb,tbij,vj->tvi", weights, still, points)
    bent = sequence_from_arrays(vertices, tube()[1], rest)
    with_patches = fit_skeleton(bent, weights, still, influences=2, local=True)
    assert np.abs(deformed(with_patches, bent) - bent.vertices).max() < 0.05


def test_noise_is_not_followed_by_patches():
    """As many bones as were given are joined, as without `local`."""
    poses, weights, bones = arm(frames=8, noise=0.1)
    with_patches = fit_skeleton(poses, weights, bones, local=True)
    without = fit_skeleton(poses, weights, bones)
    np.testing.assert_array_equal(with_patches.world_from_bone, without.world_from_bone)
