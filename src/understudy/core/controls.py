"""`ControlSpec`: the names, ranges and units of the numbers an animator sets."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.errors import FileError, InputError


@dataclass(frozen=True, eq=False)
class ControlSpec:
    """What each of C controls is called and which values it takes.

    names                    C strings
    low, high                (C,) float64, the range to learn (where training poses are sampled)
    rest                     (C,) float64, the value that gives the rest pose
    limit_low, limit_high    (C,) float64, what the rig accepts; never narrower than low, high
    units                    C strings: "deg", "cm", "ratio", "" ...
    numeric                  (C,) bool: the control moves the mesh other than through the bones (an
                             expression, a muscle)
    """

    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    rest: np.ndarray | None = None
    limit_low: np.ndarray | None = None
    limit_high: np.ndarray | None = None
    units: tuple[str, ...] | None = None
    numeric: np.ndarray | None = None

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        put("names", checks.names(self.names, "control names"))
        count = len(self.names)
        for name, fallback in (
            ("low", None),
            ("high", None),
            ("rest", 0.0),
            ("limit_low", self.low),
            ("limit_high", self.high),
        ):
            value = getattr(self, name)
            value = np.broadcast_to(fallback, (count,)) if value is None else value
            put(name, checks.array(value, f"control {name}", (count,), np.float64))
        put("units", tuple(self.units) if self.units is not None else ("",) * count)
        if len(self.units) != count:
            raise InputError(f"control units: expected {count}, got {len(self.units)}")
        numeric = (
            np.zeros(count, bool)
            if self.numeric is None
            else np.ascontiguousarray(self.numeric, dtype=bool)
        )
        put("numeric", checks.shape_of(numeric, "control numeric", (count,)))
        wrong = np.flatnonzero(
            (self.low > self.high) | (self.limit_low > self.low) | (self.limit_high < self.high)
        )
        if wrong.size:
            c = int(wrong[0])
            raise InputError(
                f"control {self.names[c]!r}: the range {self.low[c]:g}..{self.high[c]:g} must be "
                f"in order and inside the limits "
                f"{self.limit_low[c]:g}..{self.limit_high[c]:g}"
            )

    @property
    def count(self) -> int:
        return len(self.names)

    def check(self, values) -> np.ndarray:
        """`values` as (T,C) float64 within the rig's limits, or an error that names the control,
        the pose and the value.
        """
        values = checks.array(values, "control values", (None, self.count), np.float64)
        slack = 1e-9 * np.maximum(1.0, self.limit_high - self.limit_low)
        outside = (values < self.limit_low - slack) | (values > self.limit_high + slack)
        if outside.any():
            pose, c = (int(i) for i in np.argwhere(outside)[0])
            raise InputError(
                f"control {self.names[c]!r} is {values[pose, c]:g} at pose {pose}, outside what "
                f"the rig accepts "
                f"({self.limit_low[c]:g}..{self.limit_high[c]:g}"
                f"{' ' + self.units[c] if self.units[c] else ''})"
            )
        return values

    def with_ranges(self, path: str | Path) -> ControlSpec:
        """This spec with the training ranges of a small TOML file: `elbow_L = [0, 120]`, one line
        per control to change.

        A range may leave the limits of the rig nowhere; unknown names are an error that offers the
        nearest one.
        """
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
        for name, pair in table.items():
            checks.one_of(name, "control", self.names)
            if not is_range(pair):
                raise FileError(f"{path}: control {name!r}: expected [low, high], got {pair!r}")
            c = self.names.index(name)
            low[c], high[c] = pair
        return replace(self, low=low, high=high)

    def ranges_text(self) -> str:
        """The training ranges as the TOML that `with_ranges` reads, with unit and limits as
        comments.
        """
        lines = [
            "# Training ranges, one control a line: name = [low, high]. Edit and pass with "
            "--ranges."
        ]
        for c, name in enumerate(self.names):
            unit = f" {self.units[c]}" if self.units[c] else ""
            # every digit: the unedited file must mean the same ranges
            pair = f"[{float(self.low[c])!r}, {float(self.high[c])!r}]"
            lines.append(
                f'"{name}" = {pair}  #{unit} limits {self.limit_low[c]:g}..{self.limit_high[c]:g}'
            )
        return "\n".join(lines) + "\n"


def is_range(pair: object) -> bool:
    """Whether a value read from TOML is [low, high]."""
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in pair)
    )
