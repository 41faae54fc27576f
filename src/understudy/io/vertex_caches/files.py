"""Files of positions: their size and their numbers, checked before they are trusted."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.core.errors import FileError

_BLOCK = 1 << 22  # numbers checked at a time


def mapped(path: Path, dtype: str, offset: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Return an array (F,V,3) of a file, memory-mapped; every number is checked to be finite."""
    found = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    flat = found.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        if not np.isfinite(flat[start : start + _BLOCK]).all():
            raise FileError(f"{path}: some positions are NaN or infinite; export it again")
    return found


def file_size(path: Path) -> int:
    """Return the size of a file in bytes."""
    try:
        if not path.is_file():
            raise FileError(f"{path}: {'is not a file' if path.exists() else 'no such file'}")
        return path.stat().st_size
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror or problem}") from problem


def read_start(path: Path, count: int) -> bytes:
    """Return the first `count` bytes of a file, or fewer if it is shorter."""
    file_size(path)
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror or problem}") from problem


def need_size(path: Path, have: int, want: int, frames: int, vertices: int) -> None:
    """Raise unless a file of `have` bytes holds exactly what its header claims."""
    if frames < 1 or vertices < 1:
        raise FileError(f"{path}: claims {frames} frames of {vertices} vertices")
    if have != want:
        state = "is truncated" if have < want else "has more bytes than it should"
        raise FileError(
            f"{path}: {state}: {frames} frames of {vertices} vertices need {want:,} bytes, the "
            f"file has {have:,}"
        )
