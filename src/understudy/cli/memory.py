"""The option `--memory` of the commands that read or write many poses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any

import typer

from understudy.cli.added_option import with_option
from understudy.core import memory

Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory to use, such as 4GB; the result does not depend on it. Default: half of what "
        "is free.",
    ),
]


def with_memory(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the option `--memory`."""

    @functools.wraps(command)
    def limited(*arguments: Any, memory_asked: str | None = None, **options: Any) -> None:
        size = None if memory_asked is None else memory.parse_size(memory_asked)
        with memory.using(size):
            command(*arguments, **options)

    return with_option(limited, command, "memory_asked", Memory)
