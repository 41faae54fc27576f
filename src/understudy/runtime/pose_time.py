"""The time of one pose of a deformer on one thread."""

from __future__ import annotations

import time

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly

_POSES, _BLOCKS, _CALLS = 10, 21, 10


def pose_ms(deformer: Deformer, poses: Poses) -> float:
    """Return milliseconds of one pose on one thread: the lowest of several block medians.

    poses  what it plays; a deformer with clips plays its own
    """
    if deformer.clips:
        clip = deformer.clips[0].world_from_bone
        bones, controls = clip[evenly(len(clip), _POSES)], None
    else:
        few = evenly(poses.pose_count, _POSES)
        bones = None if poses.world_from_bone is None else poses.world_from_bone[few]
        controls = None if poses.controls is None else poses.controls[few]
    count = len(bones if bones is not None else controls if controls is not None else [0])
    bones, controls = (
        None if a is None else np.ascontiguousarray(a, np.float64) for a in (bones, controls)
    )
    out = np.empty((1, deformer.mesh.vertex_count, 3), np.float32)
    medians = []
    for _ in range(_BLOCKS):
        taken = []
        for call in range(_CALLS):
            at = slice(call % count, call % count + 1)
            start = time.perf_counter()
            deformer.deform(
                None if bones is None else bones[at],
                None if controls is None else controls[at],
                threads=1,
                out=out,
            )
            taken.append(time.perf_counter() - start)
        medians.append(float(np.median(taken)))
    return 1e3 * min(medians)
