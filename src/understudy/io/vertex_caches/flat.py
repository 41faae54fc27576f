"""MDD and PC2: a header, then the positions of all frames.

.mdd  LightWave, Blender, Houdini: big-endian counts, times in seconds, positions
.pc2  3ds Max, Blender, Houdini: a header of 32 bytes, then positions, little-endian

Sizes and numbers are checked before they are trusted.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from understudy.io.atomic_write import atomic_write
from understudy.io.numbers import byte_count, of_file
from understudy.io.vertex_cache import VertexCache
from understudy.system.errors import FileError

_MDD = struct.Struct(">ii")
_PC2 = struct.Struct("<12siiffi")  # magic, version, vertices, start frame, step, frames
_MAGIC = b"POINTCACHE2\0"
_BLOCK = 1 << 22  # numbers checked at a time


def read_mdd(path: str | Path) -> VertexCache:
    """Return the cache of a `.mdd` file, memory-mapped.

    The frame rate follows from the times; it is unknown if they are missing or uneven.
    """
    path = Path(path)
    start = read_start(path, _MDD.size)
    if len(start) < _MDD.size:
        raise FileError(f"{path}: is not an MDD file: it has {len(start)} bytes")
    frames, vertices = _MDD.unpack(start)
    offset = _MDD.size + 4 * frames
    need_size(path, offset + 12 * frames * vertices, frames, vertices)
    times = np.fromfile(path, ">f4", frames, offset=_MDD.size).astype(np.float64)
    rate = _rate(times)
    numbers = np.arange(frames, dtype=np.float64)
    if rate is not None:
        numbers += np.round(times[0] * rate)
    return VertexCache(mapped(path, ">f4", offset, (frames, vertices, 3)), numbers, rate, path.stem)


def write_mdd(cache: VertexCache, path: str | Path) -> None:
    """Write a cache as `.mdd`; one without a frame rate gets 30 frames per second."""
    times = cache.frames / (cache.frame_rate or 30.0)
    head = _MDD.pack(cache.frame_count, cache.vertex_count) + times.astype(">f4").tobytes()
    _write(path, head, cache.vertices, ">f4")


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


def read_pc2(path: str | Path) -> VertexCache:
    """Return the cache of a `.pc2` file, memory-mapped; such a file does not say its frame rate."""
    path = Path(path)
    start = read_start(path, _PC2.size)
    if len(start) < _PC2.size or start[:12] != _MAGIC:
        raise FileError(f"{path}: is not a PC2 file: it does not start with POINTCACHE2")
    _, version, vertices, first, step, frames = _PC2.unpack(start)
    if version != 1:
        raise FileError(f"{path}: is PC2 of version {version}, expected 1")
    need_size(path, _PC2.size + 12 * frames * vertices, frames, vertices)
    if not (np.isfinite([first, step]).all() and abs(first) < 1e9 and 0 < step < 1e9):
        raise FileError(f"{path}: has a sample every {step:g} frames from frame {first:g} on")
    return VertexCache(
        mapped(path, "<f4", _PC2.size, (frames, vertices, 3)),
        first + step * np.arange(frames),
        name=path.stem,
    )


def write_pc2(cache: VertexCache, path: str | Path) -> None:
    """Write a cache as `.pc2`; its frames must be evenly spaced."""
    steps = np.diff(cache.frames)
    step = float(steps[0]) if len(steps) else 1.0
    if len(steps) and np.abs(steps - step).max() > 1e-3 * step:
        raise FileError(f"{path}: PC2 needs evenly spaced frames, {cache.name!r} has others")
    head = _PC2.pack(_MAGIC, 1, cache.vertex_count, float(cache.frames[0]), step, cache.frame_count)
    _write(path, head, cache.vertices, "<f4")


def _write(path: str | Path, head: bytes, vertices: np.ndarray, dtype: str) -> None:
    """Write a header and all frames."""
    with atomic_write(path) as draft, draft.open("wb") as file:
        file.write(head)
        for frame in vertices:
            file.write(np.asarray(frame, dtype).tobytes())


def mapped(path: Path, dtype: str, offset: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Return an array (F,V,3) of a file, memory-mapped; every number is checked to be finite."""
    found = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
    flat = found.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        if not np.isfinite(flat[start : start + _BLOCK]).all():
            raise FileError(f"{path}: some positions are NaN or infinite; export it again")
    return found


def read_start(path: Path, count: int) -> bytes:
    """Return the first `count` bytes of a file, or fewer if it is shorter."""
    byte_count(path)
    with of_file(path), path.open("rb") as file:
        return file.read(count)


def need_size(path: Path, want: int, frames: int, vertices: int) -> None:
    """Raise unless a file holds exactly what its header claims."""
    have = byte_count(path)
    if frames < 1 or vertices < 1:
        raise FileError(f"{path}: claims {frames} frames of {vertices} vertices")
    if have != want:
        state = "is truncated" if have < want else "has more bytes than it should"
        raise FileError(
            f"{path}: {state}: {frames} frames of {vertices} vertices need {want:,} bytes, the "
            f"file has {have:,}"
        )
