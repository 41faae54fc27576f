"""What the nets have to say: displacements before skinning (Eq. 14), block by block, for any poses
with or without bones.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.methods.skin_fitting.residuals import rest_displacements

_BLOCK_BYTES = 1 << 28


def _displacements(
    poses: Poses, skin: Skin | None, at: np.ndarray, vertices: np.ndarray
) -> np.ndarray:
    """(t,V,3) float32 in rest space, of the poses `at` (t,) with their `vertices` (t,V,3)."""
    if skin is None:
        return vertices - poses.mesh.vertices
    everything = np.arange(poses.vertex_count)
    return rest_displacements(
        poses.world_from_bone[at], poses.skeleton, skin, poses.mesh.vertices, everything, vertices
    )


def displacement_blocks(
    poses: Poses, skin: Skin | None, chosen: np.ndarray | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of the `chosen` poses (increasing; None: all): (slice into chosen, (t,V,3)
    float32).
    """
    chosen = np.arange(poses.pose_count) if chosen is None else chosen
    size = int(np.clip(_BLOCK_BYTES // (120 * poses.vertex_count), 1, 256))
    for start in range(0, poses.pose_count, size):
        stop = min(start + size, poses.pose_count)
        first, last = np.searchsorted(chosen, [start, stop])
        if first < last:
            at = chosen[first:last]
            yield (
                slice(first, last),
                _displacements(poses, skin, at, poses.read_poses(start, stop)[at - start]),
            )


def gathered(poses: Poses, skin: Skin | None, chosen: np.ndarray) -> np.ndarray:
    """(t,V,3) float32: the displacements of the `chosen` poses, increasing, all at once."""
    result = np.empty((len(chosen), poses.vertex_count, 3), np.float32)
    for where, block in displacement_blocks(poses, skin, chosen):
        result[where] = block
    return result
