"""Progress bars with the time left, for a terminal. In a log file, one line when a task starts and one when it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from understudy.progress import Progress, Task

console = Console(stderr=True, highlight=False)


class TerminalProgress(Progress):
    """Draws to standard error, so that standard output stays clean for results."""

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Task]:
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            with RichProgress(*columns, TextColumn("{task.fields[note]}"), console=console) as bars:
                yield _Bar(bars, bars.add_task(label, total=total, note=""))
        else:
            started = time.monotonic()
            line = _Line()
            yield line
            print(f"{label}: {time.monotonic() - started:.1f} s{line.text and '; ' + line.text}", file=sys.stderr, flush=True)


class _Bar(Task):
    def __init__(self, bars: RichProgress, number):
        self._bars, self._number = bars, number

    def advance(self, steps: float = 1) -> None:
        self._bars.advance(self._number, steps)

    def note(self, text: str) -> None:
        self._bars.update(self._number, note=text)


class _Line(Task):
    text = ""

    def note(self, text: str) -> None:
        self.text = text
