"""Joints are pulled into the body, and the motion adapts."""

from dataclasses import replace

import numpy as np

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.skeleton.articulated_fit import ArticulatedFit, solve_motion
from understudy.methods.decomposition.skeleton.articulation import Articulation, Tree
from understudy.methods.decomposition.skeleton.joint_places import JointRegion
from understudy.methods.decomposition.solve.motion import Fit, Motion


def bar():
    """A closed box of 4 x 1 x 1 with rings of vertices along X."""
    at = np.linspace(0, 4, 9)
    ring = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    vertices = np.array([[x, *corner] for x in at for corner in ring])
    faces = []
    for k in range(8):
        for c in range(4):
            a, b = 4 * k + c, 4 * k + (c + 1) % 4
            faces += [[a, b, b + 4], [a, b + 4, a + 4]]
    return vertices, np.array([*faces, [0, 2, 1], [0, 3, 2], [32, 33, 34], [32, 34, 35]])


def test_points_outside_move_to_the_nearest_point_inside():
    vertices, faces = bar()
    region = JointRegion.of(vertices, faces)
    inside = np.array([[2.0, 0.2, -0.3], [0.3, 0, 0]])
    np.testing.assert_array_equal(region.nearest(inside), inside)
    moved = region.nearest(np.array([[2.0, 3.0, 0.0], [7.0, 0.1, 0.0]]))
    np.testing.assert_allclose(moved, [[2.0, 0.5, 0.0], [4.0, 0.1, 0.0]], atol=0.06)


def test_the_distance_is_continuous():
    vertices, faces = bar()
    region = JointRegion.of(vertices, faces)
    path = np.stack([np.linspace(0, 4, 2001), np.full(2001, 0.8), np.zeros(2001)], axis=1)
    away = np.linalg.norm(region.nearest(path) - path, axis=1)
    assert np.abs(np.diff(away)).max() < 0.003


def test_a_mesh_that_encloses_nothing_keeps_joints_at_its_vertices():
    sheet = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    region = JointRegion.of(sheet, np.array([[0, 1, 2], [1, 3, 2]]))
    moved = region.nearest(np.array([[0.0, 0, 1.0]]))
    assert np.linalg.norm(moved) < 0.02


def test_a_joint_outside_is_pulled_inside_and_leaves_little_error():
    vertices, faces = bar()
    weight = np.clip(vertices[:, 0] - 1.5, 0, 1)
    true = np.array([2.0, 0.9, 0.0])  # outside the body
    angles = 0.1 * np.sin(np.linspace(0, 6, 10))
    turned = rotation_from_axis_angle(angles[:, None] * np.array([0, 0, 1.0]))
    rotations = np.stack([np.tile(np.eye(3), (10, 1, 1)), turned], axis=1)
    pose = Articulation(
        Tree(np.array([-1, 0])), np.stack([np.zeros(3), true]), rotations, np.zeros((10, 3))
    )
    rest = np.column_stack([vertices, np.ones(len(vertices))])
    index = np.tile(np.array([0, 1], np.int32), (len(vertices), 1))
    weights = np.column_stack([1 - weight, weight])
    bones = pose.world_from_rest()
    moved = np.einsum("vb,fbij,vj->vfi", weights, bones, rest)
    targets = np.ascontiguousarray(moved.reshape(len(rest), -1))
    motion = Motion.of(rest, targets)
    fit = Fit(pose.transforms(), index, weights, motion.square)
    free = ArticulatedFit(pose, fit, rest, pose.joints)
    held = replace(free, region=JointRegion.of(vertices, faces), outside=1.0)
    assert held.error > free.error
    found = solve_motion(motion, held)
    assert found.pose.joints[1, 1] < 0.62
    np.testing.assert_allclose(solve_motion(motion, free).pose.joints[1], true, atol=1e-3)
