"""Sampled control values: their distributions, bounds and seeds."""

from types import SimpleNamespace

import numpy as np
import pytest
from bending_rig import BendingRig
from scipy.stats import kstest, truncnorm

from understudy.core.controls import ControlSpec
from understudy.rigs.sampling import (
    Mode,
    SamplePlan,
    around,
    control_groups,
    gaussian,
    mixture,
    read_modes,
)
from understudy.rigs.tube import TubeRig
from understudy.system.errors import FileError, InputError

SPEC = ControlSpec(
    ("knee", "wing", "fixed"),
    [0, -40, 3],
    [150, 40, 3],
    limit_low=[-10, -90, 0],
    limit_high=[160, 90, 9],
)


def test_gaussian_has_the_range_at_one_and_a_half_sigma():
    values = gaussian(SPEC, 20_000, seed=1)
    assert values.shape == (20_000, 3)
    assert values.dtype == np.float64
    assert (values >= SPEC.low).all()
    assert (values <= SPEC.high).all()
    for c in (0, 1):
        middle, sigma = (SPEC.low[c] + SPEC.high[c]) / 2, (SPEC.high[c] - SPEC.low[c]) / 3
        expected = truncnorm(-1.5, 1.5, loc=middle, scale=sigma)
        assert values[:, c].mean() == pytest.approx(middle, abs=0.02 * sigma)
        assert values[:, c].std() == pytest.approx(expected.std(), rel=0.02)
        assert kstest(values[:, c], expected.cdf).pvalue > 0.01
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 0.03


def test_a_control_without_a_range_is_constant():
    assert (gaussian(SPEC, 100, seed=0)[:, 2] == 3).all()


def test_same_seed_same_sample():
    assert np.array_equal(gaussian(SPEC, 50, seed=4), gaussian(SPEC, 50, seed=4))
    assert not np.array_equal(gaussian(SPEC, 50, seed=4), gaussian(SPEC, 50, seed=5))


def test_no_poses_is_an_empty_sample():
    assert gaussian(SPEC, 0, seed=0).shape == (0, 3)


@pytest.mark.parametrize("seed", [-1, 0.5, "one", True])
def test_seed_must_be_a_whole_number(seed):
    with pytest.raises(InputError, match="seed"):
        gaussian(SPEC, 1, seed=seed)


@pytest.mark.parametrize("count", [-1, 2.5, True])
def test_count_must_be_a_whole_number(count):
    with pytest.raises(InputError, match="count"):
        gaussian(SPEC, count, seed=0)


def test_mixture_keeps_to_its_modes():
    modes = [(3, {"wing": (-40, -20)}), (1, {"wing": (30, 80), "knee": (0, 10)})]
    values = mixture(SPEC, modes, 8000, seed=2)
    low, high = values[:, 1] <= -20, values[:, 1] >= 30
    assert (low ^ high).all()
    assert low.mean() == pytest.approx(0.75, abs=0.02)
    assert values[high, 0].max() <= 10 < values[low, 0].max()
    assert values[high, 1].mean() == pytest.approx(55, abs=1)


@pytest.mark.parametrize(
    ("modes", "message"),
    [
        ([], "at least one mode"),
        ([(0, {})], "weight of mode 0"),
        ([(1, {"win": (0, 1)})], "did you mean 'wing'"),
        ([(1, {}), (1, {"wing": (0, 200)})], "mode 1: control 'wing'"),
    ],
)
def test_wrong_modes_are_named(modes, message):
    with pytest.raises(InputError, match=message):
        mixture(SPEC, modes, 10, seed=0)


def test_around_without_spread_lies_on_the_animation():
    curve = np.array([[0, 0, 3], [10, 20, 3], [40, 20, 3]], float)
    values = around(SPEC, [curve], 500, spread=0, seed=0)
    first = values[:, 1] < 20
    assert np.allclose(values[first, 1], 2 * values[first, 0])
    assert np.allclose(values[~first, 1], 20)
    assert (values[~first, 0] >= 10).all()
    assert first.mean() == pytest.approx(0.5, abs=0.1)


def test_around_does_not_lead_from_one_animation_into_the_next():
    curves = [
        np.array([[0, -40, 3], [10, -40, 3]], float),
        np.array([[0, 40, 3], [10, 40, 3]], float),
    ]
    assert set(around(SPEC, curves, 300, spread=0, seed=0)[:, 1]) == {-40, 40}


