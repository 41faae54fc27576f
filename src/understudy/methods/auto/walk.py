"""The walk along the frontier: which candidates are fitted, cheaply or wholly, and which one wins.

Bytes and time of a candidate hardly depend on how long it was trained, so a cheap fit tells them.
Its error is that of the whole fit times a factor that is about the same for all levels. So the
walk bisects the levels by cheap fits and fits the chosen level wholly. Components that the budget
does not need are then left out (`shrinking.py`), which takes no training. A neighbour is fitted
only if the level misses the error, or if most of its components were needless.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from understudy.methods.auto.budget import Budget, Measured
from understudy.methods.auto.candidates import Candidate, Candidates

# Error of a whole fit relative to a cheap one, until one of each was made.
_FIRST_GAIN = 0.5
# The error of a level should be this share of the budget: what is left is spent on components.
_ROOM = 0.9
# A smaller level is tried if no more than this share of the components is needed.
_MOSTLY_NEEDLESS = 0.35
# Usual error of a skin of two layers, relative to four influences: its weights may be negative.
_TWO_LAYERS = 0.8
# A level may have so many times the bytes or the time of the budget: components will be left out.
_SHRINKABLE = 1.25


class Fits(Protocol):
    """Fits candidates and measures them on poses that took no part."""

    def whole(self, candidate: Candidate) -> Measured:
        """Fit a candidate with all poses."""

    def cheap(self, candidate: Candidate) -> Measured:
        """Fit a candidate with few poses and epochs."""

    def shrunk(self, candidate: Candidate, budget: Budget) -> Measured:
        """Leave components of a whole fit out, as many as a budget asks for or allows."""

    @property
    def out_of_time(self) -> bool:
        """Whether no further fit should begin."""


class Walk:
    """One walk: the whole fits that it made, in order.

    show  is called with these after every whole fit
    own   what needs no fit
    """

    def __init__(
        self,
        budget: Budget,
        fits: Fits,
        show: Callable[[list[Measured]], None] = lambda found: None,
        own: Measured | None = None,
    ):
        self.budget, self.fits, self._show = budget, fits, show
        self.found: list[Measured] = []
        if own is not None:
            self.add(own)

    def add(self, made: Measured) -> Measured:
        """Remember a fit."""
        self.found.append(made)
        self._show(self.found)
        return made

    @property
    def kept(self) -> bool:
        """Whether something keeps the budget."""
        return any(self.budget.excess(one) <= 1 for one in self.found)

    @property
    def must_stop(self) -> bool:
        """Whether the time is over and there is something to hand back."""
        return self.fits.out_of_time and bool(self.found)


def walk(run: Walk, candidates: Candidates) -> list[Measured]:
    """The whole fits that the walk made; `budget.best` of them is the result."""
    budget, fits = run.budget, run.fits
    skins = _fitted_skins(run, candidates)
    layered, levels = candidates.layered, candidates.levels
    # A plain skin is cheaper than any correctives.
    if not levels or run.must_stop or (budget.max_error is not None and run.kept):
        return run.found
    if budget.max_error is None:
        fitted = _largest_within(run, levels)
        if not fitted and layered is not None and not budget.too_costly(skins[0]):
            run.add(fits.whole(layered))
    else:
        _smallest_accurate(run, levels)
        for other in candidates.others:
            if run.kept or run.must_stop or budget.too_costly(fits.cheap(other)):
                break
            if run.add(fits.whole(other)).error <= (budget.error_limit or 0.0):
                run.add(fits.shrunk(other, budget))
    return run.found


def _fitted_skins(run: Walk, candidates: Candidates) -> list[Measured]:
    """Fit all plain skins, and wider ones and that of two layers if they may be worth it."""
    skins = [run.add(run.fits.whole(skin)) for skin in candidates.skins]
    if candidates.wide is not None and not run.must_stop and _worth_more(run.budget, skins):
        run.add(run.fits.whole(candidates.wide))
    layered = candidates.layered
    if layered is not None and not run.must_stop and worth_two_layers(run.budget, skins):
        run.add(run.fits.whole(layered))
    return skins


def _worth_more(budget: Budget, skins: list[Measured]) -> bool:
    """Whether a skin of more influences may have a lower error that is asked for."""
    if not skins or budget.too_costly(skins[0]):
        return False
    return budget.error_limit is None or skins[0].error > budget.error_limit


def worth_two_layers(budget: Budget, skins: list[Measured]) -> bool:
    """Whether a skin of two layers may keep a budget that one layer does not.

    skins  those of 4, 2 and 1 bones per vertex
    Each doubling of the influences lowers the error by a share of what the last one did; that
    series ends at the error of all bones.
    """
    if len(skins) != 3 or budget.too_costly(skins[0]):
        return False
    four, two, one = (skin.error for skin in skins)
    last, before = two - four, one - two
    share = min(last / before, 0.9) if before > 0 else 0.9
    least = min(four - max(last, 0.0) * share / (1 - share), _TWO_LAYERS * four)
    return budget.error_limit is not None and least <= budget.error_limit < four


def _largest_within(run: Walk, levels: tuple[Candidate, ...]) -> bool:
    """Fit the largest level whose bytes and time are near the budget, and shrink it to that.

    Returns whether one keeps the budget.
    """
    budget, fits = run.budget, run.fits
    wide = budget.widened(_SHRINKABLE)
    low, high = 0, len(levels)
    while low < high and not fits.out_of_time:
        middle = (low + high) // 2
        if wide.too_costly(fits.cheap(levels[middle])):
            high = middle
        else:
            low = middle + 1
    # Even if the smallest level is far above the budget, it may fit with few components.
    smallest = budget.widened(2 * _SHRINKABLE)
    if low == 0 and run.kept and (run.must_stop or smallest.too_costly(fits.cheap(levels[0]))):
        return False
    level = levels[max(low - 1, 0)]
    made = run.add(fits.whole(level))
    if budget.too_costly(made):
        made = run.add(fits.shrunk(level, budget))
    return not budget.too_costly(made)


def _smallest_accurate(run: Walk, levels: tuple[Candidate, ...]) -> None:
    """Fit the smallest level whose error is well within the budget, and shrink it to that."""
    budget, fits = run.budget, run.fits
    limit = budget.error_limit or 0.0
    gain = _FIRST_GAIN
    cheap: dict[int, Measured] = {}

    def predicted(level: int) -> float:
        if level not in cheap:
            cheap[level] = fits.cheap(levels[level])
        return gain * cheap[level].error

    low, high = 0, len(levels) - 1
    while low < high and not fits.out_of_time:
        middle = (low + high) // 2
        if predicted(middle) <= _ROOM * limit:
            high = middle
        else:
            low = middle + 1
    level, tried = low, set[int]()
    while level not in tried and not run.must_stop:
        tried.add(level)
        if len(levels) > 1:
            predicted(level)  # a cheap fit of the same level says how much a whole one gains
        made = run.add(fits.whole(levels[level]))
        if level in cheap and cheap[level].error > 0:
            gain = made.error / cheap[level].error
        if made.error > limit:
            # Larger levels cost more, so they do not help where the cost is the obstacle too.
            if level + 1 == len(levels) or budget.too_costly(made):
                return
            level += 1
            # A cheap fit takes less time than a whole one that misses the error too.
            while level + 1 < len(levels) and not run.must_stop and predicted(level) > limit:
                level += 1
            continue
        small = run.add(fits.shrunk(levels[level], budget))
        needless = small.kept_share < _MOSTLY_NEEDLESS
        if not needless or level == 0 or level - 1 in tried or fits.out_of_time:
            return
        if predicted(level - 1) > limit:
            return
        level -= 1
