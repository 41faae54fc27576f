"""`ControlSpec`: the names, ranges and units of a rig's controls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.noun import Noun
from understudy.system import checks
from understudy.system.errors import FileError, InputError

CHANNEL = re.compile(r"\.(loc|rot|scale)\.[xyz]$")  # how rigs of Blender name their controls


def _not_given() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False, repr=False)
class ControlSpec(Noun):
    """The names of C controls, and which values they take.

    names                  C strings
    low, high              (C,) float64, the range to learn: training poses are sampled from it
    rest                   (C,) float64, the values of the rest pose; by default 0
    limit_low, limit_high  (C,) float64, what the rig accepts; by default low and high, and never
                           narrower
    units                  C strings: "deg", "cm", "ratio", ...; by default ""
    numeric                (C,) bool, whether the control moves the mesh other than through the
                           bones (an expression, a muscle); by default False

    >>> ControlSpec(("elbow", "smile"), low=[0, 0], high=[150, 1], units=("deg", "")).count
    2
    """

    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    rest: np.ndarray = field(default_factory=_not_given)
    limit_low: np.ndarray = field(default_factory=_not_given)
    limit_high: np.ndarray = field(default_factory=_not_given)
    units: tuple[str, ...] = ()
    numeric: np.ndarray = field(default_factory=_not_given)

    def __post_init__(self):
        put = self._keep
        put("names", checks.names(self.names, "control names"))
        count = len(self.names)
        defaults = {
            "low": self.low,
            "high": self.high,
            "rest": np.zeros(count),
            "limit_low": self.low,
            "limit_high": self.high,
        }
        for name, default in defaults.items():
            given = getattr(self, name)
            value = given if np.size(given) else default
            put(name, checks.array(value, f"control {name}", (count,), np.float64))
        put("units", tuple(self.units) or ("",) * count)
        if len(self.units) != count:
            raise InputError(f"control units: expected {count}, got {len(self.units)}")
        numeric = self.numeric if np.size(self.numeric) else np.zeros(count)
        numeric = np.ascontiguousarray(numeric, dtype=bool)
        put("numeric", checks.shape_of(numeric, "control numeric", (count,)))
        wrong = np.flatnonzero(
            (self.low > self.high) | (self.limit_low > self.low) | (self.limit_high < self.high)
        )
        if wrong.size:
            c = int(wrong[0])
            raise InputError(
                f"control {self.names[c]!r}: the range {self.low[c]:g}..{self.high[c]:g} must be "
                f"in order and inside the limits {self.limit_low[c]:g}..{self.limit_high[c]:g}"
            )

    @property
    def count(self) -> int:
        """C."""
        return len(self.names)

    def check(self, values: Any) -> np.ndarray:
        """Return `values` as (T,C) float64, if they are inside the rig's limits.

        The error names the control, the pose and the value.
        """
        values = checks.array(values, "control values", (None, self.count), np.float64)
        slack = 1e-9 * np.maximum(1.0, self.limit_high - self.limit_low)
        outside = (values < self.limit_low - slack) | (values > self.limit_high + slack)
        if outside.any():
            pose, c = (int(i) for i in np.argwhere(outside)[0])
            unit = f" {self.units[c]}" if self.units[c] else ""
            raise InputError(
                f"control {self.names[c]!r} is {values[pose, c]:g} at pose {pose}, outside what "
                f"the rig accepts ({self.limit_low[c]:g}..{self.limit_high[c]:g}{unit})"
            )
        return values

    def with_ranges(self, path: str | Path) -> ControlSpec:
        """Return this spec with the training ranges of a TOML file: `elbow_L = [0, 120]`.

        The file has one line per control to change. Controls without a line keep their range, or
        stay at rest where the file says `"*" = "rest"`, as `ranges_text` does. Ranges must stay
        inside the rig's limits; the error for an unknown name suggests the nearest one.
        """
        import tomllib  # slow to import, and no player reads such files

        path = Path(path)
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileError(f"{path}: no such ranges file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise FileError(
                f"{path}: cannot be read as a ranges file (TOML, one `name = [low, high]` a line): "
                f"{problem}"
            ) from problem
        low, high = self.low.copy(), self.high.copy()
        others = table.pop("*", None)
        if others not in (None, "rest"):
            raise FileError(
                f'{path}: "*" = {others!r}: only "rest" is known, for all other controls'
            )
        if others:
            low[:] = high[:] = np.clip(self.rest, self.limit_low, self.limit_high)
        for name, pair in table.items():
            checks.one_of(name, "control", self.names)
            if not is_range(pair):
                raise FileError(f"{path}: control {name!r}: expected [low, high], got {pair!r}")
            c = self.names.index(name)
            low[c], high[c] = pair
        return replace(self, low=low, high=high)

    def ranges_text(self, patterns: Sequence[str] = ()) -> str:
        """Return the training ranges as the TOML that `with_ranges` reads.

        patterns  names to keep: `arm_*`; empty: all

        Units and limits are comments; a heading comes before the channels of each bone.
        """
        lines = [
            "# Training ranges, one control a line: name = [low, high]. Edit and pass with "
            "--ranges.",
            '"*" = "rest"  # controls whose line you delete',
        ]
        bone = ""
        for c, name in enumerate(self.names):
            if patterns and not any(fnmatchcase(name, pattern) for pattern in patterns):
                continue
            if (of := CHANNEL.sub("", name)) != name and of != bone:
                lines.append(f"\n# {of}")
                bone = of
            unit = f" {self.units[c]}" if self.units[c] else ""
            # Every digit, so that the unedited file gives the same ranges.
            pair = f"[{float(self.low[c])!r}, {float(self.high[c])!r}]"
            lines.append(
                f'"{name}" = {pair}  #{unit} limits {self.limit_low[c]:g}..{self.limit_high[c]:g}'
            )
        return "\n".join(lines) + "\n"


def is_range(pair: object) -> bool:
    """Return whether a value read from TOML is [low, high]."""
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in pair)
    )
