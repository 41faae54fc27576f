"""Progress of long work, told through one small object so that no algorithm knows about terminals.

`Progress` itself is silent; the command line passes one that draws bars with an estimate of the
time left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Task:
    """One piece of long work with a known number of steps."""

    def advance(self, steps: float = 1) -> None:
        """`steps` more are done."""

    def note(self, text: str) -> None:
        """A short remark beside the bar, e.g. the current error with its unit."""


class Progress:
    """Silent progress; subclasses draw."""

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Task]:
        """Work called `label` of `total` steps, for the length of a `with` block."""
        yield Task()


SILENT = Progress()
