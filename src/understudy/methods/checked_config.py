"""`CheckedConfig`: a config whose class lists the values that each option may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from understudy.methods.base import Config
from understudy.system import checks
from understudy.system.errors import InputError


@dataclass(frozen=True)
class Limit:
    """The range of a number: at least `low`, at most `high`, greater than `above`."""

    low: float | None = None
    high: float | None = None
    above: float | None = None


AT_LEAST_ONE = Limit(low=1)
NOT_NEGATIVE = Limit(low=0)
POSITIVE = Limit(above=0)
FRACTION = Limit(above=0, high=1)

_RESULT_INDEPENDENT = ("checkpoint", "device")


@dataclass(frozen=True)
class CheckedConfig(Config):
    """Checks its options against `choices` and `limits`; an option that is none passes."""

    # Option -> the range of its value, or of each number of a tuple.
    limits: ClassVar[Mapping[str, Limit]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        options = asdict(self.filled())
        for name, allowed in self.choices.items():
            checks.one_of(options[name], name, allowed)
        for name, limit in self.limits.items():
            value = options[name]
            for number in value if isinstance(value, tuple) else (value,):
                if number is not None:
                    checks.between(number, name, limit.low, limit.high, above=limit.above)

    def header(self) -> dict[str, Any]:
        """The options as a file records them, without those that cannot change the result."""
        return {
            name: value for name, value in asdict(self).items() if name not in _RESULT_INDEPENDENT
        }


def check_device(device: str) -> None:
    """Raise unless `device` is auto, cpu, cuda or cuda:N."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise InputError(f"device: expected auto, cpu, cuda or cuda:N, got {device!r}")
