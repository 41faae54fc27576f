"""Which poses are sampled of a rig, and which of its animations are kept to measure on."""

import numpy as np
import pytest
from bending_rig import BendingRig

from understudy.jobs.planning import plan_for
from understudy.jobs.split import split_animations
from understudy.system.errors import InputError


class Animated(BendingRig):
    """A rig with animations of given lengths."""

    def __init__(self, **lengths):
        super().__init__()
        self.lengths = lengths

    @property
    def animation_names(self):
        return tuple(self.lengths)

    def animation(self, name):
        return np.tile(self.controls.rest, (self.lengths[name], 1)), 24.0


class External(Animated):
    """The same as another program's rig."""

    def sibling(self):
        return self

    def close(self):
        pass


@pytest.mark.parametrize(
    ("lengths", "held_out", "around", "tests"),
    [
        ({"walk": 100, "run": 40, "jump": 30}, (), ("walk", "run"), {"jump": 0}),
        ({"walk": 100, "run": 40, "nod": 2}, (), ("walk",), {"run": 0, "nod": 0}),
        ({"walk": 100, "run": 40, "jump": 30}, ("walk",), ("run", "jump"), {"walk": 0}),
        ({"walk": 20, "dance": 300}, (), ("walk", "dance"), {"walk": 17, "dance": 255}),
        ({"walk": 100}, (), ("walk",), {"walk": 85}),
        ({"walk": 100}, ("walk",), (), {"walk": 0}),
        ({"walk": 9}, (), (), {"walk": 0}),
        ({}, (), (), {}),
    ],
)
def test_some_animations_are_kept_to_measure_on(lengths, held_out, around, tests):
    split = split_animations(Animated(**lengths), held_out)
    assert split.around == around
    assert split.tests == tests
    assert bool(split.note) == bool(around)


def test_an_unknown_animation_is_refused():
    with pytest.raises(InputError, match="wlak"):
        split_animations(Animated(walk=100), ("wlak",))


def test_the_plan_of_a_rig_of_another_program_is_careful():
    plan = plan_for(External(walk=100, run=40), 50, 3)
    assert (plan.count, plan.seed, plan.animation_share) == (50, 3, 0.5)
    assert (plan.animations, plan.stretch, plan.crowd) == (("walk",), 0.02, 3)
    assert plan_for(External(), 50, 3).animation_share == 0
    of_python = plan_for(Animated(walk=100, run=40), 50, 3)
    assert (of_python.animation_share, of_python.stretch) == (0, None)


def test_what_is_asked_replaces_the_plan():
    rig = External(walk=100, run=40)
    assert plan_for(rig, 50, 0, around=["run"]).animations == ("run",)
    assert plan_for(rig, 50, 0, active=0.2).active == 0.2
    held = plan_for(rig, 50, 0, held_out=["walk", "run"])
    assert held.animation_share == 0
