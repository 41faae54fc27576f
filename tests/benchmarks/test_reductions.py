"""k_largest, smooth, geometry, poisson: K influences, convex weights, what each is best at."""

from dataclasses import replace

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import Deformer, Poses, Skin
from understudy.methods import method_type
from understudy.methods.sparse_skinning.dense import dense_weights, mesh_adjacency
from understudy.system.errors import InputError
from understudy_benchmarks.baselines.fairness import project_to_simplex, random_walk_laplacian
from understudy_benchmarks.metrics import decomposition_error

NAMES = ("k_largest", "smooth", "geometry", "poisson")


@pytest.fixture(scope="module")
def dense() -> Deformer:
    """A strip on seven bones; every vertex has all of them, with different weights."""
    mesh = grid_mesh(30, 7)
    reach = np.exp(-2 * (mesh.vertices[:, :1] - np.linspace(0, 2, 7)) ** 2) + 0.05 * (
        1 + np.sin(3 * mesh.vertices[:, 1:2] * np.arange(7))
    )
    weights = reach / reach.sum(axis=1, keepdims=True)
    return Deformer(
        mesh,
        chain_skeleton(7),
        skin=Skin(np.tile(np.arange(7), (len(weights), 1)), weights.astype(np.float32)),
    )


@pytest.fixture(scope="module")
def motion(dense) -> np.ndarray:
    return random_motion(dense.skeleton, 10, size=0.3)


def reduce(name, dense, motion=None, influences=3):
    kind = method_type(name)
    return kind(kind.Config(influences=influences)).reduce(dense, motion)


def error(dense, reduced, motion):
    return decomposition_error(dense.deform(motion), reduced.deform(motion), dense.mesh.vertices)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("influences", [1, 2, 4, 20])
def test_k_is_kept_and_weights_are_convex(name, dense, motion, influences):
    reduced = reduce(name, dense, motion, influences)
    assert reduced.method == name
    assert reduced.skin.influences <= min(influences, 7)
    assert reduced.skin.weight.min() >= 0
    np.testing.assert_allclose(reduced.skin.weight.sum(axis=1, dtype=np.float64), 1, atol=1e-6)
    if influences >= 7:
        assert error(dense, reduced, motion) < 1e-2


@pytest.mark.parametrize("name", NAMES)
def test_a_skin_that_is_sparse_enough_stays_as_it_is(name, dense, motion):
    sparse = reduce("k_largest", dense, influences=2)
    again = reduce(name, sparse, motion, influences=4)
    np.testing.assert_allclose(
        dense_weights(again.skin, 7), dense_weights(sparse.skin, 7), atol=1e-4
    )


def test_the_laplacian_is_a_vertex_minus_the_mean_of_its_neighbours():
    mesh = grid_mesh(3, 3)
    laplacian = random_walk_laplacian(mesh_adjacency(mesh))
    np.testing.assert_allclose(laplacian @ np.ones(mesh.vertex_count), 0, atol=1e-12)
    field = np.arange(mesh.vertex_count) ** 2.0
    near = np.unique(mesh.edges[(mesh.edges == 1).any(axis=1)])
    assert (laplacian @ field)[1] == pytest.approx(1 - field[near[near != 1]].mean())


def test_smooth_matches_the_laplacian_of_the_weights_better_than_k_largest(dense):
    laplacian = random_walk_laplacian(mesh_adjacency(dense.mesh))
    bend = {
        name: np.linalg.norm(
            laplacian @ (dense_weights(reduce(name, dense).skin, 7) - dense_weights(dense.skin, 7))
        )
        for name in NAMES[:2]
    }
    assert bend["smooth"] < 0.9 * bend["k_largest"]


def test_poses_help(dense, motion):
    found = {name: reduce(name, dense, motion) for name in NAMES}
    assert error(dense, found["geometry"], motion) < error(dense, found["k_largest"], motion)
    assert error(dense, found["geometry"], motion) <= error(dense, found["poisson"], motion)
    laplacian, true = random_walk_laplacian(mesh_adjacency(dense.mesh)), dense.deform(motion)
    bend = {
        name: np.linalg.norm([laplacian @ frame for frame in found[name].deform(motion) - true])
        for name in NAMES
    }
    assert bend["poisson"] < 0.9 * bend["geometry"]


@pytest.mark.parametrize("name", ["geometry", "poisson"])
def test_reductions_by_poses_say_what_they_need(name, dense):
    with pytest.raises(InputError, match="example poses"):
        reduce(name, dense)


@pytest.mark.parametrize("name", NAMES)
def test_negative_weights_are_refused(name, dense, motion):
    affine = replace(
        dense,
        skin=Skin(
            dense.skin.bone_index[:, :2],
            np.tile(np.float32([1.5, -0.5]), (dense.mesh.vertex_count, 1)),
        ),
    )
    with pytest.raises(InputError, match="negative"):
        reduce(name, affine, motion)


@pytest.mark.parametrize("name", NAMES)
def test_fit_takes_the_bones_the_poses_have(name, dense, motion):
    poses = Poses(dense.mesh, dense.deform(motion), dense.skeleton, motion, name="strip")
    fitted = method_type(name)().fit(poses)
    assert fitted.training["poses"] == 10
    assert fitted.provenance["poses"] == "strip"
    assert fitted.skin.influences <= 4


def test_projection_on_the_simplex_is_the_nearest_point():
    rng = np.random.default_rng(0)
    given, usable = rng.normal(size=(200, 5)), rng.random((200, 5)) < 0.7
    usable[:, 0] = True
    found = project_to_simplex(given, usable)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found >= 0).all()
    assert (found[~usable] == 0).all()
    other = rng.dirichlet(np.ones(5), size=(50, 200)) * usable
    other /= other.sum(axis=2, keepdims=True)
    assert (
        np.linalg.norm(found - given * usable, axis=1)
        <= np.linalg.norm(other - given * usable, axis=2) + 1e-12
    ).all()


def test_geometry_is_not_misled_by_rounding_where_the_skin_is_exact(dense, motion):
    """A vertex that follows one bone keeps it, however small its other weights are."""
    skin = dense.skin
    weights = np.full(skin.weight.shape, 1e-6, np.float32)
    weights[:, 0] = 1 - 1e-6 * (weights.shape[1] - 1)
    nearly_rigid = replace(dense, skin=replace(skin, weight=weights))
    kind = method_type("geometry")
    reduced = kind(kind.Config(influences=2)).reduce(nearly_rigid, motion)
    kept = np.take_along_axis(reduced.skin.bone_index, reduced.skin.weight.argmax(1)[:, None], 1)
    np.testing.assert_array_equal(kept, skin.bone_index[:, :1])
