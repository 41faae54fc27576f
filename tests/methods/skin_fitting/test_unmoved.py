"""Bones that never move in training have the weights of the file; training poses stay."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import Deformer, Poses
from understudy.core.skin import Skin
from understudy.evaluation.coverage import Coverage, unmoved_warning
from understudy.jobs.fitting import Fit
from understudy.methods.skin_fitting.unmoved import (
    unmoved_bones,
    unmoved_controls,
    with_own_weights,
)
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian

RIG = load_rig("tube")
STILL = RIG.controls.names.index("bend_2")


def poses_of(count, still=True, seed=0):
    """Poses of the tube skinned by smooth weights; still: the second joint never bends."""
    values = gaussian(RIG.controls, count, seed)
    if still:
        values[:, [STILL, RIG.controls.names.index("twist")]] = 0
        values[:, RIG.controls.names.index("stretch")] = 1
    poses = RIG.evaluate(values)
    return replace(poses, vertices=own_deformer().deform(poses.world_from_bone), skin=own_skin())


def own_skin():
    height = RIG.mesh.vertices[:, 1]
    tip, middle = np.clip((height - 5) / 3, 0, 1), np.clip((height - 2) / 3, 0, 1)
    weight = np.stack([1 - middle, middle * (1 - tip), middle * tip], axis=1)
    return Skin(np.tile([0, 1, 2], (len(height), 1)), weight)


def own_deformer():
    return Deformer(RIG.mesh, RIG.skeleton, RIG.controls, skin=own_skin(), method="own")


def test_what_never_moves_is_named():
    poses = poses_of(30)
    assert unmoved_bones(poses) == ["tip"]
    assert unmoved_controls(poses) == ["bend_2", "twist", "stretch"]
    assert unmoved_bones(poses_of(30, still=False)) == []
    bare = Poses(RIG.mesh, poses.vertices)
    assert unmoved_bones(bare) == unmoved_controls(bare) == []


def test_weights_of_a_bone_that_never_moves_come_from_the_file(tmp_path):
    poses, test = poses_of(60), poses_of(20, still=False, seed=1)
    fitting = Fit.of("lbs", tmp_path / "a.understudy")
    made = fitting.run(poses)
    error = np.linalg.norm(made.deform(test.world_from_bone) - test.vertices, axis=2)
    assert error.max() < 1e-3
    without = fitting.run(replace(poses, skin=None))
    far = np.linalg.norm(without.deform(test.world_from_bone) - test.vertices, axis=2)
    assert far.max() > 0.5
    # On the training poses nothing changes.
    np.testing.assert_allclose(
        made.deform(poses.world_from_bone), without.deform(poses.world_from_bone), atol=1e-4
    )
    assert "never moved in training" in unmoved_warning(made, poses.skin)
    assert "those of the file: tip" in unmoved_warning(made, poses.skin)
    assert "a guess: tip" in unmoved_warning(without, None)


def test_weights_that_the_file_does_not_have_stay_as_fitted():
    fitted = Skin(np.array([[0, 1], [2, 0]]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    mesh = replace_mesh(2)
    deformer = Deformer(mesh, RIG.skeleton, skin=fitted, method="lbs")
    own = Skin(np.array([[0, 1, 0], [0, 0, 0]]), np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    made = with_own_weights(deformer, own, ["tip"])
    assert made.skin is not None
    assert np.isfinite(made.skin.weight).all()
    np.testing.assert_allclose(made.skin.weight.sum(axis=1), 1)
    assert made.skin.bone_index[1][made.skin.weight[1] > 0].tolist() == [2]


def replace_mesh(count):
    from understudy import Mesh

    return Mesh.from_faces(RIG.mesh.vertices[:count], np.zeros((0, 3), int))


def test_an_animation_that_moves_them_is_named(tmp_path):
    made = Fit.of("lbs", tmp_path / "a.understudy").run(poses_of(40))
    found = Coverage.of(made, poses_of(20, still=False, seed=1))
    assert (found.bones, found.controls) == (["tip"], ["bend_2", "twist", "stretch"])
    assert found.outside.all()
    assert found.warnings("kick")[0].startswith("Warning: 1 bone of kick never moved in training")
    assert "mean error there" in found.split("kick", np.ones(20), "cm")
    inside = Coverage.of(made, poses_of(20, seed=1))
    assert (inside.bones, inside.controls) == ([], [])
    assert inside.split("kick", np.ones(20), "cm") == ""


@pytest.mark.parametrize("count", [0, 5])
def test_frames_outside_are_counted(count):
    outside = np.arange(10) < count
    said = Coverage([], [], outside).split("run", np.arange(10.0), "cm")
    assert said.startswith("50 % of the frames of run") if count else said == ""
