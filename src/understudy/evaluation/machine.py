"""What a time was measured on, and what a piece of work really took: seconds and peak memory, in a
process of its own.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np


def describe() -> dict[str, object]:
    """The machine in plain words: no names, no paths."""
    about: dict[str, object] = {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
        if hasattr(os, "sysconf")
        else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    if "torch" in sys.modules:
        import torch

        about["torch"] = torch.__version__
        about["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return about


class Isolated(NamedTuple):
    """What work in its own process returned, took, and held at most."""

    value: Any
    seconds: float
    peak_mb: float


def isolated(work: Callable, *arguments) -> Isolated:
    """Run `work(*arguments)` in a fresh process: its peak memory is then its own, and nothing it
    imports stays here.

    `work` must be importable, and its arguments and result small.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_timed, work, arguments).result()


def _timed(work: Callable, arguments: tuple) -> Isolated:
    started = time.perf_counter()
    value = work(*arguments)
    return Isolated(value, time.perf_counter() - started, peak_memory_mb())


def peak_memory_mb() -> float:
    """The most memory this process ever held, in MB."""
    # Linux: the kernel's own mark. getrusage's survives from the parent into a process it starts
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            return (
                next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024 / 1e6
            )
    except (OSError, StopIteration):
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
