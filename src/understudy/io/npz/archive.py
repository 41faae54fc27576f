"""Arrays out of a `.npz` file that nobody vouches for: no pickles, and no more memory than it says.

A `.npz` is a zip archive of `.npy` files. The sizes it declares are checked before anything is
unpacked, so a small file cannot fill the memory (a "zip bomb").
"""

from __future__ import annotations

import difflib
import lzma
import math
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from understudy.core.errors import FileError

# What zipfile and NumPy raise on a file that is damaged, truncated or something else.
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
# Positions of an animation compress to a third; a mesh that does not move, to a hundredth.
_MAX_RATIO = 300
_ALWAYS_ALLOWED = 1 << 30  # bytes


def array_names(path: str | Path) -> tuple[str, ...]:
    """Return the names of the arrays in a `.npz` file; `FileError` if it is not one."""
    with _opened(path) as archive:
        return tuple(_members(archive))


def read_arrays(path: str | Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Return those arrays of a `.npz` file that are named in `wanted`, by name.

    Other arrays are not unpacked. Pickled objects are refused, and so is a file whose arrays are
    implausibly large for its size.
    """
    with _opened(path) as archive:
        members = {name: info for name, info in _members(archive).items() if name in wanted}
        total = sum(info.file_size for info in members.values())
        packed = sum(info.compress_size for info in members.values())
        if total > max(_ALWAYS_ALLOWED, _MAX_RATIO * packed):
            raise FileError(
                f"{path}: {packed:,} bytes claim to hold {total:,} bytes of arrays; it is damaged "
                "or made to fill the memory. Save it again with numpy.savez"
            )
        return {name: _read_array(archive, info, path, name) for name, info in members.items()}


def refuse_misspelled(path: str | Path, names: Collection[str], known: Collection[str]) -> None:
    """Raise if a name that is not known is close to one that is, and would be ignored."""
    for name in sorted(set(names) - set(known)):
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
        if near:
            raise FileError(f"{path}: unknown array {name!r}; did you mean {near[0]!r}?")


@contextmanager
def _opened(path: str | Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; what goes wrong inside the `with` block becomes a `FileError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except UNREADABLE as problem:
        raise FileError(f"{path}: damaged, truncated or not a .npz file: {problem}") from problem


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive by the name of their array."""
    return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str | Path, name: str
) -> np.ndarray:
    """Return one array, after comparing the shape it declares with its size."""
    # NumPy would allocate whatever shape the header declares.
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"the array {name} has the unknown format version {version}")
        if dtype.hasobject:
            raise FileError(
                f"{path}: the array {name!r} holds pickled Python objects, which are never loaded; "
                "save numbers, or names as numpy.array(names, dtype=str)"
            )
        if file.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
            raise ValueError(f"the array {name} declares the shape {shape}, which does not fit it")
    with archive.open(info) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
