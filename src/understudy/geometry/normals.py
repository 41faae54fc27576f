"""Vertex normals: the sum of the normals of the triangles around a vertex, weighted by their area,
at unit length.
"""

from __future__ import annotations

import numpy as np


def vertex_normals(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """vertices (...,V,3), triangles (M,3) -> (...,V,3) float32; a vertex without area around it
    gets zeros.

    >>> vertex_normals(np.eye(3), np.array([[0, 1, 2]])).round(3).tolist()[0]
    [0.5770000219345093, 0.5770000219345093, 0.5770000219345093]
    """
    vertices = np.asarray(vertices, np.float32)
    a, b, c = (vertices[..., triangles[:, corner], :] for corner in range(3))
    faces = np.cross(b - a, c - a)
    total = np.zeros_like(vertices)
    for corner in range(3):
        np.add.at(total, (..., triangles[:, corner], slice(None)), faces)
    length = np.linalg.norm(total, axis=-1, keepdims=True)
    return np.divide(total, length, out=np.zeros_like(total), where=length > 0)
