"""How much memory the large arrays of this process may take.

Sampling, fitting and measuring read poses block by block; where they hold many blocks at a time,
this number decides how many. It changes how often the poses are read, never the result. `using`
replaces it; the option `--memory` of the command line does that. The default is half of the memory
that is free, at most half of the limit of the container.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.system.errors import InputError

LEAST = 1 << 30  # the program itself, with its libraries, takes about half of it
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_MEASURED = Path("/proc/meminfo")
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_UNKNOWN = 4 << 30  # where the system does not say
_asked: int | None = None


def budget() -> int:
    """The bytes to use: those of `using`, else half of what is free."""
    return default_budget() if _asked is None else _asked


def share(fraction: float, most: int) -> int:
    """A part of the budget for one array, in bytes: at most `most`."""
    return min(most, int(fraction * budget()))


@contextmanager
def using(size: int | None) -> Iterator[None]:
    """Use this many bytes, in the whole process; None: leave the number as it is.

    >>> with using(3 << 30):
    ...     budget() >> 30
    3
    """
    global _asked
    before = _asked
    if size is not None:
        _asked = size
    try:
        yield
    finally:
        _asked = before


def parse_size(text: str) -> int:
    """The bytes that a text such as 4GB, 512MiB or 2.5G names; at least 1 GiB.

    >>> parse_size("4GB")
    4000000000
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = None if found is None else _UNITS.get(found[2].upper())
    if found is None or unit is None:
        raise InputError(f"memory: expected a size such as 4GB or 512MiB, got {text!r}")
    size = int(float(found[1]) * unit)
    if size < LEAST:
        raise InputError(f"memory: {text} is too little; the program needs at least 1GiB")
    return size


def default_budget() -> int:
    """Half of the memory that is free, and at most half of the container's limit, in bytes."""
    found = [_UNKNOWN * 2]
    with suppress(OSError, StopIteration, ValueError):
        lines = _MEASURED.read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        found = [int(line.split()[1]) * 1024]
    for file in _LIMITS:
        with suppress(OSError, ValueError):  # "max": no limit
            found.append(int(file.read_text()))
    return max(LEAST, min(found) // 2)
