"""How many bones a motion needs: as many as can be seen, or as many as made it.

E(B) is the error that B bones leave, in thousandths of half the size of the mesh. It is measured by
quick fits to a sample of the vertices, with few bones first, and never with more bones than the
frames can tell apart: F frames have 3F rows and an affine bone has four columns, so 3F/4.

**Exact skinning.** If the error collapses at some number of bones, the motion was made by that many
bones. More bones than needed are fitted, then removed one by one while the error stays negligible.
An error collapses if half as many bones leave `collapse` times as much. If the file would still be
larger than a quarter of the positions, more bones go while nothing can be seen.

**Any other motion.** The number of bones minimises

    ln E(B) + gamma B

so that a bone must lower the error by more than the share gamma; in form, this is an information
criterion. Bones pay only for what can be seen: there are at most as many as E = `INVISIBLE` takes,
and at least as many as E = `visible` and the bound on the 99th percentile take.

`notes/tuning.md` says which data the constants were set on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.core.poses import evenly
from understudy.geometry.error_norms import box_error
from understudy.methods.decomposition.solve.momentum import Extension
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    in_principal_directions,
    predict,
)
from understudy.methods.decomposition.solve.plan import RIGID, Plan
from understudy.methods.decomposition.solve.pruning import prune_bones, without_one_bone
from understudy.methods.decomposition.solve.solves import (
    no_weights,
    solve_alternating,
    solve_weights,
)
from understudy.methods.decomposition.solve.starts import one_cluster, rigid_start
from understudy.system.progress import SILENT, Progress, Task

MAX_BONES = 64  # the number of labels of the networks
GAMMA = 0.0845  # the share by which a bone must lower the error
INVISIBLE = 0.5  # E below which differences are never seen


@dataclass(frozen=True)
class Counting:
    """When bones suffice, and what is tried; notes/temporal.md and notes/tuning.md say why.

    visible         E above which differences show
    max_p99         99th percentile of the distance, in the unit of E: a hundredth of the size
    exact           E that only a motion made by skinning gets below with few bones
    negligible      bones are removed while E is below this, or below `rise` times that of all bones
    collapse        by how much E falls from half the bones to those of an exact skin
    steep           if E falls faster than B to this power, it may be about to collapse
    overfit         times the bones that leave nothing visible
    first_counts    numbers of bones that are tried first
    resolution      narrower gaps between tried numbers, as a share of them, are not refined
    max_fits        largest number of fits
    smooth_from     bones from which the errors are smoothed
    min_vertices    that determine an affine bone
    sample, detail  vertices of the quick fits, and the share of the motion that they ignore
    iterations      of the quick fits; `pruned_iterations` after a removal
    tries           other bones before a removal is given up, with `last_iterations`
    """

    visible: float = 2.2
    max_p99: float = 20.0
    exact: float = 0.05
    negligible: float = 0.015
    rise: float = 1.2
    collapse: float = 8.0
    steep: float = 2.0
    overfit: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0)
    first_counts: tuple[int, ...] = (2, 4, 8, 12, 16, 24, 32, 48, MAX_BONES)
    resolution: float = 0.1
    max_fits: int = 16
    smooth_from: int = 8
    min_vertices: int = 4
    sample: int = 800
    detail: float = 1e-8
    iterations: int = 25
    pruned_iterations: int = 4
    tries: int = 5
    last_iterations: int = 20
    extension: Extension = field(default=Extension(gain=1.0, factor=1))
    overfit_extension: Extension = field(default=Extension(gain=2e-2, factor=6))


COUNTING = Counting()


@dataclass
class ErrorCurve:
    """E by number of bones, and the 99th percentile of the distances in the same unit."""

    error: dict[int, float] = field(default_factory=dict)
    p99: dict[int, float] = field(default_factory=dict)
    counting: Counting = COUNTING

    def add(self, bones: int, error: float, p99: float = 0.0) -> None:
        self.error[bones], self.p99[bones] = error, p99

    def best(self) -> int:
        """Return the number tried that minimises the criterion; more bones never count as worse."""
        bones, error = self._logarithms()
        return self._bounded(bones, error)

    def smoothed_best(self) -> int:
        """Return the number that minimises the criterion on a smooth curve through all points.

        Single fits are uneven and the criterion is flat around its minimum. For few bones the
        result is `best()`.
        """
        best = self.best()
        bones, error = self._logarithms()
        first = self.counting.smooth_from
        known = bones >= first
        if best < first or known.sum() < 5:
            return best
        every = np.arange(first, bones[-1] + 1)
        smooth = np.polyval(np.polyfit(np.log(bones[known]), error[known], 3), np.log(every))
        return self._bounded(every, smooth)

    def next(self) -> int | None:
        """Return the middle of the wider gap beside the best number; None where both are narrow."""
        bones, best = sorted(self.error), self.best()
        gaps = [
            pair
            for pair in zip(bones, bones[1:])
            if best in pair and pair[1] - pair[0] > max(1, self.counting.resolution * best)
        ]
        if not gaps:
            return None
        below, above = max(gaps, key=lambda pair: pair[1] / pair[0])
        return (below + above) // 2

    def is_steep(self) -> bool:
        """Return whether the error fell steeply between the last two numbers of bones."""
        bones, error = self._logarithms()
        if len(bones) < 2:
            return True
        return bool(error[-2] - error[-1] >= self.counting.steep * np.log(bones[-1] / bones[-2]))

    def _bounded(self, every: np.ndarray, error: np.ndarray) -> int:
        """Return the best of some numbers of bones (n,) with ln E (n,), within its bounds.

        The bounds follow from the errors as measured.
        """
        limits = self.counting
        bones, measured = self._logarithms()
        best = int(every[np.argmin(error + GAMMA * every)])
        between = np.interp(np.log(every), np.log(bones), measured)
        first = lambda holds: int(every[np.argmax(holds)]) if holds.any() else int(every[-1])
        most = first(between <= np.log(INVISIBLE))
        distant = max((count for count in bones if self.p99[count] > limits.max_p99), default=0)
        fewest = first((between <= np.log(limits.visible)) & (every > distant))
        return min(max(best, fewest), max(most, fewest))

    def _logarithms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of bones, and ln E of each."""
        bones = np.array(sorted(self.error))
        lowest = np.minimum.accumulate([self.error[count] for count in bones])
        return bones, np.log(np.maximum(lowest, 1e-6))


