"""Laplacian, anchors and the fold: what the mathematics promises, before any net."""

import numpy as np
import pytest
from builders import grid_mesh
from scipy.sparse.csgraph import dijkstra

from understudy import InputError, Mesh
from understudy.methods.correctives.regions import mesh_regions, pivot_anchors
from understudy.methods.differential.anchors import (
    add_anchors_by_errors,
    checked_anchors,
    even_anchors,
)
from understudy.methods.differential.folding import near_and_far
from understudy.methods.differential.reconstruction import Laplacian, Reconstruction, Weights
from understudy.methods.differential.subspace import (
    fewest_components,
    region_components,
    truncation_error,
)
from understudy_benchmarks.face_ablations import random_anchors


@pytest.fixture(scope="module")
def sheet():
    return grid_mesh(12, 9)


@pytest.fixture(scope="module")
def laplacian(sheet):
    return Laplacian.of(sheet)


def smooth_fields(mesh, count=30, seed=0):
    """Random sums of a few broad bumps, (T,V,3)."""
    rng = np.random.default_rng(seed)
    centres = mesh.vertices[rng.integers(mesh.vertex_count, size=6)]
    bumps = np.exp(-4 * np.sum((mesh.vertices[:, None] - centres[None]) ** 2, axis=2))
    return np.einsum("tki,vk->tvi", rng.normal(size=(count, 6, 3)), bumps)


def two_shells():
    one = grid_mesh(4, 3)
    other = one.vertices + [0, 0, 3]
    faces = one.polygon_vertices.reshape(-1, 4)
    return Mesh.from_faces(
        np.concatenate([one.vertices, other]), np.concatenate([faces, faces + one.vertex_count])
    )


def test_a_shifted_patch_has_no_differential_coordinates_inside(sheet, laplacian):
    shift = np.tile([1.0, -2.0, 3.0], (1, sheet.vertex_count, 1))
    np.testing.assert_allclose(laplacian.coordinates(shift), 0, atol=1e-12)


def test_coordinates_are_the_distance_to_the_mean_of_the_neighbours(sheet, laplacian):
    field = smooth_fields(sheet, 1)[0]
    vertex = 40
    around = [a if b == vertex else b for a, b in sheet.edges if vertex in (a, b)]
    np.testing.assert_allclose(
        laplacian.coordinates(field[None])[0, vertex], field[vertex] - field[around].mean(axis=0)
    )


@pytest.mark.parametrize("weights", [Weights(1.0), Weights(np.array([0.3, 2.0, 5.0]), 0.7, 0.2)])
def test_true_coordinates_and_anchors_give_the_true_surface(sheet, laplacian, weights):
    field = smooth_fields(sheet, 4)
    anchors = np.array([3, 50, 90])
    solved = Reconstruction(laplacian, anchors, weights).solve(
        laplacian.coordinates(field), field[:, anchors], field
    )
    np.testing.assert_allclose(solved, field, atol=1e-9)


def test_folded_is_solved(sheet, laplacian):
    rng = np.random.default_rng(1)
    anchors = np.array([3, 50, 90])
    coordinate = rng.uniform(0.3, 3, sheet.vertex_count)
    offset = rng.uniform(0.0, 0.5, sheet.vertex_count)
    reconstruction = Reconstruction(
        laplacian, anchors, Weights(np.array([1.0, 2.0, 0.5]), coordinate, offset)
    )
    some = np.arange(10, 60)
    basis, offsets = rng.normal(size=(150, 4)), rng.normal(size=(150, 3))
    c, h, a = rng.normal(size=(5, 4)), rng.normal(size=(5, 3)), rng.normal(size=(5, 3, 3))
    delta, h_full = np.zeros((5, sheet.vertex_count, 3)), np.zeros((5, sheet.vertex_count, 3))
    delta[:, some] = (c @ basis.T).reshape(5, -1, 3)
    h_full[:, some] = (h @ offsets.T).reshape(5, -1, 3)
    folded = (
        c @ reconstruction.fold_coordinates(basis, some).T
        + h @ reconstruction.fold_offsets(offsets, some).T
    )
    folded = folded.reshape(5, -1, 3) + np.einsum("vn,tni->tvi", reconstruction.anchor_basis(), a)
    np.testing.assert_allclose(folded, reconstruction.solve(delta, a, h_full), atol=1e-9)


