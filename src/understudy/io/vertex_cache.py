"""`VertexCache`: positions of one mesh over time, as files without bones have them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.system import checks
from understudy.system.errors import InputError


@dataclass(frozen=True, eq=False)
class VertexCache:
    """Positions of one mesh at some frames.

    vertices    (F,V,3) of any float type and byte order; memory-mapped where the file allows it
    frames      (F,) float64, the frame number of each sample, in increasing order
    frame_rate  frames per second; None: the file does not say
    name        of the file or its channel
    numbered    whether the frame numbers come from the file
    mesh        with the polygons; None: the file has none

    >>> VertexCache(np.zeros((3, 8, 3)), np.arange(3), 24.0).at([1.5 / 24]).shape
    (1, 8, 3)
    """

    vertices: np.ndarray
    frames: np.ndarray
    frame_rate: float | None = None
    name: str = "cache"
    numbered: bool = True
    mesh: Mesh | None = None

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

    @staticmethod
    def of_poses(poses: Poses) -> VertexCache:
        """Return the vertices of a mesh sequence, of an Alembic file, and so on."""
        span = poses.spans[0] if poses.spans else None
        if len(poses.spans) > 1:
            raise InputError(
                f"{poses.name!r} has {len(poses.spans)} clips; a pair needs a cache of one clip"
            )
        frames = np.arange(poses.pose_count) + (0.0 if span is None else span.start_frame)
        vertices = poses.read_poses(0, poses.pose_count)
        rate, is_numbered = poses.frame_rate, span is not None
        return VertexCache(vertices, frames, rate, poses.name, is_numbered, poses.mesh)

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
