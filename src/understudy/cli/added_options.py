"""Options that many commands have: `--threads` and `--memory`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from understudy.system import memory, tasks, threads

Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        help="Threads and worker processes at a time. Default: one per core that this process may "
        "use, half of them at low priority (nice).",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory to use, such as 4GB; the result does not depend on it. Default: half of what "
        "is free.",
    ),
]


def with_threads(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option `--threads`; linear algebra runs on one thread inside tasks."""

    @functools.wraps(command)
    def limited(*arguments: Any, threads_asked: int | None = None, **options: Any) -> None:
        with threads.using(threads_asked), tasks.one_blas_thread():
            command(*arguments, **options)

    return _with_option(limited, command, "threads_asked", Threads)


def with_memory(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option `--memory`."""

    @functools.wraps(command)
    def limited(*arguments: Any, memory_asked: str | None = None, **options: Any) -> None:
        size = None if memory_asked is None else memory.parse_size(memory_asked)
        with memory.using(size):
            command(*arguments, **options)

    return _with_option(limited, command, "memory_asked", Memory)


def _with_option(
    wrapped: Callable[..., None], command: Callable[..., None], name: str, annotation: Any
) -> Callable[..., None]:
    """Return `wrapped`, which calls `command`, with the signature of the command and one option.

    name        keyword of `wrapped` that gets the option; None where it is not given
    annotation  the option, as typer takes it
    """
    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )
    wrapped.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option]
    )
    wrapped.__annotations__ = {**command.__annotations__, name: annotation}
    return wrapped
