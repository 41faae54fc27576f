"""The errors a user can cause. Each message says what was wrong, what arrived, and what to do.

`UnderstudyError` is what the command line turns into one clean line and exit code 2; anything else
is our bug and keeps its traceback.
"""


class UnderstudyError(Exception):
    """Something the caller can put right."""


class InputError(UnderstudyError, ValueError):
    """An argument, array or option is wrong."""


class FileError(UnderstudyError, ValueError):
    """A file is missing, is not what it should be, or cannot be written."""


class MissingDependencyError(UnderstudyError, ImportError):
    """An optional package is needed for this; the message names the install command."""
