"""Which channels of a Blender rig are controls, how far each is moved, and what it acts through.

Every channel is moved on its own, and the mesh tells what it does:

- One that moves nothing is dropped, and so is one that moves the whole mesh rigidly.
- A channel whose range nobody declares gets one from how far it moves the mesh, compared with the
  size of the region that it moves.
- A control is numeric if it moves the mesh other than through the bones: the bones stand still, or
  (bendy bones, custom properties, shape keys) skinning by them does not explain the motion.

Values of keyed channels widen the ranges: training must cover the animations of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.geometry.transforms import apply, compose, inverse
from understudy.system.progress import SILENT, Progress, Task

Channel = Mapping[str, Any]
Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

_BATCH = 8
_GROUPS_ABOVE = 150  # channels; above, all channels of a bone are first tried together
_STILL = 1e-5  # of the size of the mesh: vertices that move less stand still
_REGION = 0.05  # of the largest motion: vertices that move more are the region of a control
# The largest motion, as a share of the region's size, that a calibrated range reaches.
_LOCATION_SHARE, _ROTATION_SHARE = 0.25, 0.5
_FARTHEST = 25.0  # steps of a location
_LEAST_ANGLE, _MOST_ANGLE = 5.0, 45.0  # degrees
_UNEXPLAINED = 1e-4  # of the size: a control is numeric if skinning misses its motion by more
STEPS = {"location": 0.01, "rotation": 10.0, "scale": 0.2}  # location: of the size


@dataclass(frozen=True)
class RestState:
    """A rig at rest.

    vertices  (V,3), and bones (B,3,4), of the bind pose
    size      of the mesh
    unit      of lengths
    weights   bone weights as (vertex, bone, weight), or None where they do not apply
    bendy     whether bones bend, so that their matrices do not tell their shape
    """

    vertices: np.ndarray
    bones: np.ndarray
    size: float
    unit: str
    weights: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    bendy: bool


@dataclass(frozen=True)
class Calibration:
    """Controls, the channel of each, and sentences about what was dropped."""

    controls: ControlSpec
    channels: tuple[Channel, ...]
    notes: tuple[str, ...]


def factor_of(channel: Channel) -> float:
    """Return what a control's value is multiplied with for Blender: angles are in degrees."""
    return float(np.pi / 180) if channel["kind"] == "rotation" else 1.0


def calibrate(
    channels: Sequence[Channel],
    rest: RestState,
    evaluate: Evaluate,
    curves: np.ndarray | None,
    asked: bool,
    progress: Progress = SILENT,
) -> Calibration:
    """Return the controls among `channels`.

    evaluate  values (n,C) in Blender's units -> vertices (n,V,3) and bones (n,B,3,4)
    curves    (T,C) values of the channels in the animations of the file, or None
    asked     whether the user named the channels: those that move the whole mesh then stay
    """
    values = np.array([channel["rest"] for channel in channels], np.float64)
    if not channels:
        return Calibration(_spec([], np.zeros((0, 2)), np.zeros(0, bool), ""), (), ())
    base_vertices, base_bones = (array[0] for array in evaluate(values[None]))
    measure = _Measure(rest, base_vertices, base_bones)
    steps = np.array([_steps(channel, rest.size) for channel in channels])
    trial = _Trial(values, steps, measure, evaluate)
    alive = np.arange(len(channels))
    if len(channels) > _GROUPS_ABOVE:
        alive = _moving_groups(channels, trial, progress)
    effects = _effects(channels, alive, trial, progress)
    varying = np.zeros(len(channels), bool) if curves is None else np.ptp(curves, axis=0) > 1e-6
    kept, still, whole = [], [], []
    for c, channel in enumerate(channels):
        effect = effects.get(c)
        if not varying[c] and not effect:
            still.append(channel["name"])
        elif effect and effect.rigid and not asked:
            whole.append(channel["name"])
        else:
            kept.append(c)
    curve = lambda c: None if curves is None else curves[:, c]
    ranges = np.array(
        [_range(channels[c], steps[c, 0], effects.get(c), curve(c)) for c in kept]
    ).reshape(len(kept), 2)
    numeric = np.array([c in effects and effects[c].numeric for c in kept], bool)
    chosen = tuple(channels[c] for c in kept)
    notes = _dropped(still, "move nothing at rest") + _dropped(whole, "move the whole mesh rigidly")
    return Calibration(_spec(chosen, ranges, numeric, rest.unit), chosen, tuple(notes))


