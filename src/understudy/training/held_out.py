"""Which poses are held out, inside a fit: the rule of each kind of poses, in one place.

    validation_poses   some of a random sample: no network is trained on them
    clips_aside        whole clips of a recording, whose neighbouring frames are alike
    held_out_blocks    blocks of time, to predict from the others

`jobs.split` says what is held out of a fit as a whole, and of clips by the same rule.

Letters: T poses.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    if len(poses.spans) > 1:
        frames = [span.frame_count for span in poses.spans]
        aside = sum(frames[len(frames) - last_clips(frames, wanted) :])
    elif wanted < _FEWEST_FRAMES or not (poses.frame_rate or in_motion(_moved(poses))):
        aside = 0
    else:
        aside = int(np.ceil(wanted))
    return np.arange(count - aside, count)


def last_clips(frames: Sequence[int], wanted: float) -> int:
    """How many of the last clips to hold out: as few as have `wanted` frames together.

    The first is not among them, nor more than half of all frames.

    >>> last_clips([40, 50, 30], 40), last_clips([40, 50, 30], 20), last_clips([40, 50], 20)
    (1, 1, 0)
    """
    clips = total = 0
    for length in reversed(frames[1:]):
        if total >= wanted or total + length > sum(frames) / 2:
            break
        clips, total = clips + 1, total + length
    return clips


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
