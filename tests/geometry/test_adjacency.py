"""Vertex adjacency, and the averages and Laplacians built from it."""

import numpy as np
import pytest

from understudy.core.mesh import Mesh
from understudy.geometry.adjacency import (
    adjacency_matrix,
    connected_components,
    link_isolated,
    one_ring_mean,
    polygon_edges,
    symmetric_laplacian,
    vertex_degrees,
)

# A quad and a triangle that share the edge (1, 2); vertex 5 belongs to no polygon.
SIZES, CORNERS = np.array([4, 3]), np.array([0, 1, 2, 3, 1, 4, 2])
EDGES = [[0, 1], [0, 3], [1, 2], [1, 4], [2, 3], [2, 4]]


@pytest.fixture(scope="module")
def graph():
    return adjacency_matrix(polygon_edges(SIZES, CORNERS), 6)


def test_every_edge_of_a_polygon_mesh_is_listed_once():
    edges = polygon_edges(SIZES, CORNERS)
    assert edges.dtype == np.int32
    assert edges.tolist() == EDGES
    assert Mesh(np.zeros((6, 3)), SIZES, CORNERS).edges.tolist() == EDGES


def test_no_polygons_and_degenerate_polygons_have_no_edges():
    assert polygon_edges(np.zeros(0, int), np.zeros(0, int)).shape == (0, 2)
    assert polygon_edges(np.array([3]), np.array([1, 1, 1])).shape == (0, 2)


def test_the_adjacency_is_symmetric_and_sorted(graph):
    dense = graph.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert [graph[row].indices.tolist() for row in range(6)] == [
        [1, 3], [0, 2, 4], [1, 3, 4], [0, 2], [1, 2], []
    ]  # fmt: skip
    assert vertex_degrees(graph).tolist() == [2, 3, 3, 2, 2, 0]
    weighted = adjacency_matrix(np.array(EDGES), 6, np.arange(1.0, 7.0))
    assert weighted[4, 2] == weighted[2, 4] == 6.0


def test_connected_components_separate_the_isolated_vertex(graph):
    assert connected_components(graph).tolist() == [0, 0, 0, 0, 0, 1]


def test_isolated_vertices_are_linked_to_the_nearest():
    points = np.random.default_rng(0).random((30, 3))
    edges = link_isolated(np.zeros((0, 2), np.int32), points)
    graph = adjacency_matrix(edges, 30)
    assert (graph.data == 1).all()
    assert (vertex_degrees(graph) >= 6).all()
    assert len(np.unique(connected_components(graph))) < 5


def test_linking_changes_nothing_where_every_vertex_has_an_edge():
    edges = np.array([[0, 1]])
    assert link_isolated(edges, np.zeros((2, 3))) is edges
    alone = np.zeros((0, 2), np.int32)
    assert link_isolated(alone, np.zeros((1, 3))) is alone


def test_laplacians_vanish_on_constant_fields_and_averages_keep_them(graph):
    ones = np.ones(6)
    np.testing.assert_allclose(symmetric_laplacian(graph) @ ones, 0, atol=1e-12)
    np.testing.assert_allclose(one_ring_mean(graph) @ ones, 1)


def test_averages_by_hand(graph):
    field = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    assert (one_ring_mean(graph) @ field)[0] == pytest.approx((1 + 2 + 8) / 3)
    assert (symmetric_laplacian(graph) @ field)[1] == 3 * 2 - (1 + 4 + 16)
