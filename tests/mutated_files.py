"""Damaged copies of files, for readers that must end in an error or in sound data."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from understudy.system.errors import UnderstudyError


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Yield `count` damaged copies of `data`: bytes changed, cut, repeated, large sizes."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        changed = bytearray(data)
        at = int(rng.integers(len(changed)))
        kind = number % 5
        if kind == 0:  # some bytes, most of them near the start, where headers are
            for _ in range(int(rng.integers(1, 9))):
                place = int(len(changed) * rng.random() ** 3)
                changed[place] = int(rng.integers(256))
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            del changed[at : at + int(rng.integers(1, 64))]
        elif kind == 3:
            changed[at:at] = changed[at : at + int(rng.integers(1, 64))]
        else:
            place = int(min(len(changed) - 8, 4 * rng.integers(len(changed) // 16 + 1)))
            sizes = (b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0")
            changed[place : place + 4] = sizes[int(rng.integers(4))]
        yield bytes(changed)


def read_mutated(
    original: Path, folder: Path, read: Callable[[Path], np.ndarray], count: int, seed: int
) -> int:
    """Read `count` damaged copies; return how many are errors. What is read must be finite.

    original  a sound file, read by its suffix
    folder    for the copies
    read      returns numbers of a file

    Any exception but an `UnderstudyError`, and any warning, fails.
    """
    copy, errors = folder / original.name, 0
    for data in mutations(original.read_bytes(), count, seed):
        copy.write_bytes(data)
        try:
            numbers = read(copy)
        except UnderstudyError:
            errors += 1
        else:
            assert np.isfinite(numbers).all()
    return errors
