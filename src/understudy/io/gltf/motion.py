"""The motion of a glTF file's nodes and morph weights, sampled at every frame.

A track has the keys of one property of one node, at times in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.poses import unique
from understudy.geometry.transforms import compose
from understudy.io.budget import Budget
from understudy.io.gltf.accessors import Accessors
from understudy.io.gltf.document import Entry
from understudy.io.gltf.own_extras import KEY
from understudy.io.gltf.scene import Scene
from understudy.io.trs import NEARLY_UNIT, PATHS, compose_trs, decompose
from understudy.system.errors import FileError

_WIDTHS = dict(zip(PATHS, (3, 4, 3)))
MAX_FRAMES = 200_000
_NODE = 3000  # bytes for each node of each animation
DEFAULT_RATE = 30.0
_USUAL = (30.0, 24.0, 25.0, 60.0, 50.0, 48.0, 120.0, 100.0, 90.0, 72.0, 240.0)
_BROADCAST = (24000 / 1001, 30000 / 1001, 60000 / 1001)
# Keys further apart than this are poses to interpolate between, not the frames of a recording.
_SLOWEST = 10.0
_FASTEST = 240.0


@dataclass(frozen=True)
class Track:
    """Keys of one property of one node.

    node           index
    path           "translation", "rotation", "scale" or "weights"
    times          (n,) seconds, increasing
    values         (n,width), or (n,3,width) for cubic splines: in-tangent, value, out-tangent
    interpolation  "STEP", "LINEAR" or "CUBICSPLINE"
    """

    node: int
    path: str
    times: np.ndarray
    values: np.ndarray
    interpolation: str

    def sample(self, at: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        """Return the values (F,width) at times `at` (F,); the first and last keys hold.

        keys  (n,) other key times, such as those of frames
        """
        times = self.times if keys is None else keys
        if len(times) == 1:
            only = self.values[0, 1] if self.values.ndim == 3 else self.values[0]
            return np.broadcast_to(only, (len(at), len(only))).copy()
        # A tiny lead keeps a frame that is within rounding before a key on that key.
        step = np.searchsorted(times, at + 1e-9, side="right") - 1
        step = np.clip(step, 0, len(times) - 2)
        span = times[step + 1] - times[step]
        part = np.divide(at - times[step], span, out=np.ones_like(at), where=span > 0)
        part = np.clip(part, 0.0, 1.0)[:, None]
        if self.interpolation == "CUBICSPLINE":
            result = self._spline(step, span[:, None], part)
            result = _unit(result) if self.path == "rotation" else result
        elif self.interpolation == "STEP":
            result = np.where(part >= 1, self.values[step + 1], self.values[step])
        elif self.path == "rotation":
            result = slerp(self.values[step], self.values[step + 1], part)
        else:
            result = (1 - part) * self.values[step] + part * self.values[step + 1]
        return result

    def _spline(self, step: np.ndarray, span: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Return the cubic Hermite spline between keys `step` and `step` + 1 at `part` of it."""
        square, cube = part**2, part**3
        return (
            (2 * cube - 3 * square + 1) * self.values[step, 1]
            + span * (cube - 2 * square + part) * self.values[step, 2]
            + (-2 * cube + 3 * square) * self.values[step + 1, 1]
            + span * (cube - square) * self.values[step + 1, 0]
        )


@dataclass(frozen=True)
class Animation:
    """One animation: its name, its tracks and what its file says about it.

    extras  an object of ours in `extras`, or None
    """

    name: str
    tracks: tuple[Track, ...]
    extras: Entry | None


