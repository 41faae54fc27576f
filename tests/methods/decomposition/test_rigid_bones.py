"""The number of rigid bones of a skeleton."""

import numpy as np
import pytest

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.bone_count import INVISIBLE, relative_error
from understudy.methods.decomposition.decompose import decompose
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.plan import Plan
from understudy.methods.decomposition.rigid_bones import enough_rigid_bones

BONES, FRAMES, VERTICES = 6, 7, 300
PLAN = Plan(1, influences=2, rigid=True)


def motion_of(targets: np.ndarray, rest: np.ndarray) -> Motion:
    """The motion of targets (F,V,3) from rest (V,3)."""
    flat = np.ascontiguousarray(targets.transpose(1, 0, 2)).reshape(len(rest), -1)
    return Motion(np.column_stack([rest, np.ones(len(rest))]), flat, (flat**2).sum(axis=1))


@pytest.fixture(scope="module")
def chain() -> Motion:
    """More rigid bones in a row than affine bones could be told apart in so few frames."""
    random = np.random.default_rng(0)
    rest = random.random((VERTICES, 3)) * (BONES, 0.5, 0.5)
    owner = rest[:, 0].astype(int)
    turns = rotation_from_axis_angle(0.5 * random.normal(size=(FRAMES, BONES, 3)))
    shifts = 0.5 * random.normal(size=(FRAMES, BONES, 3))
    assert BONES > 3 * FRAMES // 4
    return motion_of(np.einsum("fvij,vj->fvi", turns[:, owner], rest) + shifts[:, owner], rest)


def fitted(motion: Motion, bones: int):
    return decompose(motion, Plan(bones, influences=2, rigid=True))


def test_bones_are_added_until_nothing_can_be_seen(chain):
    few = fitted(chain, 3)
    assert relative_error(chain, few.error) > INVISIBLE
    found = enough_rigid_bones(chain, few, PLAN)
    assert relative_error(chain, found.error) <= INVISIBLE / 2
    assert BONES <= found.bones <= BONES + 1
    assert found.index.shape[0] == chain.vertex_count


def test_bones_that_leave_nothing_visible_stay(chain):
    enough = fitted(chain, BONES + 2)
    assert relative_error(chain, enough.error) <= INVISIBLE
    assert enough_rigid_bones(chain, enough, PLAN) is enough


def test_a_motion_without_bones_gets_no_more():
    random = np.random.default_rng(1)
    rest = random.random((VERTICES, 3))
    motion = motion_of(rest + 0.1 * random.normal(size=(FRAMES, VERTICES, 3)), rest)
    few = fitted(motion, 3)
    assert enough_rigid_bones(motion, few, PLAN) is few
