"""Which channels of a Blender rig are controls, how far each is moved, and what it acts through.

Every channel that an animator would use is moved on its own, and the mesh and the bones tell what
it does:

- One that moves nothing is no control, unless it does so in a random pose: a switch between IK and
  FK, or a stretch. One that moves the whole mesh rigidly is none.
- Locations and scales stay at rest, unless an animation moves them, the file declares a range, or
  they turn bones that keep their length (the target of an arm, a scale that curls fingers) or act
  without bones. So does a location that is the main channel of its bone: it moves the mesh further
  than the bone's rotation does (a lip, a brow).
- Bones that are called `tweak`, as those of Rigify, are for corrections of single shots.
- Where a bone that deforms the mesh is moved by none of these, channels without custom shape, then
  hidden ones, then locations and scales are tried until it is.
- A channel whose range nobody declares gets one from how far it moves the mesh, compared with the
  size of the region that it moves.
- A control is numeric if it moves the mesh other than through the bones: the bones stand still, or
  (custom properties, shape keys) skinning by them does not explain the motion. Whether controls of
  bones that bend say more than their matrices is decided by held-out poses.

Values of keyed channels widen the ranges: training must cover the animations of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.rigs.blender.anatomy import natural_turn
from understudy.rigs.blender.effects import (
    STEPS,
    STILL,
    Channel,
    Effect,
    Evaluate,
    RestState,
    Trial,
    factor_of,
    steps_of,
)
from understudy.system.progress import SILENT, Progress

_GROUPS_ABOVE = 150  # channels; above, all channels of a bone are first tried together
_HIDDEN_AT_MOST = 600  # rotations of hidden bones that are tried; of more, those of missing bones
# The largest motion, as a share of the region's size, that a calibrated range reaches.
_LOCATION_SHARE, _ROTATION_SHARE = 0.25, 0.5
_LIMB_SHARE = 0.4  # of a location that turns bones: the target of a limb
# Of most edges that a control deforms, at the end of its range.
_MOST_STRAIN = {"location": 0.25, "rotation": 0.8}
_FARTHEST = 25.0  # steps of a location
_OF_REGION = 0.5  # and of the size of the region that it moves
_MAIN = 0.2  # a location is the main channel of its bone if so much of its motion is more than that
# of a rotation: the mesh around the bone is then small
_LEAST_ANGLE = 5.0  # degrees
# The smaller a region, as a share of the mesh, the further it turns: fingers further than a spine.
_REGIONS, _MOST_ANGLES = (0.1, 0.5), (90.0, 45.0)
_CURL = 90.0  # degrees that a scale which turns bones reaches
_TWEAK = "tweak"
_SWITCH_POSES = 3  # random poses in which silent properties are tried
_SHOWN = 6  # names in a note
# Why a channel is no control.
SILENT_AT_REST = "move nothing"
WHOLE = "move the whole mesh rigidly"
AT_REST = "are locations and scales that turn no bone or stretch it"
TWEAKS = "are of bones for tweaks"


@dataclass(frozen=True, eq=False)
class Calibration:
    """Which channels are controls.

    channels  the channel of each control
    left_out  reason -> names of the channels that are none
    missing   bones that deform the mesh and that no control moves
    deforms   (2,C,Q) which patches of the mesh each control deforms: with switches at rest, and at
              their other ends
    switches  (C,) which controls are switches, that are used at the ends of their range
    """

    controls: ControlSpec
    channels: tuple[Channel, ...]
    left_out: Mapping[str, Sequence[str]]
    missing: Sequence[str]
    deforms: np.ndarray
    switches: np.ndarray

    def said(self) -> Iterator[str]:
        """Sentences about what was left out."""
        if self.missing:
            yield (
                f"Warning: no control moves {_counted(self.missing, 'bone')} that deform the mesh; "
                f"training shows nothing of what they do: {', '.join(self.missing)}"
            )
        for why, names in self.left_out.items():
            more = len(names) - _SHOWN
            shown = ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
            yield f"{_counted(names, 'channel')} {why} and are no controls: {shown}"


def calibrate(
    channels: Sequence[Channel],
    rest: RestState,
    use: Callable[[Sequence[Channel]], Evaluate],
    curves: np.ndarray | None,
    asked: bool,
    progress: Progress = SILENT,
) -> Calibration:
    """Return the controls among `channels`.

    use     channels to set from now on, all others at rest -> what evaluates values (n,C) in
            Blender's units: vertices (n,V,3) and bones (n,B,3,4)
    curves  (T,C) values of the channels in the animations of the file, or None
    asked   whether the user named the channels: those that move the mesh are then all controls
    """
    varying = np.zeros(len(channels), bool) if curves is None else np.ptp(curves, axis=0) > 1e-6
    choice = _Choice(channels, rest, use, varying, asked, progress)
    choice.choose()

    def spec(members: Sequence[int]) -> ControlSpec:
        some = [channels[c] for c in members]
        effects = [choice.effects.get(c) for c in members]
        ranges = [
            _range(channel, rest, effect, None if curves is None else curves[:, c])
            for c, channel, effect in zip(members, some, effects)
        ]
        numeric = [effect is not None and effect.numeric for effect in effects]
        return _spec(some, np.array(ranges).reshape(-1, 2), np.array(numeric, bool), rest.unit)

    switches = choice.switches(spec(sorted(choice.kept)))
    choice.counterparts(switches)
    kept = sorted({*choice.kept, *switches})
    return Calibration(
        spec(kept),
        tuple(channels[c] for c in kept),
        choice.left_out(set(kept)),
        choice.missing(),
        choice.deforms(kept),
        np.isin(kept, switches),
    )


class _Choice:
    """Tries channels, and chooses controls; arguments as in `calibrate`.

    effects  of the channels that were tried
    kept     numbers of the channels that are controls
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        rest: RestState,
        use: Callable[[Sequence[Channel]], Evaluate],
        varying: np.ndarray,
        asked: bool,
        progress: Progress,
    ):
        self._channels, self._rest, self._use = channels, rest, use
        self._varying, self._asked, self._progress = varying, asked, progress
        self.effects: dict[int, Effect] = {}
        self.kept: set[int] = set()
        self._why: dict[int, str] = {}
        # Patches deformed with the switches at their other ends, and what acts there alone.
        self._there: dict[int, np.ndarray] = {}
        self._counterparts: set[int] = set()
        self._of_bone: dict[tuple[str, str], list[int]] = {}
        for c, channel in enumerate(channels):
            if channel.get("bone"):
                self._of_bone.setdefault((channel["owner"], channel["bone"]), []).append(c)

    def choose(self) -> None:
        """Choose all controls but switches."""
        channels = self._channels
        usual = [
            c
            for c, channel in enumerate(channels)
            if self._asked or self._varying[c] or not (channel["left_out"] or _is_tweak(channel))
        ]
        self._why.update((c, TWEAKS) for c, one in enumerate(channels) if _is_tweak(one))
        self._try(usual, "calibrating controls")
        for c in usual:
            effect = self.effects[c]
            if effect.rigid and not self._asked:
                self._why[c] = WHOLE
            elif not effect and not self._varying[c]:
                self._why[c] = SILENT_AT_REST
            elif self._is_free(c) and not self._matters(c):
                self._why[c] = AT_REST
            else:
                self.kept.add(c)
        if not self._asked:
            self._reach(usual)

    def switches(self, spec: ControlSpec) -> list[int]:
        """Silent properties that move something in random poses of the controls chosen so far."""
        silent = [
            c
            for c, effect in self.effects.items()
            if self._channels[c]["kind"] == "property" and not effect and c not in self.kept
        ]
        if not silent or not self.kept:
            return []
        chosen = sorted(self.kept)
        used = [self._channels[c] for c in [*chosen, *silent]]
        evaluate = self._use(used)
        random = np.random.default_rng(0)
        drawn = random.uniform(spec.low, spec.high, (_SWITCH_POSES, spec.count))
        poses = np.tile([channel["rest"] for channel in used], (_SWITCH_POSES, 1)).astype(float)
        poses[:, : len(chosen)] = drawn * [factor_of(self._channels[c]) for c in chosen]
        steps = np.array([steps_of(self._channels[c], self._rest.size)[0] for c in silent])

        def moves(vertices: np.ndarray) -> bool:
            return bool(np.abs(vertices - base).max() > STILL * self._rest.size)

        together = poses.copy()
        together[:, len(chosen) :] += steps
        (base, bones), (moved, _) = evaluate(poses), evaluate(together)
        found = []
        if not moves(moved):
            return []
        with self._progress.task("trying switches", len(silent)) as task:
            for k, c in enumerate(silent):
                row = poses.copy()
                row[:, len(chosen) + k] += steps[k]
                vertices, there = evaluate(row)
                if moves(vertices):
                    still = np.abs(there - bones).max(initial=0.0) < STILL * self._rest.size
                    self.effects[c] = replace(self.effects[c], numeric=still)
                    found.append(c)
                task.advance()
        return found

    def counterparts(self, switches: Sequence[int]) -> None:
        """Add the rotations that act once the switches are at their other ends.

        A file that is saved in IK has FK bones that move nothing, or are hidden.
        """
        if not switches or self._asked:
            return
        tried = [
            c
            for c, channel in enumerate(self._channels)
            if channel["kind"] == "rotation"
            and c not in self.kept
            and not _is_tweak(channel)
            and not self.effects.get(c)
            and channel["left_out"] in ("", "hidden")
        ]
        if not tried or len(tried) > _HIDDEN_AT_MOST:
            return
        ends = [self._switched(self._channels[c]) for c in switches]
        usual = sorted(self.kept)
        used = [self._channels[c] for c in [*tried, *usual]]
        trial = Trial.of([*used, *ends], self._rest, self._use)
        what = "trying the other ends of switches"
        with self._progress.task(what, 2 * len(tried)) as task:
            found = trial.effects([[k] for k in range(len(tried))], task)
        there = {tried[k]: effect for (k,), effect in found if effect and not effect.rigid}
        # A hidden bone that also acts here has nothing to do with a switch.
        self._try([c for c in there if c not in self.effects], "trying hidden bones")
        for c, effect in there.items():
            if not self.effects[c]:
                self._there[c], self.effects[c] = effect.deforms, effect
                self.kept.add(c)
                self._why.pop(c, None)
        # What acts in the same places may do nothing there, as the target of an arm in FK.
        places = np.any([*self._there.values()], axis=0) if self._there else False
        same = [k for k, c in enumerate(usual) if (self.effects[c].deforms & places).any()]
        with self._progress.task(what, 2 * len(same)) as task:
            for (k,), effect in trial.effects([[len(tried) + k] for k in same], task):
                self._there[usual[k - len(tried)]] = effect.deforms
        self._counterparts = {c for c in there if c in self._there}

    def deforms(self, kept: Sequence[int]) -> np.ndarray:
        """(2,C,Q) which patches the controls deform; see `Calibration`."""
        size = len(kept), int(self._rest.patches.max()) + 1
        here = np.array([self.effects[c].deforms for c in kept], bool).reshape(size)
        there = [self._there.get(c, self.effects[c].deforms) for c in kept]
        here[[c in self._counterparts for c in kept]] = False
        return np.stack([here, np.array(there, bool).reshape(size)])

    def _switched(self, channel: Channel) -> Channel:
        """A switch that rests at its other end."""
        return {**channel, "rest": channel["rest"] + steps_of(channel, self._rest.size)[0]}

    def missing(self) -> list[str]:
        """The bones that deform the mesh and that no control moves."""
        return [self._rest.names[int(b)] for b in np.flatnonzero(self._missing())]

    def left_out(self, kept: set[int]) -> dict[str, list[str]]:
        """Reason -> names of the channels that are no controls; kept: with the switches."""
        found: dict[str, list[str]] = {}
        for c, channel in enumerate(self._channels):
            why = self._why.get(c, f"are {channel['left_out']}" if channel["left_out"] else "")
            if c not in kept and why:
                found.setdefault(why, []).append(channel["name"])
        return found

    def _is_free(self, c: int) -> bool:
        """Whether a channel is a location or scale that nothing but its effect makes a control."""
        channel = self._channels[c]
        free = channel["kind"] in ("location", "scale") and channel["range"] is None
        return free and not self._varying[c] and not self._asked

    def _matters(self, c: int) -> bool:
        """Whether a free location or scale does what only it does."""
        channel, effect = self._channels[c], self.effects[c]
        if effect.boneless or effect.bends:
            return bool(effect)
        if channel["kind"] == "scale":
            return False
        turns = [
            self.effects[other].moved
            for other in self._of_bone.get((channel["owner"], channel["bone"]), ())
            if other in self.effects and self._channels[other]["kind"] == "rotation"
        ]
        return _MAIN * effect.moved > max(turns, default=0.0)

    def _missing(self) -> np.ndarray:
        """(B,) bones that deform the mesh and that no control moves beside others."""
        apart = np.zeros(len(self._rest.pairs), bool)
        for c in self.kept:
            apart |= self.effects[c].apart
        reached = np.zeros(len(self._rest.bones), bool)
        reached[self._rest.pairs[apart]] = True
        paired = np.zeros_like(reached)
        paired[self._rest.pairs] = True
        return self._rest.used & paired & ~reached

    def _reach(self, usual: Sequence[int]) -> None:
        """Add channels for bones that no control moves yet, the more usual ones first."""
        free = [c for c in usual if self._is_free(c) and c not in self.kept]
        for why in ("shapeless", "hidden", ""):
            missing = self._missing()
            if not missing.any():
                return
            names = {self._rest.names[int(b)] for b in np.flatnonzero(missing)}
            tried = free
            if why:
                tried = self._of_reason(why, names)
                self._try(tried, f"trying {why} bones")
            pairs = missing[self._rest.pairs].any(axis=1)
            self.kept |= {c for c in tried if (self.effects[c].apart & pairs).any()}

    def _of_reason(self, why: str, missing: set[str]) -> list[int]:
        """Rotations that were left out for a reason; of very many, those of missing bones."""
        found = [
            c
            for c, channel in enumerate(self._channels)
            if channel["left_out"] == why
            and channel["kind"] == "rotation"
            and c not in self.effects
        ]
        if len(found) > _HIDDEN_AT_MOST:
            found = [c for c in found if self._channels[c]["bone"] in missing]
        return found

    def _try(self, members: Sequence[int], what: str) -> None:
        """Find the effects of some channels.

        Free locations, free scales, and all channels of a bone where there are many, are tried
        together first; one by one only if that does anything that matters.
        """
        if not members:
            return
        many = len(members) > _GROUPS_ABOVE
        groups: dict[Any, list[int]] = {}
        for c in members:
            channel = self._channels[c]
            key: tuple[Any, ...] = (c,)
            if self._is_free(c):
                key = (channel["owner"], channel["bone"], channel["kind"])
            elif many and channel["kind"] not in ("property", "shape_key"):
                key = (channel["owner"], channel["bone"])
            groups.setdefault(key, []).append(c)
        trial = Trial.of([self._channels[c] for c in members], self._rest, self._use)
        place = {c: k for k, c in enumerate(members)}
        together = [[place[c] for c in group] for group in groups.values()]
        alone: list[list[int]] = []
        with self._progress.task(what, 2 * len(together)) as task:
            for group, effect in trial.effects(together, task):
                for k in group:
                    self.effects[members[k]] = effect
                first = members[group[0]]
                matters = bool(effect)
                if self._is_free(first) and self._channels[first]["kind"] == "scale":
                    matters = effect.boneless or effect.angle > 0
                if matters and len(group) > 1:
                    alone += [[k] for k in group]
        if alone:
            with self._progress.task(what, 2 * len(alone)) as task:
                for (k,), effect in trial.effects(alone, task):
                    self.effects[members[k]] = effect


