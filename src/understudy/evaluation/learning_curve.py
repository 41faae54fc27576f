"""Learning curves: the error over the number of training poses, and how many an error would need.

The error on held-out poses follows a power law with a floor, which more poses do not lower:

    e(n) = floor + factor n^-exponent

A few points do not determine the floor, and the held-out poses are themselves a sample. So many
laws are fitted: to averages over blocks of held-out poses drawn with replacement, each with a floor
drawn from those that explain the points about as well as the best. The range of their answers is
the answer.

Letters: N numbers of poses, S blocks of held-out poses, D draws of blocks, F floors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.evaluation.shading import need_drawing
from understudy.io.atomic_write import atomic_write
from understudy.system import checks
from understudy.system.errors import InputError

BLOCKS = 16  # of held-out poses, which are drawn with replacement
_DRAWS = 400
_FLOORS = 24
# Of the logarithm: how much the error of one fit differs from that of another seed, about.
_NOISE = 0.03
_LIMITS = (10.0, 50.0, 90.0)  # percentiles of the answers: low, middle, high
FARTHEST = 10.0  # times the largest number of poses; nothing is claimed beyond
_COLOUR = "#2f7de1"  # of the picture


@dataclass(frozen=True)
class PowerLaw:
    """e(n) = floor + factor n^-exponent."""

    floor: float
    factor: float
    exponent: float

    def error(self, count: float | np.ndarray) -> np.ndarray:
        """The error with `count` poses."""
        return self.floor + self.factor * np.asarray(count, float) ** -self.exponent

    def poses(self, error: float) -> float:
        """The number of poses for an error; infinite if it is below the floor.

        >>> PowerLaw(0.0, 1.0, 0.5).poses(0.1)
        100.0
        """
        if error <= self.floor or self.exponent <= 0:
            return 0.0 if error >= self.floor + self.factor else float("inf")
        # In logarithms: a flat curve needs a number that no float holds.
        log = np.log(self.factor / (error - self.floor)) / self.exponent
        return float(round(np.exp(log), 9)) if log < 60 else float("inf")


@dataclass(frozen=True)
class Needed:
    """How many poses an error would need: 10th, 50th and 90th percentile of the answers.

    Infinite: that error is not reached by any number, or only far beyond what was measured.
    """

    low: float
    middle: float
    high: float


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Errors of fits to more and more poses.

    counts  (N,) numbers of poses, increasing
    errors  (N,S) mean error of each fit on each block of held-out poses, in model units
    laws    power laws that explain them
    """

    counts: np.ndarray
    errors: np.ndarray
    laws: tuple[PowerLaw, ...]

    @staticmethod
    def of(counts: Sequence[int], errors: np.ndarray, seed: int = 0) -> LearningCurve:
        """The curve of measured errors (N,S) with `counts` poses (N,); N at least 3."""
        n = np.asarray(counts, np.float64)
        errors = checks.shape_of(np.asarray(errors, np.float64), "errors", (len(n), None))
        if len(n) < 3 or (np.diff(n) <= 0).any():
            raise InputError(f"a learning curve needs 3 increasing numbers of poses, got {counts}")
        if not (errors > 0).all():
            return LearningCurve(n, errors, ())
        random = np.random.default_rng(seed)
        blocks = errors.shape[1]
        drawn = random.integers(blocks, size=(_DRAWS, blocks))
        averages = errors[:, drawn].mean(axis=2).T  # (D,N)
        return LearningCurve(n, errors, tuple(_plausible_laws(n, averages, random)))

    @property
    def means(self) -> np.ndarray:
        """(N,) the mean error of each fit."""
        return self.errors.mean(axis=1)

    def band(self, counts: np.ndarray) -> np.ndarray:
        """The 10th, 50th and 90th percentile (3,n) of the predicted errors with `counts` (n,)."""
        return np.percentile([law.error(counts) for law in self.laws], _LIMITS, axis=0)

    def needed(self, error: float) -> Needed:
        """How many poses the mean error `error` would need."""
        answers = np.array([law.poses(error) for law in self.laws])
        if self.means[-1] > error:  # what was measured is not enough, whatever a law says
            answers = np.maximum(answers, self.counts[-1])
        answers[answers > FARTHEST * self.counts[-1]] = np.inf
        # By rank, because infinite answers have no average.
        ordered = np.sort(answers)
        at = [round(limit / 100 * (len(ordered) - 1)) for limit in _LIMITS]
        return Needed(*(float(ordered[k]) for k in at))

    def sentence(self, error: float, unit: str) -> str:
        """What `needed` says, in words."""
        text = f"{error:.3g} {unit}".strip()
        most, best = int(self.counts[-1]), float(self.means[-1])
        if best <= error:
            first = int(self.counts[np.flatnonzero(self.means <= error)[0]])
            return f"{text} is reached with {first} poses (measured)."
        if not self.laws:
            return f"{text}: the curve says nothing about it."
        found = self.needed(error)
        far = f"more than {int(FARTHEST)} x the {most} poses measured"
        if np.isinf(found.low):
            return f"{text} would need {far}, if it is reached at all: the curve levels off."
        if np.isinf(found.middle):
            return (
                f"{text} would need at least {_rounded(found.low)} poses, and probably {far}, or "
                "another method."
            )
        high = far if np.isinf(found.high) else _rounded(found.high)
        return (
            f"{text} would need about {_rounded(found.middle)} poses "
            f"({_rounded(found.low)} to {high})."
        )


