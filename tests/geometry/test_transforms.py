import numpy as np
from scipy.spatial.transform import Rotation

from understudy.geometry.transforms import (
    apply,
    compose,
    inverse,
    parent_from_bone,
    rotation_from_axis_angle,
)

RANDOM = np.random.default_rng(0).normal(size=(5, 4, 3, 4))


def four(a):
    return np.concatenate([a, np.broadcast_to([0.0, 0, 0, 1], (*a.shape[:-2], 1, 4))], axis=-2)


def test_compose_and_inverse_are_those_of_4x4_matrices():
    np.testing.assert_allclose(
        four(compose(RANDOM, RANDOM[::-1])), four(RANDOM) @ four(RANDOM[::-1])
    )
    np.testing.assert_allclose(four(inverse(RANDOM)), np.linalg.inv(four(RANDOM)), atol=1e-10)


def test_apply_is_the_product_with_a_homogeneous_point():
    points = np.random.default_rng(1).normal(size=(5, 4, 3))
    np.testing.assert_allclose(
        apply(RANDOM, points),
        (four(RANDOM) @ np.append(points, np.ones((5, 4, 1)), -1)[..., None])[..., :3, 0],
    )


def test_parent_from_bone_undoes_the_parent_even_with_scale():
    parents = np.array([-1, 0, 1, 1])
    local = parent_from_bone(RANDOM, parents)
    np.testing.assert_array_equal(local[:, 0], RANDOM[:, 0])
    np.testing.assert_allclose(
        compose(RANDOM[:, parents[1:]], local[:, 1:]), RANDOM[:, 1:], atol=1e-10
    )


def test_rodrigues_agrees_with_scipy_and_is_exact_at_zero():
    vectors = np.concatenate(
        [np.zeros((1, 3)), np.full((1, 3), 1e-9), np.random.default_rng(2).normal(size=(20, 3)) * 2]
    )
    np.testing.assert_allclose(
        rotation_from_axis_angle(vectors), Rotation.from_rotvec(vectors).as_matrix(), atol=1e-12
    )
    np.testing.assert_array_equal(rotation_from_axis_angle(np.zeros(3)), np.eye(3))
