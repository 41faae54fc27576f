"""Bytes of files, and numbers in them, read without Python loops: shared by readers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from understudy.io.budget import Budget
from understudy.system.errors import FileError, InputError

_PER_NUMBER = 28  # bytes


@contextmanager
def of_file(where: object, what: str = "") -> Iterator[None]:
    """Raise what the system, or a noun that is made of a file's content, refuses as a `FileError`.

    where  the file, or the place in it
    what   said before what a noun refuses
    """
    try:
        yield
    except InputError as problem:
        raise FileError(f"{where}: {what}{problem}") from problem
    except OSError as problem:
        raise FileError(f"{where}: cannot be read: {problem.strerror or problem}") from problem


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file; what is wrong is a `FileError`."""
    with of_file(path):
        return Path(path).read_bytes()


def byte_count(path: Path) -> int:
    """Return the size of a file in bytes; what is wrong is a `FileError`."""
    with of_file(path):
        size = path.stat().st_size
    if not path.is_file():
        raise FileError(f"{path}: is not a file")
    return size


def read_numbers(text: bytes) -> np.ndarray:
    """Return every number in `text`, (n,) float64; anything else in it is a `ValueError`.

    >>> read_numbers(b"1 2.5\\n-3e2").tolist()
    [1.0, 2.5, -300.0]
    """
    if not text.strip():
        return np.zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text.decode("ascii"), dtype=np.float64, sep=" ")
        except (DeprecationWarning, ValueError):  # of older and newer versions of NumPy
            raise ValueError("it has text where numbers are expected") from None


def whole(values: np.ndarray, what: str) -> np.ndarray:
    """Return numbers as int64; one with a fraction is a `ValueError`.

    >>> whole(np.array([2.0, 7.0]), "corners").tolist()
    [2, 7]
    """
    if (
        values.dtype.kind == "f"
        and not ((values == np.floor(values)) & (np.abs(values) < 2**53)).all()
    ):
        raise ValueError(f"{what}: expected whole numbers")
    return values.astype(np.int64)


def words_per_line(text: bytes) -> np.ndarray:
    """Return how many words each line has, (lines,) int64; the last line ends with a newline.

    >>> words_per_line(b"1 2 3\\n4 5\\n").tolist()
    [3, 2]
    """
    data = np.frombuffer(text, np.uint8)
    blank = data <= 32
    starts = ~blank & np.concatenate([[True], blank[:-1]])
    line = np.cumsum(data == 10) - (data == 10)
    return np.bincount(line[starts], minlength=int((data == 10).sum()))


def ragged(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the places start, start+1, ... of every record, joined: (sizes.sum(),) int64.

    >>> ragged(np.array([0, 10]), np.array([2, 3])).tolist()
    [0, 1, 10, 11, 12]
    """
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum())) + np.repeat(starts - (ends - sizes), sizes)


UVS = "TEXCOORD_0"  # the first UV set among values of corners, which a `Mesh` has apart


def uvs_of(values: dict[str, np.ndarray]) -> np.ndarray | None:
    """Take the first UV set out of values of corners; it is zero where they had NaN."""
    found = values.pop(UVS, None)
    return None if found is None else np.nan_to_num(found)


def joined_values(
    parts: Sequence[tuple[Mapping[str, np.ndarray], int]], budget: Budget
) -> dict[str, np.ndarray]:
    """Return the rows (n,...,w) of several parts together, by name; NaN where a part has none.

    parts   for each part, its rows by name, and n
    budget  of the file: parts of one name each stand for far more than their bytes

    Narrower rows get ones at the end: colours without opacity.

    >>> parts = [({"a": np.zeros((1, 2))}, 1), ({"a": np.zeros((1, 1))}, 1)]
    >>> joined_values(parts, Budget("example", 0))["a"].tolist()
    [[0.0, 0.0], [0.0, 1.0]]
    """
    result = {}
    for name in dict.fromkeys(name for given, _ in parts for name in given):
        first = next(given[name] for given, _ in parts if name in given)
        width = max(given[name].shape[-1] for given, _ in parts if name in given)
        inner = (*first.shape[1:-1], width)
        # The rows, their parts on the way, and those that are made of them.
        budget.take(_PER_NUMBER * math.prod((sum(n for _, n in parts), *inner)), "attributes")
        blocks = []
        for given, count in parts:
            shape = (count, *inner)
            block = np.full(shape, 1.0 if name in given else np.nan)
            if name in given:
                block[..., : given[name].shape[-1]] = given[name]
            blocks.append(block)
        result[name] = np.concatenate(blocks)
    return result
