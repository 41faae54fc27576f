"""How many bones a motion needs.

With D(B) the error that B bones leave, as a share of the motion, the number is where

    g(D(B)) + gamma B,   g(D) = ln D

is lowest: a bone must lower the error by more than gamma of itself, in form an information
criterion. Only sequences that were made by skinning get below `_EXACT`, and there the error goes on
falling until the last of their bones is found, so there a fall counts about twice. Below `_SEEN`
nothing shows any more, and only the plunge of an error that is about to vanish still counts, a
third; below `_NOTHING` nothing does. The constants are set on rigged characters whose number is
known; how many labels a network uses does not tell them apart (see ARCHITECTURE.md). D is found by
quick fits to a sample of the vertices, for a few numbers of bones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.core.progress import SILENT, Progress
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.solve import Quick

MOST = 64  # bones, as many as the networks have labels
_GAMMA = 0.0845
_EXACT, _SEEN, _NOTHING = 3e-3, 3e-4, 1e-6
_COUNTS_EXACT, _COUNTS_UNSEEN = 1.9, 0.29
_LADDER = (2, 4, 8, 12, 16, 24, 32, MOST)
_NEAR = 0.1  # of the number: gaps no wider are not looked into
_MOST_FITS = 16
_SMOOTH_FROM = 8  # bones
_VERTICES = 4  # that a bone needs to be determined at all


@dataclass
class Curve:
    """Shares of the motion that are left, by number of bones."""

    left: dict[int, float] = field(default_factory=dict)

    def lowest(self) -> int:
        """The number, among those tried, at which the criterion is lowest; more bones never count
        as worse than fewer.
        """
        bones, error = self._logs()
        exact, unseen = np.log(_SEEN / _EXACT), np.log(_NOTHING / _EXACT)
        value = (
            np.maximum(error, 0)
            + _COUNTS_EXACT * np.clip(error, exact, 0)
            + _COUNTS_UNSEEN * np.clip(error - exact, unseen - exact, 0)
        )
        return int(bones[np.argmin(value + _GAMMA * bones)])

    def smoothed(self) -> int:
        """The lowest number once more: where the sequence is no exact skin, on a smooth curve
        through all points, because fits are uneven and the criterion is flat around its lowest
        point.
        """
        lowest = self.lowest()
        bones, error = self._logs()
        known = bones >= _SMOOTH_FROM
        if lowest < _SMOOTH_FROM or known.sum() < 5 or error[bones == lowest] < 0:
            return lowest
        every = np.arange(_SMOOTH_FROM, bones[-1] + 1)
        smooth = np.polyval(np.polyfit(np.log(bones[known]), error[known], 3), np.log(every))
        return int(every[np.argmin(smooth + _GAMMA * every)])

    def _logs(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of bones, and ln(D / _EXACT) of each."""
        bones = np.array(sorted(self.left))
        return bones, np.log(
            np.maximum(np.minimum.accumulate([self.left[b] for b in bones]), _NOTHING) / _EXACT
        )

    def next(self) -> int | None:
        """The number to try next: in the middle of the wider gap beside the lowest point, or None
        where both gaps are narrow.
        """
        bones, lowest = sorted(self.left), self.lowest()
        gaps = [
            pair
            for pair in zip(bones, bones[1:])
            if lowest in pair and pair[1] - pair[0] > max(1, _NEAR * lowest)
        ]
        if not gaps:
            return None
        below, above = max(gaps, key=lambda pair: pair[1] / pair[0])
        return (below + above) // 2


def number_of_bones(
    motion: Motion,
    influences: int,
    rounding: float = 0.0,
    progress: Progress = SILENT,
    most: int = MOST,
) -> tuple[int, Curve]:
    """At least one, and never more than a quarter of the vertices; and the curve it was read from.
    rounding: see `decomposition.motion.Frame`.
    """
    most = max(1, min(most, motion.vertex_count // _VERTICES))
    quick, curve = Quick(motion, influences, rounding), Curve()
    with progress.task("counting bones", _MOST_FITS) as bar:

        def fit(bones: int) -> None:
            curve.left[bones] = quick.left(bones)
            bar.note(f"{bones} bones leave {100 * curve.left[bones]:.3g} % of the motion")
            bar.advance()

        fit(1)
        for bones in (*(rung for rung in _LADDER if rung < most), most):
            # More bones cannot leave less than nothing; and it is enough to have tried four times
            # the best number.
            if (
                bones == 1
                or min(curve.left.values()) <= _NOTHING
                or 4 * curve.lowest() <= max(curve.left)
            ):
                break
            fit(bones)
        while len(curve.left) < _MOST_FITS and (bones := curve.next()) is not None:
            fit(bones)
    return curve.smoothed(), curve
