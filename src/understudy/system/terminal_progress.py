"""Progress bars with the time left, for a terminal.

In a log file: one line when a task starts, one every 15 seconds, one when it ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

from understudy.system.progress import Progress, Task

console = Console(stderr=True, highlight=False)
_LINE_EVERY_S = 15.0


class TerminalProgress(Progress):
    """Progress on standard error; standard output is for results."""

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
            lines = _Lines(label, total)
            yield lines
            lines.finish()

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class _Bar(Task):
    """A bar in a terminal."""

    def __init__(self, bars: RichProgress, number: TaskID):
        self._bars, self._number = bars, number

    def advance(self, steps: float = 1) -> None:
        self._bars.advance(self._number, steps)

    def note(self, text: str) -> None:
        self._bars.update(self._number, note=text)


class _Lines(Task):
    """Lines in a log file."""

    def __init__(self, label: str, total: float):
        self._label, self._total, self._done, self._text = label, total, 0.0, ""
        self._started = self._printed = time.monotonic()
        self._print("...")

    def advance(self, steps: float = 1) -> None:
        self._done += steps
        now = time.monotonic()
        if now - self._printed > _LINE_EVERY_S and 0 < self._done < self._total:
            left = (now - self._started) * (self._total / self._done - 1)
            self._printed = now
            self._print(
                f"{100 * self._done / self._total:.0f} %, about {left:.0f} s left{self._suffix}"
            )

    def note(self, text: str) -> None:
        self._text = text

    def finish(self) -> None:
        self._print(f"{time.monotonic() - self._started:.1f} s{self._suffix}")

    @property
    def _suffix(self) -> str:
        return f"; {self._text}" if self._text else ""

    def _print(self, what: str) -> None:
        print(f"{self._label}: {what}", file=sys.stderr, flush=True)