def _range(
    channel: Channel, rest_state: RestState, effect: Effect | None, curve: np.ndarray | None
) -> tuple[float, float]:
    """The training range of a control, in its own unit, rounded."""
    step = steps_of(channel, rest_state.size)[0]
    factor, rest, kind = factor_of(channel), channel["rest"], channel["kind"]
    bearable = 1.0  # steps
    if effect:
        bearable = _MOST_STRAIN.get(kind, 1.0) / max(effect.strain, 1e-9)
    if channel["range"] is not None:
        low, high = (end / factor for end in channel["range"])
    elif kind == "location" and effect:
        share = _LIMB_SHARE if effect.bends else _LOCATION_SHARE
        reach = abs(step) * min(_FARTHEST, share * effect.extent / effect.moved, bearable)
        reach = min(reach, _OF_REGION * effect.extent)
        low, high = -reach, reach
    elif kind == "rotation" and effect:
        angle = STEPS["rotation"] * _ROTATION_SHARE * effect.extent / effect.moved
        most = float(np.interp(effect.extent / rest_state.size, _REGIONS, _MOST_ANGLES))
        angle = min(angle * most / min(_MOST_ANGLES), most)
        angle = natural_turn(channel["bone"], channel["axis"]) or angle
        angle = max(min(angle, STEPS["rotation"] * bearable), _LEAST_ANGLE)
        low, high = -angle, angle
    elif kind == "scale":
        low, high = 0.8, 1.25
        if effect and effect.bends:
            reach = STEPS["scale"] * _CURL / max(effect.angle, 1.0)
            low, high = max(0.1, 1 - reach), min(2.0, 1 + reach)
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


def _is_tweak(channel: Channel) -> bool:
    return _TWEAK in (channel.get("bone") or "").lower()


def _counted(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what}{'s' if len(names) > 1 else ''}"
