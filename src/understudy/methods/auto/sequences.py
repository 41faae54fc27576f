"""Mesh sequences in `auto`: the number of bones, the influences, and one layer or two.

The bytes of a candidate are known before it is fitted. Its error and time are predicted:

    error(bones, family) ~ ratio(family) * curve(bones)

where the curve is interpolated, on logarithmic axes, between fits of one family, and the ratio of a
family is that of its last fit, or a usual one. The walk fits the candidate that is predicted to be
the best, corrects the prediction, and ends when that candidate is one that was fitted.

Letters: V vertices, T frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from understudy.core.poses import Poses
from understudy.methods.auto.budget import Measured
from understudy.methods.auto.candidates import Candidate, few
from understudy.methods.auto.walk import Walk

BONES = (4, 6, 8, 12, 16, 20, 28, 40, 56, 80)
_CHEAP_ITERATIONS = 8
_FINISH = 8
_MOST_FITS = 6
_WORTH_A_FIT = 0.92  # a predicted cost, relative to the best that was found
_CAUTION = 0.06  # added to predicted errors for every fit that missed the budget
_SLOPES = -2.5, -0.3  # of the error over the number of bones, on logarithmic axes


@dataclass(frozen=True)
class Family:
    """Skins of one kind.

    method   its registered name
    options  of its config
    floats   numbers of a vertex, with its rest position
    error    usual error, relative to the first family
    time     usual time, relative to the first family
    """

    method: str
    options: Mapping[str, int]
    floats: float
    error: float = 1.0
    time: float = 1.0


# Two layers have 2 or 3 virtual bones per vertex, and one blending operation for these.
FAMILIES: Mapping[str, Family] = {
    "ssdr-2": Family("ssdr", {"influences": 2}, 7),
    "ssdr-1": Family("ssdr", {"influences": 1}, 5, 2.0, 0.8),
    "ssdr-3": Family("ssdr", {"influences": 3}, 9, 0.8, 1.3),
    "ssdr-4": Family("ssdr", {"influences": 4}, 11, 0.7, 1.5),
    "two_layer-3": Family("two_layer", {"bones_per_vertex": 3}, 9, 0.68, 1.05),
    "two_layer-4": Family("two_layer", {"bones_per_vertex": 4}, 11, 0.52, 1.2),
}
_FIRST = next(iter(FAMILIES))


@dataclass(frozen=True)
class SequenceCandidate(Candidate):
    """A number of bones of a family.

    bones   their number
    family  a name in `FAMILIES`
    """

    bones: int = 1
    family: str = _FIRST


def sequence_candidate(bones: int, family: str, seed: int) -> SequenceCandidate:
    """The candidate with so many bones."""
    kind = FAMILIES[family]
    options = {"seed": seed, "bones": bones, **kind.options}
    if kind.method == "two_layer":
        options["finish"] = _FINISH
    cheap = {"iterations": _CHEAP_ITERATIONS} if kind.method == "ssdr" else None
    return SequenceCandidate(f"{family}/{bones}", kind.method, options, cheap, bones, family)


def sequence_candidates(poses: Poses, seed: int, levels: int | None) -> list[SequenceCandidate]:
    """All candidates for a sequence; levels: upper limit of numbers of bones, None: all."""
    counts = few(tuple(b for b in BONES if b <= poses.vertex_count) or (1,), levels)
    return [sequence_candidate(b, family, seed) for family in FAMILIES for b in counts]


@dataclass(eq=False)
class Prediction:
    """Predicts error, bytes and time of candidates from the fits that were made.

    vertices, frames  V and T of the sequence
    """

    vertices: int
    frames: int
    _errors: dict[int, float] = field(default_factory=dict)
    _ratios: dict[str, float] = field(default_factory=dict)
    _times: dict[str, float] = field(default_factory=dict)

    def learn(self, candidate: SequenceCandidate, made: Measured) -> None:
        """Take a fit into account."""
        self._times[candidate.family] = made.ms
        if candidate.family == _FIRST or not self._errors:
            self._errors[candidate.bones] = made.error / FAMILIES[candidate.family].error
        else:
            self._ratios[candidate.family] = made.error / max(self._curve(candidate.bones), 1e-30)

    def of(self, candidate: SequenceCandidate) -> Measured:
        """The prediction of a candidate."""
        family = FAMILIES[candidate.family]
        ratio = self._ratios.get(candidate.family, family.error)
        values = family.floats * self.vertices + 12 * candidate.bones * self.frames
        times = [ms / FAMILIES[name].time for name, ms in self._times.items()]
        ms = self._times.get(candidate.family, family.time * float(np.mean(times or [0.0])))
        return Measured(candidate.name, ratio * self._curve(candidate.bones), 4.0 * values, ms)

    def _curve(self, bones: int) -> float:
        """The error of the first family."""
        known = sorted(self._errors)
        if len(known) < 2:
            only = known[0]
            return self._errors[only] * only / bones
        # The two fits around the number of bones, or the two nearest.
        right = int(np.clip(np.searchsorted(known, bones), 1, len(known) - 1))
        a, b = known[right - 1], known[right]
        logs = [np.log(max(self._errors[n], 1e-30)) for n in (a, b)]
        slope = float(np.clip((logs[1] - logs[0]) / np.log(b / a), *_SLOPES))
        if bones <= a:
            return float(np.exp(logs[0] + slope * np.log(bones / a)))
        return float(np.exp(logs[1] + slope * np.log(bones / b)))


def walk_sequence(run: Walk, candidates: list[SequenceCandidate], poses: Poses) -> list[Measured]:
    """The whole fits that the walk made; `budget.best` of them is the result."""
    budget, fits = run.budget, run.fits
    prediction = Prediction(poses.vertex_count, poses.pose_count)
    first = [one for one in candidates if one.family == _FIRST]
    for start in {len(first) // 4, (2 * len(first)) // 3}:
        prediction.learn(first[start], fits.cheap(first[start]))
    known: dict[str, Measured] = {}
    while len(known) < _MOST_FITS and not run.must_stop:
        caution = 1 + _CAUTION * sum(budget.excess(made) > 1 for made in known.values())
        guesses = []
        for one in candidates:
            made = known.get(one.name)
            if made is None:
                made = prediction.of(one)
                made = Measured(made.name, caution * made.error, made.bytes, made.ms)
            guesses.append(made)
        best = budget.best(guesses)
        if best.name in known:
            break
        if run.kept and budget.cost(best) > _WORTH_A_FIT * budget.cost(budget.best(run.found)):
            break
        chosen = next(one for one in candidates if one.name == best.name)
        known[best.name] = run.add(fits.whole(chosen))
        prediction.learn(chosen, known[best.name])
    return run.found
