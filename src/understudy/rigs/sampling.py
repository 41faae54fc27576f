"""Control values to sample: which poses of a rig a method gets to learn from.

Follows section 3.4 of "Fast and Deep Deformation Approximations" (Bailey et al. 2018): every
control is drawn independently from a Gaussian over its range, and values outside are drawn again.
`mixture` is its bimodal sampling (a walking and a flying mode), `around` samples near animations.

Everything is drawn at once from one seed, before any pose is evaluated, so that a sample does not
depend on processes, blocks or interruptions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from understudy.core import checks
from understudy.core.controls import ControlSpec, is_range
from understudy.core.errors import FileError, InputError
from understudy.rigs.base import Rig


class Mode(NamedTuple):
    """One way a character moves: how often (relative to the other modes), and the control ranges
    that differ from the training ranges.
    """

    weight: float
    ranges: Mapping[str, tuple[float, float]]


def gaussian(spec: ControlSpec, count: int, seed: int) -> np.ndarray:
    """(count,C) float64: independent truncated Gaussians over the training ranges.

    Mean (low+high)/2 and sigma (high-low)/3, so the range is +-1.5 sigma; values outside are drawn
    again. The paper contradicts itself here: its text says 1.5 standard deviations aligned with the
    range, its equation 8 says sigma = 1.5 (high-low), which is nearly uniform once truncated. We
    follow the text, because it then argues that poses near the ends of a range should be rarer. A
    control with low == high is constant.

    >>> gaussian(ControlSpec(("knee",), [0.0], [150.0]), 3, seed=0).shape
    (3, 1)
    """
    return _truncated(
        _generator(seed), np.broadcast_to(spec.low, (_count(count), spec.count)), spec.high
    )


def mixture(
    spec: ControlSpec,
    modes: Sequence[tuple[float, Mapping[str, tuple[float, float]]]],
    count: int,
    seed: int,
) -> np.ndarray:
    """(count,C) float64: each pose picks one of `modes` = [(weight, {control: (low, high)}), ...],
    then is drawn as in `gaussian`.
    """
    if not modes:
        raise InputError(
            "modes: at least one mode is needed, got none; for a sample without modes use "
            "`gaussian`"
        )
    weights = np.array(
        [
            checks.between(weight, f"weight of mode {m}", above=0)
            for m, (weight, _) in enumerate(modes)
        ],
        float,
    )
    specs = [_with_mode(spec, ranges, f"mode {m}") for m, (_, ranges) in enumerate(modes)]
    random = _generator(seed)
    chosen = random.choice(len(modes), size=_count(count), p=weights / weights.sum())
    return _truncated(
        random, np.stack([s.low for s in specs])[chosen], np.stack([s.high for s in specs])[chosen]
    )


def around(
    spec: ControlSpec,
    animations: np.ndarray | Sequence[np.ndarray],
    count: int,
    spread: float,
    seed: int,
) -> np.ndarray:
    """(count,C) float64: random moments of `animations`, moved by `spread` times the noise of
    `gaussian`, within the limits of the rig.

    animations  control curves (T,C), or several of them; a moment lies between two neighbouring
                frames of one curve
    spread      0: only the animation itself; 1: noise as wide as the whole training range
    """
    checks.between(spread, "spread", low=0)
    curves = (
        [animations]
        if isinstance(animations, np.ndarray) and animations.ndim == 2
        else list(animations)
    )
    curves = [spec.check(curve) for curve in curves]
    if not sum(len(curve) for curve in curves):
        raise InputError("animations: there are no frames to sample around")
    frames = np.concatenate(curves)
    ends = np.cumsum([len(curve) for curve in curves])
    # A step leads from each frame to the next, but not from the last frame of one curve to the
    # first of another.
    following = np.minimum(
        np.arange(len(frames)) + 1, np.repeat(ends, [len(curve) for curve in curves]) - 1
    )
    starts = np.flatnonzero(following > np.arange(len(frames)))
    starts = (
        starts if starts.size else np.arange(len(frames))
    )  # single-frame curves: nothing to interpolate
    random = _generator(seed)
    start = random.choice(starts, size=_count(count))
    part = random.random(count)[:, None]
    moment = (1 - part) * frames[start] + part * frames[following[start]]
    half = np.broadcast_to(spread * (spec.high - spec.low) / 2, moment.shape)
    return np.clip(moment + _truncated(random, -half, half), spec.limit_low, spec.limit_high)


def read_modes(path: str | Path, spec: ControlSpec) -> dict[str, Mode]:
    """Modes by name from a small TOML file, checked against `spec`.

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
    """Which poses to sample: `values` turns the plan into control values, always the same for the
    same plan and rig.

    count            poses
    seed             same plan, same seed: the same poses
    modes            name -> Mode: sample a mixture of these instead of one Gaussian per control
    animation_share  share of the poses taken around the rig's animations, 0..1; the rest is
                     Gaussian (or the mixture)
    animations       which animations those are; none named: all the rig has
    spread           noise around the animations, as a share of the training range (`around`)
    """

    count: int
    seed: int = 0
    modes: Mapping[str, Mode] = field(default_factory=dict)
    animation_share: float = 0.0
    animations: tuple[str, ...] = ()
    spread: float = 0.25

    def __post_init__(self):
        if not _count(self.count):
            raise InputError("count: a sample needs at least 1 pose, got 0")
        _generator(self.seed)
        checks.between(self.animation_share, "animation_share", 0, 1)
        checks.between(self.spread, "spread", 0)
        object.__setattr__(self, "animations", checks.names(self.animations, "animations"))
        if self.animations and not self.animation_share:
            raise InputError(
                "animations: some are named, but animation_share is 0; say which share of the "
                "poses to take around them"
            )

    @property
    def kind(self) -> str:
        """What the poses are drawn from, in one word or two: gaussian, mixture, around,
        gaussian+around, mixture+around.
        """
        base = "mixture" if self.modes else "gaussian"
        return (
            base
            if not self.animation_share
            else "around"
            if self.animation_share == 1
            else f"{base}+around"
        )

    def values(self, rig: Rig, spec: ControlSpec | None = None) -> np.ndarray:
        """(count,C) float64 control values; `spec` stands in for `rig.controls` where other
        training ranges are wanted.
        """
        spec = rig.controls if spec is None else spec
        near = round(self.count * self.animation_share)
        rest = self.count - near
        drawn = (
            mixture(spec, list(self.modes.values()), rest, self.seed)
            if self.modes
            else gaussian(spec, rest, self.seed)
        )
        if not near:
            return drawn
        for name in self.animations:
            checks.one_of(name, "animation", rig.animation_names)
        names = self.animations or tuple(rig.animation_names)
        if not names:
            raise InputError(
                f"rig {rig.name!r} has no animations to sample around; set animation_share to 0"
            )
        # Streams of their own, so that the Gaussian part is the one the same seed gives without
        # animations.
        near_seed, order_seed = np.random.SeedSequence(self.seed).spawn(2)
        close = around(
            spec, [rig.animation(name)[0] for name in names], near, self.spread, near_seed
        )
        # Shuffled, so that every block of poses, and every part of an unfinished sample, holds both
        # kinds.
        return _generator(order_seed).permutation(np.concatenate([drawn, close]))

    def facts(self) -> dict:
        """The plan as plain words and numbers, for the store's provenance."""
        modes = {
            name: {"weight": mode[0], "ranges": {c: list(pair) for c, pair in mode[1].items()}}
            for name, mode in self.modes.items()
        }
        facts = {"kind": self.kind, "count": self.count, "seed": self.seed, "modes": modes}
        if self.animation_share:
            facts |= {
                "animation_share": self.animation_share,
                "animations": list(self.animations),
                "spread": self.spread,
            }
        return facts


def _truncated(random: np.random.Generator, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Gaussians whose range [low, high] is +-1.5 sigma, values outside drawn again; low (n,C), high
    broadcasts to it.
    """
    low, high = np.broadcast_arrays(low, high)
    mean, sigma = low + (high - low) / 2, (high - low) / 3
    values = mean + sigma * random.standard_normal(low.shape)
    while (outside := (values < low) | (values > high)).any():
        values[outside] = mean[outside] + sigma[outside] * random.standard_normal(
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
    try:
        _with_mode(spec, ranges, f"mode {name!r}")
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from problem
    return Mode(
        float(weight), {control: (float(a), float(b)) for control, (a, b) in ranges.items()}
    )
