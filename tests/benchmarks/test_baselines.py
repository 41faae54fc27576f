"""The baselines of the papers' tables: exact where the data is of their own form, and the
invariants of any of them.
"""

from dataclasses import replace

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, linear_sheet, random_motion

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.geometry.skinning import dual_quaternion_blend
from understudy.geometry.transforms import apply, compose, rotation_from_axis_angle
from understudy.methods.correctives.facts import PoseFacts
from understudy.methods.lbs import Lbs
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian
from understudy.system.errors import InputError
from understudy_benchmarks.baselines import kpsa, rotational_regression, wpsd
from understudy_benchmarks.baselines.rotations import (
    polar_rotation,
    rotation_matrix,
    rotation_vector,
)
from understudy_benchmarks.metrics import max_distance, rms_distance


def turning(skeleton: Skeleton, poses: int, seed: int) -> np.ndarray:
    """(T,B,3,4): every joint turned at random, no bone stretched."""
    turn = np.zeros((poses, skeleton.bone_count, 3, 4))
    turn[..., :3] = rotation_from_axis_angle(
        0.2 * np.random.default_rng(seed).normal(size=(poses, skeleton.bone_count, 3))
    )
    world = np.zeros_like(turn)
    for bone, parent in enumerate(skeleton.parents):
        start = skeleton.world_from_bone[bone]
        if parent >= 0:
            start = compose(compose(world[:, parent], skeleton.bone_from_world[parent]), start)
        world[:, bone] = compose(start, turn[:, bone])
    return world


def bent(poses: int, seed: int, far: float = 0.0) -> Poses:
    """A strip bent by rigid bones through dual quaternions: smooth, and nothing a linear skin can
    follow exactly.
    """
    mesh, rest = grid_mesh(24, 4), np.tile(np.eye(3, 4), (4, 1, 1))
    rest[:, 0, 3] = [0.0, 0.5, 1.0, 1.5]
    skeleton = Skeleton(("a", "b", "c", "d"), [-1, 0, 1, 2], rest)
    motion = turning(skeleton, poses, seed)
    reach = np.exp(-30 * (mesh.vertices[:, :1] - [0.25, 0.75, 1.25, 1.75]) ** 2)
    matrix = compose(motion, skeleton.bone_from_world)
    index = np.tile(np.arange(4), (mesh.vertex_count, 1))
    vertices = dual_quaternion_blend(
        matrix, index, reach / reach.sum(axis=1, keepdims=True), mesh.vertices.astype(float)
    )
    motion[..., 3] += far
    return Poses(mesh, vertices + far, skeleton, motion)


@pytest.fixture(scope="module")
def training() -> Poses:
    return bent(80, seed=1)


@pytest.fixture(scope="module")
def unseen() -> Poses:
    return bent(20, seed=2)


BASELINES = {
    "rotational_regression-2": lambda poses: rotational_regression.fit(poses, bones=2),
    "rotational_regression-15": lambda poses: rotational_regression.fit(poses, bones=15),
    "wpsd-10": lambda poses: wpsd.fit(poses, examples=10),
    "wpsd-100": lambda poses: wpsd.fit(poses, examples=100),
}


@pytest.mark.parametrize("fit", BASELINES.values(), ids=BASELINES)
def test_shape_and_better_than_rigid(fit, training, unseen):
    fitted = fit(training)
    result = fitted.deform(unseen)
    assert result.shape == unseen.vertices.shape
    assert result.dtype == np.float32
    rigid = Lbs(Lbs.Config(influences=1)).fit(training)
    assert rms_distance(unseen.vertices, result) < 0.75 * rms_distance(
        unseen.vertices, rigid.deform(unseen.world_from_bone)
    )


@pytest.mark.parametrize("fit", BASELINES.values(), ids=BASELINES)
def test_moving_the_character_moves_its_mesh(fit, training, unseen):
    fitted = fit(training)
    turn = np.column_stack(
        [rotation_from_axis_angle(np.array([0.2, 2.0, -0.7])), [10.0, -20.0, 5.0]]
    )
    moved = Poses(
        unseen.mesh, unseen.vertices, unseen.skeleton, compose(turn, unseen.world_from_bone)
    )
    np.testing.assert_allclose(fitted.deform(moved), apply(turn, fitted.deform(unseen)), atol=2e-5)


