"""`corrected_skin`: correctives only where they help, whole clips kept aside, 16 bits."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import Poses
from understudy.core.poses import join_poses
from understudy.methods import config_from_text, method_type
from understudy.methods.correctives.guard import (
    mean_error,
    needless_regions,
    without_correctives,
)
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian
from understudy.training.held_out import clips_aside, in_motion

torch = pytest.importorskip("torch")
KIND = method_type("corrected_skin")


def fit(poses, rig=None, **options):
    texts = {**KIND.traits.quick, **{name: str(value) for name, value in options.items()}}
    return KIND(config_from_text(KIND.Config, texts)).fit(poses, rig=rig)


def lbs(poses):
    return method_type("lbs")().fit(poses)


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def sample(tube):
    return tube.evaluate(gaussian(tube.controls, 300, seed=0))


@pytest.fixture(scope="module")
def unseen(tube):
    return tube.evaluate(gaussian(tube.controls, 60, seed=1))


@pytest.fixture(scope="module")
def fitted(tube, sample):
    return fit(sample, tube)


def test_its_error_is_far_below_fitted_skinning(fitted, sample, unseen):
    assert mean_error(fitted, unseen) < 0.3 * mean_error(lbs(sample), unseen)


def test_few_networks_serve_many_regions(fitted):
    assert len(fitted.nets) == 3 < len(fitted.bases) == 6
    shares = np.zeros(fitted.mesh.vertex_count)
    for basis in fitted.bases:
        shares[basis.vertices] += 1
    assert (shares > 1).any()  # regions overlap


def test_it_is_stored_in_16_bits_unless_that_costs_accuracy(fitted, sample, unseen, tube):
    full = fit(sample, tube, storage="float32")
    assert (fitted.storage, full.storage) == ("float16", "float32")
    assert fitted.cost()["bytes"] < 0.75 * full.cost()["bytes"]
    assert mean_error(fitted, unseen) < 1.02 * mean_error(full, unseen)


def test_a_rig_that_is_a_skin_keeps_plain_skinning(tube, sample, unseen):
    """Nothing is left to correct, so networks could only add errors."""
    skin = lbs(sample)
    exact = lambda poses: replace(poses, vertices=skin.deform(poses.world_from_bone))
    deformer = fit(exact(sample), skin="blended")
    assert deformer.training["uncorrected_regions"] > 0
    plain = mean_error(lbs(exact(sample)), exact(unseen))
    assert mean_error(deformer, exact(unseen)) < plain + 1e-4 * tube.mesh.height


def test_regions_that_noise_spoils_lose_their_correctives(fitted, sample, unseen):
    """Correctives that are wrong in half of the mesh are removed there, and only there."""
    labels = (sample.mesh.vertices[:, 1] > np.median(sample.mesh.vertices[:, 1])).astype(int)
    spoilt = np.where(labels[:, None] == 1, 5.0, 0.0).astype(np.float32) + fitted.mean
    wrong, plain = replace(fitted, mean=spoilt), lbs(sample)
    found = needless_regions(wrong, plain.skin, unseen, labels)
    assert found.tolist() == [1]
    cured = without_correctives(wrong, np.flatnonzero(labels == 1), plain.skin)
    posed = (unseen.world_from_bone, unseen.controls)
    top = labels == 1
    np.testing.assert_allclose(
        cured.deform(*posed)[:, top], plain.deform(posed[0])[:, top], atol=1e-4
    )
    np.testing.assert_allclose(
        cured.deform(*posed)[:, ~top], fitted.deform(*posed)[:, ~top], atol=1e-4
    )
    every = without_correctives(wrong, np.arange(len(labels)), plain.skin)
    assert not every.nets
    assert not every.bases


def test_whole_clips_are_kept_aside(sample):
    clip = lambda count, name: replace(
        sample.take(np.arange(count)), frame_rate=24.0, name=name, spans=()
    )
    parts = join_poses([clip(40, "walk"), clip(50, "run"), clip(30, "jump")], name="all")
    assert clips_aside(parts, 0.05).tolist() == list(range(90, 120))
    assert clips_aside(parts, 0.0).size == 0
    assert clips_aside(clip(200, "walk"), 0.05).tolist() == list(range(190, 200))
    assert clips_aside(sample, 0.05).size == 0  # random poses are kept aside one by one


def test_a_recording_that_does_not_say_so_is_recognised(tube, sample):
    poses = tube.evaluate(np.repeat(tube.animation("wave")[0], 5, axis=0))
    assert poses.frame_rate is None
    assert clips_aside(poses, 0.1).size >= 8
    assert not in_motion(sample.controls)


@pytest.mark.slow
def test_recorded_clips_are_learned_in_the_end(tube):
    """The clip that was kept aside for the guard is learned too."""
    clips = []
    for name in ("wave", "wave"):
        values, rate = tube.animation(name)
        poses = tube.evaluate(values)
        clips.append(replace(poses, frame_rate=rate, name=f"{name}{len(clips)}"))
    last = clips[-1]
    clips[-1] = Poses(
        last.mesh,
        last.vertices,
        skeleton=last.skeleton,
        world_from_bone=last.world_from_bone,
        name="last",
        frame_rate=24.0,
    )
    clips[0] = replace(clips[0], controls=None, control_spec=None)
    recorded = join_poses(clips, name="recorded")
    deformer = fit(recorded)
    assert deformer.training["poses"] == recorded.pose_count
    assert mean_error(deformer, recorded) < mean_error(lbs(recorded), recorded)
