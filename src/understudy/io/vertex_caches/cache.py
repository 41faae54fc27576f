"""`VertexCache`: what every reader of vertex caches returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.errors import FileError, InputError

_BLOCK = 1 << 22  # numbers checked at a time


@dataclass(frozen=True, eq=False)
class VertexCache:
    """Positions of one mesh at some frames.

    vertices    (F,V,3) of any float type and byte order; memory-mapped where the file allows it
    frames      (F,) float64, the frame number of each sample, in increasing order
    frame_rate  frames per second; None: the file does not say
    name        of the file or its channel

    >>> VertexCache(np.zeros((3, 8, 3)), np.arange(3), 24.0).at([1.5 / 24]).shape
    (1, 8, 3)
    """

    vertices: np.ndarray
    frames: np.ndarray
    frame_rate: float | None = None
    name: str = "cache"

    def __post_init__(self):
        checks.shape_of(self.vertices, f"vertices of {self.name!r}", (None, None, 3))
        if not self.vertices.size:
            raise InputError(f"{self.name!r} has {len(self.vertices)} frames and no positions")
        frames = checks.array(
            self.frames, f"frames of {self.name!r}", (len(self.vertices),), np.float64
        )
        if np.any(np.diff(frames) <= 0):
            raise InputError(f"frames of {self.name!r}: expected increasing numbers")
        object.__setattr__(self, "frames", frames)
        if self.frame_rate is not None:
            checks.between(self.frame_rate, f"frame rate of {self.name!r}", above=0)

    @property
    def frame_count(self) -> int:
        """F."""
        return len(self.vertices)

    @property
    def vertex_count(self) -> int:
        """V."""
        return self.vertices.shape[1]

    @property
    def spacing(self) -> float:
        """Frames from one sample to the next."""
        return float(self.frames[1] - self.frames[0]) if len(self.frames) > 1 else 1.0

    @property
    def start_frame(self) -> int:
        """The number of the first frame, rounded."""
        return round(float(self.frames[0]))

    def at(self, seconds: np.ndarray, frame_rate: float | None = None) -> np.ndarray:
        """Return the positions (n,V,3) float32 at some times, interpolated between samples.

        seconds     (n,); before the first and after the last sample these are held
        frame_rate  frames per second, if the cache does not say
        """
        rate = self.frame_rate or frame_rate
        if rate is None:
            raise InputError(f"{self.name!r} has no frame rate; give one")
        frames = np.asarray(seconds, np.float64) * rate
        place = np.interp(frames, self.frames, np.arange(len(self.frames)))
        # Frame numbers are rounded in files: a sample that is meant is taken as it is.
        whole = np.abs(place - place.round()) < 1e-4
        place = np.where(whole, place.round(), place)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, len(self.frames) - 1)
        share = (place - below)[:, None, None].astype(np.float32)
        read = lambda at: np.asarray(self.vertices[at], np.float32)
        return read(below) if not share.any() else (1 - share) * read(below) + share * read(above)


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