@pytest.mark.parametrize("tolerance", [1e-9, 0.05])
def test_a_truncated_basis_is_smaller_and_stays_within_the_tolerance(sheet, laplacian, tolerance):
    rng = np.random.default_rng(3)
    # Eight coefficients of rank three, and noise.
    coefficients = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 8))
    coefficients += 0.001 * rng.normal(size=(400, 8))
    region = np.arange(30)
    basis = rng.normal(size=(90, 8))
    folded = (
        Reconstruction(laplacian, np.array([3, 50, 90]), Weights(1.0, 1.0, 0.5))
        .fold_coordinates(basis, region)
        .reshape(-1, 3, 8)
    )
    near = (laplacian.symmetric != 0).astype(float)
    moments = coefficients.T @ coefficients / len(coefficients)
    parts = near_and_far(folded, moments, region, near, tolerance)
    whole = np.einsum("vip,tp->tvi", folded, coefficients)
    again = np.zeros_like(whole)
    for part in parts:
        remapped = coefficients @ part.remap.T
        again[:, part.vertices] += (remapped @ part.matrix.T).reshape(len(remapped), -1, 3)
        assert len(part.remap) == 8 if tolerance < 1e-6 else len(part.remap) <= 3
    assert np.sqrt(np.square(again - whole).sum(axis=2).mean(axis=0)).max() <= 1.01 * tolerance


def test_high_frequency_errors_are_damped_more_than_low_ones(sheet, laplacian):
    """Eq. 6 to 8 of the paper: the same error in delta does less harm where it changes sign from
    vertex to vertex.
    """
    reconstruction = Reconstruction(laplacian, np.array([0, 100]), Weights(1.0))
    _, vectors = np.linalg.eigh(laplacian.symmetric.toarray())
    still = np.zeros((1, 2, 3))
    harm = [
        np.abs(reconstruction.solve(np.tile(vectors[:, k, None], (1, 1, 3)), still)).max()
        for k in (2, -2)
    ]
    assert harm[0] > 20 * harm[1]


def test_a_shell_without_an_anchor_is_named():
    laplacian = Laplacian.of(two_shells())
    assert laplacian.shell.max() == 1
    with pytest.raises(
        InputError,
        match=r"1 connected component .* around vertex 12",
    ):
        checked_anchors([0, 5], laplacian.shell)
    np.testing.assert_array_equal(checked_anchors([0, 15], laplacian.shell), [0, 15])


@pytest.mark.parametrize(
    ("anchors", "says"),
    [
        ([0, 99], "index 99 is outside"),
        ([-1, 15], "index -1"),
        ([3, 15, 3], "duplicate vertex 3"),
        ([], "empty"),
    ],
)
def test_wrong_anchor_lists_are_refused(anchors, says):
    with pytest.raises(InputError, match=says):
        checked_anchors(anchors, Laplacian.of(two_shells()).shell)


def test_even_anchors_cover_every_shell_and_begin_where_it_moves_most(sheet, laplacian):
    apart = Laplacian.of(two_shells())
    motion = np.zeros(len(apart.shell))
    motion[[7, 15]] = 1
    assert even_anchors(apart.symmetric, motion, apart.shell, 2).tolist() == [7, 15]
    steps = lambda anchors: (
        dijkstra(abs(laplacian.symmetric), unweighted=True, indices=anchors).min(axis=0).max()
    )
    even = even_anchors(laplacian.symmetric, np.ones(sheet.vertex_count), laplacian.shell, 8)
    assert len(set(even.tolist())) == 8
    assert steps(even) < min(steps(random_anchors(laplacian.shell, 8, seed)) for seed in range(3))


def test_anchors_go_where_the_reconstruction_errs_most(sheet, laplacian):
    true = smooth_fields(sheet, 12)
    delta = laplacian.coordinates(true)
    delta[:, 40:44] *= 0.3  # what a net never learned
    start, omega = np.array([0, 107]), 0.8
    reconstruction = Reconstruction(laplacian, start, Weights(omega))
    chosen = add_anchors_by_errors(reconstruction, omega, delta, true, 6)
    assert chosen[:2].tolist() == start.tolist()
    assert len(set(chosen.tolist())) == 6

    def error(anchors):
        return np.linalg.norm(
            Reconstruction(laplacian, anchors, Weights(omega)).solve(delta, true[:, anchors])
            - true,
            axis=2,
        )

    # Each is the worst vertex of a reconstruction, made anew, from those before it.
    for known in range(2, 6):
        assert chosen[known] == np.square(error(chosen[:known])).sum(axis=0).argmax()
    others = [
        np.concatenate([start, random_anchors(laplacian.shell, 4, seed)]) for seed in range(5)
    ]
    assert error(chosen).max() < min(error(np.unique(list_)).max() for list_ in others)


