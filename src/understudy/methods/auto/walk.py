"""The walk along the frontier: which candidates are fitted, cheaply or wholly, and which one wins.

Bytes and time of a candidate hardly depend on how long it was trained, so a cheap fit tells them.
Its error is that of the whole fit times a factor that is about the same for all levels. So the
walk bisects the levels by cheap fits, fits the chosen level wholly, and then moves to its
neighbours as long as that can pay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from understudy.methods.auto.budget import Budget, Measured
from understudy.methods.auto.candidates import Candidate, Candidates

# Error of a whole fit relative to a cheap one, until one of each was made.
_FIRST_GAIN = 0.6
# A neighbour is worth a whole fit if its predicted error is within this factor of the budget.
_HOPE = 1.05


class Fits(Protocol):
    """Fits candidates and measures them on poses that took no part."""

    def whole(self, candidate: Candidate) -> Measured:
        """Fit a candidate with all poses."""

    def cheap(self, candidate: Candidate) -> Measured:
        """Fit a candidate with few poses and epochs."""

    @property
    def out_of_time(self) -> bool:
        """Whether no further fit should begin."""


def walk(
    budget: Budget,
    candidates: Candidates,
    fits: Fits,
    show: Callable[[list[Measured]], None] = lambda found: None,
) -> list[Measured]:
    """The whole fits that the walk made; `budget.best` of them is the result.

    show  is called with these after every whole fit
    """
    found: list[Measured] = []

    def whole(candidate: Candidate) -> Measured:
        found.append(fits.whole(candidate))
        show(found)
        return found[-1]

    for skin in candidates.skins:
        whole(skin)
    levels = candidates.levels
    if budget.max_error is not None and any(budget.excess(one) <= 1 for one in found):
        return found  # a plain skin is cheaper than any correctives
    if not levels or (found and fits.out_of_time):
        return found
    if budget.max_error is None:
        _largest_within(budget, levels, fits, whole, bool(found))
    else:
        _smallest_accurate(budget, levels, fits, whole, bool(found))
    return found


def _largest_within(
    budget: Budget,
    levels: tuple[Candidate, ...],
    fits: Fits,
    whole: Callable[[Candidate], Measured],
    anything: bool,
) -> None:
    """Fit the largest level whose bytes and time are within the budget.

    anything  whether some whole fit exists, so that there may be none of a level
    """
    low, high = 0, len(levels)
    while low < high and not fits.out_of_time:
        middle = (low + high) // 2
        if budget.too_costly(fits.cheap(levels[middle])):
            high = middle
        else:
            low = middle + 1
    # Whole fits may cost a little more than cheap ones.
    for level in range(low - 1, -1, -1):
        if not budget.too_costly(whole(levels[level])) or fits.out_of_time:
            return
    if low == 0 and not anything:
        whole(levels[0])


def _smallest_accurate(
    budget: Budget,
    levels: tuple[Candidate, ...],
    fits: Fits,
    whole: Callable[[Candidate], Measured],
    anything: bool,
) -> None:
    """Fit the smallest level whose error is within the budget, and neighbours that might be.

    anything  whether some whole fit exists, so that the walk may end before its first
    """
    gain = _FIRST_GAIN
    limit = budget.max_error or 0.0
    cheap: dict[int, Measured] = {}

    def predicted(level: int) -> float:
        if level not in cheap:
            cheap[level] = fits.cheap(levels[level])
        return gain * cheap[level].error

    low, high = 0, len(levels) - 1
    while low < high and not fits.out_of_time:
        middle = (low + high) // 2
        if predicted(middle) <= limit:
            high = middle
        else:
            low = middle + 1
    level, tried = low, set[int]()
    while level not in tried and not (fits.out_of_time and (tried or anything)):
        tried.add(level)
        predicted(level)  # a cheap fit of the same level says how much a whole one gains
        made = whole(levels[level])
        if cheap[level].error > 0:
            gain = made.error / cheap[level].error
        accurate = budget.excess(made) <= 1 or (made.error <= limit and budget.too_costly(made))
        below, above = level - 1, level + 1
        if accurate and below >= 0 and below not in tried and not fits.out_of_time:
            if predicted(below) > _HOPE * limit:
                return
            level = below
        elif not accurate and above < len(levels) and not budget.too_costly(made):
            level = above
        else:
            return