@pytest.mark.parametrize("fit", BASELINES.values(), ids=BASELINES)
def test_far_from_the_origin(fit, training, unseen):
    far = fit(bent(80, seed=1, far=8192.0)).deform(bent(20, seed=2, far=8192.0))
    # float32 there is good to half a thousandth.
    np.testing.assert_allclose(far - 8192.0, fit(training).deform(unseen), atol=0.02)


@pytest.mark.parametrize("fit", BASELINES.values(), ids=BASELINES)
def test_blocks_change_nothing(fit, training, unseen, monkeypatch):
    fitted = fit(training)
    whole = fitted.deform(unseen)
    monkeypatch.setattr(wpsd, "_KERNEL_BYTES", 1)
    monkeypatch.setattr(rotational_regression, "_BLOCK_VALUES", 1)
    np.testing.assert_allclose(fitted.deform(unseen), whole, atol=1e-6)


@pytest.mark.parametrize("fit", BASELINES.values(), ids=BASELINES)
def test_rigid_motion_is_reproduced_and_rest_stays(fit):
    skeleton, mesh = chain_skeleton(3), grid_mesh()
    turns = random_motion(Skeleton(("one",), [-1], np.eye(3, 4)[None]), 12, stretch=0.0)
    motion = compose(turns, skeleton.world_from_bone)
    poses = Poses(mesh, apply(turns, mesh.vertices.astype(float)), skeleton, motion)
    assert max_distance(poses.vertices, fit(poses).deform(poses)) < 2e-5


def test_wpsd_passes_through_its_examples(training):
    fitted = wpsd.fit(training, examples=training.pose_count)
    assert max_distance(training.vertices, fitted.deform(training)) < 1e-4
    errors = [
        rms_distance(training.vertices, wpsd.fit(training, examples=n).deform(training))
        for n in (5, 20, 80)
    ]
    assert errors == sorted(errors, reverse=True)


def test_wpsd_looks_only_at_the_bones_with_weight(training):
    only_last = np.zeros((training.vertex_count, 4))
    only_last[:, 3] = 1
    fitted = wpsd.fit(training, 20, weights=only_last, bones=np.zeros(training.vertex_count, int))
    changed = training.take(np.arange(4))
    world = changed.world_from_bone.copy()
    bend = np.column_stack([rotation_from_axis_angle(np.array([0.0, 0.0, 0.4])), np.zeros(3)])
    world[:, 1:] = compose(
        bend, world[:, 1:]
    )  # bones 2 and 3 keep their places in their parents; only bone 1 turns
    still = fitted.deform(Poses(training.mesh, changed.vertices, training.skeleton, world))
    np.testing.assert_allclose(still, fitted.deform(changed), atol=1e-5)


def test_the_neighbouring_bone_explains_most(training):
    """In a chain two bones say nearly all there is to say about a triangle; further ones do no
    harm.
    """
    errors = [
        rms_distance(
            training.vertices, rotational_regression.fit(training, bones=k).deform(training)
        )
        for k in (1, 2, 4)
    ]
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 1.05 * errors[1]


def test_separate_pieces_are_placed_by_their_own_anchor(training):
    """Two copies of the strip, not joined: both are solved, and no vertex is left without a
    position.
    """
    mesh = training.mesh
    both = Mesh(
        np.concatenate([mesh.vertices, mesh.vertices + np.float32([0, 3, 0]), [[0, 9, 0]]]),
        np.tile(mesh.polygon_sizes, 2),
        np.concatenate([mesh.polygon_vertices, mesh.polygon_vertices + mesh.vertex_count]),
    )
    matrix = compose(training.world_from_bone, training.skeleton.bone_from_world)
    lonely = apply(matrix[:, :1], np.array([[0.0, 9.0, 0.0]]))
    second = apply(matrix[:, :1], mesh.vertices + np.array([0, 3.0, 0]))
    poses = Poses(
        both,
        np.concatenate([training.vertices, second, lonely], axis=1),
        training.skeleton,
        training.world_from_bone,
    )
    fitted = rotational_regression.fit(poses, bones=4, near_rigid=0.0)
    pieces = np.searchsorted(
        [mesh.vertex_count, 2 * mesh.vertex_count], fitted.anchors, side="right"
    )
    assert set(pieces) == {0, 1, 2}
    result = fitted.deform(poses)
    assert (
        max_distance(poses.vertices[:, mesh.vertex_count :], result[:, mesh.vertex_count :]) < 1e-4
    )
    assert rms_distance(poses.vertices, result) < 0.05