def test_chosen_anchors_determine_the_shape_and_cover_every_shell():
    mesh = two_shells()
    shell = Laplacian.of(mesh).shell
    fields = smooth_fields(mesh)
    fields[:, shell == 1] = 0  # the second shell never moves, and still needs one
    basis, sizes, _ = np.linalg.svd(fields.reshape(len(fields), -1).T, full_matrices=False)
    chosen = pivot_anchors(basis * sizes, mesh.vertices.astype(float), shell, 6)
    assert len(np.unique(chosen)) == 6
    assert set(shell[chosen]) == {0, 1}
    assert len(np.unique(random_anchors(shell, 6, 0))) == 6
    assert set(shell[random_anchors(shell, 2, 0)]) == {0, 1}


def test_pivots_beat_random_points_at_telling_the_shape(sheet):
    fields = smooth_fields(sheet, 60)
    u, s, _ = np.linalg.svd(fields.reshape(60, -1).T, full_matrices=False)
    u, s = u[:, :12], s[:12]

    def left(points):
        rows = (np.asarray(points)[:, None] * 3 + np.arange(3)).reshape(-1)
        return (
            1 / np.linalg.svd(u[rows])[1][-1]
        )  # how much an error at the points may grow elsewhere

    whole = np.zeros(sheet.vertex_count, int)
    chosen = pivot_anchors(u * s, sheet.vertices.astype(float), whole, 6)
    assert left(chosen) < np.median([left(random_anchors(whole, 6, seed)) for seed in range(9)])


def test_more_anchors_than_vertices_are_all_of_them():
    mesh = Mesh.from_faces(np.eye(3), [[0, 1, 2]])
    assert sorted(
        pivot_anchors(np.zeros((9, 2)), mesh.vertices.astype(float), np.zeros(3, int), 50)
    ) == [0, 1, 2]


def test_regions_are_disjoint_and_whole():
    mesh = two_shells()
    regions = mesh_regions(mesh, np.array([0, 11, 5]))  # none in the second shell
    assert sorted(np.concatenate(regions)) == list(range(mesh.vertex_count))
    assert len(mesh_regions(mesh, np.array([0]))) == 1


@pytest.mark.parametrize("metric", ["reconstruction", "differential"])
def test_components_leave_less_the_more_there_are(sheet, laplacian, metric):
    delta = laplacian.coordinates(
        smooth_fields(sheet, 80)
        + 0.01 * np.random.default_rng(3).normal(size=(80, sheet.vertex_count, 3))
    )
    anchors = np.array([3, 50, 90])
    reconstruction = Reconstruction(laplacian, anchors, Weights(1.0))
    regions = mesh_regions(sheet, anchors)
    left = [
        truncation_error(
            [region_components(delta, r, metric, k, reconstruction) for r in regions],
            delta,
            reconstruction,
        )
        for k in (1, 4, 12, 60)
    ]
    assert left == sorted(left, reverse=True)
    everything = [region_components(delta, r, metric, 60, reconstruction) for r in regions]
    chosen = fewest_components(everything, delta, reconstruction, left[2])
    assert truncation_error(chosen, delta, reconstruction) <= left[2]
    assert sum(part.count for part in chosen) < sum(part.count for part in everything)


def test_components_of_the_reconstruction_metric_are_better_on_the_surface(sheet, laplacian):
    delta = laplacian.coordinates(
        smooth_fields(sheet, 80)
        + 0.02 * np.random.default_rng(3).normal(size=(80, sheet.vertex_count, 3))
    )
    reconstruction = Reconstruction(laplacian, np.array([3, 50, 90]), Weights(1.0))
    everywhere = np.arange(sheet.vertex_count)
    left = {
        m: truncation_error(
            [region_components(delta, everywhere, m, 8, reconstruction)], delta, reconstruction
        )
        for m in ("reconstruction", "differential")
    }
    assert left["reconstruction"] <= left["differential"]