def test_around_spreads_within_the_limits():
    still = np.array([[75.0, 85.0, 3.0]])  # one frame, near the limit of the wing
    values = around(SPEC, [still], 4000, spread=0.5, seed=0)
    sigma = (SPEC.high - SPEC.low) / 3
    assert values[:, 0].mean() == pytest.approx(75, abs=1)
    assert values[:, 0].std() == pytest.approx(
        0.5 * truncnorm(-1.5, 1.5, scale=sigma[0]).std(), rel=0.05
    )
    assert np.abs(values[:, 0] - 75).max() <= 0.75 * sigma[0]
    assert values[:, 1].max() == 90
    assert (values[:, 2] == 3).all()


def test_around_refuses_no_frames_and_frames_outside_the_limits():
    with pytest.raises(InputError, match="no frames"):
        around(SPEC, [np.zeros((0, 3))], 5, spread=0, seed=0)
    with pytest.raises(InputError, match="no frames"):
        around(SPEC, [], 5, spread=0, seed=0)
    with pytest.raises(InputError, match="'knee' is 170"):
        around(SPEC, [np.array([[170.0, 0, 3]])], 5, spread=0, seed=0)
    with pytest.raises(InputError, match="spread"):
        around(SPEC, [np.array([[0.0, 0, 3]])], 5, spread=-1, seed=0)


def test_modes_are_read_from_toml(tmp_path):
    file = tmp_path / "modes.toml"
    file.write_text(
        "[walk]\nweight = 3\n[walk.ranges]\nwing = [-5, 5]\n[fly.ranges]\nwing = [20, 80]\n"
    )
    assert read_modes(file, SPEC) == {
        "walk": Mode(3.0, {"wing": (-5.0, 5.0)}),
        "fly": Mode(1.0, {"wing": (20.0, 80.0)}),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no modes"),
        ("[walk", "cannot be read as a modes file"),
        ("walk = 3", "mode 'walk': expected"),
        ("[walk]\nwaight = 3", "mode 'walk': expected"),
        ("[walk]\nweight = -1", "weight above 0, got -1"),
        ("[walk]\nweight = true", "weight above 0, got True"),
        ("[walk]\nranges = 3", "expected a \\[walk.ranges\\] table, got 3"),
        ("[walk.ranges]\nwing = [1]", "control 'wing': expected \\[low, high\\]"),
        ("[walk.ranges]\nwings = [1, 2]", "did you mean 'wing'"),
        ("[walk.ranges]\nwing = [2, 1]", "mode 'walk': control 'wing': the range 2..1"),
        ("[walk.ranges]\nwing = [2, 100]", "inside the limits -90..90"),
        ("[walk.ranges]\nwing = [2, nan]", "mode 'walk'"),
    ],
)
def test_wrong_modes_files_are_explained(tmp_path, text, message):
    file = tmp_path / "modes.toml"
    file.write_text(text)
    with pytest.raises(FileError, match=message) as caught:
        read_modes(file, SPEC)
    assert "modes.toml" in str(caught.value)


def test_a_missing_modes_file_is_named(tmp_path):
    with pytest.raises(FileError, match="no such modes file"):
        read_modes(tmp_path / "none.toml", SPEC)


def test_a_plain_plan_is_gaussian():
    rig = BendingRig()
    assert np.array_equal(SamplePlan(20, seed=3).values(rig), gaussian(rig.controls, 20, seed=3))


def test_a_plan_with_animations_mixes_both():
    rig = BendingRig()
    plan = SamplePlan(400, seed=3, animation_share=0.25, animations=("nod",), spread=0)
    values = plan.values(rig)
    assert plan.kind == "gaussian+around"
    near = (values[:, 1] == 0) & (values[:, 2] == 0.5)
    assert near.sum() == 100
    assert 0 < near[:100].sum() < 100  # shuffled
    plain = gaussian(rig.controls, 300, seed=3)
    assert np.array_equal(np.sort(values[~near, 0]), np.sort(plain[:, 0]))
    assert np.array_equal(values, plan.values(rig))


def test_a_plan_of_modes_only_and_of_animations_only():
    rig = BendingRig()
    plan = SamplePlan(30, modes={"left": Mode(1.0, {"bend": (-80.0, -10.0)})})
    assert plan.kind == "mixture"
    assert plan.values(rig)[:, 0].max() <= -10
    only = SamplePlan(30, animation_share=1.0)
    assert only.kind == "around"
    assert only.values(rig).shape == (30, 4)


def test_a_plan_uses_the_ranges_it_is_given():
    rig = BendingRig()
    narrow = ControlSpec(rig.controls.names, [0, 0, 0, 2], [1, 1, 1, 2])
    assert SamplePlan(50).values(rig, narrow)[:, 0].max() <= 1


