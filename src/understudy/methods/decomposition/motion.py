"""The motion to explain, in the form the solver works on.

Every frame is moved to its own centroid and everything is scaled by the size of the rest pose:
weights sum to one, so a shift of a frame is a shift of all its bones, and neither where a sequence
stands nor its unit can change the result. Vertices are put in an order that follows from their
motion alone, so that the order they came in cannot change it either.

For affine bones the frames may be exchanged for any orthonormal combinations of them (the bones
combine in the same way), so the motion is written in its principal directions and the silent ones
are left out: a few dozen rows instead of hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.poses import Poses

_SILENT = 1e-10  # share of the squared motion that may be left out
_MOST_DIRECTIONS = 256
_EXACT_ROWS = 1300  # up to this many rows the directions are found exactly


@dataclass(eq=False)
class Motion:
    """rest (V,4) = [v, 1]; targets (V,R); square (V,) = |target|^2."""

    rest: np.ndarray
    targets: np.ndarray
    square: np.ndarray

    @property
    def vertex_count(self) -> int:
        return len(self.rest)

    @property
    def rows(self) -> int:
        return self.targets.shape[1]

    def some(self, vertices: np.ndarray, rows: np.ndarray | None = None) -> Motion:
        """Some vertices, and some rows where those are given."""
        targets = np.ascontiguousarray(
            self.targets[vertices] if rows is None else self.targets[np.ix_(vertices, rows)]
        )
        return Motion(
            np.ascontiguousarray(self.rest[vertices]),
            targets,
            np.einsum("vr,vr->v", targets, targets),
        )

    def turned(self, directions: np.ndarray) -> Motion:
        """In other directions (R,n)."""
        targets = self.targets @ directions
        return Motion(self.rest, targets, np.einsum("vr,vr->v", targets, targets))

    def strongest(self, left_out: float) -> Motion:
        """The first rows, so many that the others hold no more than `left_out` of the squared
        motion.
        """
        tail = np.cumsum((self.targets[:, ::-1] ** 2).sum(axis=0))
        rows = max(1, self.rows - int(np.searchsorted(tail, left_out, side="right")))
        targets = np.ascontiguousarray(self.targets[:, :rows])
        return Motion(self.rest, targets, np.einsum("vr,vr->v", targets, targets))


@dataclass(eq=False)
class Frame:
    """How the solver's numbers came from the model's: v = (x - centre) / size at rest, y = (x -
    offsets[f]) / size in frame f; `order` (V,).
    """

    centre: np.ndarray
    offsets: np.ndarray
    size: float
    order: np.ndarray
    rounding: float  # what float32 leaves of a coordinate, in the solver's units

    def to_world(self, columns: np.ndarray) -> np.ndarray:
        """Bones (3F,4B) of the solver as world_from_rest (F,B,3,4) of the model."""
        frames = len(self.offsets)
        bones = columns.reshape(frames, 3, -1, 4).transpose(0, 2, 1, 3).copy()
        bones[..., 3] = (
            self.size * bones[..., 3] + self.offsets[:, None, :] - bones[..., :3] @ self.centre
        )
        return bones

    def from_world(self, bones: np.ndarray) -> np.ndarray:
        """The reverse: (F,B,3,4) -> (3F,4B)."""
        bones = np.array(bones, np.float64)
        bones[..., 3] = (
            bones[..., 3] - self.offsets[:, None, :] + bones[..., :3] @ self.centre
        ) / self.size
        return bones.transpose(0, 2, 1, 3).reshape(3 * len(bones), -1)


def read_motion(poses: Poses) -> tuple[Motion, Frame]:
    """The poses as rows (x, y, z of frame after frame), centred and scaled."""
    rest = poses.mesh.vertices.astype(np.float64)
    centre = rest.mean(axis=0)
    rest -= centre
    size = float(np.sqrt((rest**2).sum(axis=1).mean()))
    vertex_count, frames = poses.vertex_count, poses.pose_count
    targets, offsets = np.empty((vertex_count, frames, 3)), np.empty((frames, 3))
    largest = float(np.abs(poses.mesh.vertices).max(initial=0))
    for where, block in poses.pose_blocks(64):
        largest = max(largest, float(np.abs(block).max(initial=0)))
        offsets[where] = block.mean(axis=1, dtype=np.float64)
        targets[:, where] = (block - offsets[where][:, None]).transpose(1, 0, 2)
    if not size > 0:
        size = float(np.sqrt((targets**2).mean())) or 1.0
    rest /= size
    targets /= size
    targets = targets.reshape(vertex_count, -1)
    square = np.einsum("vr,vr->v", targets, targets)
    # No turn of the scene and no shuffle of the vertices changes this order (but for vertices that
    # are as good as equal).
    order = np.lexsort((np.einsum("vi,vi->v", rest, rest), square))
    rest = np.column_stack([rest[order], np.ones(vertex_count)])
    return Motion(rest, targets[order], square[order]), Frame(
        centre, offsets, size, order, np.finfo(np.float32).eps * largest / size
    )


def in_principal_directions(motion: Motion) -> tuple[Motion, np.ndarray]:
    """The motion in at most `_MOST_DIRECTIONS` orthonormal combinations of its rows, strongest
    first, and those: (R, directions).
    """
    total = float(motion.square.sum())
    if motion.rows <= 12 or total == 0:
        return motion, np.eye(motion.rows)
    if motion.rows <= _EXACT_ROWS:
        energy, directions = np.linalg.eigh(motion.targets.T @ motion.targets)
        directions = directions[:, ::-1]
    else:
        directions = _strongest(motion.targets, 2 * _MOST_DIRECTIONS)
        energy = np.linalg.norm(motion.targets @ directions, axis=0)[::-1] ** 2
    held = np.cumsum(energy[::-1])
    count = min(
        int(np.searchsorted(held, (1 - _SILENT) * total)) + 1, len(energy), _MOST_DIRECTIONS
    )
    directions = np.ascontiguousarray(directions[:, :count])
    return motion.turned(directions), directions


def _strongest(targets: np.ndarray, count: int) -> np.ndarray:
    """Strong directions (R,count) of a wide matrix (V,R): a randomised range finder with two power
    steps (Halko et al. 2011).
    """
    start = np.random.default_rng(0).normal(size=(targets.shape[1], min(count, *targets.shape)))
    basis = np.linalg.qr(start)[0]
    for _ in range(2):
        basis = np.linalg.qr(targets.T @ (targets @ basis))[0]
    small = targets @ basis
    return basis @ np.linalg.eigh(small.T @ small)[1][:, ::-1]
