"""lbs: invariants of linear skins, and recovery of the skin that made the poses."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy.core.poses import Poses
from understudy.geometry.transforms import apply, compose, rotation_from_axis_angle
from understudy.methods.base import config_from_text
from understudy.methods.lbs import Lbs
from understudy.methods.registry import method_type
from understudy.system.errors import InputError
from understudy.system.progress import Progress
from understudy_benchmarks.metrics import rms_distance


@pytest.fixture(scope="module")
def bent() -> Poses:
    """A strip skinned to five bones, plus a bulge that no linear skin can make."""
    skeleton, mesh = chain_skeleton(5), grid_mesh(16, 5)
    reach = np.exp(-4 * (mesh.vertices[:, :1] - np.linspace(0, 2, 5)) ** 2)
    motion = random_motion(skeleton, 50)
    matrix = np.einsum(
        "vb,tbij->tvij",
        reach / reach.sum(axis=1, keepdims=True),
        compose(motion, skeleton.bone_from_world),
    )
    bulge = 0.02 * np.sin(motion[:, 2:3, 0, :1] * 3 + mesh.vertices[:, 1:2])
    return Poses(mesh, apply(matrix, mesh.vertices + bulge * [0, 0, 1]), skeleton, motion)


def fit(poses, **options):
    return Lbs(Lbs.Config(**options)).fit(poses)


def error(deformer, poses):
    return rms_distance(poses.vertices, deformer.deform(poses.world_from_bone))


@pytest.mark.parametrize("influences", [1, 2, 4, None])
def test_weights_are_convex_sorted_and_few(bent, influences):
    skin = fit(bent, influences=influences).skin
    assert skin.weight.dtype == np.float32
    assert skin.influences <= (influences or 5)
    assert skin.weight.min() >= 0
    assert np.abs(skin.weight.sum(axis=1, dtype=np.float64) - 1).max() < 1e-6
    assert (np.diff(skin.weight, axis=1) <= 1e-6).all()
    assert skin.blend == "linear"


def test_more_influences_never_raise_the_training_error(bent):
    errors = [error(fit(bent, influences=k), bent) for k in (1, 2, 3, 4, None)]
    assert all(after <= before * (1 + 1e-5) for before, after in pairwise(errors))
    assert errors[-1] < 0.5 * errors[0]


def test_moved_rigidly_the_mesh_moves_rigidly(bent):
    deformer = fit(bent)
    turn = np.column_stack([rotation_from_axis_angle(np.array([0.3, -1.0, 0.5])), [4.0, 5.0, 6.0]])
    moved = compose(turn, bent.skeleton.world_from_bone)
    np.testing.assert_allclose(deformer.deform(moved), apply(turn, bent.mesh.vertices), atol=1e-5)
    np.testing.assert_allclose(
        deformer.deform(bent.skeleton.world_from_bone), bent.mesh.vertices, atol=1e-6
    )


def test_a_skin_is_given_back(bent):
    made = fit(bent, influences=3)
    poses = Poses(bent.mesh, made.deform(bent.world_from_bone), bent.skeleton, bent.world_from_bone)
    again = fit(poses, influences=3)
    assert error(again, poses) < 1e-6 * bent.mesh.height
    np.testing.assert_allclose(again.skin.weight, made.skin.weight, atol=1e-3)


def test_same_poses_same_skin(bent):
    one, two = fit(replace(bent)), fit(replace(bent))
    np.testing.assert_array_equal(one.skin.weight, two.skin.weight)
    np.testing.assert_array_equal(one.skin.bone_index, two.skin.bone_index)


def test_weights_that_come_with_those_of_more_influences_are_the_same(bent):
    poses = replace(bent)
    fit(poses, influences=4)
    for count in (1, 2, 3):
        known, alone = fit(poses, influences=count), fit(replace(bent), influences=count)
        np.testing.assert_array_equal(known.skin.weight, alone.skin.weight)
        np.testing.assert_array_equal(known.skin.bone_index, alone.skin.bone_index)


def test_far_from_the_origin(bent):
    motion = bent.world_from_bone.copy()
    motion[..., 3] += 1e4
    far = Poses(bent.mesh, bent.vertices.astype(np.float64) + 1e4, bent.skeleton, motion)
    assert (
        error(fit(far), far) <= error(fit(bent), bent) + 1e-3
    )  # float32 at 1e4 is good to half a thousandth


def test_long_samples_are_thinned_evenly_and_it_is_stated(bent):
    deformer = fit(bent, max_poses=20)
    assert deformer.training["poses"] == 20
    assert error(deformer, bent) < 1.2 * error(fit(bent), bent)
    assert fit(bent, max_poses=1).training["poses"] == 1


def test_training_errors_are_those_of_the_deformer(bent):
    deformer = fit(bent)
    assert deformer.training["rms"] == pytest.approx(error(deformer, bent), rel=1e-6)
    assert deformer.method == "lbs" == Lbs.name
    assert deformer.provenance["config"]["influences"] == 4


def test_progress_is_reported(bent):
    class Count(Progress):
        def task(self, label, total):
            labels.append((label, total))
            return super().task(label, total)

    labels = []
    Lbs().fit(replace(bent), progress=Count())  # the weights of `bent` itself are known already
    assert labels == [("reading poses", 50), ("weights of at most 4 bones", bent.vertex_count)]


def test_options():
    assert method_type("lbs") is Lbs
    assert config_from_text(Lbs.Config, {"influences": "none", "max_poses": "5"}) == Lbs.Config(
        influences=None, max_poses=5
    )
    with pytest.raises(InputError, match="influences"):
        Lbs.Config(influences=0)
    with pytest.raises(InputError, match="max_poses"):
        Lbs.Config(max_poses=0)


def test_needs_bones(bent):
    with pytest.raises(InputError, match="lbs needs bones"):
        Lbs().fit(Poses(bent.mesh, bent.vertices))
