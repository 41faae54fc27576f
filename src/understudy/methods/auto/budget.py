"""A budget: how large the error, the time of a pose and the file may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from understudy.core.mesh import Mesh
from understudy.system.errors import InputError

_METRES = {"mm": 1e-3, "cm": 1e-2, "m": 1.0}
_BYTES = {"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_SECONDS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
# Mean error that nobody sees, as a fraction of the height.
_UNSEEN_ERROR = 2e-5
# Poses that nobody has seen have a slightly larger error than those that chose the deformer.
_MARGIN = 0.95


@dataclass(frozen=True)
class Measured:
    """What a deformer costs.

    name        of the candidate
    error       mean distance on poses that took no part in its fit, in model units
    bytes       of its arrays
    ms          of one pose on one thread
    seconds     of the processor that it took to make it
    kept_share  of the components of a fit that it still has
    """

    name: str
    error: float
    bytes: float
    ms: float
    seconds: float = 0.0
    kept_share: float = 1.0


@dataclass(frozen=True)
class Budget:
    """Upper limits; None: no limit.

    max_error  mean distance on poses that took no part in the fit, in model units
    max_ms     of one pose on one thread
    max_bytes  of the arrays of the deformer
    """

    max_error: float | None = None
    max_ms: float | None = None
    max_bytes: float | None = None

    @staticmethod
    def of(
        mesh: Mesh, max_error: str | None, max_ms: float | None, max_bytes: str | None
    ) -> Budget | None:
        """The budget of texts such as `0.5mm` and `5MB`; None: there are no limits."""
        error = None if max_error is None else distance_of(max_error, mesh)
        size = None if max_bytes is None else bytes_of(max_bytes)
        if error is None and max_ms is None and size is None:
            return None
        return Budget(error, max_ms, size)

    @staticmethod
    def unseen(mesh: Mesh) -> Budget:
        """The budget of a mean error that nobody sees."""
        return Budget(max_error=_UNSEEN_ERROR * mesh.height)

    def keeps(self, found: Measured) -> bool:
        """Whether a deformer keeps the budget."""
        return self.excess(found) <= 1

    @property
    def error_limit(self) -> float | None:
        """The error that is asked of the poses that choose; None: no limit."""
        return None if self.max_error is None else _MARGIN * self.max_error

    def widened(self, factor: float) -> Budget:
        """The budget with more room for time and bytes."""
        wider = lambda limit: None if limit is None else factor * limit
        return Budget(self.max_error, wider(self.max_ms), wider(self.max_bytes))

    def excess(self, found: Measured) -> float:
        """The largest of error, time and bytes relative to its limit; at most 1: it is kept."""
        limits = (
            (found.error, self.error_limit),
            (found.ms, self.max_ms),
            (found.bytes, self.max_bytes),
        )
        return max((value / limit for value, limit in limits if limit), default=0.0)

    def cost(self, found: Measured) -> float:
        """What is made small within the budget: bytes, or the error where it has no limit."""
        return found.error if self.max_error is None else found.bytes

    def too_costly(self, found: Measured) -> bool:
        """Whether the time or the bytes exceed the budget."""
        return Budget(None, self.max_ms, self.max_bytes).excess(found) > 1

    def best(self, found: list[Measured]) -> Measured:
        """The cheapest that keeps the budget, or else the one nearest to it."""
        kept = [one for one in found if self.excess(one) <= 1]
        if kept:
            return min(kept, key=lambda one: (self.cost(one), one.error))
        return min(found, key=self.excess)

    def text(self, unit: str) -> str:
        """The limits in words."""
        unit = "units" if unit == "unitless" else unit
        parts = [
            "" if self.max_error is None else f"mean error {self.max_error:.3g} {unit}",
            "" if self.max_ms is None else f"{self.max_ms:.3g} ms",
            "" if self.max_bytes is None else f"{self.max_bytes / 1e6:.3g} MB",
        ]
        return ", ".join(part for part in parts if part)


def distance_of(text: str, mesh: Mesh) -> float:
    """A distance in the unit of a mesh: `0.5mm`, `0.02%` (of the height), or a plain number.

    >>> distance_of("0.5mm", Mesh([[0, 0, 0]], [], [], unit="cm"))
    0.05
    """
    number, unit = _parts(text, "max_error")
    if unit == "":
        return number
    if unit == "%":
        return number / 100 * mesh.height
    if unit not in _METRES:
        raise InputError(f"max_error: unknown unit {unit!r} in {text!r}; use mm, cm, m or %")
    if mesh.unit not in _METRES:
        raise InputError(
            f"max_error: {text!r} is a length, and the mesh has no known unit ({mesh.unit}); give "
            "a plain number in its own units, a share of its height such as 0.02%, or the unit of "
            "the mesh (--unit)"
        )
    return round(number * _METRES[unit] / _METRES[mesh.unit], 12)


def bytes_of(text: str) -> float:
    """A number of bytes: `5MB`, `300kB`, or a plain number.

    >>> bytes_of("5MB")
    5000000.0
    """
    return _amount(text, "max_bytes", _BYTES, "kB, MB or GB")


def seconds_of(text: str) -> float:
    """A duration in seconds: `10min`, `90s`, or a plain number of seconds.

    >>> seconds_of("10min")
    600.0
    """
    return _amount(text, "time", _SECONDS, "s, min or h")


def _amount(text: str, name: str, units: Mapping[str, float], known: str) -> float:
    number, unit = _parts(text, name)
    if unit not in units:
        raise InputError(f"{name}: unknown unit {unit!r} in {text!r}; use {known}")
    return number * units[unit]


def _parts(text: str, name: str) -> tuple[float, str]:
    """The positive number and the unit of a text."""
    found = re.fullmatch(r"\s*(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*([A-Za-z%]*)\s*", text)
    if found is None or not 0 < float(found[1]) < float("inf"):
        raise InputError(f"{name}: expected a positive number with or without unit, got {text!r}")
    return float(found[1]), found[2]