@dataclass(frozen=True)
class _Effect:
    """What one channel does: largest motion, size of the region, and the kind of motion."""

    moved: float
    extent: float
    rigid: bool
    numeric: bool

    def __bool__(self) -> bool:
        """Whether it moves anything."""
        return self.extent > 0


class _Measure:
    """Compares poses with the rig at rest."""

    def __init__(self, rest: RestState, vertices: np.ndarray, bones: np.ndarray):
        self._rest, self._vertices, self._bones = rest, vertices.astype(np.float64), bones
        self._skinned = self._skin(bones)

    def moves(self, vertices: np.ndarray) -> bool:
        """Whether any vertex (V,3) moved."""
        motion = np.abs(vertices - self._vertices).max()
        return bool(motion > _STILL * self._rest.size)

    def effect(self, vertices: np.ndarray, bones: np.ndarray, channel: Channel) -> _Effect:
        """The effect of a channel that moved the mesh to `vertices` and the bones to `bones`."""
        motion = vertices - self._vertices
        length = np.linalg.norm(motion, axis=1)
        moved = float(length.max())
        if moved < _STILL * self._rest.size:
            return _Effect(moved, 0.0, False, False)
        region = self._rest.vertices[length > _REGION * moved]
        extent = max(moved, float(np.linalg.norm(np.ptp(region, axis=0))))
        rigid = bool(length.min() > _REGION * moved) and self._is_rigid(vertices, moved)
        return _Effect(moved, extent, rigid, self._is_numeric(motion, bones, channel))

    def _is_rigid(self, vertices: np.ndarray, moved: float) -> bool:
        """Whether one rotation and translation explains all motion."""
        before, after = self._vertices, vertices.astype(np.float64)
        a, b = before - before.mean(0), after - after.mean(0)
        u, _, vt = np.linalg.svd(a.T @ b)
        turn = u @ np.diag([1, 1, np.sign(np.linalg.det(u @ vt))]) @ vt
        return bool(np.abs(a @ turn - b).max() < 0.01 * moved)

    def _is_numeric(self, motion: np.ndarray, bones: np.ndarray, channel: Channel) -> bool:
        if not len(bones):
            return True
        change = np.abs(bones - self._bones)
        still = change[:, :, :3].max() < 1e-6 and change[:, :, 3].max() < 1e-6 * self._rest.size
        if still:
            return True
        if not (self._rest.bendy or channel["kind"] in ("property", "shape_key")):
            return False
        skinned = self._skin(bones)
        if skinned is None or self._skinned is None:
            return channel["kind"] == "shape_key"
        left = np.linalg.norm(motion - (skinned - self._skinned), axis=1)
        return bool(left.max() > _UNEXPLAINED * self._rest.size)

    def _skin(self, bones: np.ndarray) -> np.ndarray | None:
        """The rest vertices skinned by `bones` with the weights of the file."""
        if self._rest.weights is None or not len(bones):
            return None
        vertex, bone, weight = self._rest.weights
        rest = self._rest.vertices
        moves = compose(bones, inverse(self._rest.bones))
        total = np.bincount(vertex, weight, len(rest))
        placed = apply(moves[bone], rest[vertex]) * weight[:, None]
        result = np.stack(
            [np.bincount(vertex, placed[:, axis], len(rest)) for axis in range(3)], axis=1
        )
        held = total > 0
        result[held] = result[held] / total[held, None]
        result[~held] = rest[~held]
        return result


@dataclass(frozen=True)
class _Trial:
    """How channels are tried: rest values (C,), and two steps (C,2), one in each direction."""

    values: np.ndarray
    steps: np.ndarray
    measure: _Measure
    evaluate: Evaluate

    def poses(
        self, groups: Sequence[Sequence[int]], way: int, task: Task
    ) -> Iterator[tuple[Sequence[int], np.ndarray, np.ndarray]]:
        """Yield each group, with vertices and bones at the pose of its channels moved together."""
        for start in range(0, len(groups), _BATCH):
            some = groups[start : start + _BATCH]
            rows = np.tile(self.values, (len(some), 1))
            for k, group in enumerate(some):
                rows[k, group] += self.steps[group, way]
            yield from zip(some, *self.evaluate(rows))
            task.advance(len(some))


