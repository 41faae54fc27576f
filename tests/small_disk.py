"""A real file system of a few megabytes, to fill up or to make read-only."""

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int):
    """Mount a file system of this size at `folder`; skip the test where that is not allowed."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs Linux and root")
    folder.mkdir()
    size = f"size={megabytes}m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the file system up; returns the file to delete."""
    filler = folder / "filler"
    with open(filler, "ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    with (
        pytest.raises(OSError, match="No space left") as full,
        open(folder / "other", "wb", buffering=0) as file,
    ):
        file.write(b"x" * 4096)
    assert full.value.errno == errno.ENOSPC
    (folder / "other").unlink(missing_ok=True)
    return filler


def read_only(folder: Path, on: bool) -> None:
    """Make the file system read-only, or writable again."""
    flags = f"remount,{'ro' if on else 'rw'}"
    subprocess.run(["mount", "-o", flags, str(folder)], check=True)
