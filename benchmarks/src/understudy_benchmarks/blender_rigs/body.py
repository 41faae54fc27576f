"""The human's body for Blender: metres, Z up, facing -Y."""

from __future__ import annotations

import numpy as np

from understudy_characters.human.anatomy import Anatomy, read_anatomy

_M_PER_CM = 0.01


def read_body() -> tuple[dict[str, list[list[float]]], dict[str, np.ndarray]]:
    """Return the joints by bone (head and tail) and the arrays of the body.

    Beside the bones there are `lids.L`, the middles of the upper and the lower lid, and `canthi.L`,
    the inner and the outer corner of the eye.

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
    joints = dict(zip(anatomy.bone_names, ends.tolist()))
    joints.update(_lids(anatomy, points))
    return joints, {
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


def _lids(anatomy: Anatomy, points: np.ndarray) -> dict[str, list[list[float]]]:
    """Pairs of points on the lids of the left eye, from the skin that their bones move."""
    weights = anatomy.weights.tocsc()
    upper, lower = (
        points[weights[:, anatomy.bone(f"orbicularis0{k}.L")].toarray().ravel() > 0.5]
        for k in (3, 4)
    )
    both = np.concatenate([upper, lower])
    middle = 0.5 * (both[:, 0].min() + both[:, 0].max())
    return {
        "lids.L": [[middle, lid[:, 1].min(), lid[:, 2].mean()] for lid in (upper, lower)],
        "canthi.L": [both[both[:, 0].argmin()].tolist(), both[both[:, 0].argmax()].tolist()],
    }
