"""Errors that a user can cause. Each message says what is wrong, what arrived and what to do.

The command line prints an `UnderstudyError` as one line and exits with code 2. Any other exception
is a bug of this package and keeps its traceback.
"""

import importlib
from typing import Any

_MOST = 1900  # bytes of a message: names and values in it come from files


class UnderstudyError(Exception):
    """Something that the caller can correct."""

    def __str__(self) -> str:
        data = super().__str__().encode("utf-8", "backslashreplace")
        if len(data) > _MOST:
            data = data[: _MOST - 500] + b" ... " + data[-500:]
        return data.decode("utf-8", "ignore")


class InputError(UnderstudyError, ValueError):
    """An argument, array or option is wrong."""


class FileError(UnderstudyError, ValueError):
    """A file is missing, is not what it should be, or cannot be written."""


class MissingDependencyError(UnderstudyError, ImportError):
    """An optional package is missing; the message has the command that installs it."""


def imported(name: str, what: str, extra: str) -> Any:
    """Return an optional package, or raise an error that says how to install it.

    what   needs it, for the error
    extra  of this package that has it
    """
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        raise MissingDependencyError(
            f"{what} needs the package {name}: pip install 'understudy[{extra}]'"
        ) from problem
