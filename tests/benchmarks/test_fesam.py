"""`fesam` on a generated character."""

import numpy as np
import pytest

from understudy.methods.decomposition.solve.motion import in_principal_directions, read_motion
from understudy.system.progress import Task
from understudy_benchmarks import metrics
from understudy_benchmarks.baselines import fesam
from understudy_benchmarks.baselines.fesam import Fesam, FesamConfig, distant_seeds
from understudy_benchmarks.trajectory_training.generated import generate_character


def play(deformer):
    return np.concatenate([deformer.deform(clip.world_from_bone) for clip in deformer.clips])


@pytest.fixture(scope="module")
def character():
    return generate_character(1)


def test_it_never_raises_its_error_and_more_starts_never_hurt(character):
    poses = character.poses()
    once = Fesam(FesamConfig.of_preset("paper", bones=9)).fit(poses)
    curve = once.provenance["erms_curve"]
    assert len(curve) == 16
    assert all(after <= before * (1 + 1e-9) for before, after in zip(curve, curve[1:]))
    assert metrics.erms(poses.vertices, play(once)) == pytest.approx(curve[-1], rel=0.01)
    several = Fesam(FesamConfig.of_preset("paper", bones=9, starts=3)).fit(poses)
    assert several.training["erms"] <= curve[-1] * (1 + 1e-9)


def test_it_chooses_the_bones_of_a_vertex_again(character):
    motion, _ = in_principal_directions(read_motion(character.poses())[0])
    seeds = distant_seeds(motion, 9)
    first = fesam._nearest_bones(motion, fesam._initial_clusters(motion, seeds).transforms, 3)
    done, errors = Fesam(FesamConfig(bones=9, influences=3, iterations=8))._run(
        motion, seeds, Task()
    )
    used = done.weight > 0
    new = ~(done.index[:, :, None] == first[:, None, :]).any(axis=2)
    assert (new & used).any()
    assert errors[-1] < errors[0]
