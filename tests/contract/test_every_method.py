"""One suite over every registered method, plug-ins included: what a user may rely on.

What a method need not do is read from its traits; no test names a method. To run the suite for one
method alone: `pytest tests/contract -k NAME`.
"""

from dataclasses import replace

import numpy as np
import pytest

from understudy import Deformer, InputError, Mesh, Poses, Skeleton
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy.methods import Method, config_from_text, method_names, method_type, option_table
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian
from understudy_benchmarks.metrics import best_bone_reference, enveloping_error


def methods(**traits):
    """The methods whose traits have the given values."""
    return [
        name
        for name in method_names()
        if all(getattr(method_type(name).traits, key) == value for key, value in traits.items())
    ]


# Methods that keep the bones and controls of the poses, so that new poses can drive the deformer.
DRIVEN = methods(finds_bones=False)


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def sampled(tube):
    return tube.evaluate(gaussian(tube.controls, 300, seed=0))


@pytest.fixture(scope="module")
def sequence(tube):
    """Poses with neither bones nor controls."""
    return Poses(tube.mesh, tube.evaluate(tube.animation("wave")[0]).vertices, name="wave")


def fit(name, poses, rig=None):
    kind = method_type(name)
    return kind(config_from_text(kind.Config, kind.traits.quick)).fit(poses, rig=rig)


@pytest.fixture(scope="module", params=DRIVEN)
def fitted(request, tube, sampled):
    return fit(request.param, sampled, tube)


@pytest.mark.parametrize("name", method_names())
def test_it_is_registered_under_its_own_name_and_says_what_it_does(name):
    kind = method_type(name)
    assert issubclass(kind, Method)
    assert kind.name == name
    assert len(kind.summary()) > 20
    assert kind.traits.reduces_skin == hasattr(kind, "reduce")


def test_built_in_methods_are_products_and_each_baseline_names_one():
    better = {name: method_type(name).traits.baseline for name in method_names()}
    built_in = {n for n in better if method_type(n).__module__.startswith("understudy.")}
    assert not any(better[name] for name in built_in)
    assert set(filter(None, better.values())) <= built_in


@pytest.mark.parametrize("name", method_names())
def test_every_option_has_a_type_and_a_meaning(name):
    for option in option_table(method_type(name).Config):
        assert option.type, option.name
        assert option.meaning, option.name


@pytest.mark.parametrize("name", method_names())
def test_every_preset_is_a_config_that_differs_from_the_defaults(name):
    config = method_type(name).Config
    assert config_from_text(config, {"preset": "default"}) == config()
    for preset, options in config.presets.items():
        made = config_from_text(config, {"preset": preset})
        assert made == config.of_preset(preset) != config()
        assert all(getattr(made, option) == value for option, value in options.items())
        assert config_from_text(config, {"preset": preset, "seed": "7"}).seed == 7
    with pytest.raises(InputError, match="preset"):
        config_from_text(config, {"preset": "papper"})


def test_it_is_better_than_the_best_single_bone(fitted, tube):
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


def test_weights_sum_to_one_and_are_convex_unless_declared_affine(fitted):
    assert method_type(fitted.method).traits.affine_weights or (fitted.skin.weight >= 0).all()
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
    for file in ("a", "b"):
        few = sampled.take(np.arange(60))  # its own: fits of the same object share their skins
        fit(name, few, tube).save(tmp_path / file)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("name", DRIVEN)
def test_recorded_poses_without_a_rig_are_enough(name, sampled):
    deformer = fit(name, sampled.take(np.arange(120)))
    assert np.isfinite(deformer.deform(sampled.world_from_bone[:3], sampled.controls[:3])).all()


@pytest.mark.parametrize("name", method_names())
def test_it_evaluates_the_rig_only_if_its_traits_say_so(name, tube, sampled):
    class Counting:
        """The tube, counting the poses it is asked for."""

        mesh, skeleton, controls, asked = tube.mesh, tube.skeleton, tube.controls, 0

        def evaluate(self, values):
            self.asked += len(values)
            return tube.evaluate(values)

        def evaluate_offset(self, values, rest_offset):
            poses = self.evaluate(values)
            return replace(poses, vertices=poses.vertices + rest_offset)

    rig = Counting()
    fit(name, sampled.take(np.arange(60)), rig)
    assert (rig.asked > 0) == method_type(name).traits.asks_rig


@pytest.mark.parametrize("name", methods(takes_sequences=True))
def test_a_mesh_sequence_becomes_a_skin_and_a_clip(name, sequence):
    deformer = fit(name, sequence)
    missed = np.linalg.norm(deformer.deform_clip() - sequence.vertices, axis=2).mean()
    assert missed < 0.05 * sequence.mesh.height


@pytest.mark.parametrize("name", methods(takes_sequences=False))
def test_poses_without_bones_are_refused_by_methods_that_need_them(name, sampled):
    bare = replace(sampled, skeleton=None, world_from_bone=None)
    if method_type(name).traits.controls_suffice:
        bare = replace(bare, control_spec=None, controls=None)
    with pytest.raises(InputError, match="needs bones"):
        fit(name, bare)


@pytest.mark.parametrize("name", methods(controls_suffice=True))
def test_controls_alone_are_enough_for_methods_that_read_them(name, sampled):
    bare = replace(sampled, skeleton=None, world_from_bone=None)
    deformer = fit(name, bare)
    assert deformer.skin is None
    missed = np.linalg.norm(deformer.deform(None, bare.controls) - bare.vertices, axis=2).mean()
    assert missed < 0.5 * np.linalg.norm(bare.vertices - bare.mesh.vertices, axis=2).mean()


@pytest.mark.parametrize("name", DRIVEN)
@pytest.mark.parametrize("poses", [2, 3])
def test_the_smallest_inputs_give_a_result(name, poses):
    mesh = Mesh([[0, 0, 0]], [], [])
    skeleton = Skeleton(("only",), [-1], np.eye(3, 4)[None])
    world = np.tile(np.eye(3, 4), (poses, 1, 1, 1))
    deformer = fit(name, Poses(mesh, np.zeros((poses, 1, 3)), skeleton, world))
    np.testing.assert_allclose(deformer.deform(world), 0, atol=1e-6)


@pytest.mark.parametrize("name", DRIVEN)
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
