"""The human's body for Blender: metres, Z up, facing -Y."""

from __future__ import annotations

import numpy as np

from understudy_characters.human.anatomy import read_anatomy

_M_PER_CM = 0.01


def read_body() -> tuple[dict[str, list[list[float]]], dict[str, np.ndarray]]:
    """Return the joints by bone (head and tail) and the arrays of the body.

    vertices (V,3), quads (F,4), uvs (4F,2), mirror (V,), and its skin weights as weight_vertex,
    weight_bone and weight_value, with the names of those bones in bones
    """
    anatomy = read_anatomy()
    mirror = anatomy.mirror_vertex
    mirror = np.where(mirror[mirror] == np.arange(len(mirror)), mirror, np.arange(len(mirror)))
    points = _placed(anatomy.vertices)
    points = 0.5 * (points + points[mirror] * [-1, 1, 1])
    ends = np.stack([_placed(anatomy.bone_heads), _placed(anatomy.bone_tails)], axis=1)
    weights = anatomy.weights.tocoo()
    return dict(zip(anatomy.bone_names, ends.tolist())), {
        "vertices": points,
        "quads": anatomy.quads,
        "uvs": anatomy.corner_uvs,
        "mirror": mirror,
        "bones": np.array(anatomy.bone_names),
        "weight_vertex": weights.row,
        "weight_bone": weights.col,
        "weight_value": weights.data,
    }


def _placed(points: np.ndarray) -> np.ndarray:
    """Points of the anatomy (centimetres, Y up, facing +Z) as Blender has them."""
    x, y, z = points.T
    return _M_PER_CM * np.stack([x, -z, y], axis=1)
