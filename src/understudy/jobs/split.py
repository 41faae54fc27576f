"""Which recorded poses are kept out of a fit, so that its error is measured on poses it never saw.

Whole clips where there are several, the end of the animation where there is one, and the last poses
of a random sample. Neighbouring frames of one motion look alike; poses picked from between the
training frames would therefore give an error that is too low.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.poses import Poses
from understudy.rigs.base import Rig, animation_curves, animation_names
from understudy.system import checks
from understudy.system.errors import InputError

FRACTION = 0.15  # of the poses
_FEWEST = 8  # poses to fit and to measure
_GROWTH = 4  # the least ratio of the largest and the smallest of several subsets


@dataclass(frozen=True)
class AnimationSplit:
    """Animations of a rig to sample around, and those to measure on.

    around  names of the first
    until   the share of their frames, from the start, that is sampled around
    tests   name -> its first frame that is measured
    note    one sentence that says which those are; "": every animation is measured, none sampled
    """

    around: tuple[str, ...]
    until: float
    tests: Mapping[str, int]
    note: str


def split_animations(rig: Rig, held_out: Sequence[str] = ()) -> AnimationSplit:
    """Return the animations of a rig divided into those to sample around and those to measure on.

    held_out  names of the animations to measure on; empty: the last ones, as many as are a seventh
              of all frames, or the end of a single one
    """
    names = check_held_out(rig, held_out)
    frames = {name: len(animation_curves(rig, name)[0]) for name in names}
    total = sum(frames.values())
    tests = dict.fromkeys(held_out or _last(frames), 0)
    around = tuple(name for name in names if name not in tests)
    shown = ", ".join(name for name in names if name in tests)
    if tests and not around:
        return AnimationSplit((), 1.0, tests, "")
    if tests:
        note = f"Sampled around {', '.join(around)}; measured on {shown}, which took no part."
        return AnimationSplit(around, 1.0, tests, note)
    if total < 2 * _FEWEST:
        return AnimationSplit((), 1.0, dict.fromkeys(names, 0), "")
    until = 1 - max(_FEWEST / total, FRACTION)
    tests = {name: round(until * frames[name]) for name in names}
    note = (
        f"Sampled around the first {100 * until:.0f} % of {', '.join(names)}; measured on the rest."
    )
    return AnimationSplit(names, until, tests, note)


def check_held_out(rig: Rig, held_out: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a rig's animations; raise unless those in `held_out` are among them."""
    names = animation_names(rig)
    for name in held_out:
        checks.one_of(name, "animation to hold out", names)
    return names


@dataclass(frozen=True, eq=False)
class Split:
    """Poses to fit, poses to measure on by name, and one sentence that says which those are."""

    fit: Poses
    held_out: dict[str, Poses]
    note: str


def split_poses(poses: Poses, clips: Sequence[str] = ()) -> Split:
    """Return `poses` divided into those to fit and those to measure on.

    clips  names of the clips to measure on; empty: chosen, see the module's docstring

    >>> from understudy.rigs import load_rig
    >>> rig = load_rig("tube")
    >>> poses = rig.evaluate(np.tile(rig.controls.rest, (100, 1)))
    >>> split_poses(poses).fit.pose_count
    85
    """
    if clips:
        return _by_name(poses, clips)
    if poses.pose_count < 2 * _FEWEST:
        raise InputError(
            f"{poses.name!r} holds {poses.pose_count} poses; at least {2 * _FEWEST} are needed to "
            "learn from some and to measure on others. Give more poses, or fit all of them with "
            "`understudy fit`"
        )
    frames = {span.name: span.frame_count for span in poses.spans}
    chosen = _last(frames)
    if sum(frames[name] for name in chosen) >= _FEWEST:
        return _by_name(poses, chosen)
    count = max(_FEWEST, int(np.ceil(FRACTION * poses.pose_count)))
    start = poses.pose_count - count
    what = "random poses" if poses.frame_rate is None else f"frames of {poses.name!r}"
    return Split(
        poses.between(0, start),
        {f"{poses.name}/held-out": poses.between(start, poses.pose_count)},
        f"Measured on the last {count} {what}, which took no part in the fit.",
    )


def _last(frames: Mapping[str, int]) -> list[str]:
    """Return the last of some clips, given with their lengths, that are enough to measure on.

    The first is not among them, nor more than half of all frames.
    """
    chosen: list[str] = []
    total, count = sum(frames.values()), 0
    for name, length in reversed(list(frames.items())[1:]):
        if count < max(_FEWEST, FRACTION * total) and count + length <= total / 2:
            chosen.append(name)
            count += length
    return chosen[::-1]


def nested_subsets(poses: Poses, count: int, smallest: int) -> list[np.ndarray]:
    """Numbers of poses (n,), increasing, each subset about twice as large as the one before.

    count     number of subsets; the last is all poses
    smallest  upper limit of the size of the first

    Whole clips where there are enough of them, the start of the poses elsewhere: frames picked from
    between others would look like more data than they are.

    >>> from understudy.rigs import load_rig
    >>> rig = load_rig("tube")
    >>> poses = rig.evaluate(np.tile(rig.controls.rest, (80, 1)))
    >>> [len(chosen) for chosen in nested_subsets(poses, 3, 40)]
    [20, 40, 80]
    """
    total = poses.pose_count
    ends = np.cumsum([span.frame_count for span in poses.spans], dtype=int)
    if len(ends) > count:
        wanted = total / 2.0 ** np.arange(count - 1, -1, -1)
        # The number of clips nearest to each size, each at least one more than the last.
        clips: list[int] = []
        for place, size in enumerate(wanted):
            nearest = int(np.abs(ends - size).argmin())
            left = len(ends) - (count - place)
            clips.append(min(max(nearest, clips[-1] + 1 if clips else 0), left))
        return [np.arange(ends[clip]) for clip in clips]
    first = min(smallest, total / 2.0 ** (count - 1))
    sizes = np.unique(np.round(np.geomspace(max(first, _FEWEST), total, count)).astype(int))
    if len(sizes) < 3 or sizes[-1] < _GROWTH * sizes[0]:
        raise InputError(
            f"{poses.name!r} has {total} poses to fit, too few for {count} subsets; give more poses"
        )
    return [np.arange(size) for size in sizes]


def _by_name(poses: Poses, clips: Sequence[str]) -> Split:
    """Return the split with these clips held out."""
    known = tuple(span.name for span in poses.spans)
    if not known:
        raise InputError(f"{poses.name!r} is one clip, so {clips[0]!r} cannot be held out of it")
    for name in clips:
        checks.one_of(name, "clip to hold out", known)
    if set(clips) >= set(known):
        raise InputError("every clip is held out; leave at least one to learn from")
    ends = np.cumsum([0, *(span.frame_count for span in poses.spans)])
    ranges = {name: (int(ends[k]), int(ends[k + 1])) for k, name in enumerate(known)}
    kept = [ranges[name] for name in known if name not in clips]
    if kept[-1][1] - kept[0][0] == sum(b - a for a, b in kept):
        fit = poses.between(kept[0][0], kept[-1][1])
    else:
        fit = poses.take(np.concatenate([np.arange(a, b) for a, b in kept]))
    frames = sum(ranges[name][1] - ranges[name][0] for name in clips)
    return Split(
        fit,
        {name: poses.between(*ranges[name], name=name) for name in clips},
        f"Measured on {', '.join(clips)} ({frames} frames), which took no part in the fit.",
    )
