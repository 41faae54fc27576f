"""Arrays of a scene as bytes: a safetensors file whose whole numbers are ready to be compressed.

Whole numbers are replaced by their differences along the first axis, once or twice, and stored as
planes of bytes: all lowest bytes, then all second bytes. A general compressor then makes smooth
motion small. `web/src/container.ts` is the reader.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from safetensors.numpy import load as unpack_arrays
from safetensors.numpy import save as pack_arrays


@dataclass
class Container:
    """Arrays and a description, on their way to a page.

    about    what JSON can say
    arrays   stored as they are
    packed   name -> how its numbers are stored: shape and order of the differences, or a length
    """

    about: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    packed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, name: str, array: np.ndarray) -> None:
        """Store an array as it is."""
        self.arrays[name] = np.ascontiguousarray(array)

    def put_whole(self, name: str, array: np.ndarray, order: int = 0) -> None:
        """Store whole numbers as planes of bytes.

        array  (n, ...) integers
        order  how often to take differences along the first axis
        """
        self.arrays[name] = encode(array, order)
        self.packed[name] = {"shape": list(array.shape), "order": order}

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a file, most of which is 16-bit numbers, as two planes of bytes."""
        even = data + b"\0" * (len(data) % 2)
        planes = np.frombuffer(even, np.uint8).reshape(-1, 2).T
        self.arrays[name] = np.ascontiguousarray(planes)
        self.packed[name] = {"length": len(data)}

    def file(self, name: str) -> bytes:
        """Return the bytes that `put_bytes` stored."""
        return self.arrays[name].T.tobytes()[: self.packed[name]["length"]]

    def to_bytes(self) -> bytes:
        """Return the file."""
        text = json.dumps(
            {**self.about, "packed": self.packed}, separators=(",", ":"), allow_nan=False
        )
        return pack_arrays(self.arrays, metadata={"scene": text})

    @staticmethod
    def from_bytes(data: bytes) -> Container:
        """Return the container of a file that `to_bytes` made."""
        start = 8 + int.from_bytes(data[:8], "little")
        about = json.loads(json.loads(data[8:start])["__metadata__"]["scene"])
        packed = about.pop("packed")
        return Container(about, dict(unpack_arrays(data)), packed)

    def whole(self, name: str) -> np.ndarray:
        """Return the numbers that `put_whole` stored."""
        how = self.packed[name]
        return decode(self.arrays[name], how["shape"], how["order"])


def encode(array: np.ndarray, order: int = 0) -> np.ndarray:
    """Return whole numbers as (bytes per number, n) planes of bytes, the lowest bytes first.

    >>> encode(np.array([1000, 1001, 1003]), order=1).tolist()
    [[208, 2, 4], [7, 0, 0]]
    """
    values = np.asarray(array).astype(np.int64)
    for _ in range(order):
        values = np.concatenate([values[:1], np.diff(values, axis=0)])
    signless = ((values << 1) ^ (values >> 63)).reshape(-1)  # small numbers of either sign
    largest = int(signless.max(initial=0))
    if largest >= 2**32:
        raise ValueError("numbers of more than 32 bits")
    width = 1 if largest < 2**8 else 2 if largest < 2**16 else 4
    planes = signless.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
    return np.ascontiguousarray(planes.T)


def decode(planes: np.ndarray, shape: list[int], order: int) -> np.ndarray:
    """Return the numbers of `encode`, as int64.

    >>> decode(encode(np.array([5, -3, 9]), 2), [3], 2).tolist()
    [5, -3, 9]
    """
    width = len(planes)
    numbers = np.ascontiguousarray(planes.T).view(f"<u{width}").reshape(-1).astype(np.int64)
    values = ((numbers >> 1) ^ -(numbers & 1)).reshape(shape)
    for _ in range(order):
        values = np.cumsum(values, axis=0)
    return values