@dataclass(frozen=True, eq=False)
class BoneCount:
    """How many bones a motion needs.

    bones       the number
    curve       the errors it was found from
    transforms  (3F,4B) of an exact skin, to start from; None: the motion is not exact skinning
    """

    bones: int
    curve: ErrorCurve
    transforms: np.ndarray | None = None


class QuickFits:
    """Quick affine fits to a sample of the vertices."""

    def __init__(
        self,
        motion: Motion,
        influences: int,
        rounding: float = 0.0,
        counting: Counting = COUNTING,
    ):
        """Prepare fits to `motion`, which is none within its `rounding` error."""
        self._motion, self.influences, self.counting = motion, influences, counting
        reduced, self._directions = in_principal_directions(motion)
        sample = reduced.subset(evenly(reduced.vertex_count, counting.sample))
        paths = motion.targets.reshape(motion.vertex_count, -1, 3)
        about_mean = paths - paths.mean(axis=1, keepdims=True)
        vertex_motion = float((about_mean**2).sum()) / motion.vertex_count
        self.moves = vertex_motion > motion.rows * rounding**2
        self.sample = sample.leading_rows(counting.detail * vertex_motion * sample.vertex_count)
        self._unit = box_error(1.0, motion.rest[:, :3])

    def fit(self, bones: int, extension: Extension | None = None) -> Fit:
        """Return a quick fit of so many bones to the sample."""
        sample = self.sample
        if bones == 1:
            return one_cluster(sample)
        plan = Plan(bones, self.influences, extension=RIGID)
        rigid = rigid_start(self._motion, plan)
        transforms = np.ascontiguousarray(self._directions[:, : sample.rows].T @ rigid)
        fit = solve_weights(sample, transforms, no_weights(sample), plan.search(thorough=True))
        return self.improve(fit, self.counting.iterations, extension)

    def improve(self, fit: Fit, iterations: int, extension: Extension | None = None) -> Fit:
        """Return a fit to the sample after more iterations."""
        plan = Plan(fit.bones, self.influences, extension=extension or self.counting.extension)
        return solve_alternating(self.sample, fit, plan, iterations)

    def error(self, fit: Fit) -> float:
        """Return E of a fit to the sample."""
        values = self.sample.vertex_count * self._motion.rows
        return self._unit * float(np.sqrt(max(fit.error, 0.0) / values))

    def p99(self, fit: Fit) -> float:
        """Return the 99th percentile of the distances in all frames, in the unit of E."""
        left = self.sample.targets - predict(self.sample, fit)
        left = left @ self._directions[:, : self.sample.rows].T
        distance = np.linalg.norm(left.reshape(-1, 3), axis=1)
        return self._unit * float(np.percentile(distance, 99))

    def lightest(self, fit: Fit) -> float:
        """Return the smallest sum of weights of a bone, in vertices of the whole mesh."""
        mass = np.bincount(fit.index.reshape(-1), fit.weight.reshape(-1), fit.bones)
        return float(mass.min()) * self._motion.vertex_count / self.sample.vertex_count

    def in_frames(self, fit: Fit) -> np.ndarray:
        """Return the transforms of a fit to the sample in all frames, (3F,4B)."""
        return np.ascontiguousarray(self._directions[:, : self.sample.rows] @ fit.transforms)


