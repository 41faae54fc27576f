import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from understudy.geometry.skinning import (
    blended_matrices,
    dual_quaternion_blend,
    linear_blend,
    polar,
    quaternion_from_rotation,
    weight_matrix,
)

RANDOM = np.random.default_rng(0)


def test_polar_gives_a_rotation_and_a_symmetric_stretch_even_for_mirrors():
    linear = RANDOM.normal(size=(50, 3, 3))  # half of these mirror
    rotation, stretch = polar(linear)
    np.testing.assert_allclose(rotation @ stretch, linear, atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(rotation), 1)
    np.testing.assert_allclose(stretch, np.swapaxes(stretch, -1, -2), atol=1e-12)


def test_quaternions_agree_with_scipy_at_every_angle():
    rotations = np.concatenate(
        [
            Rotation.random(200, rng=1).as_matrix(),
            Rotation.from_euler(
                "xyz", [[180, 0, 0], [0, 180, 0], [0, 0, 180]], degrees=True
            ).as_matrix(),
        ]
    )
    ours = quaternion_from_rotation(rotations)
    theirs = Rotation.from_matrix(rotations).as_quat()[:, [3, 0, 1, 2]]
    np.testing.assert_allclose(np.abs(np.sum(ours * theirs, axis=1)), 1, atol=1e-12)


@pytest.mark.parametrize("kinds", [("f4", "f4"), ("f8", "f8"), ("f4", "f8"), ("f8", "f4")])
def test_blended_matrices_are_the_sparse_product_to_the_last_bit(kinds):
    matrices = RANDOM.normal(size=(250, 9, 3, 4)).astype(kinds[0])
    index, weight = RANDOM.integers(0, 9, (700, 5)), RANDOM.normal(size=(700, 5)).astype(kinds[1])
    blended = blended_matrices(matrices, index, weight)
    rows = weight_matrix(index, weight, 9)  # bones that a row has twice stay apart
    product = rows @ np.moveaxis(matrices, 1, 0).reshape(9, -1)
    expected = np.moveaxis(product.reshape(700, 250, 3, 4), 0, 1)
    assert blended.dtype == expected.dtype
    np.testing.assert_array_equal(blended, expected)


def test_one_bone_is_that_bone_in_both_blends():
    matrices = RANDOM.normal(size=(4, 3, 3, 4))
    points = RANDOM.normal(size=(6, 3))
    bone = RANDOM.integers(0, 3, (6, 1))
    one = np.ones((6, 1))
    expected = (
        np.einsum("tvij,vj->tvi", matrices[:, bone[:, 0]][..., :3], points)
        + matrices[:, bone[:, 0]][..., 3]
    )
    np.testing.assert_allclose(linear_blend(matrices, bone, one, points), expected, atol=1e-12)
    np.testing.assert_allclose(
        dual_quaternion_blend(matrices, bone, one, points), expected, atol=1e-10
    )


def test_dual_quaternions_halve_a_twist_without_losing_volume():
    twist = np.zeros((1, 2, 3, 4))
    twist[0, 0, :, :3], twist[0, 1, :, :3] = (
        np.eye(3),
        Rotation.from_rotvec([np.deg2rad(170), 0, 0]).as_matrix(),
    )
    points, index, half = np.array([[0.0, 1.0, 0.0]]), np.array([[0, 1]]), np.full((1, 2), 0.5)
    turned = dual_quaternion_blend(twist, index, half, points)[0, 0]
    np.testing.assert_allclose(
        turned, [0, np.cos(np.deg2rad(85)), np.sin(np.deg2rad(85))], atol=1e-12
    )
    assert np.linalg.norm(linear_blend(twist, index, half, points)) < 0.1  # what a candy wrapper is


def test_opposite_signs_of_the_same_rotation_do_not_cancel():
    near = Rotation.from_rotvec([[0, 0, np.deg2rad(179)], [0, 0, np.deg2rad(181)]]).as_matrix()
    matrices = np.concatenate([near, np.zeros((2, 3, 1))], axis=-1)[None]
    result = dual_quaternion_blend(
        matrices, np.array([[0, 1]]), np.full((1, 2), 0.5), np.array([[1.0, 0, 0]])
    )
    np.testing.assert_allclose(result[0, 0], [-1, 0, 0], atol=1e-12)
