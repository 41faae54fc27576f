"""Times of short calls, such as one pose of a deformer, on a machine that does other work too.

Contenders take turns: a block of calls of each, repeated, so that all of them meet the same
disturbances. The figure of a block is its median, the figure of a contender the lowest of its
blocks; the 99th percentile is that of all calls.

Before each block the process pauses until threads that spin after their work have gone to sleep.
Then some calls that do not count bring back into the caches what other contenders evicted. One call
is not enough: a model of 20 MB is slower for four calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly

Call = Callable[[int], object]
Name = TypeVar("Name", bound=Hashable)
_PAUSE_S, _MAX_PAUSES = 0.003, 100
# Calls before each block, or as many as fit into the time: calls of a whole crowd are long.
_WARM_CALLS, _WARM_S = 8, 0.1
_BLOCKS, _POSES = 20, 50  # of several deformers
_QUICK_BLOCKS, _QUICK_POSES = 21, 10  # of one deformer, within a fit


@dataclass(frozen=True)
class Times:
    """Milliseconds of a call: the lowest block median, and the 99th percentile of all calls."""

    ms: float
    p99: float


def take_turns(contenders: Mapping[Name, Call], blocks: int, seconds: float) -> dict[Name, Times]:
    """The times of every contender's call(i), with i counting up from 0.

    blocks   of calls for each contender
    seconds  that all blocks together take, about

    >>> take_turns({"nothing": lambda i: None}, 2, 0.01)["nothing"].ms < 1
    True
    """
    calls = {
        name: _calls_per_block(call, seconds / (blocks * len(contenders)))
        for name, call in contenders.items()
    }
    taken: dict[Name, list[np.ndarray]] = {name: [] for name in contenders}
    for _ in range(blocks):
        for name, call in contenders.items():
            _pause()
            _warm(call)
            taken[name].append(_timed(call, calls[name]))
    return {
        name: Times(
            min(float(np.median(block)) for block in times),
            float(np.percentile(np.concatenate(times), 99)),
        )
        for name, times in taken.items()
    }


def pose_times(
    deformers: Mapping[str, Deformer], poses: Poses, seconds: float
) -> dict[str, dict[str, float]]:
    """Row -> `ms_1` and `ms_2`, milliseconds of one pose on one and on two threads.

    poses    what they play; a deformer with clips plays its own
    seconds  that the measurement takes, about
    """
    contenders = {
        (name, threads): _player(deformer, poses, _POSES, threads)
        for threads in (1, 2)
        for name, deformer in deformers.items()
    }
    times = take_turns(contenders, _BLOCKS, seconds)
    return {
        name: {f"ms_{threads}": times[name, threads].ms for threads in (1, 2)} for name in deformers
    }


def pose_ms(deformer: Deformer, poses: Poses) -> float:
    """Milliseconds of one pose on one thread: the lowest of several block medians.

    poses  what it plays; a deformer with clips plays its own
    """
    play = _player(deformer, poses, _QUICK_POSES, threads=1)
    return min(float(np.median(_timed(play, _QUICK_POSES))) for _ in range(_QUICK_BLOCKS))


def _player(deformer: Deformer, poses: Poses, most: int, threads: int) -> Call:
    """A call that plays pose number i of at most `most`."""
    bones, controls = poses.world_from_bone, poses.controls
    if deformer.clips:
        bones, controls = deformer.clips[0].world_from_bone, None
    few = [None if a is None else a[evenly(len(a), most)] for a in (bones, controls)]
    drivers = [None if a is None else np.ascontiguousarray(a, np.float64) for a in few]
    count = min(len(a) for a in drivers if a is not None)
    out = np.empty((1, deformer.mesh.vertex_count, 3), np.float32)

    def call(i: int) -> object:
        at = slice(i % count, i % count + 1)
        world_from_bone, values = (None if a is None else a[at] for a in drivers)
        return deformer.deform(world_from_bone, values, threads=threads, out=out)

    return call


def _pause() -> None:
    """Sleep until this process uses almost no processor time."""
    for _ in range(_MAX_PAUSES):
        before = time.process_time()
        time.sleep(_PAUSE_S)
        if time.process_time() - before <= 0.1 * _PAUSE_S:
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
    """(count,) milliseconds of each call."""
    marks = np.empty(count + 1)
    marks[0] = time.perf_counter()
    for i in range(count):
        call(i)
        marks[i + 1] = time.perf_counter()
    return np.diff(marks) * 1e3
