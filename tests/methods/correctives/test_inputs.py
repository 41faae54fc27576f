from dataclasses import replace

import numpy as np
import pytest

from understudy import Skin
from understudy.methods import config_from_text, method_type
from understudy.methods.correctives.features import varying_features
from understudy.methods.correctives.inputs import units_from_data, units_from_rig
from understudy.methods.skin_fitting.displacements import displace
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian
from understudy.system.progress import SILENT
from understudy_benchmarks.outside import bare_skin


def test_constant_numbers_roots_and_unwanted_controls_are_no_features():
    rng = np.random.default_rng(0)
    raw = np.ones((20, 12 * 3 + 2), np.float32)
    raw[:, 0] = rng.normal(size=20)  # the root
    raw[:, 14] = rng.normal(size=20)  # one number of bone 1
    raw[:, 36:] = rng.normal(size=(20, 2))  # two controls
    found = varying_features(raw, 3, np.array([1]))
    assert found.columns.tolist() == [14, 37]
    assert found.unit.tolist() == [1, 4]
    assert found.count == 5
    assert found.varying.tolist() == [False, True, False, False, True]


def test_rounding_errors_of_bones_are_no_features():
    """A short bone turns by the rounding errors of its ends; a control is exact however small."""
    rng = np.random.default_rng(0)
    raw = np.tile(np.eye(3, 4).reshape(-1), (50, 4)).astype(np.float32)
    raw[:, 12 + 3] = 0.4  # the largest offset of a bone
    raw[:, 12 + 7] = 0.3 + 1e-3 * rng.normal(size=50)  # slides
    raw[:, 24 + 1] = 1e-4 * rng.normal(size=50)  # noise of a turn
    raw[:, 24 + 3] = 0.1 + 1e-6 * rng.normal(size=50)  # noise of an offset
    raw[:, 36 + 1] = 1e-2 * rng.normal(size=50)  # turns
    raw = np.concatenate([raw, 1e-3 * rng.normal(size=(50, 1)).astype(np.float32)], axis=1)
    found = varying_features(raw, 4, np.array([0]))
    assert found.columns.tolist() == [12 + 7, 36 + 1, 48]
    # The matrix of a bone that scales by a hundredth holds small numbers, which are no noise.
    scaled = raw.copy()
    scaled[:, 36:48] *= 0.01
    assert 36 + 1 in varying_features(scaled, 4, np.array([0])).columns


def test_inputs_are_learned_from_the_poses():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 40))
    unit = np.repeat(np.arange(10), 4)
    targets = [
        x[:, 8:12] @ rng.normal(size=(4, 3)) + 0.5 * x[:, [30]],  # units 2 and 7
        np.tanh(x[:, [0]] + x[:, [1]]) + 0.02 * rng.normal(size=(600, 1)),  # unit 0, and noise
        rng.normal(size=(600, 2)),  # nothing explains this
    ]
    needs = units_from_data(x, unit, targets, 0.01, 6, SILENT)
    assert np.flatnonzero(needs[0]).tolist() == [2, 7]
    assert np.flatnonzero(needs[1]).tolist() == [0]
    assert needs[2].sum() == 0


def test_units_of_different_width_and_gaps_in_their_numbers():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 5))
    unit = np.array([3, 3, 3, 9, 9])
    needs = units_from_data(x, unit, [x[:, [4]]], 0.01, 3, SILENT)
    assert np.flatnonzero(needs[0]).tolist() == [9]


def test_a_live_rig_tells_which_bones_and_controls_move_which_vertices():
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, 20, seed=0))
    base, tip = (
        np.flatnonzero(rig.mesh.vertices[:, 1] < 1),
        np.flatnonzero(rig.mesh.vertices[:, 1] > 9),
    )
    skin = Skin.rigid(np.where(rig.mesh.vertices[:, 1] < 5, 0, 2))
    displaced = lambda moved: displace(moved, skin)
    needs = units_from_rig(rig, poses, [base, tip], displaced, 0.02, 3, 0, SILENT)
    flex = 3 + rig.controls.names.index("flex")
    assert needs[:, flex].all()  # it swells the whole tube
    assert not needs[0, 2]  # the base does not see the tip's bone turn
    assert needs.shape == (2, 3 + rig.controls.count)


def test_what_nothing_predicts_reads_the_bones_of_its_skin():
    """It read all 152 bones and 637 controls of a rig, and its networks learned noise of them."""
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, 120, seed=0))
    skin = method_type("lbs")(method_type("lbs").Config()).fit(poses)
    noise = np.random.default_rng(1).normal(0, 0.1, poses.vertices.shape)
    noisy = replace(poses, vertices=skin.deform(poses.world_from_bone) + noise.astype(np.float32))
    kind = method_type("corrected_skin")
    options = {"regions": 1, "networks": 1, "epochs": 1, "hidden": (4,), "guard": False}
    deformer = kind(kind.Config(inputs="data", controls="all", **options)).fit(noisy)
    bones = 12 * deformer.skeleton.bone_count
    assert len(deformer.nets[0].inputs)
    assert (deformer.features.columns[deformer.nets[0].inputs] < bones).all()


@pytest.mark.parametrize("name", ["fdda", "corrected_skin"])
def test_a_skeleton_without_a_hierarchy_is_learned_as_well(name):
    """Bones of a baked file have no parents: roots were no inputs, although they move the mesh."""
    rig = load_rig("tube")
    values = gaussian(rig.controls, 300, seed=0)
    values[:, rig.controls.names.index("flex")] = 0
    poses = rig.evaluate(values)
    poses = replace(poses, skeleton=replace(poses.skeleton, parents=np.full(3, -1)))
    kind = method_type(name)
    config = config_from_text(kind.Config, {**kind.traits.quick, "controls": "none"})
    deformer = kind(config).fit(poses.between(0, 240))
    bones, controls, true = (
        values[240:] for values in (poses.world_from_bone, poses.controls, poses.vertices)
    )
    ours, skin = (
        np.linalg.norm(one.deform(bones, controls) - true, axis=2).mean()
        for one in (deformer, bare_skin(deformer))
    )
    assert ours < 0.5 * skin