def fit_laws(counts: np.ndarray, errors: np.ndarray, floors: np.ndarray) -> tuple[np.ndarray, ...]:
    """Factor and exponent of laws with given floors, and what each leaves: (D,F) each.

    counts  (N,)
    errors  (D,N) of D curves, above zero and above their floors
    floors  (D,F) to try for each curve
    What is left is the root mean square of the difference of the logarithms.
    """
    x = np.log(counts) - np.log(counts).mean()
    y = np.log(errors[:, None] - floors[..., None])  # (D,F,N)
    exponent = -(y @ x) / (x @ x)
    factor = np.exp(y.mean(axis=2) + exponent * np.log(counts).mean())
    predicted = floors[..., None] + factor[..., None] * counts ** -exponent[..., None]
    left = np.log(predicted) - np.log(errors[:, None])
    return factor, exponent, np.sqrt(np.square(left).mean(axis=2))


def _plausible_laws(
    counts: np.ndarray, errors: np.ndarray, random: np.random.Generator
) -> Iterator[PowerLaw]:
    """For each curve (D,N) a law, drawn from those that explain it about as well as the best."""
    floors = errors.min(axis=1, keepdims=True) * np.linspace(0, 0.95, _FLOORS)
    factor, exponent, left = fit_laws(counts, errors, floors)
    fair = left <= np.hypot(left.min(axis=1, keepdims=True), _NOISE)
    chosen = np.where(fair, random.random(fair.shape), -1).argmax(axis=1)
    for draw, place in enumerate(chosen):
        values = (floors[draw, place], factor[draw, place], exponent[draw, place])
        yield PowerLaw(*(float(value) for value in values))


def _rounded(count: float) -> str:
    """A number of poses, rounded up to two digits.

    >>> _rounded(12345.0)
    '13,000'
    """
    size = 10 ** max(0, int(np.floor(np.log10(max(count, 1)))) - 1)
    return f"{int(np.ceil(count / size) * size) if size > 1 else int(np.ceil(count)):,}"


def block_errors(errors: np.ndarray, blocks: int = BLOCKS) -> np.ndarray:
    """The mean (S,) of errors (T,) over consecutive blocks, of which neighbours in time share one.

    >>> block_errors(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [2.0, 5.0]
    """
    parts = np.array_split(np.asarray(errors, np.float64), min(blocks, len(errors)))
    return np.array([part.mean() for part in parts])


def write_picture(path: Path, curve: LearningCurve, unit: str, error: float | None) -> None:
    """Write a PNG of measured errors, laws and `error`, the one asked for, in model units."""
    need_drawing()
    from matplotlib.figure import Figure  # optional dependency

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    end = curve.counts[-1] * 2
    if error is not None and curve.laws:
        middle = curve.needed(error).middle
        end = min(FARTHEST * curve.counts[-1], max(end, 2 * middle))
    if curve.laws:
        counts = np.geomspace(curve.counts[0], end, 100)
        low, middle, high = curve.band(counts)
        axes.fill_between(counts, low, high, color=_COLOUR, alpha=0.18, linewidth=0)
        axes.plot(counts, middle, color=_COLOUR, linewidth=1.2)
        axes.axvspan(curve.counts[-1], end, color="black", alpha=0.04, linewidth=0)
    axes.plot(curve.counts, curve.means, "o", color=_COLOUR, label="measured")
    if error is not None:
        axes.axhline(error, color="black", linewidth=1, linestyle=(0, (5, 2)))
        axes.annotate(f"{error:.3g} {unit}", (curve.counts[0], error), va="bottom", fontsize=9)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda value, _: f"{value:g}" if _leads(value) else "")
    axes.grid(alpha=0.15)
    axes.set_xlabel("training poses (grey: beyond what was measured)")
    axes.set_ylabel(f"mean error on held-out poses, {unit}")
    with atomic_write(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def _leads(value: float) -> bool:
    """Whether a number is 2 or 5 of its decade, which minor ticks show."""
    return round(value / 10 ** np.floor(np.log10(value))) in (2, 5)
