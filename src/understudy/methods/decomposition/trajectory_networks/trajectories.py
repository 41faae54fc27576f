"""What the networks read: each vertex's trajectory in the sequence's own frame, so that shifting,
turning or scaling it changes nothing.

The solver's motion (`decomposition.motion`) is free of shift and scale already. Its axes are turned
to the principal ones of all positions of all frames; each points where the distribution of the
vertices has its longer tail, and the third follows from the first two. A mirror image is another
shape, and reads as one.
"""

from __future__ import annotations

import numpy as np

from understudy.core.poses import evenly
from understudy.methods.decomposition.motion import Motion

CHANNELS = 6
# more are thinned out evenly: a network that read every frame of a long clip would say the same,
# later
MOST_FRAMES = 48
_MEASURED = 4000  # vertices that the size of the motion is taken from, whichever are read
LEAST_FRAMES = 3  # what two convolutions over pairs of frames need; a shorter clip is held


def axes(motion: Motion) -> np.ndarray:
    """(3,3) rotation whose columns are the sequence's own axes, the widest first."""
    points = motion.targets.reshape(-1, 3)
    directions = np.linalg.eigh(points.T @ points)[1][:, ::-1]
    first, second = ((points @ directions[:, k]) for k in (0, 1))
    tails = np.array([np.einsum("n,n,n->", side, side, side) for side in (first, second)])
    directions = directions[:, :2] * np.where(tails < 0, -1.0, 1.0)
    return np.column_stack([directions, np.cross(directions[:, 0], directions[:, 1])])


def trajectories(motion: Motion, vertices: np.ndarray) -> np.ndarray:
    """(n,F,6) float32 of some vertices: the mean position, and the way from it in each frame in
    units of the sequence's root mean square motion.
    """
    frames = motion.rows // 3
    turn = axes(motion)
    paths = motion.targets[vertices].reshape(len(vertices), frames, 3) @ turn
    mean = paths.mean(axis=1, keepdims=True)
    moved = paths - mean
    every = motion.targets[evenly(motion.vertex_count, _MEASURED)].reshape(-1, frames, 3)
    size = (
        float(np.sqrt(((every - every.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean())) or 1.0
    )
    read = np.concatenate([np.broadcast_to(mean, paths.shape), moved / size], axis=2)[
        :, evenly(frames, MOST_FRAMES)
    ]
    if read.shape[1] < LEAST_FRAMES:
        read = np.concatenate([read] + [read[:, -1:]] * (LEAST_FRAMES - read.shape[1]), axis=1)
    return np.ascontiguousarray(read, np.float32)
