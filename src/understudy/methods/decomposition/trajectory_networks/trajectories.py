"""What the networks read: the trajectory of each vertex, in the sequence's own axes.

The solver's motion (`motion`) is already independent of position and scale. Here its axes are
rotated to the principal axes of all positions in all frames. The first two point towards the longer
tail of the distribution of the vertices, and the third follows from them. So neither translation,
rotation nor scale of the sequence changes what a network reads. A mirror image does.
"""

from __future__ import annotations

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.methods.decomposition.motion import Motion

CHANNELS = 6
MAX_FRAMES = 48  # longer sequences are subsampled; more frames cost time and change little
MIN_FRAMES = 3  # needed by two convolutions over pairs of frames; shorter ones repeat the last
_SAMPLE = 4000  # vertices that the size of the motion is measured on


def principal_axes(motion: Motion) -> np.ndarray:
    """Return a rotation (3,3) whose columns are the sequence's own axes, the widest first."""
    points = motion.targets.reshape(-1, 3)
    directions = np.linalg.eigh(points.T @ points)[1][:, ::-1]
    first, second = ((points @ directions[:, k]) for k in (0, 1))
    tails = np.array([np.einsum("n,n,n->", side, side, side) for side in (first, second)])
    directions = directions[:, :2] * np.where(tails < 0, -1.0, 1.0)
    return np.column_stack([directions, np.cross(directions[:, 0], directions[:, 1])])


def trajectories(motion: Motion, vertices: np.ndarray) -> np.ndarray:
    """Return the trajectories (n,F,6) float32 of some vertices (n,).

    Channels 0 to 2 are the mean position of the vertex. Channels 3 to 5 are its offset from there
    in each frame, divided by the root mean square motion of the sequence.
    """
    frames = motion.rows // 3
    paths = motion.targets[vertices].reshape(len(vertices), frames, 3) @ principal_axes(motion)
    mean = paths.mean(axis=1, keepdims=True)
    sample = motion.targets[evenly(motion.vertex_count, _SAMPLE)].reshape(-1, frames, 3)
    about_mean = sample - sample.mean(axis=1, keepdims=True)
    size = float(np.sqrt((about_mean**2).sum(axis=2).mean())) or 1.0
    channels = np.concatenate([np.broadcast_to(mean, paths.shape), (paths - mean) / size], axis=2)
    result = channels[:, evenly(frames, MAX_FRAMES)]
    missing = MIN_FRAMES - result.shape[1]
    if missing > 0:
        result = np.concatenate([result] + [result[:, -1:]] * missing, axis=1)
    return np.ascontiguousarray(result, np.float32)


def published_trajectories(poses: Poses, vertices: np.ndarray) -> np.ndarray:
    """Return what networks trained as published read: (n,F,3) float32, x, y, z in every frame.

    vertices  (n,) of the mesh

    Short sequences repeat their last frame.
    """
    result = poses.read_vertices(vertices).transpose(1, 0, 2)
    missing = MIN_FRAMES - result.shape[1]
    if missing > 0:
        result = np.concatenate([result] + [result[:, -1:]] * missing, axis=1)
    return np.ascontiguousarray(result, np.float32)
