"""Control values to sample: the poses of a rig that a method learns from.

Follows section 3.4 of "Fast and Deep Deformation Approximations" (Bailey et al. 2018): every
control is drawn independently from a Gaussian over its range, and values outside are drawn again.
`mixture` is the paper's bimodal sampling (a walking and a flying mode); `around` samples near
animations.

All values are drawn from one seed before any pose is evaluated. A sample therefore does not depend
on the number of processes, the block size or interruptions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from understudy.core.controls import CHANNEL, ControlSpec, is_range
from understudy.core.poses import evenly
from understudy.io.numbers import of_file
from understudy.rigs.base import LocalRig, Rig, animation_curves, animation_names, name_of
from understudy.system import checks
from understudy.system.errors import FileError, InputError


class Mode(NamedTuple):
    """One way a character moves, such as walking or flying.

    weight  how often it is drawn, relative to the other modes
    ranges  control name -> (low, high), where they differ from the training ranges
    """

    weight: float
    ranges: Mapping[str, tuple[float, float]]


# Of the range. The text of section 3.4 aligns 1.5 standard deviations with it; its equation 8 has
# 1.5 ranges, which is nearly uniform. The text argues that poses near the ends should be rarer.
SIGMA = 1 / 3
_SWITCHED = 0.5  # of the random poses: switches are at their other ends


def range_of_motion_values(spec: ControlSpec, most: int) -> np.ndarray:
    """Control values (R,C) float64: rest, then each control alone at its low and high end.

    most  upper limit of R; with fewer, some controls are left out

    >>> range_of_motion_values(ControlSpec(("a", "b"), [-1.0, 0.0], [1.0, 0.0]), 9).tolist()
    [[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]
    """
    ends = np.stack([spec.low, spec.high], axis=1)  # (C,2)
    control, end = np.nonzero((ends != spec.rest[:, None]) & (spec.low < spec.high)[:, None])
    kept = evenly(len(control), max(0, most - 1))
    values = np.tile(spec.rest.astype(np.float64), (1 + len(kept), 1))
    values[1 + np.arange(len(kept)), control[kept]] = ends[control[kept], end[kept]]
    return values


def gaussian(spec: ControlSpec, count: int, seed: int, sigma: float = SIGMA) -> np.ndarray:
    """Control values (count,C) float64: independent truncated Gaussians over the training ranges.

    sigma  standard deviation as a share of the range; the mean is (low+high)/2
    Values outside the range are drawn again. A control with low == high is constant.

    >>> gaussian(ControlSpec(("knee",), [0.0], [150.0]), 3, seed=0).shape
    (3, 1)
    """
    checks.between(sigma, "sigma", above=0)
    low = np.broadcast_to(spec.low, (_count(count), spec.count))
    return _truncated(_generator(seed), low, spec.high, sigma)


def mixture(
    spec: ControlSpec,
    modes: Sequence[tuple[float, Mapping[str, tuple[float, float]]]],
    count: int,
    seed: int,
    sigma: float = SIGMA,
) -> np.ndarray:
    """Control values (count,C) float64: each pose picks a mode and is drawn as in `gaussian`.

    modes  [(weight, {control: (low, high)}), ...]
    """
    if not modes:
        raise InputError(
            "modes: expected at least one mode, got none; for a sample without modes use `gaussian`"
        )
    for m, (weight, _) in enumerate(modes):
        checks.between(weight, f"weight of mode {m}", above=0)
    weights = np.array([weight for weight, _ in modes], float)
    specs = [_with_mode(spec, ranges, f"mode {m}") for m, (_, ranges) in enumerate(modes)]
    random = _generator(seed)
    chosen = random.choice(len(modes), size=_count(count), p=weights / weights.sum())
    low, high = (np.stack([getattr(s, end) for s in specs])[chosen] for end in ("low", "high"))
    return _truncated(random, low, high, sigma)


def around(
    spec: ControlSpec,
    animations: Sequence[np.ndarray],
    count: int,
    spread: float,
    seed: int | np.random.SeedSequence,
    noisy: np.ndarray | bool = True,
) -> np.ndarray:
    """Control values (count,C) float64 near random moments of animations, within the rig's limits.

    animations  control curves (T,C); a moment lies between two neighbouring frames of one curve
    spread      width of the noise added to a moment, as a share of the training range: 0 gives the
                animation itself
    noisy       (count,C) which values differ from the moment; True: all
    """
    checks.between(spread, "spread", low=0)
    curves = [spec.check(curve) for curve in animations]
    if not sum(len(curve) for curve in curves):
        raise InputError("animations: there are no frames to sample around")
    frames = np.concatenate(curves)
    lengths = [len(curve) for curve in curves]
    # A step leads from each frame to the next, but not from the last frame of one curve to the
    # first of another.
    following = np.minimum(np.arange(len(frames)) + 1, np.repeat(np.cumsum(lengths), lengths) - 1)
    starts = np.flatnonzero(following > np.arange(len(frames)))
    if not starts.size:  # curves of a single frame: nothing to interpolate
        starts = np.arange(len(frames))
    random = _generator(seed)
    start = random.choice(starts, size=_count(count))
    part = random.random(count)[:, None]
    moment = (1 - part) * frames[start] + part * frames[following[start]]
    half = np.broadcast_to(spread * (spec.high - spec.low) / 2, moment.shape)
    noise = np.where(noisy, _truncated(random, -half, half), 0.0)
    return np.clip(moment + noise, spec.limit_low, spec.limit_high)


def control_groups(spec: ControlSpec) -> np.ndarray:
    """The group (C,) of each control: those of one bone move together.

    >>> control_groups(ControlSpec(("arm.rot.x", "arm.rot.y", "jaw"), [0] * 3, [1] * 3)).tolist()
    [0, 0, 1]
    """
    numbers: dict[str, int] = {}
    bones = [CHANNEL.sub("", name) for name in spec.names]
    return np.array([numbers.setdefault(bone, len(numbers)) for bone in bones], int)


def apart(
    deforms: np.ndarray, groups: np.ndarray, crowd: int, count: int, random: np.random.Generator
) -> np.ndarray:
    """(count,G) which groups of controls act in each pose, in random order while there is room.

    deforms  (C,Q) which patches of the mesh each control deforms
    groups   (C,) of each control
    crowd    groups that may deform one patch

    >>> apart(np.eye(2, dtype=bool), np.arange(2), 1, 1, np.random.default_rng(0)).tolist()
    [[True, True]]
    """
    acts = np.zeros((groups.max(initial=-1) + 1, deforms.shape[1]), bool)
    np.logical_or.at(acts, groups, deforms)
    order = random.permuted(np.tile(np.arange(len(acts)), (count, 1)), axis=1)
    chosen, used = np.zeros(order.shape, bool), np.zeros((count, acts.shape[1]), np.int16)
    for group in order.T:
        room = ~(acts[group] & (used >= crowd)).any(axis=1)
        chosen[np.flatnonzero(room), group[room]] = True
        used += acts[group] & room[:, None]
    return chosen


def read_modes(path: str | Path, spec: ControlSpec) -> dict[str, Mode]:
    """The modes in a TOML file by name, checked against the controls of `spec`.

    [walk]
    weight = 3
    [walk.ranges]
    wing_L = [0, 10]

    [fly]                # weight 1 where none is given
    [fly.ranges]
    wing_L = [20, 80]
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"{path}: no such modes file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise FileError(
            f"{path}: cannot be read as a modes file (TOML, one [mode] table each): {problem}"
        ) from problem
    if not table:
        raise FileError(
            f"{path}: holds no modes; write one [name] table for each, with `weight` and a "
            f"[name.ranges] table"
        )
    return {name: _read_mode(path, name, mode, spec) for name, mode in table.items()}


