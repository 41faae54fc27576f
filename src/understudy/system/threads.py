"""How many threads and worker processes this process may use.

The number is that of the processors it may run on: those of its affinity, at most the share that a
container grants (the `cpu.max` of its cgroup). A process of low priority (`nice`) uses half of
them: it gets what others leave over, and its threads would wait for each other. `using` replaces
the number; the option `--threads` of the command line does that.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from understudy.system import checks

_asked: int | None = None


def count() -> int:
    """The number of threads to use: that of `using`, else what this process may use."""
    return default_count() if _asked is None else _asked


@contextmanager
def using(threads: int | None) -> Iterator[None]:
    """Use this many threads, in the whole process; None: leave the number as it is.

    >>> with using(3):
    ...     count()
    3
    """
    global _asked
    before = _asked
    if threads is not None:
        _asked = int(checks.between(threads, "threads", 1))
    try:
        yield
    finally:
        _asked = before


def default_count() -> int:
    """The processors of this process, or half of them where it has low priority; at least one."""
    found = min(affinity(), granted_processors() or math.inf)
    low_priority = hasattr(os, "getpriority") and os.getpriority(os.PRIO_PROCESS, 0) > 0
    return max(1, math.ceil(found) // (2 if low_priority else 1))


def affinity() -> int:
    """The number of processors that the system may run this process on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def granted_processors(
    membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """The processor time that the cgroups of this process grant, in processors; None: no limit.

    membership  file that lists the cgroups of the process
    mount       folder of all cgroups; both versions of their files are read
    """
    found = []
    with suppress(OSError, ValueError):
        for line in membership.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            root = mount / controllers if controllers else mount
            own = root / path.lstrip("/")
            # A limit of a parent holds too. Inside a container the path may be that outside it.
            folders = {root, *(f for f in (own, *own.parents) if f.is_relative_to(root))}
            found += [limit for folder in folders if (limit := _limit(folder)) is not None]
    return min(found, default=None)


def _limit(folder: Path) -> float | None:
    """The processors that one cgroup grants; None: no limit."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            words = " ".join((folder / name).read_text() for name in names).split()
            quota, period = (float(word) for word in words)  # "max": no limit
            if quota > 0 and period > 0:
                return quota / period
    return None
