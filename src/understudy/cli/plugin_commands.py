"""Sub-commands of other packages, by entry point (group `understudy.commands`; `system.plugins`).

The value of an entry point is a function as typer takes it: its parameters are the arguments and
options, its docstring is the help. Its attribute `example`, if it has one, is a line that the help
shows; `with_example` sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

from understudy.system import checks
from understudy.system.errors import InputError, MissingDependencyError
from understudy.system.plugins import load_plugin, plugins

GROUP = "understudy.commands"
# Options of another command, which a command passes on.
PASSES_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
# Commands of a distribution of this project that not everybody installs.
_ELSEWHERE = dict.fromkeys(("bench", "data", "train"), "understudy-benchmarks")

Function = TypeVar("Function", bound=Callable[..., None])


def with_example(line: str) -> Callable[[Function], Function]:
    """A decorator that gives a command the example which its help shows."""

    def decorate(command: Function) -> Function:
        vars(command)["example"] = line
        return command

    return decorate


def epilog(example: str) -> str:
    """The end of a command's help."""
    return f"\b\nExample:\n  {example}" if example else ""  # \b: keep the line breaks


class CommandGroup(TyperGroup):
    """The built-in commands, then those of plug-ins, which are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*super().list_commands(ctx), *plugins(GROUP)]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; an unknown name is an error that offers the nearest one."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        entries = plugins(GROUP)
        if cmd_name in _ELSEWHERE and cmd_name not in entries:
            package = _ELSEWHERE[cmd_name]
            raise MissingDependencyError(
                f"the command {cmd_name} needs the package {package}: pip install {package}"
            )
        checks.one_of(cmd_name, "command", self.list_commands(ctx))
        return _command(entries[cmd_name])


def _command(entry: EntryPoint) -> Any:
    """The command of an entry point; of a broken one, a command that says what is wrong."""
    try:
        function = load_plugin(entry)
        if not callable(function) or isinstance(function, type):
            raise InputError(
                f"the plug-in {entry.name!r} ({entry.value}) is not a function; repair or "
                "uninstall its package"
            )
        return _parsed(entry, function, epilog=epilog(getattr(function, "example", "")))
    except InputError as problem:
        return _broken(entry, problem)


def _parsed(entry: EntryPoint, function: Callable[..., None], **settings: Any) -> Any:
    """A function with the parser of its arguments; `InputError` if typer cannot make one."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(entry.name, **settings)(function)
    try:
        return typer.main.get_command(app)
    except Exception as problem:  # somebody else's code, as in `load_plugin`
        raise InputError(
            f"the plug-in {entry.name!r} ({entry.value}) has parameters that are no arguments or "
            f"options: {problem}; repair or uninstall its package"
        ) from problem


def _broken(entry: EntryPoint, problem: InputError) -> Any:
    def run() -> None:
        raise problem

    return _parsed(entry, run, help=f"Cannot be used: {problem}.", context_settings=PASSES_ON)
