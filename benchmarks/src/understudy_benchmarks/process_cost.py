"""What an `understudy` command costs: seconds, processor time, and the peak of its memory.

The command runs in a process of its own. Its memory, and that of the processes it starts, is read
from the system several times a second: shared pages count once (the proportional set size of
Linux). Where the system does not tell, the peak is not a number.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from understudy.system.errors import UnderstudyError

_INTERVAL = 0.1  # seconds between two looks at the memory


@dataclass(frozen=True)
class Cost:
    """Of one command: seconds, processor seconds, and the peak of its memory in bytes."""

    seconds: float
    cpu: float
    peak: float


def run_command(words: Sequence[str]) -> Cost:
    """Run an `understudy` command and return its cost; one that fails is an error."""
    before, started = _children_cpu(), time.perf_counter()
    peak = 0.0
    with TemporaryFile("w+", encoding="utf-8") as errors:
        running = subprocess.Popen(
            [sys.executable, "-m", "understudy", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            while running.poll() is None:
                peak = max(peak, _memory(running.pid))
                time.sleep(_INTERVAL)
        finally:
            running.kill()
            running.wait()
        seconds = time.perf_counter() - started
        if running.returncode:
            errors.seek(0)
            text = errors.read().strip()
            raise UnderstudyError(f"understudy {' '.join(words)} failed: {text}")
    return Cost(seconds, _children_cpu() - before, peak or math.nan)


def bytes_on_disk(folder: Path) -> int:
    """The bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _children_cpu() -> float:
    """The processor seconds of all processes that were started here and have ended."""
    used = os.times()
    return used.children_user + used.children_system


def _memory(process: int) -> float:
    """The memory of a process and all that it started, in bytes; 0 where it is not known."""
    total, todo = 0.0, [process]
    while todo:
        folder = Path(f"/proc/{todo.pop()}")
        try:
            rollup = (folder / "smaps_rollup").read_text().splitlines()
            total += 1024 * sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
            for thread in (folder / "task").iterdir():
                todo += [int(child) for child in (thread / "children").read_text().split()]
        except (OSError, ValueError):  # it has just ended, or this is not Linux
            continue
    return total
