"""Best single bones: errors against their definition, invariants of assignment and reduction."""

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.geometry.transforms import apply, compose
from understudy.methods.skin_fitting import best_bone as rigid_bones
from understudy.methods.skin_fitting.best_bone import best_bone, reduce_bones, rigid_errors
from understudy.system.errors import InputError


def reference(poses: Poses) -> np.ndarray:
    """The definition: every vertex moved by every bone in every pose."""
    matrix = compose(poses.world_from_bone, poses.skeleton.bone_from_world)
    moved = apply(matrix[:, None], poses.mesh.vertices.astype(float)[None, :, None])  # (T,V,B,3)
    return np.sum((moved - poses.vertices[:, :, None].astype(float)) ** 2, axis=(0, 3))


def rigid_poses(labels, skeleton, mesh, motion, noise=0.0, shift=(0, 0, 0)) -> Poses:
    motion = motion.copy()
    motion[..., 3] += shift
    matrix = compose(motion, skeleton.bone_from_world)
    vertices = apply(matrix[:, labels], mesh.vertices.astype(float))
    vertices = vertices + noise * np.random.default_rng(1).normal(size=vertices.shape)
    return Poses(mesh, vertices, skeleton, motion)


@pytest.fixture
def strip():
    skeleton, mesh = chain_skeleton(4), grid_mesh(10, 4)
    labels = np.random.default_rng(0).integers(0, 4, mesh.vertex_count)
    return labels, skeleton, mesh, random_motion(skeleton, 40)


def test_equals_the_definition_in_blocks(strip, monkeypatch):
    poses = rigid_poses(*strip, noise=0.05)
    expected = reference(poses)
    np.testing.assert_allclose(rigid_errors(poses), expected, rtol=1e-9)
    # Nine poses per block, three vertices at a time.
    monkeypatch.setattr(rigid_bones, "_BLOCK_BYTES", 12 * poses.vertex_count * 9)
    monkeypatch.setattr(rigid_bones, "_VERTEX_BLOCK", 3)
    np.testing.assert_allclose(rigid_errors(poses), expected, rtol=1e-9)


def test_tiny_errors_keep_their_digits(strip):
    poses = rigid_poses(*strip, noise=1e-4)
    labels = strip[0]
    mine = np.arange(len(labels)), labels
    np.testing.assert_allclose(rigid_errors(poses)[mine], reference(poses)[mine], rtol=1e-6)


def test_chosen_poses_only(strip):
    poses = rigid_poses(*strip, noise=0.05)
    chosen = np.array([0, 3, 21, 39])
    np.testing.assert_allclose(
        rigid_errors(poses, chosen), rigid_errors(poses.take(chosen)), rtol=1e-12
    )
    with pytest.raises(InputError, match="chosen poses"):
        rigid_errors(poses, np.array([3, 3]))


def test_far_from_the_origin_nothing_changes(strip):
    here, far = (
        rigid_poses(*strip, noise=0.02),
        rigid_poses(*strip, noise=0.02, shift=(1e4, -1e4, 1e4)),
    )
    # In float32 the far vertices are accurate to half a thousandth.
    np.testing.assert_allclose(
        np.sqrt(rigid_errors(far)), np.sqrt(rigid_errors(here)), atol=40**0.5 * 1.5e-3
    )
    assert (best_bone(rigid_errors(far)) == best_bone(rigid_errors(here))).all()


def test_rigid_motion_finds_its_bone(strip):
    errors = rigid_errors(rigid_poses(*strip))
    assert (best_bone(errors) == strip[0]).all()
    assert errors.min(axis=1).max() < 1e-10 * errors.max()
    assert (errors >= 0).all()


def test_bones_that_move_alike_are_a_tie_for_the_first():
    skeleton, mesh = chain_skeleton(2), grid_mesh(30, 5)
    one = random_motion(skeleton, 20)[:, :1]
    # Bone 1 is rigidly attached to bone 0.
    together = compose(compose(one, skeleton.bone_from_world[:1]), skeleton.world_from_bone)
    poses = rigid_poses(np.zeros(mesh.vertex_count, int), skeleton, mesh, together, noise=0.01)
    assert (best_bone(rigid_errors(poses)) == 0).all()


def test_one_vertex_one_bone_one_pose():
    skeleton = Skeleton(("only",), [-1], np.eye(3, 4)[None])
    mesh = Mesh(np.ones((1, 3)), [], [])
    errors = rigid_errors(Poses(mesh, np.full((1, 1, 3), 2.0), skeleton, np.eye(3, 4)[None, None]))
    # A single vertex is the centroid of its pose; centring must not remove its residual.
    np.testing.assert_allclose(errors, [[3.0]])


def test_allowed_bones():
    errors = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    assert best_bone(errors, [False, True, True]).tolist() == [1, 2]
    with pytest.raises(InputError, match="allowed bones"):
        best_bone(errors, [False, False, False])


def slow_reduction(errors, tau):
    """Section 3.3.3, recomputing everything at each step."""
    alive = np.bincount(errors.argmin(axis=1), minlength=errors.shape[1]) > 0
    first = errors.min(axis=1).sum()
    while alive.sum() > 1:
        limited = np.where(alive, errors, np.inf)
        count = np.where(
            alive, np.bincount(limited.argmin(axis=1), minlength=len(alive)), len(errors) + 1
        )
        trial = alive.copy()
        trial[count.argmin()] = False
        if np.where(trial, errors, np.inf).min(axis=1).sum() > tau * first:
            break
        alive = trial
    return alive


def test_reduction_follows_the_paper():
    rng = np.random.default_rng(3)
    sizes = []
    for tau in (1.0, 1.05, 1.3, 2.0, 1e9):
        errors = rng.random((300, 25)) ** 2 + 0.3
        alive = reduce_bones(errors, tau)
        assert (alive == slow_reduction(errors, tau)).all()
        assert errors[:, alive].min(axis=1).sum() <= tau * errors.min(axis=1).sum() * (1 + 1e-12)
        sizes.append(alive.sum())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


def test_reduction_drops_bones_without_vertices_and_checks_tau():
    assert reduce_bones(np.array([[0.0, 1.0, 5.0], [0.0, 1.0, 5.0]]), 1.0).tolist() == [
        True,
        False,
        False,
    ]
    with pytest.raises(InputError, match="tau"):
        reduce_bones(np.ones((2, 2)), 0.9)


def test_needs_a_skeleton():
    mesh = grid_mesh()
    with pytest.raises(InputError, match="needs bones"):
        rigid_errors(Poses(mesh, mesh.vertices[None]))
