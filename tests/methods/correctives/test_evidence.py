"""Which controls networks read is decided by the poses, not by a mark that nobody set."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.methods.correctives.facts import PoseFacts
from understudy.methods.correctives.skins import best_bone_skin
from understudy.rigs import load_rig


@pytest.fixture(scope="module")
def sampled() -> tuple[Poses, Skin]:
    """A sample of the tube, whose control `flex` acts other than through bones, and its skin."""
    rig = load_rig("tube")
    rng = np.random.default_rng(0)
    values = rng.uniform(rig.controls.low, rig.controls.high, (300, rig.controls.count))
    poses = rig.evaluate(values)
    return poses, best_bone_skin(poses, rings=1)[0]


def marked(poses: Poses, names: set[str]) -> Poses:
    """The same poses with other controls marked as numeric."""
    spec = poses.control_spec
    assert spec is not None
    flags = np.array([name in names for name in spec.names])
    return replace(poses, control_spec=replace(spec, numeric=flags))


def test_bones_and_marked_controls_that_say_everything_suffice(sampled):
    poses, skin = sampled
    assert PoseFacts(marked(poses, {"flex"})).controls("auto", skin) == "numeric"


@pytest.mark.parametrize("names", [set(), {"twist"}])
def test_a_control_that_nobody_marked_is_found(sampled, names):
    poses, skin = sampled
    assert PoseFacts(marked(poses, names)).controls("auto", skin) == "all"


def test_a_choice_of_the_user_is_kept(sampled):
    poses, skin = sampled
    for choice in ("numeric", "all", "none"):
        assert PoseFacts(marked(poses, set())).controls(choice, skin) == choice


def test_few_poses_use_all_controls(sampled):
    poses, skin = sampled
    assert PoseFacts(marked(poses.take(np.arange(2)), set())).controls("auto", skin) == "all"


def test_poses_without_controls(sampled):
    poses, skin = sampled
    bare = replace(poses, control_spec=None, controls=None)
    assert PoseFacts(bare).controls("auto", skin) == "numeric"
