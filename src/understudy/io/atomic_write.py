"""Files that are written whole or not at all: every output of the package goes through here."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from understudy.core.errors import FileError


def ensure_writable(path: str | Path) -> None:
    """Raise `FileError` now if `path` could not be written later: before long work, not after
    it.
    """
    with _part_of(Path(path)):
        pass


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """An empty temporary sibling of `path`, gone at the end of the block unless it was moved
    away.
    """
    if path.is_dir():
        raise FileError(f"{path}: is a folder; give a file name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A temporary sibling of `path` to write to; it takes the place of `path` at the end of the
    block, or vanishes if the block fails.
    """
    path = Path(path)
    with _part_of(path) as part:
        try:
            yield part
            with open(part, "r+b") as written:  # Windows refuses to flush a read-only handle
                os.fsync(written.fileno())
            os.chmod(part, 0o666 & ~_umask())
            os.replace(part, path)
        except OSError as problem:
            full = (
                " (no space left on the disk: free some and run again)"
                if problem.errno in (errno.ENOSPC, errno.EDQUOT)
                else ""
            )
            raise FileError(
                f"{path}: cannot be written: {problem.strerror or problem}{full}"
            ) from problem


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
