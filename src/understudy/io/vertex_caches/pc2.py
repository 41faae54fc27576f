"""PC2 (3ds Max, Blender, Houdini): a header of 32 bytes, then positions, little-endian."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from understudy.core.errors import FileError
from understudy.io.atomic_write import atomic_write
from understudy.io.vertex_caches.cache import VertexCache, file_size, mapped, need_size, read_start

_HEADER = struct.Struct("<12siiffi")  # magic, version, vertices, start frame, step, frames
_MAGIC = b"POINTCACHE2\0"


def read_pc2(path: str | Path) -> VertexCache:
    """Return the cache of a `.pc2` file, memory-mapped; such a file does not say its frame rate."""
    path = Path(path)
    size = file_size(path)
    start = read_start(path, _HEADER.size)
    if len(start) < _HEADER.size or start[:12] != _MAGIC:
        raise FileError(f"{path}: is not a PC2 file: it does not start with POINTCACHE2")
    _, version, vertices, first, step, frames = _HEADER.unpack(start)
    if version != 1:
        raise FileError(f"{path}: is PC2 of version {version}, expected 1")
    need_size(path, size, _HEADER.size + 12 * frames * vertices, frames, vertices)
    if not (np.isfinite([first, step]).all() and abs(first) < 1e9 and 0 < step < 1e9):
        raise FileError(f"{path}: has a sample every {step:g} frames from frame {first:g} on")
    return VertexCache(
        mapped(path, "<f4", _HEADER.size, (frames, vertices, 3)),
        first + step * np.arange(frames),
        name=path.stem,
    )


def write_pc2(cache: VertexCache, path: str | Path) -> None:
    """Write a cache as `.pc2`; its frames must be evenly spaced."""
    steps = np.diff(cache.frames)
    step = float(steps[0]) if len(steps) else 1.0
    if len(steps) and np.abs(steps - step).max() > 1e-3 * step:
        raise FileError(f"{path}: PC2 needs evenly spaced frames, {cache.name!r} has others")
    head = _HEADER.pack(
        _MAGIC, 1, cache.vertex_count, float(cache.frames[0]), step, cache.frame_count
    )
    with atomic_write(path) as draft, draft.open("wb") as file:
        file.write(head)
        for frame in cache.vertices:
            file.write(np.asarray(frame, "<f4").tobytes())
