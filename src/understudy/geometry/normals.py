"""Unit vertex normals: the area-weighted sum of the normals of the faces around a vertex."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def vertex_normals(
    vertices: np.ndarray, triangles: np.ndarray, dtype: npt.DTypeLike = np.float32
) -> np.ndarray:
    """Normals (...,V,3) of a triangle mesh; zero where no triangle has an area.

    vertices   (...,V,3), any number of poses
    triangles  (M,3) vertex indices
    dtype      of the computation and of the result

    >>> vertex_normals(np.eye(3), np.array([[0, 1, 2]])).round(3).tolist()[0]
    [0.5770000219345093, 0.5770000219345093, 0.5770000219345093]
    """
    vertices = np.asarray(vertices, dtype)
    a, b, c = (vertices[..., triangles[:, corner], :] for corner in range(3))
    faces = np.cross(b - a, c - a)
    total = np.zeros_like(vertices)
    by_vertex = np.moveaxis(total, -2, 0)
    for corner in range(3):
        np.add.at(by_vertex, triangles[:, corner], np.moveaxis(faces, -2, 0))
    length = np.linalg.norm(total, axis=-1, keepdims=True)
    return np.divide(total, length, out=np.zeros_like(total), where=length > 0)
