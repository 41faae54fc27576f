"""Unit normals of vertices and of corners.

The normal of a vertex is the area-weighted sum of the normals of the faces around it. Those of
corners are given at rest and carried along when the vertices move: each corner has a frame, the
edges to its two neighbours in the polygon and the normal of their plane. The change of that frame
moves the corner's normal as a surface normal (by the inverse transpose), whether the normal is
smooth or not. Corners of one vertex that had one normal get one normal again.
"""

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
    return unit(total)


class CornerNormals:
    """The normals of one mesh, for any positions of its vertices.

    vertices          (V,3) at rest
    polygon_sizes     (F,) corners of each polygon
    polygon_vertices  (N,) vertex of each corner
    normals           (N,3) unit normals of the corners at rest
    """

    def __init__(
        self,
        vertices: np.ndarray,
        polygon_sizes: np.ndarray,
        polygon_vertices: np.ndarray,
        normals: np.ndarray,
    ):
        starts = np.repeat(np.cumsum(polygon_sizes) - polygon_sizes, polygon_sizes)
        sizes = np.repeat(polygon_sizes, polygon_sizes)
        step = np.arange(len(polygon_vertices)) - starts
        self._corner = polygon_vertices
        self._next = polygon_vertices[starts + (step + 1) % sizes]
        self._before = polygon_vertices[starts + (step - 1) % sizes]
        self._rest = np.asarray(normals, np.float64)
        frame, _ = self._frames(vertices)
        self._local = np.einsum("kni,ni->kn", frame, self._rest)
        key = np.column_stack([polygon_vertices, np.round(self._rest * 1e4).astype(np.int64)])
        self._group = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)

    def at(self, vertices: np.ndarray) -> np.ndarray:
        """Return the normals (N,3) float32 for the mesh at other positions, (V,3).

        >>> square = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
        >>> flat = CornerNormals(square, np.array([4]), np.arange(4), np.tile([0.0, 0, 1], (4, 1)))
        >>> flat.at(square[:, [1, 2, 0]])[0].tolist()
        [0.0, 1.0, 0.0]
        """
        (a, b, n), area = self._frames(vertices)
        determinant = np.einsum("ni,ni->n", a, np.cross(b, n))
        flat = np.asarray(area <= 1e-12 * max(float(area.max(initial=0)), 1e-300))
        duals = (np.cross(b, n), np.cross(n, a), np.cross(a, b))
        moved = sum(part[:, None] * dual for part, dual in zip(self._local, duals))
        moved = moved / np.where(flat, 1.0, determinant)[:, None]
        moved = np.where(flat[:, None], 0.0, unit(moved))
        total = np.zeros((int(self._group.max(initial=-1)) + 1, 3))
        np.add.at(total, self._group, moved)
        result = unit(total)[self._group]
        lost = np.asarray(~result.any(axis=1))  # no polygon around it has an area
        return np.where(lost[:, None], self._rest, result).astype(np.float32)

    def _frames(self, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the frame of each corner, (3,N,3), and the area its edges span, (N,)."""
        points = np.asarray(vertices, np.float64)
        a = points[self._next] - points[self._corner]
        b = points[self._before] - points[self._corner]
        normal = np.cross(a, b)
        area = np.linalg.norm(normal, axis=1)
        # As long as an edge, so that a scaled mesh keeps its normals.
        normal = normal / np.sqrt(np.where(area > 0, area, 1.0))[:, None]
        return np.stack([a, b, normal]), area


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors (...,3) of length one; zero stays zero, and so do those whose length overflows."""
    with np.errstate(over="ignore"):
        length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