def read_animations(
    root: Entry,
    accessors: Accessors,
    node_count: int,
    target_count: Callable[[int], int],
    is_wanted: Callable[[str], bool],
) -> list[Animation]:
    """Return the animations of a file that are wanted.

    node_count    nodes of the file
    target_count  gives the number of morph targets of the mesh of a node
    is_wanted     tells whether an animation of that name is to be read
    """
    result = []
    taken: dict[str, int] = {}
    for number, entry in enumerate(root.entries("animations")):
        name = unique(entry.text("name").strip() or f"animation_{number}", taken)
        if not is_wanted(name):
            continue
        samplers = entry.entries("samplers")
        tracks = {}
        for channel in entry.entries("channels"):
            target = channel.entry("target")
            sampler = samplers[channel.integer("sampler", below=len(samplers))]
            if target is None or not target.has("node"):
                continue  # an extension says what it animates
            node, path = target.integer("node", below=node_count), target.text("path")
            width = target_count(node) if path == "weights" else _WIDTHS.get(path)
            if width:
                tracks[node, path] = _track(node, path, width, sampler, accessors)
        extras = entry.entry("extras") if isinstance(entry.data.get("extras"), dict) else None
        ours = extras.entry(KEY) if extras is not None else None
        if tracks:
            result.append(Animation(name, tuple(tracks.values()), ours))
    return result


