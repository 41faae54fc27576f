"""Learning curves: what they say about numbers of poses that were not measured."""

import numpy as np
import pytest

from understudy.evaluation.learning_curve import LearningCurve, PowerLaw, block_errors, fit_laws
from understudy.system.errors import InputError

COUNTS = (100, 200, 400, 800)


def curve(law, noise=0.0, seed=0, counts=COUNTS):
    """A curve measured on 16 blocks of a law."""
    random = np.random.default_rng(seed)
    mean = law.error(np.array(counts))[:, None]
    difficulty = random.lognormal(0, 0.3, 16)
    of_seeds = random.lognormal(0, noise, (len(counts), 1))
    return LearningCurve.of(counts, mean * difficulty * of_seeds)


def test_a_law_is_found_again():
    true, counts = PowerLaw(0.02, 3.0, 0.7), np.array(COUNTS, float)
    errors, floors = true.error(counts)[None], np.array([[0.02]])
    factor, exponent, left = (found.item() for found in fit_laws(counts, errors, floors))
    assert left < 1e-9
    assert factor == pytest.approx(3.0)
    assert exponent == pytest.approx(0.7)
    assert PowerLaw(0.02, factor, exponent).poses(float(true.error(5000))) == pytest.approx(5000)


def test_an_error_below_the_floor_is_never_reached():
    law = PowerLaw(0.02, 3.0, 0.7)
    assert law.poses(0.02) == np.inf
    assert law.poses(0.01) == np.inf
    assert PowerLaw(0.0, 3.0, 1e-6).poses(0.01) == np.inf


def test_the_range_holds_the_truth():
    """Of noisy curves, most ranges hold the number that the law behind them needs."""
    held = 0
    for seed in range(40):
        random = np.random.default_rng([seed, 9])
        law = PowerLaw(0.0, 1.0, random.uniform(0.3, 0.7))
        found = curve(law, noise=0.02, seed=seed)
        # Errors are measured in the units of the blocks, whose mean is not 1.
        scale = found.means[-1] / law.error(COUNTS[-1])
        needed = found.needed(float(law.error(1600) * scale))
        held += needed.low <= 1600 <= needed.high
    assert held >= 24  # a range of the 10th to 90th percentile holds about 32 of 40


def test_more_poses_are_needed_for_less_error():
    found = curve(PowerLaw(0.01, 1.0, 0.5))
    rows = [found.needed(float(found.means[-1]) * share) for share in (0.9, 0.8, 0.7)]
    assert rows[0].middle < rows[1].middle < rows[2].middle
    for row in rows:
        assert COUNTS[-1] <= row.low <= row.middle <= row.high


def test_words():
    found = curve(PowerLaw(0.0, 1.0, 0.5))
    best = float(found.means[-1])
    assert "is reached with 400 poses" in found.sentence(float(found.means[2]), "cm")
    assert "would need about" in found.sentence(0.85 * best, "cm")
    flat = curve(PowerLaw(1.0, 1.0, 0.5))
    assert "levels off" in flat.sentence(0.3 * float(flat.means[-1]), "cm")
    exact = LearningCurve.of(COUNTS, np.zeros((4, 3)))
    assert "is reached with 100 poses" in exact.sentence(0.1, "cm")


def test_wrong_counts():
    with pytest.raises(InputError, match="3 increasing"):
        LearningCurve.of((100, 200), np.ones((2, 4)))
    with pytest.raises(InputError, match="3 increasing"):
        LearningCurve.of((100, 400, 200), np.ones((3, 4)))


def test_blocks():
    assert len(block_errors(np.ones(100))) == 16
    assert len(block_errors(np.ones(3))) == 3
