"""Rigid bones with a patch of the mesh each."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.bones.bone_count import INVISIBLE, relative_error
from understudy.methods.decomposition.bones.local_bones import find_local_bones, patch_bones
from understudy.methods.decomposition.bones.locality import connected_patches
from understudy.methods.decomposition.bones.patch_search import alternated, precision
from understudy.methods.decomposition.skeleton.joints import sliding
from understudy.methods.decomposition.solve.decompose import decompose
from understudy.methods.decomposition.solve.motion import Motion
from understudy.methods.decomposition.solve.plan import Plan

BONES, FRAMES, ROWS, COLUMNS = 6, 9, 6, 60


def strip(columns: int = COLUMNS) -> tuple[np.ndarray, np.ndarray]:
    """A strip of 6 x `columns` vertices along x from 0 to 6, and its triangles."""
    y, x = np.divmod(np.arange(ROWS * columns), columns)
    at = np.arange(ROWS * columns).reshape(ROWS, columns)
    a, b, c, d = (part.reshape(-1) for part in (at[:-1, :-1], at[:-1, 1:], at[1:, :-1], at[1:, 1:]))
    rest = np.stack([x * BONES / columns, 0.1 * y, 0.05 * (y % 2)], axis=1)
    return rest, np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])


def motion_of(targets: np.ndarray, rest: np.ndarray) -> Motion:
    """The motion of targets (F,V,3) from rest (V,3)."""
    flat = np.ascontiguousarray(targets.transpose(1, 0, 2)).reshape(len(rest), -1)
    return Motion(np.column_stack([rest, np.ones(len(rest))]), flat, (flat**2).sum(axis=1))


def moved(owner: np.ndarray, rest: np.ndarray) -> Motion:
    """Vertices that follow one of some rigid bones each."""
    return skinned(np.eye(owner.max() + 1)[owner], rest)


def skinned(weights: np.ndarray, rest: np.ndarray, frames: int = FRAMES, by: float = 0.5) -> Motion:
    """Vertices with weights (V,B) on rigid bones that turn and move at random."""
    random, bones = np.random.default_rng(0), weights.shape[1]
    turns = rotation_from_axis_angle(by * random.normal(size=(frames, bones, 3)))
    shifts = by * random.normal(size=(frames, bones, 3))
    each = np.einsum("fbij,vj->fvbi", turns, rest) + shifts[:, None]
    return motion_of(np.einsum("vb,fvbi->fvi", weights, each), rest)


def wide_weights(rest: np.ndarray) -> np.ndarray:
    """Weights (V,B) as artists paint them: up to four bones, a few of them two patches away."""
    away = np.abs(rest[:, :1] - (np.arange(BONES) + 0.5))
    weights = np.maximum(0, 1.7 - away) ** 3
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("start", [2, 3, BONES])
def test_the_bones_of_a_chain_are_found(start):
    rest, triangles = strip()
    owner = rest[:, 0].astype(int)
    motion = moved(owner, rest)
    first = decompose(motion, Plan(start, influences=2, rigid=True))
    found = find_local_bones(motion, first, triangles, 2, sliding)
    assert found.fit.bones == BONES
    assert relative_error(motion, found.fit.error) <= INVISIBLE / 2
    # Each bone has one of the true parts.
    share = np.zeros((BONES, BONES))
    np.add.at(share, (found.patch, owner), 1)
    assert (share.max(axis=1) > 0.9 * share.sum(axis=1)).all()


def test_parts_that_move_alike_but_lie_apart_get_bones_of_their_own():
    rest, triangles = strip()
    owner = np.array([0, 1, 2, 3, 1, 4])[rest[:, 0].astype(int)]  # bone 1 moves two places
    motion = moved(owner, rest)
    first = decompose(motion, Plan(5, influences=2, rigid=True))
    found = find_local_bones(motion, first, triangles, 2, sliding)
    assert found.fit.bones == 6
    second, fifth = (found.patch[(rest[:, 0] > x) & (rest[:, 0] < x + 0.6)] for x in (1.2, 4.2))
    assert not np.intersect1d(second, fifth).size
    used = found.fit.index[(found.fit.weight > 0) & (rest[:, 0] > 4.2)[:, None]]
    assert not np.isin(used, second).any()


def test_no_vertex_uses_a_bone_that_is_not_near():
    rest, triangles = strip()
    motion = moved(rest[:, 0].astype(int), rest)
    found = find_local_bones(
        motion, decompose(motion, Plan(3, influences=2, rigid=True)), triangles, 2, sliding
    )
    rows = np.arange(len(rest))[:, None]
    assert found.allowed[rows, found.fit.index][found.fit.weight > 0].all()
    np.testing.assert_allclose(found.fit.weight.sum(axis=1), 1)


def test_a_motion_without_bones_has_none():
    rest, triangles = strip()
    random = np.random.default_rng(1)
    motion = motion_of(rest + 0.2 * random.normal(size=(FRAMES, len(rest), 3)), rest)
    first = decompose(motion, Plan(3, influences=2, rigid=True))
    assert find_local_bones(motion, first, triangles, 2, sliding) is None


@pytest.mark.parametrize("seed", range(6))
def test_patches_that_cannot_be_split_end_the_search(seed):
    """Few vertices in a random order along the strip: the nearest are not the neighbours."""
    random = np.random.default_rng(seed)
    rest = random.random((24, 3))
    triangles = np.stack([np.arange(22), np.arange(1, 23), np.arange(2, 24)], axis=1)
    motion = moved(random.integers(0, 5, 24), rest)
    first = decompose(motion, Plan(2, influences=2, rigid=True))
    found = find_local_bones(motion, first, triangles, 2, sliding)
    assert found is None or relative_error(motion, found.fit.error) < INVISIBLE


def test_a_mesh_that_moves_as_one_has_one_bone():
    rest, triangles = strip()
    motion = moved(np.zeros(len(rest), int), rest)
    first = decompose(motion, Plan(3, influences=2, rigid=True))
    assert find_local_bones(motion, first, triangles, 2, sliding).fit.bones == 1


@pytest.mark.parametrize("frames", [FRAMES, 80])
def test_the_bones_of_a_rig_with_wide_weights_are_exact(frames):
    rest, triangles = strip()
    weights = wide_weights(rest)
    motion = skinned(weights, rest, frames, by=0.1)
    first = decompose(motion, Plan(4, influences=4, rigid=True))
    found = find_local_bones(motion, first, triangles, 4, sliding)
    assert found.fit.bones == BONES
    error = relative_error(motion, found.fit.error)
    assert error < 0.03
    # Bones of neighbouring patches alone cannot do that.
    strict = alternated(motion, replace(found, reach=1), 4, 20)
    assert relative_error(motion, strict.fit.error) > 3 * error


@pytest.mark.parametrize(("by", "columns"), [(2e-3, COLUMNS), (5e-4, COLUMNS), (2e-3, 500)])
def test_a_small_motion_shows_the_bones_too(by, columns):
    """All of it is less than the error that a large motion may have."""
    rest, triangles = strip(columns)
    motion = skinned(wide_weights(rest), rest, by=by)
    assert precision(motion) < 0.1
    first = decompose(motion, Plan(4, influences=4, rigid=True))
    found = find_local_bones(motion, first, triangles, 4, sliding)
    assert BONES <= found.fit.bones <= BONES + 1
    assert relative_error(motion, found.fit.error) <= 0.03 * precision(motion)


def test_precision_is_bounded():
    rest, _ = strip()
    assert precision(skinned(wide_weights(rest), rest)) == 1
    still = motion_of(np.tile(rest, (FRAMES, 1, 1)), rest)
    assert 0 < precision(still) < 0.05


def test_shells_that_move_together_share_a_bone():
    one, triangles = strip()
    rest = np.concatenate([one, one + [0, 3, 0], one + [0, 6, 0]])
    owner = np.repeat([0, 1, 0], len(one))  # the outer shells are not neighbours
    motion = moved(owner, rest)
    faces = np.concatenate([triangles + shell * len(one) for shell in range(3)])
    first = decompose(motion, Plan(2, influences=2, rigid=True))
    found = find_local_bones(motion, first, faces, 2, sliding)
    assert found.fit.bones == 2
    assert relative_error(motion, found.fit.error) < 0.01
    np.testing.assert_allclose(found.fit.weight.sum(axis=1), 1)


def test_the_search_tells_what_it_does():
    rest, triangles = strip()
    motion = moved(rest[:, 0].astype(int), rest)
    first, notes = decompose(motion, Plan(3, influences=2, rigid=True)), []
    find_local_bones(motion, first, triangles, 2, sliding, notes.append)
    assert notes[-1].startswith(f"{BONES} bones, E 0.0")


@pytest.mark.parametrize("start", [2, BONES, 9])
def test_as_many_patches_as_bones_are_given_whatever_moves(start):
    rest, triangles = strip()
    motion = motion_of(np.random.default_rng(1).normal(size=(FRAMES, len(rest), 3)), rest)
    first = decompose(motion, Plan(start, influences=2, rigid=True))
    found = patch_bones(motion, first, triangles, 2)
    assert found.fit.bones == start
    np.testing.assert_array_equal(connected_patches(found.patch, found.pairs), found.patch)
