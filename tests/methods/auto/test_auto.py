"""`auto`: budgets, the walk over candidates, and the deformer that it hands back."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import InputError, Mesh, Poses
from understudy.methods import config_from_text, method_type
from understudy.methods.auto.budget import Budget, Measured, bytes_of, distance_of, seconds_of
from understudy.methods.auto.candidates import Candidate, Candidates, candidates_of
from understudy.methods.auto.fits import Lesson
from understudy.methods.auto.sequences import (
    FAMILIES,
    sequence_candidates,
    walk_sequence,
)
from understudy.methods.auto.shrinking import Components
from understudy.methods.auto.walk import Walk, walk, worth_two_layers
from understudy.methods.correctives.guard import mean_error
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian

torch = pytest.importorskip("torch")
AUTO = method_type("auto")
LEVELS = 12


class FakeFits:
    """Levels whose error halves and whose size doubles; a cheap fit has twice the error."""

    def __init__(self, most=10**6, cheap_factor=2.0):
        self.asked, self.most, self.cheap_factor = [], most, cheap_factor

    @property
    def out_of_time(self):
        return len(self.asked) >= self.most

    def whole(self, candidate):
        self.asked.append((candidate.name, "whole"))
        return self.true(candidate.name)

    def cheap(self, candidate):
        self.asked.append((candidate.name, "cheap"))
        true = self.true(candidate.name)
        return replace(true, error=self.cheap_factor * true.error)

    def shrunk(self, candidate, budget):
        """Nothing can be left out."""
        return self.true(candidate.name)

    @staticmethod
    def true(name):
        kind, _, number = name.partition("/")
        if kind == "layers":
            return Measured(name, 1.0, 40.0, 0.04)
        if kind == "skin":
            error = {"1": 4.0, "2": 2.0, "4": 1.5}[number]
            return Measured(name, error, 10.0 * int(number), 0.01 * int(number))
        level = int(number)
        return Measured(name, 0.5**level, 100 * 2.0**level, 0.1 * 2.0**level)


CANDIDATES = Candidates(
    tuple(Candidate(f"skin/{k}", "lbs") for k in (4, 2, 1)),
    Candidate("layers/4", "two_layer"),
    tuple(Candidate(f"level/{k}", "corrected_skin", {}, {}) for k in range(LEVELS)),
)
EVERYTHING = [FakeFits.true(c.name) for c in (*CANDIDATES.skins, *CANDIDATES.levels)]
SKINS = [FakeFits.true(c.name) for c in CANDIDATES.skins]


@pytest.mark.parametrize("cheap_factor", [1.3, 2.0, 3.0])
@pytest.mark.parametrize(
    "budget",
    [
        Budget(max_error=2.2),
        Budget(max_error=0.3),
        Budget(max_error=0.01),
        Budget(max_error=0.0011),
        Budget(max_ms=1.0),
        Budget(max_bytes=5000),
        Budget(max_bytes=150),
        Budget(max_error=0.1, max_bytes=5000),
        Budget(max_ms=0.05),
    ],
)
def test_the_walk_finds_the_best_of_a_full_sweep_with_few_whole_fits(budget, cheap_factor):
    fits = FakeFits(cheap_factor=cheap_factor)
    best = budget.best(walk(Walk(budget, fits), CANDIDATES))
    # Levels are a factor of two apart: one is at most twice the cheapest, or has twice its error.
    assert budget.cost(best) <= 2.01 * budget.cost(budget.best(EVERYTHING))
    assert budget.excess(best) <= 1
    levels = [name for name, how in fits.asked if how == "whole" and name.startswith("level")]
    assert len(levels) == len(set(levels)) <= 4


def test_a_budget_that_nothing_keeps_gives_the_nearest():
    budget = Budget(max_error=1e-6)
    best = budget.best(walk(Walk(budget, FakeFits()), CANDIDATES))
    assert best.name == f"level/{LEVELS - 1}"
    assert budget.excess(best) > 1


def test_another_method_is_fitted_for_an_error_that_no_level_keeps():
    other = Candidate(f"level/{LEVELS + 1}", "differential", {}, {})
    candidates = replace(CANDIDATES, others=(other,))
    for budget, wanted in ((Budget(max_error=0.5**LEVELS), True), (Budget(max_error=0.1), False)):
        found = walk(Walk(budget, FakeFits()), candidates)
        assert (other.name in [one.name for one in found]) == wanted
        assert budget.keeps(budget.best(found))


def test_it_ends_when_the_time_is_over_and_still_has_a_result():
    budget = Budget(max_error=1e-3)
    fits = FakeFits(most=4)
    assert budget.best(walk(Walk(budget, fits), CANDIDATES)).name == "skin/4"
    assert len(fits.asked) <= 5
    assert walk(Walk(budget, FakeFits(most=0)), Candidates((), None, CANDIDATES.levels))


def test_two_layers_are_tried_where_the_skin_is_all_that_lacks():
    # Four influences have an error of 1.5, two layers usually 0.8 x that.
    near = Budget(max_error=1.4)
    assert worth_two_layers(near, SKINS)
    assert not worth_two_layers(Budget(max_error=1.7), SKINS)  # four influences do
    assert not worth_two_layers(Budget(max_error=0.5), SKINS)  # a skin does not
    assert not worth_two_layers(Budget(max_error=1.4, max_bytes=20), SKINS)
    assert near.best(walk(Walk(near, FakeFits()), CANDIDATES)).name == "layers/4"
    # Below the smallest level there is room for a skin alone.
    tight = Budget(max_bytes=45)
    assert tight.best(walk(Walk(tight, FakeFits()), CANDIDATES)).name == "layers/4"


def test_without_a_budget_a_skin_without_visible_error_is_taken_else_the_default_size():
    one = Candidates(CANDIDATES.skins, CANDIDATES.layered, CANDIDATES.levels[3:4])
    exact, usual = Budget(max_error=3.0), Budget(max_error=1e-3)
    assert exact.best(walk(Walk(exact, FakeFits()), one)).name == "skin/2"
    fits = FakeFits()
    assert walk(Walk(usual, fits), one)[-1].name == "level/3"
    assert ("level/3", "cheap") not in fits.asked


class FakeSequence:
    """Sequences whose error falls with the number of bones; families differ by factors."""

    out_of_time = False

    def __init__(self, slope, spread):
        self.asked, self.slope, self.spread = [], slope, spread

    def true(self, name):
        family, _, bones = name.partition("/")
        at = list(FAMILIES).index(family)
        error = FAMILIES[family].error * self.spread[at] * int(bones) ** -self.slope
        size = 4.0 * (FAMILIES[family].floats * 1000 + 12 * int(bones) * 50)
        return Measured(name, error, size, 0.1 * FAMILIES[family].time)

    def whole(self, candidate):
        self.asked.append((candidate.name, "whole"))
        return self.true(candidate.name)

    def cheap(self, candidate):
        self.asked.append((candidate.name, "cheap"))
        made = self.true(candidate.name)
        return replace(made, error=1.05 * made.error)


@pytest.mark.parametrize("slope", [0.6, 1.2, 2.0])
@pytest.mark.parametrize("spread", [(1,) * 6, (1, 1.3, 0.9, 1.2, 1.4, 1.5), (1, 1, 1, 1, 0.8, 0.7)])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("kind", ["error", "bytes"])
def test_the_walk_over_sequences_is_near_the_best_with_few_fits(slope, spread, share, kind):
    poses = Poses(Mesh(np.zeros((1000, 3)), [], []), np.zeros((50, 1000, 3), np.float32))
    candidates = sequence_candidates(poses, 0, None)
    fits = FakeSequence(slope, spread)
    swept = [fits.true(one.name) for one in candidates]
    values = sorted(one.error if kind == "error" else one.bytes for one in swept)
    limit = values[int(share * len(values))]
    budget = Budget(max_error=limit / 0.94) if kind == "error" else Budget(max_bytes=limit)
    found = walk_sequence(Walk(budget, fits), candidates, poses)
    best = budget.best(found)
    assert budget.keeps(best)
    assert budget.cost(best) <= 1.3 * budget.cost(budget.best(swept))
    assert len(found) <= 6


def test_texts_of_a_budget():
    mesh = Mesh([[0, 0, 0], [0, 200, 0]], [], [], unit="cm")
    assert distance_of("0.5mm", mesh) == pytest.approx(0.05)
    assert distance_of("2 m", mesh) == pytest.approx(200)
    assert distance_of("0.02%", mesh) == pytest.approx(0.04)
    assert distance_of("0.3", replace(mesh, unit="unitless")) == 0.3
    assert bytes_of("1.5kB") == 1500
    assert seconds_of("90") == 90
    for wrong in ("mm", "-1mm", "0", "nan", "1e999", "3 parsec"):
        with pytest.raises(InputError, match="max_error"):
            distance_of(wrong, mesh)
    with pytest.raises(InputError, match="no known unit"):
        distance_of("1mm", replace(mesh, unit="unitless"))
    with pytest.raises(InputError, match="max_bytes"):
        AUTO.Config(max_bytes="5 apples")
    with pytest.raises(InputError, match="time"):
        AUTO.Config(time="soon")


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def sample(tube):
    return tube.evaluate(gaussian(tube.controls, 200, seed=0))


def fit(poses, rig=None, **options):
    texts = {"levels": "2", "epochs": "20", **{k: str(v) for k, v in options.items()}}
    return AUTO(config_from_text(AUTO.Config, texts)).fit(poses, rig=rig)


def test_poses_held_out_take_no_part(sample):
    lesson = Lesson.of(sample, 0)
    assert lesson.fit.pose_count == 180
    seen = lesson.fit.controls
    assert not any((row == seen).all(axis=1).any() for row in lesson.held_out.controls)


def test_a_loose_budget_gives_a_plain_skin_and_a_tight_one_networks(tube, sample):
    loose = fit(sample, tube, max_error="50%")
    assert loose.method == "lbs"
    assert loose.skin.influences == 1
    for name in ("max_error", "chosen", "frontier"):
        assert name in loose.provenance["auto"]
    tight = fit(sample, tube, max_error="0.5%")
    assert tight.method == "corrected_skin"
    unseen = tube.evaluate(gaussian(tube.controls, 60, seed=1))
    assert mean_error(tight, unseen) < 0.005 * tube.mesh.height
    assert tight.provenance["auto"]["chosen"].startswith("corrected_skin/")


@pytest.mark.slow
def test_an_interrupted_run_continues_with_the_fits_it_has(tube, sample, tmp_path, monkeypatch):
    kept = tmp_path / "a.checkpoint"
    first = fit(sample, tube, checkpoint=kept, max_error="0.5%")
    kind = method_type("corrected_skin")
    monkeypatch.setattr(kind, "fit_facts", lambda *a, **k: pytest.fail("fitted again"))
    again = fit(sample, tube, checkpoint=kept, max_error="0.5%")
    assert again.provenance["auto"] == first.provenance["auto"]
    other = replace(sample, vertices=sample.vertices + 1)
    with pytest.raises(pytest.fail.Exception):  # other data: nothing of it is taken
        fit(other, tube, checkpoint=kept, max_error="0.5%")


def test_a_mesh_sequence_gets_as_few_bones_as_the_error_allows(tube):
    sequence = Poses(tube.mesh, tube.evaluate(tube.animation("wave")[0]).vertices, name="wave")
    coarse, fine = (fit(sequence, max_error=error) for error in ("5%", "0.2%"))
    assert coarse.cost()["bytes"] < fine.cost()["bytes"]
    missed = np.linalg.norm(fine.deform_clip() - sequence.vertices, axis=2).mean()
    assert missed <= 0.002 * tube.mesh.height


def test_candidates_grow(sample):
    levels = candidates_of(sample, 0, None, None).levels
    hidden = [c.options["hidden"][0] for c in levels]
    assert hidden == sorted(hidden)
    assert len(candidates_of(sample, 0, None, 3).levels) == 3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["corrected_skin", "differential"])
def test_components_that_hardly_move_the_mesh_are_left_out(tube, sample, method):
    kind = method_type(method)
    options = {**kind.traits.quick, "epochs": "30"}
    whole = kind(config_from_text(kind.Config, options)).fit(sample, rig=tube)
    components = Components.of(whole, sample)
    assert components.without(whole, 0) is whole
    bones, controls = sample.world_from_bone[:40], sample.controls[:40]
    shown = whole.deform_reference(bones, controls)
    sizes = []
    for distance in (1e-4, 1e-3, 1e-2):
        number = components.number_within(distance * tube.mesh.height)
        small = components.without(whole, number)
        moved = small.deform_reference(bones, controls) - shown
        rms = np.sqrt(np.square(moved).sum(axis=2).mean())
        assert rms <= 1.5 * distance * tube.mesh.height
        assert small.coefficient_count <= whole.coefficient_count
        np.testing.assert_allclose(
            small.deform(bones, controls), small.deform_reference(bones, controls), atol=1e-4
        )
        sizes.append(small.cost()["bytes"])
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 0.9 * whole.cost()["bytes"]
    none = components.without(whole, components.count)
    assert not none.nets
    assert not none.bases


@pytest.mark.slow
def test_a_network_is_shrunk_to_the_error_of_the_budget(tube, sample):
    limit = 0.005 * tube.mesh.height
    small = fit(sample, tube, max_error="0.5%")
    chosen = small.provenance["auto"]["chosen"]
    whole = next(
        one
        for one in small.provenance["auto"]["frontier"]
        if one["name"] == chosen.partition("-")[0]
    )
    assert small.training["held_out_mean"] <= 0.95 * limit
    assert small.cost()["bytes"] < whole["bytes"]
    assert small.storage == "float16"
    assert fit(sample, tube, max_error="0.5%", storage="float32").storage == "float32"


@pytest.mark.slow
def test_without_a_budget_it_is_the_default_of_the_method_on_all_poses(tube, sample):
    kind = method_type("corrected_skin")
    usual = kind(config_from_text(kind.Config, {"epochs": "5"})).fit(replace(sample), rig=tube)
    ours = AUTO(config_from_text(AUTO.Config, {"epochs": "5"})).fit(replace(sample), rig=tube)
    assert ours.method == "corrected_skin"
    assert ours.training["poses"] == sample.pose_count
    for one, other in zip(ours.bases, usual.bases, strict=True):
        np.testing.assert_array_equal(one.matrix, other.matrix)
    for one, other in zip(ours.nets, usual.nets, strict=True):
        for a, b in zip(one.weights, other.weights, strict=True):
            np.testing.assert_array_equal(a, b)


def test_without_a_budget_an_exact_skin_stays_a_skin(tube, sample):
    skinned = method_type("lbs")().fit(sample)
    exact = replace(sample, vertices=skinned.deform(sample.world_from_bone))
    made = fit(exact)
    assert made.method == "lbs"
    assert made.training["held_out_mean"] < 2e-5 * tube.mesh.height
