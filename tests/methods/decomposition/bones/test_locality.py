"""Patches of a mesh, and which bones their vertices may use."""

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from understudy.methods.decomposition.bones.locality import (
    allowed_bones,
    connections,
    patches,
    thinned,
)


def grid(rows: int, columns: int, shift=(0.0, 0, 0)) -> tuple[np.ndarray, np.ndarray]:
    """A flat mesh: points (n,3) and triangles (m,3)."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    at = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (part.reshape(-1) for part in (at[:-1, :-1], at[:-1, 1:], at[1:, :-1], at[1:, 1:]))
    points = np.stack([x, y, np.zeros_like(x)], axis=1) + np.array(shift)
    return points, np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])


def parts(count: int, pairs: np.ndarray) -> int:
    graph = csr_matrix((np.ones(len(pairs)), tuple(pairs.T)), (count, count))
    return connected_components(graph, directed=False)[0]


def test_shells_are_connected_where_they_are_closest():
    one, faces = grid(4, 4)
    shells = [one, one + [10.0, 0, 0], one + [0, 0, 25.0]]
    points = np.concatenate(shells)
    pairs = connections(points, np.concatenate([faces, faces + 16, faces + 32]))
    assert parts(48, pairs) == 1
    bridges = pairs[pairs[:, 0] // 16 != pairs[:, 1] // 16]
    lengths = np.linalg.norm(points[bridges[:, 0]] - points[bridges[:, 1]], axis=1)
    np.testing.assert_allclose(np.sort(lengths), [7, 25])


def test_vertices_that_are_doubled_along_a_seam_are_neighbours():
    one, faces = grid(3, 5)
    points = np.concatenate([one, one + [4.0, 0, 0]])  # the last column is the next one's first
    pairs = connections(points, np.concatenate([faces, faces + 15]))
    seam = {(4, 15), (9, 20), (14, 25)}
    assert seam <= {tuple(sorted(pair)) for pair in pairs.tolist()}


def test_points_without_faces_are_connected():
    points = np.random.default_rng(0).random((30, 3))
    assert parts(30, connections(points, np.zeros((0, 3), np.int64))) == 1


def test_a_label_in_two_places_becomes_two_patches_and_specks_vanish():
    points, faces = grid(6, 18)
    pairs, column = connections(points, faces), np.arange(108) % 18
    label = np.where((column < 5) | (column > 12), 0, 1)
    label[43] = 2  # one vertex inside the first part
    patch = patches(label, pairs).reshape(6, 18)
    assert len(np.unique(patch)) == 3
    assert (patch == patch[0]).all()
    assert len({patch[0, 0], patch[0, 8], patch[0, 17]}) == 3


def test_no_patch_is_too_small():
    path = np.stack([np.arange(11), np.arange(1, 12)], axis=1)
    assert patches(np.arange(12), path).tolist() == [0] * 12
    points, faces = grid(8, 8)
    pairs = connections(points, faces)
    for seed in range(20):
        label = np.random.default_rng(seed).integers(0, 40, 64)
        assert np.bincount(patches(label, pairs)).min() >= 4


def test_every_pair_of_neighbours_is_there_once():
    points, faces = grid(6, 6)
    pairs = connections(points, faces)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 2 * 30 + 25


def test_one_small_patch_is_left_alone():
    assert patches(np.zeros(2, np.int64), np.array([[0, 1]])).tolist() == [0, 0]


def test_vertices_use_their_own_and_neighbouring_patches():
    points, faces = grid(4, 12)
    pairs, patch = connections(points, faces), np.arange(48) % 12 // 3
    allowed = allowed_bones(patch, pairs, 4)
    assert allowed[0].tolist() == [True, True, False, False]
    assert allowed[4].tolist() == [True, True, True, False]


def test_a_sample_keeps_the_neighbourhood():
    points, faces = grid(12, 12)
    pairs = connections(points, faces)
    few, nearest = thinned(points, pairs, np.array([0, 11, 132, 143]))
    assert nearest[[0, 13, 11, 132, 143]].tolist() == [0, 0, 1, 2, 3]
    assert {(0, 1), (0, 2), (1, 3), (2, 3)} <= {tuple(pair) for pair in few.tolist()}
