"""Files that survive a crash: brought from the system's cache to the disk before they count."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path


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
