"""The time and peak memory of a piece of work.

`isolated` runs the work in its own process, so that its peak memory is its own.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple


class Isolated(NamedTuple):
    """What work in its own process returned, its seconds, and its peak memory in MB."""

    value: Any
    seconds: float
    peak_mb: float


def isolated(work: Callable[..., Any], *arguments: Any) -> Isolated:
    """Run `work(*arguments)` in a new process and measure it.

    `work` must be importable, its arguments and its result must be small. The peak memory is NaN
    on systems that do not report it.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_timed, work, arguments).result()


def _timed(work: Callable, arguments: tuple) -> Isolated:
    started = time.perf_counter()
    value = work(*arguments)
    return Isolated(value, time.perf_counter() - started, peak_memory_mb())


def peak_memory_mb() -> float:
    """The largest memory use of this process so far, in MB; NaN if the system does not tell."""
    if sys.platform == "win32":
        return _windows_peak_mb()
    # Linux: the kernel's own mark. getrusage's is inherited from the parent process.
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            return (
                next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024 / 1e6
            )
    except (OSError, StopIteration):
        pass
    import resource  # does not exist on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


class _MemoryCounters(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of the Windows API."""

    _fields_ = (
        ("cb", ctypes.c_uint32),
        ("page_fault_count", ctypes.c_uint32),
        ("peak_working_set_size", ctypes.c_size_t),
        ("working_set_size", ctypes.c_size_t),
        ("quota_peak_paged_pool_usage", ctypes.c_size_t),
        ("quota_paged_pool_usage", ctypes.c_size_t),
        ("quota_peak_non_paged_pool_usage", ctypes.c_size_t),
        ("quota_non_paged_pool_usage", ctypes.c_size_t),
        ("pagefile_usage", ctypes.c_size_t),
        ("peak_pagefile_usage", ctypes.c_size_t),
    )


def _windows_peak_mb() -> float:
    """The peak working set of this process, in MB; NaN if Windows does not tell."""
    counters = _MemoryCounters()
    counters.cb = ctypes.sizeof(counters)
    kernel = getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009 (WinDLL exists on Windows only)
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    read = kernel.K32GetProcessMemoryInfo
    read.argtypes = (ctypes.c_void_p, ctypes.POINTER(_MemoryCounters), ctypes.c_uint32)
    if not read(kernel.GetCurrentProcess(), ctypes.byref(counters), counters.cb):
        return float("nan")
    return counters.peak_working_set_size / 1e6
