"""Options of several commands, as one parameter of each: `flat` is a command as typer takes it.

def reading(up: UpAxis = None, unit: Unit = None) -> ReadOptions: ...

def fit(source: Source, files: ReadOptions = Group(reading)) -> None: ...
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Annotated, Any

import typer

from understudy.system import memory, tasks, threads

Command = Callable[..., None]


class Group:
    """The default of a command's parameter that stands for several options.

    make   a function whose parameters are those options, as typer takes them
    names  of the parameters that the command has; empty: all
    """

    def __init__(self, make: Callable[..., Any], *names: str):
        known = inspect.signature(make, eval_str=True).parameters
        self.make, self.parameters = make, {name: known[name] for name in names or known}

    def made(self, given: Mapping[str, Any]) -> Any:
        """What the options among those of a command make."""
        return self.make(**{name: given[name] for name in self.parameters})


def flat(command: Command, *around: Callable[..., AbstractContextManager[Any]]) -> Command:
    """The command with the options of its groups; one that several groups have is one option.

    around  what it runs inside of; their parameters are options of the command too
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups = {name: one.default for name, one in own.items() if isinstance(one.default, Group)}
    frames = [Group(one) for one in around]
    every: dict[str, inspect.Parameter] = {}
    for name, parameter in own.items():
        for key, one in (groups[name].parameters if name in groups else {name: parameter}).items():
            every.setdefault(key, one)
    for frame in frames:
        every |= frame.parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        with ExitStack() as stack:
            for frame in frames:
                stack.enter_context(frame.made(given))
            made = {name: group.made(given) for name, group in groups.items()}
            command(**{name: made[name] if name in made else given[name] for name in own})

    named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every.values()]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in named}
    return run


@contextmanager
def threads_asked(
    threads_asked: Annotated[
        int | None,
        typer.Option(
            "--threads",
            min=1,
            help="Threads and worker processes at a time. Default: one per core that this process "
            "may use, half of them at low priority (nice).",
        ),
    ] = None,
) -> Iterator[None]:
    """`--threads`; linear algebra runs on one thread inside tasks."""
    with threads.using(threads_asked), tasks.one_blas_thread():
        yield


@contextmanager
def memory_asked(
    memory_asked: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory to use, such as 4GB; the result does not depend on it. Default: half of "
            "what is free.",
        ),
    ] = None,
) -> Iterator[None]:
    """`--memory`."""
    with memory.using(None if memory_asked is None else memory.parse_size(memory_asked)):
        yield


def with_threads(command: Command) -> Command:
    """The command of a plug-in with the option `--threads`."""
    return flat(command, threads_asked)
