"""Progress of long work, reported through one small object, so that no algorithm prints.

`Progress` itself is silent. The command line passes a subclass that draws bars and estimates the
time left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Task:
    """One piece of long work with a known number of steps."""

    def advance(self, steps: float = 1) -> None:
        """Report that `steps` more are done."""

    def note(self, text: str) -> None:
        """Show a short text beside the bar, such as the current error with its unit."""

    def figures(self, **figures: float) -> None:
        """Report numbers of the work so far by name, such as an epoch and its losses.

        They are for programs that plot or decide; bars show `note`.
        """


class Progress:
    """Silent progress; subclasses draw."""

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Task]:
        """Report work called `label`, of `total` steps, inside a `with` block."""
        yield Task()

    def say(self, text: str) -> None:
        """Show a sentence that the user should read, such as what was changed in the input."""


SILENT = Progress()
