"""Frames of an animation that is stored as keys at times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DEFAULT_RATE = 30.0
_USUAL = (30.0, 24.0, 25.0, 60.0, 50.0, 48.0, 120.0, 100.0, 90.0, 72.0, 240.0)
_BROADCAST = (24000 / 1001, 30000 / 1001, 60000 / 1001)
# Keys further apart than this are poses to interpolate between, not the frames of a recording.
_SLOWEST = 10.0
_FASTEST = 240.0


@dataclass(frozen=True)
class Frames:
    """Which times of an animation are its frames.

    start        seconds, the time of the first frame
    count        frames
    frame_rate   frames per second
    start_frame  the number of the first frame
    """

    start: float
    count: int
    frame_rate: float
    start_frame: int

    @property
    def times(self) -> np.ndarray:
        """Seconds, (count,)."""
        return self.start + np.arange(self.count) / self.frame_rate

    def snapped(self, keys: np.ndarray) -> np.ndarray:
        """Return key times (n,) as the times of the frames that they are within rounding of.

        Files have times of 32 bits. Without this, a step at a frame would be one frame early or
        late.
        """
        at = (keys - self.start) * self.frame_rate
        near = np.rint(at)
        close = np.abs(at - near) < 1e-3 + 3e-7 * np.abs(keys) * self.frame_rate
        return np.where(close, self.start + near / self.frame_rate, keys)


def frames_of(keys: Sequence[np.ndarray], frame_rate: float | None = None) -> Frames:
    """Return the frames of an animation.

    keys        times of the keys of each track, in seconds
    frame_rate  frames per second; None: that of the keys, or 30 where they are irregular

    >>> frames_of([np.array([0.0, 0.5, 1.0])])
    Frames(start=0.0, count=31, frame_rate=30.0, start_frame=0)
    """
    times = np.unique(np.concatenate(keys))
    rate = detected_rate(times) if frame_rate is None else float(frame_rate)
    start, length = float(times[0]), float(times[-1] - times[0])
    # The last frame is the first one at or after the last key.
    count = int(np.ceil(min(length * rate, 2.0**40) - 0.01)) + 1
    return Frames(start, max(1, count), rate, round(start * rate))


def detected_rate(times: np.ndarray) -> float:
    """Return the frame rate on which all key times (n,) fall, or 30.

    >>> detected_rate(np.arange(10) / 24)
    24.0
    """
    if len(times) < 2:
        return DEFAULT_RATE
    since = times - times[0]
    steps = np.diff(times)
    steps = steps[steps > 0.3 / _FASTEST]
    rate = _fitted(since, 1.0 / float(steps.min())) if len(steps) else None
    if rate is None or rate > _FASTEST * 1.01:
        return next((usual for usual in _USUAL if _misfit(since, usual) < 0.02), DEFAULT_RATE)
    if rate >= _SLOWEST:
        return rate
    multiple = lambda usual: abs(usual / rate - round(usual / rate)) < 1e-3
    return next((usual for usual in _USUAL if multiple(usual)), rate * np.ceil(24.0 / rate))


def _fitted(since: np.ndarray, rate: float) -> float | None:
    """Return the rate near `rate` on whose frames all times fall; None: there is none.

    since  (n,) seconds since the first key
    """
    # The rate from one short step is not exact. Counted step by step, its error does not add up,
    # and the whole length then gives a better one.
    frames = np.rint(np.diff(since) * rate).sum()
    if not 1 <= frames < 1e8:
        return None
    better = float(frames / since[-1])
    near = lambda usual: abs(usual - better) < 0.01 * better
    known = [r for r in (*_USUAL, *_BROADCAST, float(round(better))) if r and near(r)]
    best = min(known, key=lambda r: _misfit(since, r), default=better)
    if _misfit(since, best) > max(2e-3, 2 * _misfit(since, better)):
        best = better
    return best if _misfit(since, best) < 0.02 else None


def _misfit(since: np.ndarray, rate: float) -> float:
    """Return how far times (n,) are from frames, at most, in frames."""
    at = since * rate
    return float(np.abs(at - np.rint(at)).max())
