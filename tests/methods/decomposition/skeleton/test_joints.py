"""Joints of pairs of bones, and the tree over them."""

import numpy as np

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.skeleton.articulation import Articulation, Tree
from understudy.methods.decomposition.skeleton.joints import held_joints, spanning_tree
from understudy.methods.decomposition.skeleton.root_bone import central_bone
from understudy.methods.decomposition.skeleton.skeleton_fit import parents_first, rest_frames
from understudy.methods.decomposition.solve.motion import relative_motion


def pairwise_joints(transforms, middle) -> tuple[np.ndarray, np.ndarray]:
    """Joints of all pairs of bones, weakly held at `middle` (3,), and what they cost."""
    relative = relative_motion(transforms)
    held = np.broadcast_to(np.asarray(middle, float), (*relative.shape[:2], 3))
    joints, apart = held_joints(relative, held, np.full(relative.shape[:2], 1e-3))
    return joints, apart + 1e-3 * ((joints - held) ** 2).sum(axis=2)


def swinging(tree: Tree, joints: np.ndarray, size: float = 1.0, frames: int = 30) -> Articulation:
    rng = np.random.default_rng(0)
    return Articulation(
        tree,
        joints,
        rotation_from_axis_angle(size * rng.normal(size=(frames, tree.bones, 3))),
        rng.normal(size=(frames, 3)),
    )


def test_joints_and_tree_of_exact_motion_are_found():
    tree = Tree(np.array([-1, 0, 1, 1, 3]))
    pose = swinging(tree, np.random.default_rng(1).normal(size=(5, 3)))
    joints, cost = pairwise_joints(pose.transforms(), np.zeros(3))
    np.testing.assert_array_equal(spanning_tree(cost).parents, tree.parents)
    found = joints[np.arange(5), tree.parents][1:]
    np.testing.assert_allclose(found, pose.joints[1:], atol=2e-3)  # the border pulls a little


def test_bones_that_move_together_are_joined_at_their_border():
    pose = Articulation(
        Tree(np.array([-1, 0])),
        np.zeros((2, 3)),
        np.tile(np.eye(3), (4, 2, 1, 1)),
        np.zeros((4, 3)),
    )
    joints, cost = pairwise_joints(pose.transforms(), [3.0, 1.0, 0.0])
    np.testing.assert_allclose(joints[0, 1], [3.0, 1.0, 0.0])
    assert cost[0, 1] == 0


def test_a_hinge_is_placed_on_its_axis_beside_the_border():
    """A rotation about the line x = 1, y = 0 leaves z open; the border decides it."""
    angles = np.zeros((20, 2, 3))
    angles[:, 1, 2] = np.linspace(-1, 1, 20)
    pose = Articulation(
        Tree(np.array([-1, 0])),
        np.array([[0.0, 0, 0], [1, 0, 0]]),
        rotation_from_axis_angle(angles),
        np.zeros((20, 3)),
    )
    joints, _ = pairwise_joints(pose.transforms(), [0.9, 0.1, 5.0])
    np.testing.assert_allclose(joints[0, 1], [1, 0, 5], atol=1e-3)


def test_rest_frames_are_at_the_joints_and_point_to_the_children():
    tree = Tree(np.array([-1, 0, 1]))
    joints = np.array([[0.0, 0, 0], [0, 1, 0], [1, 1, 0]])
    centres = np.array([[0, 0.5, 0], [0.5, 1, 0], [1, 1, 2.0]])
    frames = rest_frames(tree, joints, centres, np.ones(3), "Y")
    np.testing.assert_allclose(frames[..., 3], joints)
    np.testing.assert_allclose(frames[..., 1], [[0, 1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(frames[..., :3]), 1)
    same = rest_frames(
        tree, np.zeros((3, 3)), np.zeros((3, 3)), np.ones(3), "Z"
    )  # no length anywhere
    np.testing.assert_allclose(np.linalg.det(same[..., :3]), 1)


def test_the_root_balances_the_tree_and_parents_come_first():
    tree = Tree(np.array([1, 2, -1, 2, 3]))
    mass = np.array([1.0, 4, 3, 1, 1])
    assert central_bone(tree, mass) == 1  # as well balanced as 2, and heavier
    assert central_bone(tree, np.array([1.0, 4, 3, 3, 1])) == 2
    order = parents_first(tree, mass)
    place = np.argsort(order)
    assert all(
        place[parent] < place[bone] for bone, parent in enumerate(tree.parents) if parent >= 0
    )


def test_bones_that_nothing_connects_are_in_the_tree_too():
    cost = np.full((4, 4), np.inf)
    cost[0, 1] = cost[1, 0] = cost[2, 3] = cost[3, 2] = 1.0
    tree = spanning_tree(cost)
    assert (tree.parents < 0).sum() == 1
    assert tree.parents[1] == 0