@dataclass(frozen=True)
class SamplePlan:
    """Which poses to sample. The same plan and rig always give the same control values.

    count            number of poses
    seed             of the random numbers
    modes            name -> Mode: draw from a mixture of these instead of one Gaussian per control
    animation_share  share of the poses drawn around the rig's animations, 0 to 1
    animations       names of those animations; empty: all that the rig has
    until            share of the frames of an animation, from its start, that are sampled around
    spread           width of the noise around the animations, as a share of the training range
    active           share of the controls that a random pose moves, or that differ from an
                     animation, chosen at random; the others are at rest, or as in the animation.
                     Controls of one bone are chosen together. Rigs with many controls are never
                     used with all of them
    calm             each random pose goes a share of its way from rest, which is drawn between this
                     and 1: animations have more small motions than large ones
    crowd            groups of controls that may deform one patch of the mesh in a pose; others are
                     at rest, or as in the animation. None: any number. Of a rig that does not say
                     where its controls act, this has no effect
    sigma            standard deviation of a random value, as a share of the training range
    stretch          share of the edges of a pose that may be 1.5 times as long as at rest, or what
                     the animations show if that is more; a pose with more is drawn nearer to rest.
                     None: every pose is kept as it was drawn
    """

    count: int
    seed: int = 0
    modes: Mapping[str, Mode] = field(default_factory=dict)
    animation_share: float = 0.0
    animations: tuple[str, ...] = ()
    spread: float = 0.25
    active: float = 1.0
    sigma: float = SIGMA
    until: float = 1.0
    stretch: float | None = None
    crowd: int | None = None
    calm: float = 1.0

    def __post_init__(self):
        if not _count(self.count):
            raise InputError("count: a sample needs at least 1 pose, got 0")
        _generator(self.seed)
        checks.between(self.animation_share, "animation_share", 0, 1)
        checks.between(self.spread, "spread", 0)
        checks.between(self.active, "active", above=0, high=1)
        checks.between(self.until, "until", above=0, high=1)
        if self.stretch is not None:
            checks.between(self.stretch, "stretch", 0, 1)
        checks.between(self.calm, "calm", 0, 1)
        if self.crowd is not None:
            checks.between(self.crowd, "crowd", 1)
        checks.between(self.sigma, "sigma", above=0)
        object.__setattr__(self, "animations", checks.names(self.animations, "animations"))
        if self.animations and not self.animation_share:
            raise InputError(
                "animations: some are named, but animation_share is 0; set the share of the poses "
                "to draw around them"
            )

    @property
    def kind(self) -> str:
        """Where the poses come from: gaussian, mixture, around, gaussian+around, mixture+around."""
        base = "mixture" if self.modes else "gaussian"
        if not self.animation_share:
            return base
        return "around" if self.animation_share == 1 else f"{base}+around"

    def values(self, rig: Rig, spec: ControlSpec | None = None) -> np.ndarray:
        """The control values (count,C) float64 of the plan.

        spec  the controls with other training ranges; None: `rig.controls`
        """
        spec = rig.controls if spec is None else spec
        near = round(self.count * self.animation_share)
        rest = self.count - near
        drawn = (
            mixture(spec, list(self.modes.values()), rest, self.seed, self.sigma)
            if self.modes
            else gaussian(spec, rest, self.seed, self.sigma)
        )
        # Streams of their own, so that each part does not change with the others.
        near_seed, order_seed, active_seed = np.random.SeedSequence(self.seed).spawn(3)
        groups = control_groups(spec)
        random = _generator(active_seed)
        acting = rig.deforms if self.crowd is not None and isinstance(rig, LocalRig) else None

        def chosen(switched: np.ndarray) -> np.ndarray:
            some = random.random((len(switched), groups.max(initial=-1) + 1)) < self.active
            if acting is not None and self.crowd is not None:
                for state, deforms in enumerate(acting):
                    rows = np.flatnonzero(switched == state)
                    some[rows] &= apart(deforms, groups, self.crowd, len(rows), random)
            return some[:, groups] | switches

        if self.calm < 1:
            share = random.uniform(self.calm, 1.0, (rest, 1))
            drawn = np.clip(spec.rest + share * (drawn - spec.rest), spec.low, spec.high)
        switches = np.zeros(spec.count, bool)
        if isinstance(rig, LocalRig) and rig.switches is not None:
            switches = rig.switches
        switched = np.zeros(rest, bool)
        if switches.any():  # all together: what acts at the other ends acts in such poses
            switched = random.random(rest) < _SWITCHED
            far = np.where(spec.high - spec.rest > spec.rest - spec.low, spec.high, spec.low)
            at = np.where(switched[:, None], far, np.clip(spec.rest, spec.low, spec.high))
            drawn = np.where(switches, at, drawn)
        few = self.active < 1 or acting is not None
        if few:
            drawn = np.where(chosen(switched), drawn, np.clip(spec.rest, spec.low, spec.high))
        if not near:
            return drawn
        noise = (chosen(np.zeros(near, bool)) if few else True) & ~switches
        close = around(spec, self.curves(rig), near, self.spread, near_seed, noise)
        # Shuffled, so that every block of poses holds both kinds.
        return _generator(order_seed).permutation(np.concatenate([drawn, close]))

    def curves(self, rig: Rig) -> list[np.ndarray]:
        """The curves (T,C) of the animations that are sampled around, as far as they are."""
        names = self.animations or animation_names(rig)
        if not names:
            raise InputError(
                f"the rig {name_of(rig)!r} has no animations to sample around; set animation_share "
                "to 0"
            )
        whole = [animation_curves(rig, name)[0] for name in names]
        return [curve[: max(1, round(self.until * len(curve)))] for curve in whole]

    def facts(self) -> dict[str, Any]:
        """The plan as JSON values, for the store's provenance."""
        modes = {
            name: {"weight": mode[0], "ranges": {c: list(pair) for c, pair in mode[1].items()}}
            for name, mode in self.modes.items()
        }
        facts = {"kind": self.kind, "count": self.count, "seed": self.seed, "modes": modes}
        if self.animation_share:
            facts["animation_share"] = self.animation_share
            facts |= {"animations": list(self.animations), "spread": self.spread}
        plain = SamplePlan(self.count)
        others = ("active", "sigma", "until", "stretch", "calm", "crowd")
        return facts | {n: v for n in others if (v := getattr(self, n)) != getattr(plain, n)}


