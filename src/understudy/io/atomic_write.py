"""Files that are written whole or not at all: every output of the package goes through here.

They survive a crash: they are brought from the system's cache to the disk before they count.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.system.errors import FileError


def ensure_writable(path: str | Path) -> None:
    """Raise `FileError` if `path` cannot be written; call it before long work, not after it."""
    with _draft_of(Path(path)):
        pass


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a temporary file to write to, which replaces `path` at the end of the `with` block.

    If the block fails, the temporary file is removed and `path` stays as it is.
    """
    path = Path(path)
    with _draft_of(path) as draft:
        try:
            yield draft
            to_disk(draft)
            os.replace(draft, path)
        except OSError as problem:
            advice = " (the disk is full: free some space)" if is_disk_full(problem) else ""
            raise FileError(
                f"{path}: cannot be written: {problem.strerror or problem}{advice}"
            ) from problem


@contextmanager
def _draft_of(path: Path) -> Iterator[Path]:
    """Give an empty temporary file beside `path`; it is removed unless it was moved away."""
    if path.is_dir():
        raise FileError(f"{path}: is a folder; give a file name")
    missing = [folder for folder in path.parents if not folder.exists()]
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not tempfile: its files are readable by their owner alone, also after they are moved.
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as problem:
        raise FileError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)
        with suppress(OSError):  # a folder with anything in it stays
            for folder in missing:
                folder.rmdir()


def to_disk(file: Path) -> int:
    """Bring a file from the system's cache to the disk, and return its size in bytes."""
    # Not a read-only handle: Windows refuses to flush one.
    with open(file, "r+b") as opened:
        os.fsync(opened.fileno())
        return os.fstat(opened.fileno()).st_size


def folder_to_disk(folder: Path) -> None:
    """Bring the entries of a folder to the disk: names of new, renamed and removed files."""
    if sys.platform == "win32":  # it cannot open folders, and brings their entries to disk itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(file: Path, text: str) -> None:
    """Write a small file, whole or not at all; it is on disk when this returns."""
    # A name of its own: another process may write the same file.
    draft = file.with_name(f"{file.name}.{os.urandom(16).hex()}.partial")
    draft.write_text(text, encoding="utf-8")
    to_disk(draft)
    draft.replace(file)
    folder_to_disk(file.parent)


def is_disk_full(problem: OSError) -> bool:
    """Return whether an error of the system means that no space, or no quota, is left."""
    return problem.errno in (errno.ENOSPC, errno.EDQUOT)
