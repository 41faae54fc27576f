"""The time of one pose of every deformer of `bench body`, in turns on the same poses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from understudy.benchmarks.timing import take_turns
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly

_POSES = 50
_BLOCKS = 20


def pose_times(
    deformers: Mapping[str, Deformer], poses: Poses, seconds: float
) -> dict[str, dict[str, float]]:
    """Row -> `ms_1` and `ms_2`, milliseconds of one pose on one and on two threads.

    deformers  row -> deformer
    poses      what they play
    seconds    that the measurement takes, about
    """
    few = poses.take(evenly(poses.pose_count, _POSES))
    _, world_from_bone = few.need_bones("the time of a pose")
    _, controls = few.need_controls("the time of a pose")
    bones = np.ascontiguousarray(world_from_bone, np.float64)
    values = np.ascontiguousarray(controls, np.float64)
    out = np.empty((1, poses.vertex_count, 3), np.float32)

    def call(deformer: Deformer, threads: int) -> Callable[[int], object]:
        return lambda i: deformer.deform(
            bones[i % _POSES : i % _POSES + 1],
            values[i % _POSES : i % _POSES + 1],
            threads=threads,
            out=out,
        )

    contenders = {
        (name, threads): call(deformer, threads)
        for threads in (1, 2)
        for name, deformer in deformers.items()
    }
    times = take_turns(contenders, _BLOCKS, seconds)
    return {
        name: {f"ms_{threads}": times[name, threads].ms for threads in (1, 2)} for name in deformers
    }