def slerp(a: np.ndarray, b: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return quaternions (F,4) at `part` (F,1) of the shorter arc from `a` to `b`, both (F,4)."""
    dot = np.sum(a * b, axis=1, keepdims=True)
    b = np.where(dot < 0, -b, b)
    near = np.abs(dot) >= 0.9995  # an arc of less than four degrees is a straight line
    angle = np.arccos(np.where(near, 0.0, np.abs(dot)))
    sine = np.sin(angle)
    along = np.sin((1 - part) * angle) / sine * a + np.sin(part * angle) / sine * b
    straight = np.where((a == b).all(axis=1, keepdims=True), a, _unit((1 - part) * a + part * b))
    return np.where(near, straight, along)


def _track(node: int, path: str, width: int, sampler: Entry, accessors: Accessors) -> Track:
    """Return the track of one sampler."""
    times = accessors.floats(sampler, "input", "SCALAR")[:, 0]
    if not len(times) or (np.diff(times) < 0).any() or np.abs(times).max() > 1e7:
        raise FileError(f"{sampler.where}: key times must increase, from at least one key")
    interpolation = sampler.text("interpolation", "LINEAR")
    if interpolation not in ("STEP", "LINEAR", "CUBICSPLINE"):
        raise sampler.wrong("interpolation", f"unknown interpolation {interpolation[:20]!r}")
    values = accessors.floats(sampler, "output")
    each = 3 if interpolation == "CUBICSPLINE" else 1
    if values.size != len(times) * each * width:
        raise FileError(
            f"{sampler.where}: {len(times)} keys of {each * width} numbers for {path}, but its "
            f"output has {values.size} numbers"
        )
    if np.abs(values).max(initial=0.0) > 1e30:
        raise FileError(f"{sampler.where}: its output has numbers beyond 1e30")
    shape = (len(times), 3, width) if each == 3 else (len(times), width)
    values = values.reshape(shape)
    if path == "rotation":
        lengths = np.linalg.norm(values[:, 1] if each == 3 else values, axis=1)
        if (lengths < 1e-6).any():
            raise FileError(f"{sampler.where}: its output has a quaternion of length zero")
        if each == 1 and np.abs(lengths - 1).max() > NEARLY_UNIT:
            values = values / lengths[:, None]
    return Track(node, path, times, values, interpolation)


def _unit(quaternions: np.ndarray) -> np.ndarray:
    """Return quaternions (F,4) of length one; the identity where there is no length."""
    length = np.linalg.norm(quaternions, axis=1, keepdims=True)
    safe = np.where(length > 1e-12, length, 1.0)
    return np.where(length > 1e-12, quaternions / safe, [0.0, 0.0, 0.0, 1.0])


@dataclass(frozen=True)
class SampledAnimation:
    """One animation at its frames.

    name     of the animation
    frames   which times they are
    globals  node -> (F,3,4), or (1,3,4) if it does not move
    weights  node -> (F,S) weights of the morph targets of its mesh, where they are animated
    """

    name: str
    frames: Frames
    globals: dict[int, np.ndarray]
    weights: dict[int, np.ndarray]


def animation_frames(animation: Animation, frame_rate: float | None) -> Frames:
    """Return the frames of an animation; those of our own files are as they were written.

    frame_rate  frames per second; None: as the file has it
    """
    found = frames_of([track.times for track in animation.tracks], frame_rate)
    ours = animation.extras
    if ours is None:
        return found
    rate, start = ours.number("frame_rate"), int(ours.number("start_frame"))
    count = ours.integer("frame_count", below=MAX_FRAMES + 1)
    last = max(float(track.times[-1]) for track in animation.tracks)
    if not 0 < rate < 1e6 or abs(start) > 1e9 or not count:
        return found
    if abs(last - (count - 1) / rate) > 0.5 / rate and last > 0:
        return found  # another program has changed the keys
    if frame_rate is None:
        return Frames(0.0, count, float(rate), start)
    count = int(np.ceil((count - 1) / rate * frame_rate - 0.01)) + 1
    return Frames(0.0, max(1, count), float(frame_rate), round(start / rate * frame_rate))


def sample(
    animation: Animation,
    scene: Scene,
    needed: list[int],
    wanted: set[int],
    frame_rate: float | None,
    budget: Budget,
) -> SampledAnimation:
    """Return an animation at its frames.

    needed      the nodes of `wanted` and all above them, parents first
    wanted      nodes whose transforms are needed
    frame_rate  frames per second; None: as the file has it
    """
    frames = animation_frames(animation, frame_rate)
    what = f"animation {animation.name!r}"
    if frames.count > MAX_FRAMES:
        raise FileError(
            f"{budget.where}: {what} lasts {frames.count / frames.frame_rate:,.0f} s, which is "
            f"{frames.count:,} frames at {frames.frame_rate:g} frames per second; at most "
            f"{MAX_FRAMES:,} are read: choose a lower frame rate or leave it out"
        )
    by_node: dict[int, dict[str, Track]] = {}
    for track in animation.tracks:
        by_node.setdefault(track.node, {})[track.path] = track
    times = frames.times
    value = lambda track: track.sample(times, frames.snapped(track.times))
    budget.take(len(needed) * _NODE, what)
    result: dict[int, np.ndarray] = {}
    for node in needed:
        local = scene.locals[node][None]
        tracks = by_node.get(node, {})
        if tracks.keys() & set(PATHS):
            budget.take(frames.count * 96, what)
            trs = [
                value(tracks[path]) if path in tracks else rest[None]
                for path, rest in zip(PATHS, decompose(scene.locals[node]))
            ]
            local = compose_trs(*(np.broadcast_to(p, (len(times), p.shape[1])) for p in trs))
        parent = scene.parents[node]
        if parent >= 0:
            budget.take(max(len(local), len(result[parent])) * 96, what)
            local = compose(result[parent], local)
        result[node] = local
    weights = {}
    for node, tracks in by_node.items():
        if "weights" in tracks:
            budget.take(frames.count * tracks["weights"].values.shape[-1] * 32, what)
            weights[node] = value(tracks["weights"])
    kept = {node: result[node] for node in wanted}
    if any(not np.isfinite(moved).all() for moved in kept.values()):
        raise FileError(f"{budget.where}: {what}: the transforms of its nodes overflow")
    return SampledAnimation(animation.name, frames, kept, weights)


def with_ancestors(scene: Scene, nodes: set[int]) -> list[int]:
    """Return nodes and all nodes above them, parents first."""
    result = set(nodes)
    for node in reversed(scene.order):
        if node in result and scene.parents[node] >= 0:
            result.add(scene.parents[node])
    return [node for node in scene.order if node in result]


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
