"""A lock that one process at a time holds, on a file beside what it protects."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from understudy.system.errors import FileError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


@contextlib.contextmanager
def lock(path: str | Path) -> Iterator[None]:
    """Hold the right to write the pose store at `path`; a second holder gets a `FileError` at once.

    The system releases the lock when the process ends, also when it is killed.
    """
    path = Path(path)
    file = path.with_name(f".{path.name}.lock")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked_handle(file)
    except BlockingIOError:
        raise FileError(
            f"{path}: another process is sampling to this store; wait for it, or choose another "
            "path"
        ) from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be written there: {problem.strerror}") from problem
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file; an old one does no harm
            file.unlink()
        os.close(handle)


def _locked_handle(file: Path) -> int:
    """Return an open handle of `file` that holds its lock; BlockingIOError: another has it."""
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(handle)
            # Another holder may have removed the file after it was opened here.
            if _is_open_file(handle, file):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock an open file, or raise BlockingIOError; closing the handle releases the lock."""
    if sys.platform == "win32":
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as problem:
            raise BlockingIOError(*problem.args) from problem
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_open_file(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except FileNotFoundError:
        return False
