"""One suite over every registered method: what a user may rely on whichever they choose."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import Deformer, InputError, Mesh, Poses, Skeleton
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy.methods import config_from_text, method_names, method_type
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian

# Smaller than the defaults, where a method has such an option, so that the suite stays quick.
# Methods that find bones of their own, for sequences without any; their bones are not the poses'.
OWN_BONES = ("ssdr", "temporal", "fesam")
# Methods that accept poses without bones: they decompose them first.
BARE_POSES = (
    "ssdr",
    "temporal",
    "fesam",
    "two_layer",
    "k_largest",
    "smooth",
    "geometry",
    "poisson",
)
# Methods whose weights are affine: they sum to one, signs are free.
AFFINE = ("two_layer",)
DRIVEN_BY_THE_POSES = tuple(name for name in method_names() if name not in OWN_BONES)
# Methods that are driven by bones, controls or both; poses that have neither are refused.
EITHER_DRIVES = ("differential", "local", "pca_regression")
_SMALL = {"epochs": "20", "hidden": "32,32", "batch": "64", "regions": "4", "input_poses": "3"}
QUICK = {
    "fdda": {"epochs": "40", "hidden": "32,32", "batch": "64"},
    "differential": {**_SMALL, "anchor_epochs": "20", "anchor_hidden": "16,16"},
    "local": _SMALL,
}


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def sampled(tube):
    return tube.evaluate(gaussian(tube.controls, 300, seed=0))


def fit(name, poses, rig=None):
    kind = method_type(name)
    return kind(config_from_text(kind.Config, QUICK.get(name, {}))).fit(poses, rig=rig)


@pytest.fixture(scope="module", params=DRIVEN_BY_THE_POSES)
def fitted(request, tube, sampled):
    return fit(request.param, sampled, tube)


def test_it_is_better_than_the_best_single_bone(fitted, tube):
    from understudy.evaluation.metrics import best_bone_reference, enveloping_error

    unseen = tube.evaluate(gaussian(tube.controls, 60, seed=1))
    predicted = fitted.deform(unseen.world_from_bone, unseen.controls)
    assert enveloping_error(unseen.vertices, predicted, best_bone_reference(unseen)) < 100


def test_it_carries_the_mesh_the_skeleton_and_its_own_name(fitted, sampled):
    assert fitted.method in method_names()
    assert fitted.mesh is sampled.mesh
    assert fitted.skeleton is sampled.skeleton
    assert fitted.control_spec is sampled.control_spec
    assert fitted.training["poses"] > 0
    assert fitted.provenance["understudy"]


def test_moving_all_bones_rigidly_moves_the_mesh_rigidly(fitted, sampled):
    some = sampled.take(np.arange(5))
    rigid = np.hstack(
        [rotation_from_axis_angle(np.array([0.3, 1.2, -0.7])), [[10.0], [-20.0], [5.0]]]
    )
    before = fitted.deform(some.world_from_bone, some.controls)
    after = fitted.deform(compose(rigid, some.world_from_bone), some.controls)
    np.testing.assert_allclose(
        after, before @ rigid[:, :3].T + rigid[:, 3], atol=2e-5 * sampled.mesh.height
    )


def test_weights_are_convex(fitted):
    assert fitted.method in AFFINE or (fitted.skin.weight >= 0).all()
    np.testing.assert_allclose(fitted.skin.weight.sum(axis=1), 1, atol=1e-6)


def test_save_load_deform_is_identical(fitted, sampled, tmp_path):
    fitted.save(tmp_path / "a.understudy")
    loaded = Deformer.load(tmp_path / "a.understudy")
    some = sampled.take(np.arange(5))
    np.testing.assert_array_equal(
        loaded.deform(some.world_from_bone, some.controls),
        fitted.deform(some.world_from_bone, some.controls),
    )


@pytest.mark.parametrize("name", method_names())
def test_same_seed_same_file_byte_for_byte(name, tube, sampled, tmp_path):
    few = sampled.take(np.arange(60))
    for file in ("a", "b"):
        fit(name, few, tube).save(tmp_path / file)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("name", DRIVEN_BY_THE_POSES)
def test_recorded_poses_without_a_rig_are_enough(name, sampled):
    deformer = fit(name, sampled.take(np.arange(120)))
    assert np.isfinite(deformer.deform(sampled.world_from_bone[:3], sampled.controls[:3])).all()


@pytest.mark.parametrize("name", [name for name in method_names() if name not in BARE_POSES])
def test_poses_without_bones_are_refused_by_methods_that_need_them(name, sampled):
    bare = replace(sampled, skeleton=None, world_from_bone=None)
    if name in EITHER_DRIVES:
        bare = replace(bare, control_spec=None, controls=None)
    with pytest.raises(InputError, match="needs bones"):
        fit(name, bare)


@pytest.mark.parametrize("name", EITHER_DRIVES)
def test_controls_alone_are_enough_for_methods_that_read_them(name, sampled):
    bare = replace(sampled, skeleton=None, world_from_bone=None)
    deformer = fit(name, bare)
    assert deformer.skin is None
    missed = np.linalg.norm(deformer.deform(None, bare.controls) - bare.vertices, axis=2).mean()
    assert missed < 0.5 * np.linalg.norm(bare.vertices - bare.mesh.vertices, axis=2).mean()


@pytest.mark.parametrize("name", DRIVEN_BY_THE_POSES)
@pytest.mark.parametrize("poses", [1, 2])
def test_the_smallest_inputs_give_a_result(name, poses):
    mesh = Mesh([[0, 0, 0]], [], [])
    skeleton = Skeleton(("only",), [-1], np.eye(3, 4)[None])
    world = np.tile(np.eye(3, 4), (poses, 1, 1, 1))
    deformer = fit(name, Poses(mesh, np.zeros((poses, 1, 3)), skeleton, world))
    np.testing.assert_allclose(deformer.deform(world), 0, atol=1e-6)


@pytest.mark.parametrize("name", DRIVEN_BY_THE_POSES)
def test_a_static_mesh_stays_where_it_is(name, sampled):
    rest = np.tile(sampled.skeleton.world_from_bone, (8, 1, 1, 1))
    still = Poses(sampled.mesh, np.tile(sampled.mesh.vertices, (8, 1, 1)), sampled.skeleton, rest)
    np.testing.assert_allclose(
        fit(name, still).deform(rest), still.vertices, atol=1e-4 * sampled.mesh.height
    )


@pytest.mark.parametrize("name", method_names())
def test_options_are_checked_and_unknown_ones_offer_the_nearest(name):
    kind = method_type(name)
    with pytest.raises(InputError, match="did you mean 'seed'"):
        config_from_text(kind.Config, {"sed": "1"})
    with pytest.raises(InputError, match="expected int, got 'many'"):
        config_from_text(kind.Config, {"seed": "many"})


def test_an_unknown_method_offers_the_nearest():
    with pytest.raises(InputError, match="unknown method 'fda'; did you mean 'fdda'"):
        method_type("fda")


def test_a_bone_scaled_to_nothing_leaves_every_vertex_finite(fitted, sampled):
    hidden = sampled.world_from_bone[:2].copy()
    hidden[:, 1, :, :3] = 0
    assert np.isfinite(fitted.deform(hidden, sampled.controls[:2])).all()
