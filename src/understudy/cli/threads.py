"""The option `--threads` of the commands that work long."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import typer

from understudy.cli.added_option import with_option
from understudy.core import tasks, threads

Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        help="Threads and worker processes at a time. Default: one per core that this process may "
        "use, half of them at low priority (nice).",
    ),
]


def with_threads(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option `--threads`; linear algebra runs on one thread inside tasks."""

    @functools.wraps(command)
    def limited(*arguments: Any, threads_asked: int | None = None, **options: Any) -> None:
        with threads.using(threads_asked), tasks.one_blas_thread():
            command(*arguments, **options)

    return with_option(limited, command, "threads_asked", Threads)
