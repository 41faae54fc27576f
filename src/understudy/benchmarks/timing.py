"""Times of calls that take less than a millisecond, on a machine with other things to do.

Contenders take turns: a block of calls of each, twenty times over, so that all of them meet the
same disturbances. A block's figure is its median, a contender's the lowest of its blocks; the 99th
percentile is that of all its calls. Between blocks there is a rest, until threads that spin after
their work have fallen asleep; then some calls that do not count, in which comes back what others
pushed out of the caches. That takes more than one: a model of 20 MB is slower for four, and those
of every block would be the 99th percentile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

Call = Callable[[int], object]
_REST_S, _MOST_RESTS = 0.003, 100
_WARM_CALLS, _WARM_S = 8, 0.1  # whichever comes first; the second is for crowds


@dataclass(frozen=True)
class Times:
    """Milliseconds of a call: the lowest block median, and the 99th percentile of all calls."""

    ms: float
    p99: float


def take_turns(
    contenders: Mapping[Hashable, Call], blocks: int, seconds: float
) -> dict[Hashable, Times]:
    """Time every contender's call(i), i counting up from 0: `blocks` blocks each, so long that all
    of them together take about `seconds`.

    >>> take_turns({"nothing": lambda i: None}, 2, 0.01)["nothing"].ms < 1
    True
    """
    calls = {
        name: _calls_per_block(call, seconds / (blocks * len(contenders)))
        for name, call in contenders.items()
    }
    taken: dict[Hashable, list[np.ndarray]] = {name: [] for name in contenders}
    for _ in range(blocks):
        for name, call in contenders.items():
            _rest()
            _warm(call)
            taken[name].append(_timed(call, calls[name]))
    return {
        name: Times(
            min(float(np.median(block)) for block in times),
            float(np.percentile(np.concatenate(times), 99)),
        )
        for name, times in taken.items()
    }


def _rest() -> None:
    for _ in range(_MOST_RESTS):
        before = time.process_time()
        time.sleep(_REST_S)
        if time.process_time() - before <= 0.1 * _REST_S:
            return


def _warm(call: Call) -> None:
    end = time.perf_counter() + _WARM_S
    for i in range(_WARM_CALLS):
        call(i)
        if time.perf_counter() > end:
            return


def _calls_per_block(call: Call, seconds: float) -> int:
    call(0)
    one = float(np.median(_timed(call, 3))) / 1e3
    return int(np.clip(seconds / max(one, 1e-7), 3, 400))


def _timed(call: Call, count: int) -> np.ndarray:
    """(count,) milliseconds."""
    marks = np.empty(count + 1)
    marks[0] = time.perf_counter()
    for i in range(count):
        call(i)
        marks[i + 1] = time.perf_counter()
    return np.diff(marks) * 1e3
