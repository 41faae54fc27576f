"""How many bones a motion needs.

Let D(B) be the error that B bones leave, as a share of the motion. The number of bones minimises

    g(D(B)) + gamma B,   g(D) = ln D

so that a bone must lower the error by more than the share gamma; in form, this is an information
criterion. g has different slopes below three thresholds:
- below `_EXACT`, twice as steep. Only sequences that were made by skinning get there, and their
  error falls until the last bone is found.
- below `_INVISIBLE`, a third as steep. Differences are no longer visible, and only the drop of an
  error that is about to vanish still counts.
- below `_ZERO`, constant.

The constants are calibrated on rigged characters with known numbers of bones and on captured
sequences (`docs/experiments.md`). D is measured by quick fits to a sample of the vertices, for a
few numbers of bones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.core.poses import evenly
from understudy.core.progress import SILENT, Progress
from understudy.methods.decomposition import clusters
from understudy.methods.decomposition.alternating_solve import solve_alternating
from understudy.methods.decomposition.momentum import Extension
from understudy.methods.decomposition.motion import Motion, in_principal_directions
from understudy.methods.decomposition.plan import RIGID, Plan
from understudy.methods.decomposition.starts import rigid_start
from understudy.methods.decomposition.weight_solve import no_weights, solve_weights

MAX_BONES = 64  # the number of labels of the networks
_GAMMA = 0.0845
_EXACT, _INVISIBLE, _ZERO = 3e-3, 3e-4, 1e-6
_EXACT_SLOPE, _INVISIBLE_SLOPE = 1.9, 0.29
_FIRST_COUNTS = (2, 4, 8, 12, 16, 24, 32, MAX_BONES)
_RESOLUTION = 0.1  # gaps between tried numbers that are narrower than this share are not refined
_MAX_FITS = 16
_SMOOTH_FROM = 8  # bones
_MIN_VERTICES = 4  # that determine an affine bone
_SAMPLE, _ITERATIONS, _DETAIL = 800, 25, 1e-8  # of the quick fits
_NO_EXTENSION = Extension(gain=1.0, factor=1)


@dataclass
class ErrorCurve:
    """The share of the motion that remains, by number of bones."""

    remaining: dict[int, float] = field(default_factory=dict)

    def best(self) -> int:
        """Return the number, among those tried, that minimises the criterion.

        More bones never count as worse than fewer.
        """
        bones, error = self._logarithms()
        invisible, zero = np.log(_INVISIBLE / _EXACT), np.log(_ZERO / _EXACT)
        value = (
            np.maximum(error, 0)
            + _EXACT_SLOPE * np.clip(error, invisible, 0)
            + _INVISIBLE_SLOPE * np.clip(error - invisible, zero - invisible, 0)
        )
        return int(bones[np.argmin(value + _GAMMA * bones)])

    def smoothed_best(self) -> int:
        """Return the number that minimises the criterion on a smooth curve through all points.

        Single fits are uneven and the criterion is flat around its minimum. For sequences that are
        an exact skin, and for few bones, the result is `best()`.
        """
        best = self.best()
        bones, error = self._logarithms()
        known = bones >= _SMOOTH_FROM
        if best < _SMOOTH_FROM or known.sum() < 5 or error[bones == best] < 0:
            return best
        every = np.arange(_SMOOTH_FROM, bones[-1] + 1)
        smooth = np.polyval(np.polyfit(np.log(bones[known]), error[known], 3), np.log(every))
        return int(every[np.argmin(smooth + _GAMMA * every)])

    def next(self) -> int | None:
        """Return the number to try next, or None where the gaps around the best are narrow.

        It is the middle of the wider gap beside the best number.
        """
        bones, best = sorted(self.remaining), self.best()
        gaps = [
            pair
            for pair in zip(bones, bones[1:])
            if best in pair and pair[1] - pair[0] > max(1, _RESOLUTION * best)
        ]
        if not gaps:
            return None
        below, above = max(gaps, key=lambda pair: pair[1] / pair[0])
        return (below + above) // 2

    def _logarithms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of bones, and ln(D / _EXACT) of each."""
        bones = np.array(sorted(self.remaining))
        lowest = np.minimum.accumulate([self.remaining[count] for count in bones])
        return bones, np.log(np.maximum(lowest, _ZERO) / _EXACT)


class QuickFits:
    """Quick affine fits to a sample of the vertices."""

    def __init__(self, motion: Motion, influences: int, rounding: float = 0.0):
        """Prepare fits to `motion`.

        influences  largest number of bones per vertex
        rounding    see `motion.Normalisation`; a motion within it counts as none
        """
        self._motion, self._influences = motion, influences
        reduced, self._directions = in_principal_directions(motion)
        sample = reduced.subset(evenly(reduced.vertex_count, _SAMPLE))
        paths = motion.targets.reshape(motion.vertex_count, -1, 3)
        about_mean = paths - paths.mean(axis=1, keepdims=True)
        self._vertex_motion = float((about_mean**2).sum()) / motion.vertex_count
        self._moves = self._vertex_motion > motion.rows * rounding**2
        self._sample = sample.leading_rows(_DETAIL * self._vertex_motion * sample.vertex_count)

    def remaining(self, bones: int) -> float:
        """Return the error of `bones` bones as a share of the motion about each vertex's mean.

        Both are root mean squares.
        """
        if not self._moves:
            return 0.0
        sample = self._sample
        if bones == 1:
            fit = clusters.one_cluster(sample)
        else:
            plan = Plan(bones, self._influences, extension=RIGID)
            rigid = rigid_start(self._motion, plan)
            transforms = np.ascontiguousarray(self._directions[:, : sample.rows].T @ rigid)
            fit = solve_weights(sample, transforms, no_weights(sample), plan.search(thorough=True))
            fit = solve_alternating(
                sample,
                fit,
                Plan(fit.bones, self._influences, extension=_NO_EXTENSION),
                _ITERATIONS,
            )
        return float(np.sqrt(max(fit.error, 0.0) / (sample.vertex_count * self._vertex_motion)))


def find_bone_count(
    motion: Motion,
    influences: int,
    rounding: float = 0.0,
    progress: Progress = SILENT,
) -> tuple[int, ErrorCurve]:
    """Return the number of bones a motion needs, and the errors it was found from.

    influences  largest number of bones per vertex
    rounding    see `motion.Normalisation`

    There is at most one bone per four vertices, and at most `MAX_BONES`.
    """
    max_bones = max(1, min(MAX_BONES, motion.vertex_count // _MIN_VERTICES))
    fits, curve = QuickFits(motion, influences, rounding), ErrorCurve()
    with progress.task("counting bones", _MAX_FITS) as bar:

        def measure(bones: int) -> None:
            curve.remaining[bones] = fits.remaining(bones)
            bar.note(f"{bones} bones leave {100 * curve.remaining[bones]:.3g} % of the motion")
            bar.advance()

        measure(1)
        for bones in (*(count for count in _FIRST_COUNTS if count < max_bones), max_bones):
            exact = min(curve.remaining.values()) <= _ZERO
            far_beyond = 4 * curve.best() <= max(curve.remaining)
            if bones == 1 or exact or far_beyond:
                break
            measure(bones)
        while len(curve.remaining) < _MAX_FITS:
            following = curve.next()
            if following is None:
                break
            measure(following)
    return curve.smoothed_best(), curve