def test_flat_triangles_are_borne(training):
    mesh = training.mesh
    corners = np.concatenate([mesh.polygon_vertices, [0, 0, 1], [2, 2, 2]])
    flat = Mesh(mesh.vertices, np.concatenate([mesh.polygon_sizes, [3, 3]]), corners)
    poses = Poses(flat, training.vertices, training.skeleton, training.world_from_bone)
    assert np.isfinite(rotational_regression.fit(poses).deform(poses)).all()


def test_options_are_checked(training):
    for call in (
        lambda: wpsd.fit(training, examples=0),
        lambda: wpsd.fit(training, weights=np.ones((2, 2))),
        lambda: wpsd.fit(training, bones=np.full(training.vertex_count, 4)),
        lambda: rotational_regression.fit(training, bones=0),
        lambda: rotational_regression.fit(training, max_poses=1),
        lambda: rotational_regression.fit(training, near_rigid=-1.0),
        lambda: wpsd.fit(Poses(training.mesh, training.vertices)),
        lambda: rotational_regression.fit(Poses(training.mesh, training.vertices)),
    ):
        with pytest.raises(InputError):
            call()


def test_long_samples_are_thinned(training):
    thin = rotational_regression.fit(training, bones=4, max_poses=30)
    assert rms_distance(training.vertices, thin.deform(training)) < 2 * rms_distance(
        training.vertices,
        rotational_regression.fit(training, bones=4, max_poses=None).deform(training),
    )


def test_rotations_and_their_logarithms():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(500, 3))
    vectors *= (rng.random(500) * np.pi / np.linalg.norm(vectors, axis=1))[:, None]
    vectors[:3] = [[0, 0, 0], [np.pi - 1e-4, 0, 0], [1e-9, 0, 0]]
    matrices = rotation_matrix(vectors)
    np.testing.assert_allclose(matrices, rotation_from_axis_angle(vectors), atol=1e-12)
    np.testing.assert_allclose(rotation_vector(matrices), vectors, atol=1e-6)
    half = rotation_matrix(np.array([[0, np.pi, 0], np.pi * np.array([0.6, 0.8, 0])]))
    np.testing.assert_allclose(rotation_matrix(rotation_vector(half)), half, atol=1e-7)
    stretch = np.eye(3) + 0.3 * rng.random((500, 3, 3))
    stretch = stretch @ np.swapaxes(stretch, 1, 2)
    np.testing.assert_allclose(polar_rotation(matrices @ stretch), matrices, atol=1e-9)
    squashed = np.diag([1.0, 1.0, 1e-4])
    np.testing.assert_allclose(polar_rotation(matrices @ squashed), matrices, atol=1e-6)


def test_kpsa_reads_the_truth_at_its_key_points():
    tube = load_rig("tube")
    sampled = tube.evaluate(gaussian(tube.controls, 400, seed=0))
    unseen = tube.evaluate(gaussian(tube.controls, 80, seed=1))
    skin = PoseFacts(sampled).skin("auto", 4)
    fitted = kpsa.fit(sampled, skin, key_points=20, components=30)
    missed = np.linalg.norm(fitted.deform(unseen) - unseen.vertices, axis=2).mean()
    skinned = Lbs().fit(sampled).deform(unseen.world_from_bone)
    assert missed < 0.3 * np.linalg.norm(skinned - unseen.vertices, axis=2).mean()
    poses, shapes = linear_sheet()
    fitted = kpsa.fit(poses, None, key_points=4, components=3)
    fresh = replace(poses.take(np.arange(1)), controls=[[0.9, -0.3, 0.4]])
    fresh = replace(fresh, vertices=(poses.mesh.vertices + np.tensordot(fresh.controls, shapes, 1)))
    np.testing.assert_allclose(fitted.deform(fresh), fresh.vertices, atol=1e-3)
