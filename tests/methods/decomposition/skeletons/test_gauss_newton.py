"""Gauss-Newton on the moments of the vertices, against the same step taken with the vertices
themselves.
"""

from dataclasses import replace

import numpy as np
import pytest

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.alternating_solve import Fit
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.skeletons.articulation import Articulation, Moments, Tree
from understudy.methods.decomposition.skeletons.gauss_newton import JointPrior, _System, refined

BONES, FRAMES, VERTICES = 5, 4, 40
TREE = Tree(np.array([1, -1, 0, 1, 3]))


@pytest.fixture
def scene():
    """A pose, weights and noisy targets about it."""
    rng = np.random.default_rng(0)
    weights = rng.random((VERTICES, BONES))
    weights /= weights.sum(axis=1, keepdims=True)
    rest = np.column_stack([rng.normal(size=(VERTICES, 3)), np.ones(VERTICES)])
    turns = rotation_from_axis_angle(rng.normal(size=(FRAMES, BONES, 3)))
    pose = Articulation(TREE, rng.normal(size=(BONES, 3)), turns, rng.normal(size=(FRAMES, 3)))
    targets = blended(weights, pose, rest) + 0.05 * rng.normal(size=(VERTICES, FRAMES, 3))
    targets = targets.reshape(VERTICES, -1)
    motion = Motion(rest, targets, (targets**2).sum(axis=1))
    index = np.tile(np.arange(BONES, dtype=np.int32), (VERTICES, 1))
    return pose, weights, motion, Fit(pose.columns(), index, weights, motion.square)


def blended(weights, pose, rest) -> np.ndarray:
    return np.einsum("vb,fbij,vj->vfi", weights, pose.transforms(), rest)


def moved(pose: Articulation, change: np.ndarray) -> Articulation:
    """The pose after unknowns (turns and place of each frame, then the joints but the root's)
    change by so much.
    """
    each = change[: FRAMES * (3 * BONES + 3)].reshape(FRAMES, -1)
    joints = pose.joints.copy()
    joints[TREE.parents >= 0] += change[each.size :].reshape(-1, 3)
    turns = rotation_from_axis_angle(each[:, :-3].reshape(FRAMES, BONES, 3)) @ pose.turns
    return Articulation(TREE, joints, turns, pose.place + each[:, -3:])


def test_children_stay_on_their_parents(scene):
    pose = scene[0]
    bones = pose.transforms()
    at = lambda bone, joint: bones[:, bone, :, :3] @ pose.joints[joint] + bones[:, bone, :, 3]
    for bone, parent in enumerate(TREE.parents):
        np.testing.assert_allclose(
            at(bone, bone), pose.place if parent < 0 else at(parent, bone), atol=1e-13
        )


def test_another_root_is_the_same_motion(scene):
    pose = scene[0]
    for root in range(BONES):
        again = pose.rooted_at(root, np.array([0.3, -1.0, 2.0]))
        assert again.tree.root == root
        np.testing.assert_allclose(again.transforms(), pose.transforms(), atol=1e-13)


def test_moments_hold_the_error(scene):
    pose, weights, motion, fit = scene
    missed = motion.targets.reshape(VERTICES, FRAMES, 3) - blended(weights, pose, motion.rest)
    assert Moments.of(motion, fit).error(pose.columns()) == pytest.approx(
        (missed**2).sum(), rel=1e-9
    )


def test_a_step_is_that_of_the_vertices_themselves(scene):
    """The derivatives by differences, every vertex and frame a row, solved by plain least
    squares.
    """
    pose, weights, motion, fit = scene
    pose = replace(pose, joints=pose.joints + 0.1)
    missed = (
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
    expected = moved(pose, np.linalg.lstsq(matrix, missed, rcond=None)[0])
    system = _System(Moments.of(motion, fit), pose, JointPrior(pose.joints, np.zeros(BONES)))
    stepped = system.stepped(damping=0.0)
    np.testing.assert_allclose(stepped.joints, expected.joints, atol=1e-6)
    np.testing.assert_allclose(stepped.turns, expected.turns, atol=1e-6)
    np.testing.assert_allclose(stepped.place, expected.place, atol=1e-6)


def test_the_prior_is_part_of_what_is_lowered(scene):
    pose, _, motion, fit = scene
    moments, strong = Moments.of(motion, fit), JointPrior(pose.joints + 1.0, np.full(BONES, 1e9))
    held = refined(moments, pose, strong, 20)
    np.testing.assert_allclose(
        held.joints[TREE.parents >= 0], (pose.joints + 1.0)[TREE.parents >= 0], atol=1e-5
    )


def test_it_ends_where_no_step_helps_and_never_rises(scene):
    pose, _, motion, fit = scene
    moments, none = Moments.of(motion, fit), JointPrior(pose.joints, np.full(BONES, 1e-9))
    astray = moved(
        pose, 0.2 * np.random.default_rng(1).normal(size=FRAMES * (3 * BONES + 3) + 3 * (BONES - 1))
    )
    errors = [
        moments.error(refined(moments, astray, none, steps, least=0).columns())
        for steps in range(12)
    ]
    assert all(after <= before + 1e-12 for before, after in zip(errors, errors[1:]))
    assert errors[-1] <= moments.error(pose.columns())
    assert errors[-1] == pytest.approx(errors[-2], rel=1e-6)
    turns = refined(moments, astray, none, 12).turns
    np.testing.assert_allclose(
        turns @ turns.swapaxes(-1, -2), np.broadcast_to(np.eye(3), turns.shape), atol=1e-12
    )
