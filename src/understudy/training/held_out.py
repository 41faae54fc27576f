"""Which poses are held out, inside a fit: the rule of each kind of poses, in one place.

    validation_poses   some of a random sample: no network is trained on them
    clips_aside        whole clips of a recording, whose neighbouring frames are alike
    held_out_blocks    blocks of time, to predict from the others

`jobs.split` says what is held out of a fit as a whole.

Letters: T poses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.poses import Poses
from understudy.training.schedule import Schedule

_FIRST = 2  # block that is held out
_FEWEST_FRAMES = 8
_ROUNDING = 1e-5  # of the size of a number (at least 1): what varies less is still
_ALIKE = 0.5  # distance of neighbours relative to that of any two poses, in a motion


def held_out_blocks(count: int, blocks: int = 25, every: int = 5) -> np.ndarray:
    """(T,) bool: which of `count` poses are held out: every so many of that many blocks of time.

    In an animation neighbouring frames are nearly equal.
    """
    return np.arange(count) * blocks // max(1, count) % every == _FIRST


def validation_poses(count: int, schedule: Schedule) -> np.ndarray:
    """The validation poses of `count` poses, increasing; empty where too few poses would be left.

    >>> len(validation_poses(100, Schedule(validation_fraction=0.1)))
    10
    """
    count -= schedule.added
    if schedule.mirrored:
        half = validation_poses(count // 2, replace(schedule, mirrored=False, added=0))
        return np.concatenate([half, half + count // 2])
    wanted = round(schedule.validation_fraction * count)
    if not wanted or count - wanted < 1:
        return np.zeros(0, np.int64)
    return np.sort(np.random.default_rng([schedule.seed, 1]).permutation(count)[:wanted])


def clips_aside(poses: Poses, fraction: float) -> np.ndarray:
    """The frames (n,) of recorded clips to keep aside, increasing; empty for a random sample.

    fraction  of the poses to keep aside, at least
    The last clips where there are several, the end of the recording where there is one. A recording
    need not say that it is one: its neighbouring frames are alike.
    """
    count, wanted = poses.pose_count, fraction * poses.pose_count
    none = np.zeros(0, np.int64)
    if not wanted:
        return none
    if len(poses.spans) > 1:
        ends = np.cumsum([span.frame_count for span in poses.spans])
        starts = [int(end - span.frame_count) for end, span in zip(ends, poses.spans)]
        # As few of the last clips as are enough, and never more than half of the poses.
        start = next((s for s in reversed(starts[1:]) if count - s >= wanted), starts[1])
        return none if count - start > count / 2 else np.arange(start, count)
    if wanted < _FEWEST_FRAMES or not (poses.frame_rate or in_motion(_moved(poses))):
        return none
    return np.arange(count - int(np.ceil(wanted)), count)


def in_motion(rows: np.ndarray) -> bool:
    """Whether rows (T,n) are frames of a motion: neighbours are much more alike than others.

    Two rows are taken for a motion: nothing tells that they are random.

    >>> in_motion(np.sin(np.arange(100)[:, None] / 10))
    True
    >>> in_motion(np.random.default_rng(0).normal(size=(100, 3)))
    False
    """
    if len(rows) < 3:
        return True
    size = np.maximum(1, np.abs(rows).max(axis=0, initial=0))
    rows = rows[:, np.ptp(rows, axis=0) > _ROUNDING * size]
    if not rows.shape[1]:
        return False
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    far = rows[np.random.default_rng(0).permutation(len(rows))]
    step = np.median(np.linalg.norm(np.diff(rows, axis=0), axis=1))
    return bool(step < _ALIKE * np.median(np.linalg.norm(rows - far, axis=1)))


def _moved(poses: Poses) -> np.ndarray:
    """What moves the poses: their bones and controls, (T,n)."""
    parts = [np.zeros((poses.pose_count, 0))]
    for values in (poses.world_from_bone, poses.controls):
        if values is not None:
            parts.append(values.reshape(len(values), -1))
    return np.concatenate(parts, axis=1)