def test_wrong_plans_are_explained():
    with pytest.raises(InputError, match="at least 1 pose"):
        SamplePlan(0)
    with pytest.raises(InputError, match="animation_share is 0"):
        SamplePlan(5, animations=("nod",))
    with pytest.raises(InputError, match="animation_share"):
        SamplePlan(5, animation_share=1.5)
    with pytest.raises(InputError, match="unknown animation 'nodd'; did you mean 'nod'"):
        SamplePlan(5, animation_share=0.5, animations=("nodd",)).values(BendingRig())


def test_only_a_share_of_the_controls_moves():
    rig = TubeRig()
    every = SamplePlan(400, seed=3).values(rig)
    some = SamplePlan(400, seed=3, active=0.25).values(rig)
    moved = some != rig.controls.rest
    assert 0.2 < moved.mean() < 0.3
    np.testing.assert_array_equal(some[moved], every[moved])  # the same values where it moves
    assert "active" not in SamplePlan(400, seed=3).facts()
    with pytest.raises(InputError, match="active"):
        SamplePlan(400, active=0.0)


def test_controls_of_one_bone_move_together():
    names = tuple(f"{bone}.{part}.{axis}" for bone in "abcd" for part in ("rot",) for axis in "xyz")
    spec = ControlSpec(names, [-1.0] * 12, [1.0] * 12)
    assert control_groups(spec).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    rig = SimpleNamespace(controls=spec)
    moved = SamplePlan(400, active=0.25).values(rig) != 0
    moved = moved.reshape(400, 4, 3)
    assert (moved.all(axis=2) | ~moved.any(axis=2)).all()
    assert moved.any(axis=2).mean() == pytest.approx(0.25, abs=0.05)


def test_few_controls_differ_from_an_animation():
    rig = BendingRig()
    plan = SamplePlan(300, animation_share=1.0, animations=("nod",), active=0.3, spread=1.0)
    values = plan.values(rig)
    still = values[:, 1] == 0  # `nod` leaves the twist at 0
    assert still.mean() == pytest.approx(0.7, abs=0.1)
    assert not (SamplePlan(300, animation_share=1.0, spread=1.0).values(rig)[:, 1] == 0).any()


def test_only_the_start_of_an_animation_is_sampled_around():
    rig = BendingRig()
    plan = SamplePlan(200, animation_share=1.0, animations=("nod",), spread=0.0, until=0.5)
    values = plan.values(rig)[:, 0]
    assert -20 <= values.min() < values.max() <= 0  # of -20 to 20
    assert plan.facts()["until"] == 0.5
    with pytest.raises(InputError, match="until"):
        SamplePlan(2, until=0.0)


@pytest.mark.parametrize("stretch", [-0.1, 1.5, float("nan")])
def test_the_share_of_stretched_edges_is_a_share(stretch):
    with pytest.raises(InputError, match="stretch"):
        SamplePlan(2, stretch=stretch)


class Local(BendingRig):
    """A rig of eight controls on four patches; the last is a switch."""

    def __init__(self):
        super().__init__()
        self.controls = ControlSpec(tuple("abcdefgh"), [-1.0] * 7 + [0.0], [1.0] * 8)
        self.deforms = np.zeros((2, 8, 4), bool)
        self.deforms[:, np.arange(7), [0, 0, 0, 1, 1, 2, 3]] = True
        self.deforms[0, 1] = self.deforms[1, 2] = False  # act on one side of the switch only
        self.switches = np.arange(8) == 7


def test_few_controls_deform_one_patch_and_switches_are_at_an_end():
    values = SamplePlan(200, crowd=1).values(Local())
    moved = values[:, :7] != 0
    there = values[:, 7] == 1
    for some, silent in ((~there, 1), (there, 2)):
        acting = np.delete(moved[some, :3], silent, axis=1)
        assert (acting.sum(axis=1) == 1).all()  # those of a patch take turns
        assert acting.any(axis=0).all()
    assert (moved[:, 3:5].sum(axis=1) == 1).all()
    assert moved[:, 5:].all()  # alone on theirs
    assert moved[:, :5].any(axis=0).all()
    assert set(values[:, 7]) == {0.0, 1.0}
    assert (SamplePlan(50).values(Local())[:, :7] != 0).all()  # no limit


def test_around_an_animation_few_controls_of_a_patch_differ_and_no_switch_does():
    class Moving(Local):
        animation_names = ("still",)

        def animation(self, name):
            return np.full((4, 8), 0.25), 24.0

    plan = SamplePlan(100, animation_share=1.0, crowd=1)
    values = plan.values(Moving())
    assert ((values[:, [0, 2]] != 0.25).sum(axis=1) <= 1).all()
    assert (values[:, 7] == 0.25).all()
    assert plan.facts()["crowd"] == 1
