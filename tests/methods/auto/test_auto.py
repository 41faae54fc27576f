"""`auto`: budgets, the walk over candidates, and the deformer that it hands back."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import InputError, Mesh, Poses
from understudy.methods import config_from_text, method_type
from understudy.methods.auto.budget import Budget, Measured, bytes_of, distance_of, seconds_of
from understudy.methods.auto.candidates import Candidate, Candidates, candidates_of
from understudy.methods.auto.fits import Lesson
from understudy.methods.auto.walk import walk
from understudy.methods.corrected_skin.guard import mean_error
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

    @staticmethod
    def true(name):
        kind, _, number = name.partition("/")
        if kind == "skin":
            return Measured(name, 4.0 / int(number), 10.0 * int(number), 0.01 * int(number))
        level = int(number)
        return Measured(name, 0.5**level, 100 * 2.0**level, 0.1 * 2.0**level)


CANDIDATES = Candidates(
    tuple(Candidate(f"skin/{k}", "lbs") for k in (1, 2, 4)),
    tuple(Candidate(f"level/{k}", "corrected_skin", {}, {}) for k in range(LEVELS)),
)
EVERYTHING = [FakeFits.true(c.name) for c in (*CANDIDATES.skins, *CANDIDATES.levels)]


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
    best = budget.best(walk(budget, CANDIDATES, fits))
    assert best == budget.best(EVERYTHING)
    assert budget.excess(best) <= 1
    levels = [name for name, how in fits.asked if how == "whole" and name.startswith("level")]
    assert len(levels) == len(set(levels)) <= 4
    assert len(fits.asked) == len(set(fits.asked))


def test_a_budget_that_nothing_keeps_gives_the_nearest():
    budget = Budget(max_error=1e-6)
    best = budget.best(walk(budget, CANDIDATES, FakeFits()))
    assert best.name == f"level/{LEVELS - 1}"
    assert budget.excess(best) > 1


def test_it_ends_when_the_time_is_over_and_still_has_a_result():
    budget = Budget(max_error=1e-3)
    fits = FakeFits(most=4)
    assert budget.best(walk(budget, CANDIDATES, fits)).name == "skin/4"
    assert len(fits.asked) <= 5
    assert walk(budget, Candidates((), CANDIDATES.levels), FakeFits(most=0))


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
    monkeypatch.setattr(kind, "fit", lambda *a, **k: pytest.fail("fitted again"))
    again = fit(sample, tube, checkpoint=kept, max_error="0.5%")
    assert again.provenance["auto"] == first.provenance["auto"]
    other = replace(sample, vertices=sample.vertices + 1)
    with pytest.raises(pytest.fail.Exception):  # other data: nothing of it is taken
        fit(other, tube, checkpoint=kept, max_error="0.5%")


def test_a_mesh_sequence_gets_as_few_bones_as_the_error_allows(tube):
    sequence = Poses(tube.mesh, tube.evaluate(tube.animation("wave")[0]).vertices, name="wave")
    coarse, fine = (fit(sequence, max_error=error) for error in ("5%", "0.2%"))
    assert coarse.bone_count < fine.bone_count
    missed = np.linalg.norm(fine.deform_clip() - sequence.vertices, axis=2).mean()
    assert missed <= 0.002 * tube.mesh.height


def test_candidates_grow(sample):
    levels = candidates_of(sample, 0, None, None).levels
    hidden = [int(c.options["hidden"].split(",")[0]) for c in levels]
    assert hidden == sorted(hidden)
    assert len(candidates_of(sample, 0, None, 3).levels) == 3
