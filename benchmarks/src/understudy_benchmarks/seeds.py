"""Rows of methods that train networks: several seeds and fits at a time, averages and spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np

from understudy.evaluation.result import CaseResult

SPREAD = ("mean", "p99", "max", "mean_pct", "max_pct", "ee")  # figures whose spread is reported

Made = TypeVar("Made")


def at_once(work: Sequence[Callable[[], Made]], jobs: int) -> list[Made]:
    """What each function of `work` returns, in order; `jobs` of them run at a time.

    >>> at_once([lambda: 1, lambda: 2], jobs=2)
    [1, 2]
    """
    if jobs == 1:
        return [make() for make in work]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda make: make(), work))


def averaged(results: Sequence[CaseResult]) -> CaseResult:
    """One row of several seeds: the average of each figure, and standard deviations (`mean_sd`).

    The pictures are those of the first seed.
    """
    if len(results) == 1:
        return results[0]
    shared = set.intersection(*(set(r.figures) for r in results))
    figures = {
        name: float(np.mean([r.figures[name] for r in results]))
        for name in results[0].figures
        if name in shared
    }
    spread = {
        f"{name}_sd": float(np.std([r.figures[name] for r in results], ddof=1))
        for name in SPREAD
        if name in figures
    }
    return replace(results[0], figures={**figures, **spread, "seeds": float(len(results))})
