"""Range-of-motion poses: rest and single controls are training poses where there is a rig."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import Mesh, Poses, Skeleton
from understudy.core.controls import ControlSpec
from understudy.methods import config_from_text, method_type
from understudy.methods.correctives.range_of_motion import range_of_motion
from understudy.rigs import load_rig
from understudy.rigs.sampling import SamplePlan, range_of_motion_values
from understudy.training.held_out import validation_poses
from understudy.training.schedule import Schedule
from understudy_benchmarks.outside import LIMIT, bare_skin
from understudy_benchmarks.outside_poses import outside_poses


def fitted(name, poses, rig, **options):
    kind = method_type(name)
    return kind(config_from_text(kind.Config, {**kind.traits.quick, **options})).fit(poses, rig=rig)


def mean_error(deformer, poses):
    got = deformer.deform(poses.world_from_bone, poses.controls)
    return float(np.linalg.norm(got - poses.vertices, axis=2).mean())


def test_values_are_rest_and_the_ends_of_every_range():
    spec = ControlSpec(("a", "b", "c"), [-1.0, 0.0, 2.0], [1.0, 3.0, 2.0], rest=[0.0, 0.0, 2.0])
    assert range_of_motion_values(spec, 100).tolist() == [
        [0, 0, 2],
        [-1, 0, 2],
        [1, 0, 2],
        [0, 3, 2],
    ]
    assert range_of_motion_values(spec, 1).tolist() == [[0, 0, 2]]
    assert len(range_of_motion_values(spec, 3)) == 3


def test_their_number_is_limited():
    rig = load_rig("tube")
    poses = rig.evaluate(SamplePlan(16).values(rig))
    assert range_of_motion(poses, rig, 0.05).pose_count == 4
    assert range_of_motion(poses, None, 0.05) is None
    assert range_of_motion(poses, rig, 0.0) is None


def test_added_poses_are_never_validation_poses():
    plain = Schedule(validation_fraction=0.2)
    aside = validation_poses(100, plain)
    assert np.array_equal(validation_poses(130, replace(plain, added=30)), aside)
    mirrored = replace(plain, mirrored=True, added=30)
    assert np.array_equal(
        validation_poses(130, mirrored), validation_poses(100, replace(plain, mirrored=True))
    )


class Sliders:
    """A plate with two bones and twenty sliders from 0 to 1, whose shapes disturb each other."""

    def __init__(self):
        random, side = np.random.default_rng(0), np.linspace(0, 1, 8)
        x, y = (part.reshape(-1) for part in np.meshgrid(side, side))
        corners = np.arange(56).reshape(7, 8)[:, :7].reshape(-1)
        faces = np.stack([corners, corners + 1, corners + 9, corners + 8], axis=1)
        self.mesh = Mesh.from_faces(np.stack([x, y, 0 * x], axis=1), faces)
        bones = np.tile(np.eye(3, 4), (2, 1, 1))
        self.skeleton = Skeleton(("root", "tip"), np.array([-1, 0]), bones)
        count = 20
        self.controls = ControlSpec(
            tuple(f"slider_{k}" for k in range(count)),
            np.zeros(count),
            np.ones(count),
            numeric=np.ones(count, bool),
        )
        self._shapes = random.normal(size=(count, 64, 3)) * 0.02

    def evaluate(self, values):
        values = self.controls.check(values)
        felt = np.sin(2 * values) - values * np.roll(values, 1, axis=1)
        moved = np.einsum("tc,cvd->tvd", felt, self._shapes)
        bones = np.tile(self.skeleton.world_from_bone, (len(values), 1, 1, 1))
        vertices = (self.mesh.vertices + moved).astype(np.float32)
        return Poses(self.mesh, vertices, self.skeleton, bones, self.controls, values)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fdda", "differential", "local", "corrected_skin"])
def test_the_rest_pose_and_single_controls_are_closer(name):
    pytest.importorskip("torch")
    rig = Sliders()
    poses = rig.evaluate(SamplePlan(200).values(rig))
    half = rig.evaluate(range_of_motion_values(rig.controls, 100) / 2)
    test = rig.evaluate(SamplePlan(100, seed=3).values(rig))
    added, plain = (fitted(name, poses, rig, rom_share=share) for share in ("0.1", "0"))
    assert mean_error(added, half) < 0.7 * mean_error(plain, half)
    assert mean_error(added, test) < 1.1 * mean_error(plain, test)
    # Training poses lie within a distance of 1 of the data, these included.
    assert added.distance_from_data(half.world_from_bone, half.controls).max() <= 1


@pytest.mark.slow
def test_a_face_thrown_outside_is_not_much_worse_than_its_skin():
    """The skin of the built-in face is exact at rest, so correctives must be small there."""
    pytest.importorskip("torch")
    rig = load_rig("face")
    poses = rig.evaluate(SamplePlan(400).values(rig))
    deformer = fitted("corrected_skin", poses, rig, regions="24", networks="8")
    for case, thrown in outside_poses(rig, 20).items():
        skin = mean_error(bare_skin(deformer), thrown)
        assert mean_error(deformer, thrown) <= LIMIT * skin, case
