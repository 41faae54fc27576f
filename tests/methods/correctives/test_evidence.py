"""Which controls networks read is decided by the poses, not by a mark that nobody set."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.methods.correctives.components import find_skin
from understudy.methods.correctives.evidence import resolve_controls
from understudy.rigs import load_rig
from understudy.system.progress import SILENT


@pytest.fixture(scope="module")
def sampled() -> tuple[Poses, Skin]:
    """A sample of the tube, whose control `flex` acts other than through bones, and its skin."""
    rig = load_rig("tube")
    rng = np.random.default_rng(0)
    values = rng.uniform(rig.controls.low, rig.controls.high, (300, rig.controls.count))
    poses = rig.evaluate(values)
    return poses, find_skin(poses, 1.2, 1, SILENT)[0]


def marked(poses: Poses, names: set[str]) -> Poses:
    """The same poses with other controls marked as numeric."""
    spec = poses.control_spec
    assert spec is not None
    flags = np.array([name in names for name in spec.names])
    return replace(poses, control_spec=replace(spec, numeric=flags))


def test_bones_and_marked_controls_that_say_everything_suffice(sampled):
    poses, skin = sampled
    assert resolve_controls("auto", marked(poses, {"flex"}), skin) == "numeric"


@pytest.mark.parametrize("names", [set(), {"twist"}])
def test_a_control_that_nobody_marked_is_found(sampled, names):
    poses, skin = sampled
    assert resolve_controls("auto", marked(poses, names), skin) == "all"


def test_a_choice_of_the_user_is_kept(sampled):
    poses, skin = sampled
    for choice in ("numeric", "all", "none"):
        assert resolve_controls(choice, marked(poses, set()), skin) == choice


def test_few_poses_use_all_controls(sampled):
    poses, skin = sampled
    assert resolve_controls("auto", marked(poses.take(np.arange(2)), set()), skin) == "all"


def test_poses_without_controls(sampled):
    poses, skin = sampled
    bare = replace(poses, control_spec=None, controls=None)
    assert resolve_controls("auto", bare, skin) == "numeric"
