"""Normals of morph targets: how the normal of each split vertex changes at weight one.

    normal shown = unit(rest normal + sum over shapes s of  w_s change_s)

The normal of a deformed surface is not linear in the weights. For each shape alone, at weight one,
the change is exact; for the weights in the clips it is then corrected by least squares.
"""

from __future__ import annotations

import numpy as np

from understudy.core.character import Character
from understudy.core.poses import evenly
from understudy.geometry.corner_normals import CornerNormals

_MOST_FRAMES = 96  # that the changes are fitted to
_RIDGE = 1e-3  # holds shapes that the clips hardly use at their own change
# A smaller change of a normal is not stored; in radians, at the largest weight in the clips.
_SMALLEST = 3e-3


def morph_normals(character: Character, normals: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return the change of some normals by each blend shape, (S,n,3) float32.

    normals  (N,3) unit normals of the corners of the mesh
    corners  (n,) those to return; -1: a vertex without polygons, which does not change
    """
    mesh, count = character.mesh, len(character.shapes)
    used = corners >= 0
    result = np.zeros((count, len(corners), 3), np.float32)
    if not used.any():
        return result
    # About a point near the mesh: products of lengths lose the surface far from the origin.
    vertices = mesh.vertices - mesh.vertices.mean(axis=0, dtype=np.float64)
    carried = CornerNormals(vertices, mesh.polygon_sizes, mesh.polygon_vertices, normals)
    rest = np.asarray(normals, np.float32)[corners[used]]

    def change(weights: np.ndarray) -> np.ndarray:
        moved = vertices + character.shape_offsets(weights[None])[0]
        return carried.at(moved)[corners[used]] - rest

    own = np.stack([change(row) for row in np.eye(count)]).reshape(count, -1)
    weights = np.concatenate(
        [np.zeros((0, count)), *(clip.shape_weights for clip in character.clips)]
    ).astype(np.float64)
    weights = weights[weights.any(axis=1)]
    frames = weights[evenly(len(weights), _MOST_FRAMES)] if len(weights) else weights
    product = np.zeros_like(own)
    for row in frames:
        missing = change(row).reshape(-1) - row.astype(np.float32) @ own
        product += row.astype(np.float32)[:, None] * missing
    gram = frames.T @ frames
    ridge = _RIDGE * max(float(np.trace(gram)) / count, 1e-6) * np.eye(count)
    own += (np.linalg.inv(gram + ridge) @ product).astype(np.float32)
    largest = np.abs(weights).max(axis=0, initial=1.0)
    found = own.reshape(count, -1, 3)
    small = np.abs(found).max(axis=2) * largest[:, None] < _SMALLEST
    found[small] = 0.0
    result[:, used] = found
    return result
