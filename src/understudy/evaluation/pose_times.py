"""The time of one pose of several deformers, in turns on the same poses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.evaluation.timing import take_turns

_POSES = 50
_BLOCKS = 20


def pose_times(
    deformers: Mapping[str, Deformer], poses: Poses, seconds: float
) -> dict[str, dict[str, float]]:
    """Row -> `ms_1` and `ms_2`, milliseconds of one pose on one and on two threads.

    deformers  row -> deformer
    poses      what they play; a deformer with clips plays its own
    seconds    that the measurement takes, about
    """
    contenders = {
        (name, threads): _call(deformer, poses, threads)
        for threads in (1, 2)
        for name, deformer in deformers.items()
    }
    times = take_turns(contenders, _BLOCKS, seconds)
    return {
        name: {f"ms_{threads}": times[name, threads].ms for threads in (1, 2)} for name in deformers
    }


def _call(deformer: Deformer, poses: Poses, threads: int) -> Callable[[int], object]:
    """A call that plays pose number i."""
    bones, controls = poses.world_from_bone, poses.controls
    if deformer.clips:
        bones, controls = deformer.clips[0].world_from_bone, None
    few = [None if a is None else a[evenly(len(a), _POSES)] for a in (bones, controls)]
    drivers = [None if a is None else np.ascontiguousarray(a, np.float64) for a in few]
    count = min(len(a) for a in drivers if a is not None)
    out = np.empty((1, deformer.mesh.vertex_count, 3), np.float32)

    def call(i: int) -> object:
        at = slice(i % count, i % count + 1)
        world_from_bone, values = (None if a is None else a[at] for a in drivers)
        return deformer.deform(world_from_bone, values, threads=threads, out=out)

    return call
