"""Bones that follow the controls of a rig, found from its poses."""

from dataclasses import replace

import numpy as np
import pytest
from posing_builders import ARM_CONTROLS, arm_poses

from understudy import ControlSpec
from understudy.methods.posing_fitting import with_posing
from understudy.methods.posing_fitting.from_controls import held_out, is_of_rig


@pytest.fixture(scope="module", name="arm")
def posed_arm():
    deformer, poses = arm_poses()
    return with_posing(replace(deformer, control_spec=None), poses), poses


def test_controls_move_the_bones_of_poses_that_were_kept_out(arm):
    deformer, poses = arm
    assert deformer.poses_bones
    assert deformer.posing.dofs.names == ARM_CONTROLS  # sliders have the animator's names
    out = held_out(poses.pose_count)
    got = deformer.posing.bones_at(poses.controls[out])
    assert np.abs(got - poses.world_from_bone[out]).max() < 2e-3
    vertices = deformer.deform(None, poses.controls[out])
    assert np.abs(vertices - deformer.deform(poses.world_from_bone[out])).max() < 5e-3


def test_the_errors_of_both_are_stated(arm):
    errors = arm[0].posing.errors
    assert 1e-3 < errors["by rig"] <= errors["by controls"] < 1.1 * errors["by rig"]
    assert errors["mean"] < 0.1 * errors["by rig"]
    assert any("bones from the controls" in note for note in arm[0].posing.notes)


def test_bones_that_controls_do_not_tell_are_posed_by_themselves():
    deformer, poses = arm_poses(200, follows=False)
    deformer = with_posing(deformer, poses)
    assert not deformer.poses_bones
    assert len(deformer.posing.dofs.of_bones)
    assert any("do not tell the bones" in note for note in deformer.posing.notes)


def test_only_channels_of_bones_are_of_a_rig():
    assert is_of_rig(ControlSpec(ARM_CONTROLS, [-1] * 9, [1] * 9))
    assert not is_of_rig(ControlSpec(("smile", "frown"), [0, 0], [1, 1]))


def test_limbs_that_were_not_found_are_named(arm):
    notes = arm[0].posing.notes
    assert any("without handles: hands, feet, a head" in note for note in notes)
