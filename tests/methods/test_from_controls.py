"""Bones that follow the controls of a rig, found from its poses."""

from dataclasses import replace

import numpy as np
import pytest
from builders import grid_mesh

from understudy import ControlSpec, Deformer, Poses, Skeleton, Skin
from understudy.geometry.bone_motion import rotation_of
from understudy.methods.posing_fitting import with_posing
from understudy.methods.posing_fitting.from_controls import held_out, is_of_rig

NAMES = tuple(f"{bone}.rot.{axis}" for bone in ("hip", "arm", "fore") for axis in "xyz")


def arm_poses(count=700, follows=True):
    """An arm of three bones along x. Its rig turns each by three angles in degrees, and the forearm
    takes a share of the upper arm's twist and slides with it.

    follows  whether the bones are those of the controls
    """
    rng = np.random.default_rng(4)
    spec = ControlSpec(NAMES, [-40] * 9, [40] * 9, units=("deg",) * 9)
    values = rng.uniform(-40, 40, (count, 9))
    angles = np.deg2rad(values if follows else rng.permutation(values)).reshape(count, 3, 3)
    rest = np.tile(np.eye(3, 4), (3, 1, 1))
    rest[:, 0, 3] = [0, 1, 2]
    world = np.empty((count, 3, 3, 4))
    turn, place = np.eye(3), np.zeros(3)
    for bone in range(3):
        own = angles[:, bone].copy()
        slide = np.zeros((count, 3))
        if bone == 2:
            own[:, 0] += 0.3 * angles[:, 1, 0]
            slide[:, 1] = 0.1 * angles[:, 1, 2] ** 2
        step = np.array([1.0 if bone else 0.0, 0, 0]) + slide
        place = place + np.einsum("...ij,...j->...i", turn, step)
        turn = turn @ rotation_of(own, (2, 1, 0))
        world[:, bone, :, :3], world[:, bone, :, 3] = turn, place
    mesh = grid_mesh(12, 3)
    nearest = np.clip(np.round(mesh.vertices[:, 0] / mesh.vertices[:, 0].max() * 2), 0, 2)
    skeleton = Skeleton(("hip", "arm", "fore"), [-1, 0, 1], rest)
    deformer = Deformer(mesh, skeleton, spec, Skin.rigid(nearest.astype(int)))
    vertices = deformer.deform_reference(world)
    noise = 1e-3 * rng.normal(size=vertices.shape)
    poses = Poses(mesh, (vertices + noise).astype(np.float32), skeleton, world, spec, values)
    return deformer, poses


@pytest.fixture(scope="module", name="arm")
def posed_arm():
    deformer, poses = arm_poses()
    return with_posing(replace(deformer, control_spec=None), poses), poses


def test_controls_move_the_bones_of_poses_that_were_kept_out(arm):
    deformer, poses = arm
    assert deformer.poses_bones
    assert deformer.posing.dofs.names == NAMES  # sliders have the animator's names
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
    assert is_of_rig(ControlSpec(NAMES, [-1] * 9, [1] * 9))
    assert not is_of_rig(ControlSpec(("smile", "frown"), [0, 0], [1, 1]))


def test_limbs_that_were_not_found_are_named(arm):
    notes = arm[0].posing.notes
    assert any("without handles: hands, feet, a head" in note for note in notes)
