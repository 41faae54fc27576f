"""The inside of a body, joints there, and names of its two sides."""

import numpy as np
import pytest

from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.skeleton.articulated_fit import (
    ArticulatedFit,
    fixed_inside,
    solve_motion,
)
from understudy.methods.decomposition.skeleton.articulation import Articulation, Tree
from understudy.methods.decomposition.skeleton.body import Body
from understudy.methods.decomposition.skeleton.skeleton_fit import bone_names, mirrored
from understudy.methods.decomposition.solve.motion import Fit, Motion
from understudy_benchmarks.joint_places import joint_figures


def box(length=4.0):
    """A closed box of 1 x 1 x length around the X axis, with rings of vertices along it."""
    at = np.linspace(0, length, 9)
    ring = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    vertices = np.array([[x, *corner] for x in at for corner in ring])
    faces = []
    for k in range(8):
        for c in range(4):
            a, b = 4 * k + c, 4 * k + (c + 1) % 4
            faces += [[a, b, b + 4], [a, b + 4, a + 4]]
    faces += [[0, 2, 1], [0, 3, 2], [32, 33, 34], [32, 34, 35]]
    return vertices, np.array(faces)


def test_the_middle_of_a_line_through_the_body():
    vertices, faces = box(8.0)
    points = np.array([[4.0, 0.2, 0.3], [1.0, 0.1, 0], [4.0, 3.0, 0]])
    along = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])
    found = Body(vertices, faces).chord_middles(points, along)
    reach = 0.2 * np.linalg.norm([8, 1, 1])
    # Across; from one end as far as a line reaches; a point outside stays.
    expected = [[4, 0.2, 0], [1 + (reach - 1) / 2, 0.1, 0], [4, 3, 0]]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    nothing = Body(vertices, np.zeros((0, 3), int))
    np.testing.assert_array_equal(nothing.chord_middles(points, along), points)


def test_a_joint_outside_is_fixed_inside_and_leaves_little_error():
    vertices, faces = box()
    second = np.clip(vertices[:, 0] - 1.5, 0, 1)
    true = np.array([2.0, 0.9, 0.0])  # outside the body
    angles = 0.1 * np.sin(np.linspace(0, 6, 10))
    turned = rotation_from_axis_angle(angles[:, None] * np.array([0, 0, 1.0]))
    rotations = np.stack([np.tile(np.eye(3), (10, 1, 1)), turned], axis=1)
    pose = Articulation(
        Tree(np.array([-1, 0])), np.stack([np.zeros(3), true]), rotations, np.zeros((10, 3))
    )
    rest = np.column_stack([vertices, np.ones(len(vertices))])
    index = np.tile(np.array([0, 1], np.int32), (len(vertices), 1))
    weights = np.column_stack([1 - second, second])
    moved = np.einsum("vb,fbij,vj->vfi", weights, pose.world_from_rest(), rest)
    motion = Motion.of(rest, np.ascontiguousarray(moved.reshape(len(rest), -1)))
    fit = Fit(pose.transforms(), index, weights, motion.square)
    free = solve_motion(motion, ArticulatedFit(pose, fit, rest, pose.joints))
    np.testing.assert_allclose(free.pose.joints[1], true, atol=1e-3)
    fixed = fixed_inside(motion, free, faces, 2, 10)
    assert fixed.pose.joints[1, 1] < 0.5
    assert fixed.error < 1e-3 * motion.square.sum()
    assert fixed_inside(motion, fixed, faces, 2, 10) is fixed


def test_areas_of_vertices_sum_to_the_surface():
    vertices, faces = box(8.0)
    area = Body(vertices, faces).vertex_areas()
    np.testing.assert_allclose(area.sum(), 4 * 8 + 2)
    np.testing.assert_array_equal(Body(vertices, faces[:0]).vertex_areas(), 1)


def test_joints_outside_are_counted():
    vertices, faces = box()
    mesh = Mesh.from_faces(vertices, faces)
    frames = np.tile(np.eye(3, 4), (3, 1, 1))
    frames[:, :, 3] = [[1, 0, 0], [2, 0, 0.52], [2, 0, 2.5]]
    skeleton = Skeleton(("a", "b", "c"), [-1, 0, 1], frames)
    skin = Skin(np.zeros((len(vertices), 1), int), np.ones((len(vertices), 1)))
    found = joint_figures(mesh, skeleton, skin, np.array([[1.1, 0, 0], [3.5, 0, 0]]))
    size = np.sqrt(16 + 1 + 1)
    assert found["joints_outside"] == 1  # the second is nearer than 2 % to the surface
    np.testing.assert_allclose(found["joint_outermost"], 100 * 2 / size, rtol=1e-6)
    assert found["joints_found"] == 0.5
    np.testing.assert_allclose(found["joints_true"], 1 / 3)
    assert found["smallest_patch"] == 0


@pytest.mark.parametrize(("joint", "wrong"), [(9, 0), (1, 1)])
def test_a_joint_in_the_other_leg_is_counted(joint, wrong):
    """Two legs side by side that meet far above: a strip of five squares up, and down again."""
    legs = np.array([[x, y, 0] for x in (0.0, 0.2) for y in range(6)])
    legs[6:] = legs[6:][::-1]  # one path: up the first leg, down the second
    vertices = np.concatenate([legs, legs + [0, 0, 0.2]])
    at = np.arange(11)
    faces = np.stack([at, at + 1, at + 13, at + 12], axis=1)
    frames = np.tile(np.eye(3, 4), (2, 1, 1))
    frames[:, :, 3] = legs[[5, joint]] + [0, 0, 0.1]
    skeleton = Skeleton(("root", "shin"), [-1, 0], frames)
    of_shin = np.isin(np.arange(24) % 12, (9, 10, 11)).astype(int)[:, None]
    skin = Skin(of_shin, np.ones((24, 1)))
    found = joint_figures(Mesh.from_faces(vertices, faces), skeleton, skin)
    assert found["joints_in_wrong_limb"] == wrong
    assert found["smallest_patch"] == 6


def test_both_sides_of_a_symmetric_skeleton_share_names():
    joints = np.array([[0.0, 0, 0], [0, 2, 0], [1, 2, 0], [-1, 2, 0], [2, 2, 0], [-2, 2, 0.01]])
    parents = np.array([-1, 0, 1, 1, 2, 3])
    assert mirrored(joints, parents, 2 * joints).tolist() == [0, 1, 3, 2, 5, 4]
    names = bone_names(joints, parents, 2 * joints)
    assert names == ("root", "bone_1", "bone_2_L", "bone_2_R", "bone_3_L", "bone_3_R")
    shifted = joints + np.array([0.0, 0, 0])
    shifted[[3, 5]] += [0, -1.5, 0.5]
    assert (mirrored(shifted, parents, 2 * joints) == -1).all()
    assert len(set(bone_names(shifted, parents, 2 * joints))) == 6
