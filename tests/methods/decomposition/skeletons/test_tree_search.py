"""Trees that differ in one link, and what a search among them may and may not do."""

import numpy as np
import pytest

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.alternating_solve import Fit
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.skeletons.articulated_fit import Character, fitted, rounds
from understudy.methods.decomposition.skeletons.articulation import Articulation, Link, Tree, hung
from understudy.methods.decomposition.skeletons.tree_search import grafts, improved

CHAIN, JOINTS = (
    Tree(np.array([-1, 0, 1, 2])),
    np.array([[0.0, 0, 0], [1, 0, 0], [2, 0.1, 0], [3, 0, 0.1]]),
)
FRAMES, VERTICES = 12, 120


@pytest.fixture
def chain() -> tuple[Motion, Character]:
    """Four bones in a row that move vertices nearly exactly, one each, with a little noise."""
    rng = np.random.default_rng(0)
    rest = np.column_stack(
        [4 * rng.random(VERTICES), 0.3 * rng.normal(size=(VERTICES, 2)), np.ones(VERTICES)]
    )
    turns = rotation_from_axis_angle(0.4 * rng.normal(size=(FRAMES, 4, 3)))
    pose = Articulation(CHAIN, JOINTS, turns, rng.normal(size=(FRAMES, 3)))
    index = np.minimum(rest[:, :1].astype(np.int32), 3)
    weight = np.ones((VERTICES, 1))
    targets = np.einsum("fvij,vj->vfi", pose.transforms()[:, index[:, 0]], rest)
    targets = (targets + 0.01 * rng.normal(size=targets.shape)).reshape(VERTICES, -1)
    motion = Motion(rest, targets, (targets**2).sum(axis=1))
    return motion, Character(pose, Fit(pose.columns(), index, weight, motion.square), rest, JOINTS)


def wrongly_hung(motion: Motion, character: Character) -> Character:
    """The last bone on the second instead of the third."""
    links = [*character.pose.links()[:2], Link(3, 1, np.array([2.5, 0, 0]))]
    return fitted(motion, character.posed(hung(links, character.pose.transforms())))


def test_links_say_the_whole_tree(chain):
    pose = chain[1].pose
    for root in range(4):
        again = hung(pose.links(), pose.transforms(), root)
        assert again.tree.root == root
        np.testing.assert_allclose(again.transforms(), pose.transforms(), atol=1e-12)


def test_a_graft_changes_one_link_and_no_turn(chain):
    motion, character = chain
    together = lambda pose: {frozenset((link.one, link.two)) for link in pose.links()}
    found = grafts(motion, character)
    assert len(found) >= 3
    for pose in found:
        assert (pose.tree.parents < 0).sum() == 1
        assert len(together(pose) - together(character.pose)) == 1
        assert len(together(character.pose) - together(pose)) == 1
        np.testing.assert_array_equal(pose.turns, character.pose.turns)


def test_a_bone_that_hangs_on_the_wrong_one_is_grafted_onto_the_right_one(chain):
    motion, character = chain
    wrong = wrongly_hung(motion, character)
    stuck, found = rounds(motion, wrong, 1, 60, fit_rest=True), improved(motion, wrong, 1)
    assert found.fit.error < 0.2 * stuck.fit.error
    assert {frozenset((link.one, link.two)) for link in found.pose.links()} == {
        frozenset(pair) for pair in ((0, 1), (1, 2), (2, 3))
    }


@pytest.mark.parametrize("influences", [1, 2])
def test_nothing_is_kept_that_raises_the_error(chain, influences):
    motion, character = chain
    start = wrongly_hung(motion, character)
    first = rounds(motion, start, influences, 1)
    found = improved(motion, start, influences)
    assert found.fit.error <= first.errors[0]
    turns = found.pose.turns
    np.testing.assert_allclose(
        turns @ turns.swapaxes(-1, -2), np.broadcast_to(np.eye(3), turns.shape), atol=1e-10
    )
    bones = found.pose.transforms()
    for link in found.pose.links():
        one, two = (
            bones[:, bone, :, :3] @ link.point + bones[:, bone, :, 3]
            for bone in (link.one, link.two)
        )
        np.testing.assert_allclose(one, two, atol=1e-9)


def test_one_bone_has_nothing_to_graft(chain):
    motion, character = chain
    alone = Articulation(
        Tree(np.array([-1])), np.zeros((1, 3)), character.pose.turns[:, :1], character.pose.place
    )
    fit = Fit(
        alone.columns(), np.zeros((VERTICES, 1), np.int32), np.ones((VERTICES, 1)), motion.square
    )
    one = Character(alone, fit, motion.rest, alone.joints)
    assert grafts(motion, one) == []
    assert improved(motion, one, 1).fit.bones == 1