def relative_error(motion: Motion, error: float) -> float:
    """Return E of a squared error of `motion`."""
    return box_error(motion.coordinate_rms(error), motion.rest[:, :3])


def most_bones(motion: Motion) -> int:
    """Return the largest number of bones that the frames and vertices of a motion determine."""
    frames = motion.rows // 3
    return max(1, min(MAX_BONES, motion.vertex_count // COUNTING.min_vertices, 3 * frames // 4))


def small_enough(motion: Motion, influences: int, triangles: int) -> int:
    """Return the largest number of bones whose file is at most a quarter of the positions.

    triangles  their number

    Short sequences have no such limit: their mesh alone may be larger.
    """
    frames, vertices = motion.rows // 3, motion.vertex_count
    if frames < 30:
        return MAX_BONES
    # Bytes of a file: its header, the mesh with its weights, and each bone with its keys.
    mesh = vertices * (6 + influences * 3) + triangles * 7
    left = 12 * frames * vertices / 4 - 2600 - mesh
    return max(1, int(left // (130 + 25 * frames)))


def find_bone_count(
    motion: Motion,
    influences: int,
    rounding: float = 0.0,
    most: int = MAX_BONES,
    progress: Progress = SILENT,
    counting: Counting = COUNTING,
) -> BoneCount:
    """Return the number of bones a motion needs, at most `most_bones`.

    influences  largest number of bones per vertex
    rounding    see `motion.Normalisation`
    most        an exact skin loses bones down to this number while nothing can be seen
    """
    fits, limit = QuickFits(motion, influences, rounding, counting), most_bones(motion)
    with progress.task("deciding the number of bones", counting.max_fits) as bar:
        if not fits.moves:
            return BoneCount(1, ErrorCurve({1: 0.0}, {1: 0.0}))
        curve, exact = _first_fits(fits, limit, bar)
        if exact is not None:
            exact = _shrink(fits, exact, curve, most)
            return BoneCount(exact.bones, curve, fits.in_frames(exact))
        while len(curve.error) < counting.max_fits:
            following = curve.next()
            if following is None:
                break
            _measure(fits, curve, following, bar)
    return BoneCount(curve.smoothed_best(), curve)


def _first_fits(fits: QuickFits, limit: int, bar: Task) -> tuple[ErrorCurve, Fit | None]:
    """Return the errors of some numbers of bones, and the exact skin if there is one."""
    curve, limits = ErrorCurve(counting=fits.counting), fits.counting
    fit = _measure(fits, curve, 1, bar)
    if curve.error[1] <= limits.exact:
        return curve, fit
    for bones in (*(count for count in limits.first_counts if count < limit), limit):
        if bones == 1:
            break
        _measure(fits, curve, bones, bar)
        if curve.error[bones] <= INVISIBLE or 4 * curve.best() <= bones:
            break
    largest = max(curve.error)
    if curve.error[largest] > INVISIBLE or not curve.is_steep():
        return curve, None
    fit = _overfit(fits, largest, limit, bar)
    # Where frames or vertices limit the number of bones, an exact skin may need a few more.
    if fits.error(fit) > (limits.exact if limit < MAX_BONES else limits.negligible):
        return curve, None
    fit = _prune(fits, fit, curve, bar)
    half = fit.bones // 2
    if half not in curve.error:
        _measure(fits, curve, max(1, half), bar)
    collapsed = curve.error[max(1, half)] >= limits.collapse * curve.error[fit.bones]
    return curve, fit if collapsed else None


def _overfit(fits: QuickFits, bones: int, limit: int, bar: Task) -> Fit:
    """Return the fit with the fewest bones whose error is negligible, or else the best one.

    bones  a number that leaves nothing visible
    """
    best: Fit | None = None
    for more in sorted({min(limit, round(factor * bones)) for factor in fits.counting.overfit}):
        bar.note(f"is it exact skinning? Fitting {more} bones")
        fit = fits.fit(more, fits.counting.overfit_extension)
        if best is None or fit.error < best.error:
            best = fit
        if fits.error(best) <= fits.counting.negligible:
            break
    assert best is not None  # there is at least one factor
    return best


def _prune(fits: QuickFits, fit: Fit, curve: ErrorCurve, bar: Task) -> Fit:
    """Return an exact fit with as many bones removed as it stays exact without."""
    curve.add(fit.bones, fits.error(fit))
    limits = fits.counting
    negligible = max(limits.negligible, limits.rise * fits.error(fit))
    while fit.bones > 1:
        # A bone has 12 numbers per frame, a vertex 3: a bone of fewer than four vertices explains
        # less than it costs.
        light = fits.lightest(fit) < limits.min_vertices
        limit = max(negligible, limits.exact) if light else negligible
        less = _with_less(fits, fit, limit)
        curve.add(less.bones, min(fits.error(less), curve.error.get(less.bones, np.inf)))
        bar.note(f"exact skinning: {less.bones} bones, E = {fits.error(less):.2g}")
        if fits.error(less) > limit:
            break
        fit = less
    return fit


def _shrink(fits: QuickFits, fit: Fit, curve: ErrorCurve, most: int) -> Fit:
    """Return an exact fit with at most so many bones, or with as few as leave nothing visible."""
    while fit.bones > max(1, most):
        less = _with_less(fits, fit, INVISIBLE, many=False)
        if fits.error(less) > INVISIBLE:
            break
        fit = less
        curve.add(fit.bones, min(fits.error(fit), curve.error.get(fit.bones, np.inf)))
    return fit


def _with_less(fits: QuickFits, fit: Fit, limit: float, many: bool = True) -> Fit:
    """Return the fit with fewer bones; its error is above `limit` if none was found below.

    many  whether several bones may go at a time, while the error is far below the limit
    """
    removals = (max(1, fit.bones // 8), 1) if fits.error(fit) < limit / 8 and many else (1,)
    for removed in removals:
        less = prune_bones(fits.sample, fit, fit.bones - removed, fits.influences)
        less = fits.improve(less, fits.counting.pruned_iterations)
        if fits.error(less) <= limit:
            return less
    tried = [less]
    for less in without_one_bone(fits.sample, fit, fits.influences, fits.counting.tries):
        tried.append(fits.improve(less, fits.counting.last_iterations))
        if fits.error(tried[-1]) <= limit:
            break
    return min(tried, key=lambda one: one.error)


def _measure(fits: QuickFits, curve: ErrorCurve, bones: int, bar: Task) -> Fit:
    """Fit so many bones, add their error to the curve, and return the fit."""
    fit = fits.fit(bones)
    curve.add(bones, fits.error(fit), fits.p99(fit))
    bar.note(f"{bones} bones leave E = {curve.error[bones]:.3g}")
    bar.advance()
    return fit
