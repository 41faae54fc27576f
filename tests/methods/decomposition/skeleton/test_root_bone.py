"""The root of a skeleton: the pelvis where there are feet, else the middle of the tree."""

import numpy as np
import pytest

from understudy.methods.decomposition.skeleton.articulation import Tree
from understudy.methods.decomposition.skeleton.body import Body
from understudy.methods.decomposition.skeleton.root_bone import (
    BoneShapes,
    central_bone,
    find_root,
)


def shapes_of(points: list[list[tuple[float, float, float]]]) -> BoneShapes:
    """The shapes of bones with a few vertices each, without triangles."""
    dominant = np.repeat(np.arange(len(points)), [len(some) for some in points])
    vertices = np.array([point for some in points for point in some], float)
    mass = np.bincount(dominant).astype(float)
    centres = np.stack([vertices[dominant == bone].mean(axis=0) for bone in range(len(points))])
    return BoneShapes(Body(vertices, np.zeros((0, 3), int)), dominant, mass, centres)


# Bones: head (with many vertices), chest, pelvis, left thigh and foot, right thigh and foot.
BIPED = Tree(np.array([-1, 0, 1, 2, 3, 2, 5]))
BIPED_JOINTS = np.array(
    [[0.0, 8, 0], [0, 7, 0], [0, 5, 0], [1, 4, 0], [1, 1, 0], [-1, 4, 0], [-1, 1, 0]]
)
BIPED_POINTS: list = [
    [(x, 8 + y, 0) for x in (-0.5, 0, 0.5) for y in (0, 0.2, 0.4, 0.6)],
    [(-1, 6, 0), (1, 6, 0)],
    [(-1, 4.6, 0), (1, 4.6, 0)],
    [(1, 3, 0)],
    [(1, 0, 0), (1, 0, 1)],
    [(-1, 3, 0)],
    [(-1, 0, 0), (-1, 0, 1)],
]


@pytest.mark.parametrize("rooted", [0, 2, 4])
def test_the_root_of_a_biped_is_its_pelvis(rooted):
    shapes = shapes_of(BIPED_POINTS)
    assert central_bone(BIPED, shapes.mass) == 0  # the head has most vertices
    tree = BIPED.rooted_at(rooted)
    joints = BIPED.rooted_joints(BIPED_JOINTS, rooted, shapes.centres[rooted])
    root, joint = find_root(tree, joints, shapes, "Y")
    assert root == 2
    # Half-way between the middle of the hips, at height 4, and the centre of its vertices.
    np.testing.assert_allclose(joint, [0, 4.3, 0])


def test_z_may_be_up():
    turned: list = [[(x, -z, y) for x, y, z in some] for some in BIPED_POINTS]
    joints = BIPED_JOINTS @ np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    assert find_root(BIPED, joints, shapes_of(turned), "Z")[0] == 2


def test_the_body_may_face_sideways():
    turned: list = [[(z, y, x) for x, y, z in some] for some in BIPED_POINTS]
    root, joint = find_root(BIPED, BIPED_JOINTS[:, ::-1], shapes_of(turned), "Y")
    assert root == 2
    np.testing.assert_allclose(joint, [0, 4.3, 0])


def test_without_symmetry_the_root_balances_the_tree():
    points: list = [[(x, 9 + 5 * x, z) for x, _, z in some] for some in BIPED_POINTS]
    shapes = shapes_of(points)
    assert shapes.body.asymmetry(0) > 0.02
    root, joint = find_root(BIPED, BIPED_JOINTS, shapes, "Y")
    assert root == central_bone(BIPED, shapes.mass)
    np.testing.assert_allclose(joint, shapes.centres[root])


def test_a_body_on_one_foot_has_no_pelvis():
    points: list = [[(-1, 0, 0), (1, 0, 0)], [(-1, 3, 0), (1, 3, 0)], [(0, 6, 0)]]
    tree = Tree(np.array([-1, 0, 1]))
    assert find_root(tree, np.zeros((3, 3)), shapes_of(points), "Y")[0] == 1


@pytest.mark.parametrize("forwards", [1, -1])
def test_the_root_of_a_quadruped_is_far_from_its_head(forwards):
    # Bones: hips, chest, head, tail, then the four legs.
    tree = Tree(np.array([-1, 0, 1, 0, 0, 0, 1, 1]))
    points: list = [
        [(0, 4, 0), (0, 5, 0)],
        [(0, 4, 6), (0, 5, 6)],
        [(0, 7, 8), (0, 8, 9)],
        [(0, 4, -2), (0, 3, -4)],
        [(1, 2, 0), (1, 0, 0)],
        [(-1, 2, 0), (-1, 0, 0)],
        [(1, 2, 6), (1, 0, 6)],
        [(-1, 2, 6), (-1, 0, 6)],
    ]
    points = [[(x, y, forwards * z) for x, y, z in some] for some in points]
    joints = np.array([some[0] for some in points], float)
    assert find_root(tree, joints, shapes_of(points), "Y")[0] == 0
