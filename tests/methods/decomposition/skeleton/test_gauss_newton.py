"""Gauss-Newton on sums over the vertices, against the same step computed from all vertices."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.skeleton.articulation import (
    Articulation,
    NormalEquations,
    Tree,
)
from understudy.methods.decomposition.skeleton.gauss_newton import (
    JointPrior,
    _System,
    solve_articulation,
)
from understudy.methods.decomposition.solve.motion import Fit, Motion

BONES, FRAMES, VERTICES = 5, 4, 40
TREE = Tree(np.array([1, -1, 0, 1, 3]))


@pytest.fixture
def scene():
    """A pose, weights and noisy targets about it."""
    rng = np.random.default_rng(0)
    weights = rng.random((VERTICES, BONES))
    weights /= weights.sum(axis=1, keepdims=True)
    rest = np.column_stack([rng.normal(size=(VERTICES, 3)), np.ones(VERTICES)])
    rotations = rotation_from_axis_angle(rng.normal(size=(FRAMES, BONES, 3)))
    pose = Articulation(TREE, rng.normal(size=(BONES, 3)), rotations, rng.normal(size=(FRAMES, 3)))
    targets = blended(weights, pose, rest) + 0.05 * rng.normal(size=(VERTICES, FRAMES, 3))
    targets = targets.reshape(VERTICES, -1)
    motion = Motion(rest, targets, (targets**2).sum(axis=1))
    index = np.tile(np.arange(BONES, dtype=np.int32), (VERTICES, 1))
    return pose, weights, motion, Fit(pose.transforms(), index, weights, motion.square)


def blended(weights, pose, rest) -> np.ndarray:
    return np.einsum("vb,fbij,vj->vfi", weights, pose.world_from_rest(), rest)


def moved(pose: Articulation, change: np.ndarray) -> Articulation:
    """The pose after a change of its unknowns: rotations and root position of each frame, then the
    joints except that of the root.
    """
    each = change[: FRAMES * (3 * BONES + 3)].reshape(FRAMES, -1)
    joints = pose.joints.copy()
    joints[TREE.parents >= 0] += change[each.size :].reshape(-1, 3)
    rotations = rotation_from_axis_angle(each[:, :-3].reshape(FRAMES, BONES, 3)) @ pose.rotations
    return Articulation(TREE, joints, rotations, pose.root_position + each[:, -3:])


def test_children_stay_on_their_parents(scene):
    pose = scene[0]
    bones = pose.world_from_rest()
    at = lambda bone, joint: bones[:, bone, :, :3] @ pose.joints[joint] + bones[:, bone, :, 3]
    for bone, parent in enumerate(TREE.parents):
        np.testing.assert_allclose(
            at(bone, bone), pose.root_position if parent < 0 else at(parent, bone), atol=1e-13
        )


def test_another_root_is_the_same_motion(scene):
    pose = scene[0]
    for root in range(BONES):
        point, tree = np.array([0.3, -1.0, 2.0]), pose.tree.rooted_at(root)
        joints, bone = pose.tree.rooted_joints(pose.joints, root, point), pose.world_from_rest()
        position = bone[:, root, :, :3] @ point + bone[:, root, :, 3]
        again = Articulation(tree, joints, pose.rotations, position)
        assert tree.root == root
        np.testing.assert_allclose(again.world_from_rest(), bone, atol=1e-13)


def test_the_normal_equations_give_the_error(scene):
    pose, weights, motion, fit = scene
    residual = motion.targets.reshape(VERTICES, FRAMES, 3) - blended(weights, pose, motion.rest)
    assert NormalEquations.of(motion, fit).error(pose.transforms()) == pytest.approx(
        (residual**2).sum(), rel=1e-9
    )


def test_a_step_equals_that_of_plain_least_squares(scene):
    """Derivatives by finite differences, one row per vertex and frame."""
    pose, weights, motion, fit = scene
    pose = replace(pose, joints=pose.joints + 0.1)
    residual = (
        motion.targets.reshape(VERTICES, FRAMES, 3) - blended(weights, pose, motion.rest)
    ).reshape(-1)
    unknowns, h = FRAMES * (3 * BONES + 3) + 3 * (BONES - 1), 1e-6
    slope = lambda one: (
        (
            blended(weights, moved(pose, h * one), motion.rest)
            - blended(weights, moved(pose, -h * one), motion.rest)
        )
        / (2 * h)
    )
    matrix = np.stack([slope(one).reshape(-1) for one in np.eye(unknowns)], axis=1)
    expected = moved(pose, np.linalg.lstsq(matrix, residual, rcond=None)[0])
    system = _System(
        NormalEquations.of(motion, fit), pose, JointPrior(pose.joints, np.zeros(BONES))
    )
    stepped = system.step(damping=0.0)
    np.testing.assert_allclose(stepped.joints, expected.joints, atol=1e-6)
    np.testing.assert_allclose(stepped.rotations, expected.rotations, atol=1e-6)
    np.testing.assert_allclose(stepped.root_position, expected.root_position, atol=1e-6)


def test_the_prior_is_part_of_the_error(scene):
    pose, _, motion, fit = scene
    equations, strong = (
        NormalEquations.of(motion, fit),
        JointPrior(pose.joints + 1.0, np.full(BONES, 1e9)),
    )
    held = solve_articulation(equations, pose, strong, 20)
    np.testing.assert_allclose(
        held.joints[TREE.parents >= 0], (pose.joints + 1.0)[TREE.parents >= 0], atol=1e-5
    )


def test_it_ends_where_no_step_helps_and_never_rises(scene):
    pose, _, motion, fit = scene
    equations, none = NormalEquations.of(motion, fit), JointPrior(pose.joints, np.full(BONES, 1e-9))
    astray = moved(
        pose, 0.2 * np.random.default_rng(1).normal(size=FRAMES * (3 * BONES + 3) + 3 * (BONES - 1))
    )
    errors = [
        equations.error(solve_articulation(equations, astray, none, steps, min_gain=0).transforms())
        for steps in range(12)
    ]
    assert all(after <= before + 1e-12 for before, after in zip(errors, errors[1:]))
    assert errors[-1] <= equations.error(pose.transforms())
    assert errors[-1] == pytest.approx(errors[-2], rel=1e-6)
    rotations = solve_articulation(equations, astray, none, 12).rotations
    np.testing.assert_allclose(
        rotations @ rotations.swapaxes(-1, -2),
        np.broadcast_to(np.eye(3), rotations.shape),
        atol=1e-12,
    )
