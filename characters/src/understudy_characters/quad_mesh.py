"""Normals and smoothing of a mesh of quads. Letters: V vertices, F quads."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from understudy.geometry.adjacency import adjacency_matrix, polygon_edges, vertex_degrees


def quad_normals(vertices: np.ndarray, quads: np.ndarray) -> np.ndarray:
    """Normals (V,3) at the vertices, each quad weighted by the cross product of its diagonals.

    vertices  (V,3)
    quads     (F,4) vertex indices

    >>> square = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    >>> quad_normals(square, np.array([[0, 1, 2, 3]]))[0].tolist()
    [0.0, 0.0, 1.0]
    """
    corners = vertices[quads]
    area = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
    total = np.zeros_like(vertices)
    for corner in range(4):
        np.add.at(total, quads[:, corner], area)
    return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)


def quad_smoothing(quads: np.ndarray, vertex_count: int) -> sparse.csr_matrix:
    """One smoothing step: (V,V), half the vertex and half the mean of its neighbours.

    The row of a vertex without neighbours is half the vertex alone.

    quads  (F,4) vertex indices

    >>> quad_smoothing(np.array([[0, 1, 2, 3]]), 4).toarray()[0].tolist()
    [0.5, 0.25, 0.0, 0.25]
    """
    edges = polygon_edges(np.full(len(quads), 4), quads.reshape(-1))
    adjacency = adjacency_matrix(edges, vertex_count)
    degree = np.maximum(vertex_degrees(adjacency), 1.0)
    return sparse.csr_matrix(
        0.5 * sparse.identity(vertex_count) + 0.5 * sparse.diags(1.0 / degree) @ adjacency
    )
