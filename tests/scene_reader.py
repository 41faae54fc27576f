"""Reads what the page reads of a scene: the reverse of `understudy.viewer.packing`."""

import json

import numpy as np
from safetensors.numpy import load

from understudy.viewer.packing import Container


def container_of(data: bytes) -> Container:
    """The container of a file that `Container.to_bytes` made."""
    start = 8 + int.from_bytes(data[:8], "little")
    about = json.loads(json.loads(data[8:start])["__metadata__"]["scene"])
    packed = about.pop("packed")
    return Container(about, dict(load(data)), packed)


def file_of(scene: Container, name: str) -> bytes:
    """The bytes that `put_bytes` stored."""
    return scene.arrays[name].T.tobytes()[: scene.packed[name]["length"]]


def whole_of(scene: Container, name: str) -> np.ndarray:
    """The numbers that `put_whole` stored."""
    how = scene.packed[name]
    return decode(scene.arrays[name], how["shape"], how["order"])


def decode(planes: np.ndarray, shape: list[int], order: int) -> np.ndarray:
    """The numbers of `encode`, as int64."""
    width = len(planes)
    numbers = np.ascontiguousarray(planes.T).view(f"<u{width}").reshape(-1).astype(np.int64)
    values = ((numbers >> 1) ^ -(numbers & 1)).reshape(shape)
    for _ in range(order):
        values = np.cumsum(values, axis=0)
    return values
