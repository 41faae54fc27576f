"""What every fit says of its poses and of its result."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.methods import Fdda, FddaConfig, Lbs, method_type
from understudy.methods.base import config_from_text
from understudy.rigs.tube import TubeRig
from understudy.system.progress import Progress


class Said(Progress):
    def __init__(self):
        self.texts = []

    def say(self, text):
        self.texts.append(text)


def sampled(count, seed=0):
    rig = TubeRig()
    spec = rig.controls
    drawn = np.random.default_rng(seed).random((count, spec.count))
    return rig.evaluate(spec.low + drawn * (spec.high - spec.low))


def with_outliers(poses, *numbers):
    vertices = np.array(poses.vertices)
    vertices[list(numbers), 5] = [1e6, 0, 0]
    return replace(poses, vertices=vertices)


def mean_error(deformer, poses):
    found = deformer.deform_reference(poses.world_from_bone, poses.controls)
    return np.linalg.norm(found - poses.vertices, axis=2).mean()


@pytest.mark.parametrize("name", ["lbs", "fdda", "differential", "corrected_skin", "local"])
def test_an_outlier_is_named_and_left_out(name):
    method = method_type(name)
    config = config_from_text(method.Config, method.traits.quick)
    poses, said = sampled(60), Said()
    ruined = method(config).fit(with_outliers(poses, 17), progress=said)
    assert len(said.texts) == 1
    assert "pose 17 of 'tube' is far from all others (1 are): vertex 5 is at 1e+06" in said.texts[0]
    assert "left out" in said.texts[0]
    without = method(config).fit(poses.take(np.delete(np.arange(60), 17)))
    test = sampled(20, seed=1)
    assert mean_error(ruined, test) == pytest.approx(mean_error(without, test), rel=1e-6)


def test_of_many_outliers_a_few_are_named():
    said = Said()
    Lbs().fit(with_outliers(sampled(200), 3, 5, 8, 13, 21), progress=said)
    assert [text.split()[2] for text in said.texts] == ["3", "5", "8"]
    assert all("(5 are)" in text for text in said.texts)


def test_frames_of_a_sequence_are_named_and_kept():
    poses, said = with_outliers(sampled(40), 17), Said()
    bare = replace(poses, skeleton=None, world_from_bone=None, control_spec=None, controls=None)
    deformer = method_type("ssdr")().fit(bare, progress=said)
    assert "pose 17" in said.texts[0]
    assert "leave it out" in said.texts[0]
    assert deformer.clips[0].frame_count == 40


def test_nothing_is_said_of_ordinary_poses():
    for poses in (sampled(40), sampled(2)):
        said = Said()
        method_type("local")(
            config_from_text(method_type("local").Config, method_type("local").traits.quick)
        ).fit(poses, progress=said)
        assert said.texts == []


def test_a_result_that_is_worse_than_its_skin_says_so():
    said = Said()
    config = FddaConfig(
        epochs=1, hidden=(4,), learning_rate=3.0, decay="none", skin_rings=0, bounded=False
    )
    Fdda(config).fit(sampled(40), progress=said)
    assert len(said.texts) == 1
    assert "on its training poses this fdda is off by" in said.texts[0]


def test_fits_inside_auto_say_nothing():
    said = Said()
    method = method_type("auto")
    poses = with_outliers(sampled(60), 17)
    method(config_from_text(method.Config, method.traits.quick)).fit(poses, progress=said)
    assert sum("pose 17" in text for text in said.texts) == 1
