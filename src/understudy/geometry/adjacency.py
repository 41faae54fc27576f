"""Vertex adjacency of a polygon mesh: its edges, the graph they form, and Laplacians over it.

Every neighbourhood in the package comes from here: `polygon_edges` lists the edges,
`adjacency_matrix` turns them into a symmetric sparse matrix whose rows are the neighbours of each
vertex. With A that adjacency (V,V) and D the diagonal of the vertex degrees, uniform weights give

    symmetric Laplacian    D - A              positive semi-definite, zero on constant fields
    one-ring mean          (D + I)^-1 (A + I) the mean of the vertex and its neighbours

A vertex without neighbours has degree zero; each function says what its row is then. SciPy is
imported where it is used: playing needs the edges alone.

Letters: V vertices, F polygons, N polygon corners, E edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp


def polygon_edges(polygon_sizes: np.ndarray, polygon_vertices: np.ndarray) -> np.ndarray:
    """Edges (E,2) int32 of the polygons, each once, smaller vertex first, in lexicographic order.

    polygon_sizes     (F,) number of corners of each polygon
    polygon_vertices  (N,) vertex of each corner, polygon after polygon
    Diagonals of a triangulation are not edges; an edge from a vertex to itself is left out.

    >>> polygon_edges(np.array([4]), np.array([0, 1, 2, 3])).tolist()
    [[0, 1], [0, 3], [1, 2], [2, 3]]
    """
    if not len(polygon_vertices):
        return np.zeros((0, 2), np.int32)
    ends = np.cumsum(polygon_sizes)
    following = np.arange(1, len(polygon_vertices) + 1)
    following[ends - 1] = ends - polygon_sizes
    pairs = np.sort(np.stack([polygon_vertices, polygon_vertices[following]], axis=1), axis=1)
    low, high = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int64).T
    count = int(polygon_vertices.max()) + 1  # single numbers are sorted faster than pairs
    return np.stack(np.divmod(np.unique(low * count + high), count), axis=1).astype(np.int32)


def fans(sizes: np.ndarray) -> np.ndarray:
    """The corners of polygons as triangles, (m,3): fans from the first corner of each.

    sizes  (F,) number of corners of each polygon

    >>> fans(np.array([3, 4])).tolist()
    [[0, 1, 2], [3, 4, 5], [3, 5, 6]]
    """
    count = sizes - 2
    first = np.repeat(np.cumsum(sizes) - sizes, count)
    step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.stack([first, first + step + 1, first + step + 2], axis=1)


def link_isolated(edges: np.ndarray, points: np.ndarray, nearest: int = 6) -> np.ndarray:
    """The edges, plus edges from every vertex without one to the vertices nearest to it.

    edges    (E,2) as `polygon_edges` returns them
    points   (V,3) positions of the vertices
    nearest  number of vertices that an isolated vertex is linked to
    returns  (E',2), each edge once, smaller vertex first

    A point cloud has neighbours this way too.

    >>> link_isolated(np.array([[0, 1]]), np.array([[0.0], [1.0], [3.0]]), nearest=1).tolist()
    [[0, 1], [1, 2]]
    """
    from scipy.spatial import cKDTree

    count = len(points)
    isolated = np.setdiff1d(np.arange(count), edges)
    if not len(isolated) or count < 2:
        return edges
    near = cKDTree(points).query(points[isolated], k=min(nearest + 1, count))[1]
    pairs = np.column_stack([np.repeat(isolated, near.shape[1]), near.reshape(-1)])
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    return np.unique(np.concatenate([edges, pairs]), axis=0)


def adjacency_matrix(
    edges: np.ndarray, vertex_count: int, weight: np.ndarray | None = None
) -> sp.csr_matrix:
    """The symmetric adjacency (V,V) float64, with the neighbours of each row in increasing order.

    edges         (E,2), each edge once
    vertex_count  V
    weight        (E,) value of each edge; None: one

    >>> adjacency_matrix(np.array([[0, 1], [1, 2]]), 3).toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    import scipy.sparse as sp

    value = np.ones(len(edges)) if weight is None else weight
    first, second = edges[:, 0], edges[:, 1]
    graph = sp.csr_matrix(
        (
            np.concatenate([value, value]),
            (np.concatenate([first, second]), np.concatenate([second, first])),
        ),
        shape=(vertex_count, vertex_count),
    )
    graph.sort_indices()
    return graph


def connected_components(adjacency: sp.csr_matrix) -> np.ndarray:
    """The connected component (shell) of each vertex: (V,) int32, numbered from 0.

    >>> connected_components(adjacency_matrix(np.array([[0, 2]]), 3)).tolist()
    [0, 1, 0]
    """
    from scipy.sparse import csgraph

    return csgraph.connected_components(adjacency, directed=False)[1].astype(np.int32)


def vertex_degrees(adjacency: sp.csr_matrix) -> np.ndarray:
    """Row sums of the adjacency: (V,) float64, the number of neighbours if edges weigh one."""
    return np.asarray(adjacency.sum(axis=1)).ravel()


def symmetric_laplacian(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """D - A: (V,V); the row of an isolated vertex is zero.

    >>> import scipy.sparse as sp
    >>> symmetric_laplacian(sp.csr_matrix([[0.0, 1.0], [1.0, 0.0]])).toarray().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    import scipy.sparse as sp

    return sp.csr_matrix(sp.diags(vertex_degrees(adjacency)) - adjacency)


def one_ring_mean(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """(D + I)^-1 (A + I): (V,V), rows sum to one; an isolated vertex keeps its own value.

    >>> import scipy.sparse as sp
    >>> one_ring_mean(sp.csr_matrix([[0.0, 1.0], [1.0, 0.0]])).toarray().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    import scipy.sparse as sp

    closed = adjacency + sp.identity(adjacency.shape[0])
    return sp.diags(1 / vertex_degrees(closed)) @ closed
