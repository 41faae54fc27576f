"""Several samples of one rig as one, without reading their vertices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from understudy.core.poses import Poses, join_poses


class JoinedVertices:
    """The vertices of several `Poses`, one after the other; a `VertexSource`.

    parts  of one mesh
    shape  (T,V,3), T the poses of all parts
    """

    def __init__(self, parts: Sequence[Poses]):
        self._parts = list(parts)
        self._ends = np.cumsum([part.pose_count for part in parts]).tolist()
        self.shape: tuple[int, int, int] = (self._ends[-1], parts[0].vertex_count, 3)

    def read_poses(self, start: int, stop: int) -> np.ndarray:
        """Return all vertices of some poses, (stop-start, V, 3) float32."""
        found = [part.read_poses(low, high) for part, low, high in self._within(start, stop)]
        return np.concatenate(found) if found else np.empty((0, *self.shape[1:]), np.float32)

    def read(self, start: int, stop: int, vertices: np.ndarray) -> np.ndarray:
        """Return some vertices of some poses, (stop-start, len(vertices), 3) float32."""
        found = [part.read(low, high, vertices) for part, low, high in self._within(start, stop)]
        return np.concatenate(found) if found else np.empty((0, len(vertices), 3), np.float32)

    def _within(self, start: int, stop: int) -> Iterator[tuple[Poses, int, int]]:
        """Yield each part that has some of the poses, and which of its own those are."""
        for part, end in zip(self._parts, self._ends):
            first = end - part.pose_count
            low, high = max(start, first) - first, min(stop, end) - first
            if low < high:
                yield part, low, high


def join_samples(parts: Sequence[Poses]) -> Poses:
    """Return samples of one rig as one sample; their vertices stay where they are.

    parts  of the same mesh, bones and controls; control ranges may differ, the result has the
           widest
    """
    # One pose of each tells whether they belong together, and gives the widest ranges.
    joined = join_poses([part.take(np.array([0])) for part in parts])
    stacked = lambda arrays: None if arrays[0] is None else np.concatenate(arrays)
    bones = stacked([part.world_from_bone for part in parts])
    controls = stacked([part.controls for part in parts])
    vertices = JoinedVertices(parts)
    return replace(joined, vertices=vertices, world_from_bone=bones, controls=controls, spans=())
