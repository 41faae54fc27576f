"""Trees that differ in one link, and the search among them."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.skeleton.articulated_fit import (
    ArticulatedFit,
    solve_articulated,
    solve_motion,
)
from understudy.methods.decomposition.skeleton.articulation import (
    Articulation,
    Link,
    Tree,
    articulate,
)
from understudy.methods.decomposition.skeleton.skeleton_solve import main_borders
from understudy.methods.decomposition.skeleton.tree_search import (
    joined_where_shared,
    neighbouring_trees,
    search_trees,
)
from understudy.methods.decomposition.solve.motion import Fit, Motion

CHAIN, JOINTS = (
    Tree(np.array([-1, 0, 1, 2])),
    np.array([[0.0, 0, 0], [1, 0, 0], [2, 0.1, 0], [3, 0, 0.1]]),
)
FRAMES, VERTICES = 12, 120


@pytest.fixture
def chain() -> tuple[Motion, ArticulatedFit]:
    """Four bones in a row that move vertices nearly exactly, one each, with a little noise."""
    rng = np.random.default_rng(0)
    rest = np.column_stack(
        [4 * rng.random(VERTICES), 0.3 * rng.normal(size=(VERTICES, 2)), np.ones(VERTICES)]
    )
    rotations = rotation_from_axis_angle(0.4 * rng.normal(size=(FRAMES, 4, 3)))
    pose = Articulation(CHAIN, JOINTS, rotations, rng.normal(size=(FRAMES, 3)))
    index = np.minimum(rest[:, :1].astype(np.int32), 3)
    weight = np.ones((VERTICES, 1))
    targets = np.einsum("fvij,vj->vfi", pose.world_from_rest()[:, index[:, 0]], rest)
    targets = (targets + 0.01 * rng.normal(size=targets.shape)).reshape(VERTICES, -1)
    motion = Motion(rest, targets, (targets**2).sum(axis=1))
    return motion, ArticulatedFit(
        pose, Fit(pose.transforms(), index, weight, motion.square), rest, JOINTS
    )


def wrongly_joined(motion: Motion, fitted: ArticulatedFit) -> ArticulatedFit:
    """The last bone joined to the second instead of the third."""
    links = [*fitted.pose.links()[:2], Link(3, 1, np.array([2.5, 0, 0]))]
    return solve_motion(motion, fitted.with_pose(articulate(links, fitted.pose.world_from_rest())))


def test_links_determine_the_tree(chain):
    pose = chain[1].pose
    for root in range(4):
        again = articulate(pose.links(), pose.world_from_rest(), root)
        assert again.tree.root == root
        np.testing.assert_allclose(again.world_from_rest(), pose.world_from_rest(), atol=1e-12)


def test_a_neighbouring_tree_changes_one_link_and_no_rotation(chain):
    motion, fitted = chain
    together = lambda pose: {frozenset((link.one, link.two)) for link in pose.links()}
    found = neighbouring_trees(motion, fitted)
    assert len(found) >= 3
    for pose in found:
        assert (pose.tree.parents < 0).sum() == 1
        assert len(together(pose) - together(fitted.pose)) == 1
        assert len(together(fitted.pose) - together(pose)) == 1
        np.testing.assert_array_equal(pose.rotations, fitted.pose.rotations)


def test_a_bone_joined_to_the_wrong_parent_finds_the_right_one(chain):
    motion, fitted = chain
    wrong = wrongly_joined(motion, fitted)
    stuck, found = (
        solve_articulated(motion, wrong, 1, 60, fit_rest=True),
        search_trees(motion, wrong, 1),
    )
    assert found.fit.error < 0.2 * stuck.fit.error
    assert {frozenset((link.one, link.two)) for link in found.pose.links()} == {
        frozenset(pair) for pair in ((0, 1), (1, 2), (2, 3))
    }


def test_links_join_bones_that_share_vertices(chain):
    motion, fitted = chain
    before = np.where(fitted.fit.index == 0, 1, fitted.fit.index - 1)
    weight = np.tile([0.9, 0.1], (VERTICES, 1))
    fit = replace(fitted.fit, index=np.hstack([fitted.fit.index, before]), weight=weight)
    shared = replace(fitted, fit=fit)
    assert joined_where_shared(motion, shared, 2) is shared
    found = joined_where_shared(motion, wrongly_joined(motion, shared), 2)
    assert {frozenset((link.one, link.two)) for link in found.pose.links()} == {
        frozenset(pair) for pair in ((0, 1), (1, 2), (2, 3))
    }
    # Without shared vertices, nothing tells where else to join.
    wrong = wrongly_joined(motion, fitted)
    assert joined_where_shared(motion, wrong, 1) is wrong


def test_stray_vertices_of_a_bone_are_no_border():
    rest = np.column_stack([np.arange(9.0), np.zeros((9, 2))])
    cluster = np.array([0, 0, 0, 1, 1, 1, 2, 2, 0])  # bone 0 also has the last vertex
    edges = np.column_stack([np.arange(8), np.arange(1, 9)])
    found = main_borders(rest, cluster, edges, 4)
    assert found.connected[:3, :3].tolist() == [
        [True, True, False],
        [True, True, True],
        [False, True, True],
    ]
    assert not found.connected[3].any()  # a bone without vertices


@pytest.mark.parametrize("influences", [1, 2])
def test_the_search_never_raises_the_error(chain, influences):
    motion, fitted = chain
    start = wrongly_joined(motion, fitted)
    first = solve_articulated(motion, start, influences, 1)
    found = search_trees(motion, start, influences)
    assert found.fit.error <= first.errors[0]
    rotations = found.pose.rotations
    np.testing.assert_allclose(
        rotations @ rotations.swapaxes(-1, -2),
        np.broadcast_to(np.eye(3), rotations.shape),
        atol=1e-10,
    )
    bones = found.pose.world_from_rest()
    for link in found.pose.links():
        one, two = (
            bones[:, bone, :, :3] @ link.point + bones[:, bone, :, 3]
            for bone in (link.one, link.two)
        )
        np.testing.assert_allclose(one, two, atol=1e-9)


def test_one_bone_has_no_neighbouring_trees(chain):
    motion, fitted = chain
    alone = Articulation(
        Tree(np.array([-1])),
        np.zeros((1, 3)),
        fitted.pose.rotations[:, :1],
        fitted.pose.root_position,
    )
    fit = Fit(
        alone.transforms(), np.zeros((VERTICES, 1), np.int32), np.ones((VERTICES, 1)), motion.square
    )
    one = ArticulatedFit(alone, fit, motion.rest, alone.joints)
    assert neighbouring_trees(motion, one) == []
    assert search_trees(motion, one, 1).fit.bones == 1