def _effects(
    channels: Sequence[Channel], alive: np.ndarray, trial: _Trial, progress: Progress
) -> dict[int, _Effect]:
    """The effect of each channel of `alive`; in the second direction if the first has none."""
    effects: dict[int, _Effect] = {}
    with progress.task("calibrating controls", 2 * len(alive)) as task:
        for way in (0, 1):
            left = [c for c in alive if trial.steps[c, way] and not effects.get(int(c))]
            task.advance(len(alive) - len(left))
            for (c,), vertices, bones in trial.poses([[c] for c in left], way, task):
                effects[int(c)] = trial.measure.effect(vertices, bones, channels[c])
    return effects


def _moving_groups(channels: Sequence[Channel], trial: _Trial, progress: Progress) -> np.ndarray:
    """The channels of bones that move something when all channels of the bone are moved."""
    groups: dict[Any, list[int]] = {}
    for c, channel in enumerate(channels):
        alone = channel["kind"] in ("property", "shape_key")
        key = (c,) if alone else (channel["owner"], channel["bone"])
        groups.setdefault(key, []).append(c)
    left: list[Sequence[int]] = list(groups.values())
    found: list[Sequence[int]] = []
    with progress.task("finding controls", 2 * len(left)) as task:
        for way in (0, 1):
            still: list[Sequence[int]] = []
            for group, vertices, _ in trial.poses(left, way, task):
                (found if trial.measure.moves(vertices) else still).append(group)
            task.advance(len(groups) - len(left))
            left = still
    return np.array(sorted(c for group in found for c in group), np.int64)


def _steps(channel: Channel, size: float) -> tuple[float, float]:
    """How far a channel is moved to see what it does, in Blender's units: one way, the other way.

    The first is the larger one; the second is 0 where the range has only one side.
    """
    pair, rest, kind = channel["range"], channel["rest"], channel["kind"]
    if pair is not None:
        near, far = sorted((end - rest for end in pair), key=abs)
        return float(far), float(near)
    if kind == "property":
        return 1.0, -1.0
    step = STEPS[kind] * (size if kind == "location" else factor_of(channel))
    return step, -step


def _range(
    channel: Channel, step: float, effect: _Effect | None, curve: np.ndarray | None
) -> tuple[float, float]:
    """The training range of a control, in its own unit, rounded."""
    factor, rest, kind = factor_of(channel), channel["rest"], channel["kind"]
    if channel["range"] is not None:
        low, high = (end / factor for end in channel["range"])
    elif kind == "location" and effect:
        reach = abs(step) * min(_FARTHEST, _LOCATION_SHARE * effect.extent / effect.moved)
        low, high = -reach, reach
    elif kind == "rotation" and effect:
        angle = STEPS["rotation"] * _ROTATION_SHARE * effect.extent / effect.moved
        angle = float(np.clip(angle, _LEAST_ANGLE, _MOST_ANGLE))
        low, high = -angle, angle
    elif kind == "scale":
        low, high = 0.8, 1.25
    else:
        low, high = rest / factor, rest / factor
    if curve is not None:
        low, high = min(low, curve.min() / factor), max(high, curve.max() / factor)
    if channel["limits"] is not None:
        low, high = (float(np.clip(end, *channel["limits"])) for end in (low, high))
    return _rounded(low), _rounded(high)


def _rounded(value: float) -> float:
    """Three significant digits: the same on every machine, and easy to edit."""
    return float(f"{value:.3g}")


def _spec(
    channels: Sequence[Channel], ranges: np.ndarray, numeric: np.ndarray, unit: str
) -> ControlSpec:
    wide = {"location": 1e6, "rotation": 1e5, "scale": 1e6, "property": 1e6}
    limits = np.array(
        [c["limits"] or (-wide.get(c["kind"], 1e6), wide.get(c["kind"], 1e6)) for c in channels]
    ).reshape(len(channels), 2)
    units = {"location": "" if unit == "unitless" else unit, "rotation": "deg"}
    return ControlSpec(
        tuple(channel["name"] for channel in channels),
        low=ranges[:, 0],
        high=ranges[:, 1],
        rest=np.array([channel["rest"] / factor_of(channel) for channel in channels]),
        limit_low=np.minimum(limits[:, 0], ranges[:, 0]),
        limit_high=np.maximum(limits[:, 1], ranges[:, 1]),
        units=tuple(units.get(channel["kind"], "") for channel in channels),
        numeric=numeric,
    )


def _dropped(names: Sequence[str], why: str) -> list[str]:
    if not names:
        return []
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return [f"{len(names)} channels {why} and are no controls: {shown}"]