def _truncated(
    random: np.random.Generator, low: np.ndarray, high: np.ndarray, sigma: float = SIGMA
) -> np.ndarray:
    """Gaussians (n,C) around the middle of [low, high]; values outside it are drawn again.

    sigma  standard deviation as a share of the range
    """
    low, high = np.broadcast_arrays(low, high)
    mean, deviation = low + (high - low) / 2, (high - low) / (1 / sigma)
    values = mean + deviation * random.standard_normal(low.shape)
    while (outside := (values < low) | (values > high)).any():
        values[outside] = mean[outside] + deviation[outside] * random.standard_normal(
            int(outside.sum())
        )
    return values


def _generator(seed: int | np.random.SeedSequence) -> np.random.Generator:
    if not isinstance(seed, np.random.SeedSequence):
        if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
            raise InputError(f"seed: expected a whole number of 0 or more, got {seed!r}")
        seed = np.random.SeedSequence(int(seed))
    return np.random.default_rng(seed)


def _count(count: int) -> int:
    if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 0:
        raise InputError(f"count: expected a whole number of poses, got {count!r}")
    return int(count)


def _with_mode(
    spec: ControlSpec, ranges: Mapping[str, tuple[float, float]], who: str
) -> ControlSpec:
    """`spec` with some ranges replaced; an error names the mode and the control."""
    low, high = spec.low.copy(), spec.high.copy()
    for name, (a, b) in ranges.items():
        checks.one_of(name, f"control in {who}", spec.names)
        low[spec.names.index(name)], high[spec.names.index(name)] = a, b
    try:
        return replace(spec, low=low, high=high)
    except InputError as problem:
        raise InputError(f"{who}: {problem}") from problem


def _read_mode(path: Path, name: str, mode: object, spec: ControlSpec) -> Mode:
    if not isinstance(mode, dict) or set(mode) - {"weight", "ranges"}:
        raise FileError(
            f"{path}: mode {name!r}: expected `weight = 1` and a [{name}.ranges] table, got "
            f"{mode!r}"
        )
    number = lambda x: isinstance(x, (int, float)) and not isinstance(x, bool)
    weight, ranges = mode.get("weight", 1), mode.get("ranges", {})
    if not number(weight) or not 0 < weight < float("inf"):
        raise FileError(f"{path}: mode {name!r}: expected a weight above 0, got {weight!r}")
    if not isinstance(ranges, dict):
        raise FileError(f"{path}: mode {name!r}: expected a [{name}.ranges] table, got {ranges!r}")
    for control, pair in ranges.items():
        if not is_range(pair):
            raise FileError(
                f"{path}: mode {name!r}: control {control!r}: expected [low, high], got {pair!r}"
            )
    with of_file(path):
        _with_mode(spec, ranges, f"mode {name!r}")
    return Mode(float(weight), {name: (float(a), float(b)) for name, (a, b) in ranges.items()})
