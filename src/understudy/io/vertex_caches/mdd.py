"""MDD (LightWave, Blender, Houdini): big-endian counts, times in seconds, positions."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from understudy.core.errors import FileError
from understudy.io.atomic_write import atomic_write
from understudy.io.vertex_caches.cache import VertexCache, file_size, mapped, need_size, read_start

_HEADER = struct.Struct(">ii")


def read_mdd(path: str | Path) -> VertexCache:
    """Return the cache of a `.mdd` file, memory-mapped.

    The frame rate follows from the times; it is unknown if they are missing or uneven.
    """
    path = Path(path)
    size = file_size(path)
    start = read_start(path, _HEADER.size)
    if len(start) < _HEADER.size:
        raise FileError(f"{path}: is not an MDD file: it has {len(start)} bytes")
    frames, vertices = _HEADER.unpack(start)
    offset = _HEADER.size + 4 * frames
    need_size(path, size, offset + 12 * frames * vertices, frames, vertices)
    times = np.fromfile(path, ">f4", frames, offset=_HEADER.size).astype(np.float64)
    rate = _rate(times)
    numbers = np.arange(frames, dtype=np.float64)
    if rate is not None:
        numbers += np.round(times[0] * rate)
    return VertexCache(mapped(path, ">f4", offset, (frames, vertices, 3)), numbers, rate, path.stem)


def write_mdd(cache: VertexCache, path: str | Path) -> None:
    """Write a cache as `.mdd`; one without a frame rate gets 30 frames per second."""
    times = cache.frames / (cache.frame_rate or 30.0)
    with atomic_write(path) as draft, draft.open("wb") as file:
        file.write(_HEADER.pack(cache.frame_count, cache.vertex_count))
        file.write(times.astype(">f4").tobytes())
        for frame in cache.vertices:
            file.write(np.asarray(frame, ">f4").tobytes())


def _rate(times: np.ndarray) -> float | None:
    """Return the frame rate of even times (F,) in seconds; None: they are not."""
    if len(times) < 2 or not np.isfinite(times).all():
        return None
    step = (times[-1] - times[0]) / (len(times) - 1)
    # Times are 32-bit numbers.
    rounding = 4 * np.spacing(np.float32(np.abs(times).max()))
    if not step > 1e-5 or np.abs(np.diff(times) - step).max() > max(1e-3 * step, rounding):
        return None
    rate = 1.0 / step
    known = np.array([24000 / 1001, 24, 25, 30000 / 1001, 30, 48, 50, 60000 / 1001, 60, 120])
    near = known[np.argmin(np.abs(known - rate))]
    return float(near if abs(near - rate) < 5e-4 * rate else rate)
