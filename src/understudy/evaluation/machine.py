"""The machine that a time was measured on."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np


def describe() -> dict[str, object]:
    """Processor, cores, memory, system and versions; no host names and no paths."""
    about: dict[str, object] = {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    if "torch" in sys.modules:
        import torch  # optional dependency, named only where it is in use

        about["torch"] = torch.__version__
        about["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return about


def _memory_gb() -> float | None:
    """Physical memory in GB; None on systems without sysconf, such as Windows."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
