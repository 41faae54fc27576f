"""Skin weights: against a slow reference and exhaustive search, and invariants of any data."""

from itertools import combinations

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion
from scipy.optimize import nnls

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.geometry.simplex_qp import (
    SimplexQP,
    objective,
    solve_simplex_qp,
    solve_sparse_simplex_qp,
)
from understudy.geometry.skinning import dense_to_influences
from understudy.geometry.transforms import apply, compose
from understudy.methods.skin_fitting import skin_weights
from understudy.methods.skin_fitting.skin_weights import (
    NormalEquations,
    solve_dense,
    solve_path,
    solve_sparse,
)
from understudy.system.errors import InputError


def skinned(skeleton, mesh, motion, weights, noise=0.0, shift=(0, 0, 0)) -> Poses:
    """Poses of an exact linear skin (V,B), plus noise."""
    motion = motion.copy()
    motion[..., 3] += shift
    matrix = np.einsum("vb,tbij->tvij", weights, compose(motion, skeleton.bone_from_world))
    vertices = apply(matrix, mesh.vertices.astype(float))
    return Poses(
        mesh,
        vertices + noise * np.random.default_rng(7).normal(size=vertices.shape),
        skeleton,
        motion,
    )


def bone_places(poses: Poses) -> np.ndarray:
    """Each vertex moved by each bone: (T,V,B,3)."""
    matrix = compose(poses.world_from_bone, poses.skeleton.bone_from_world)
    return apply(matrix[:, None], poses.mesh.vertices.astype(float)[None, :, None])


def slow_dense(poses: Poses) -> np.ndarray:
    """Reference: non-negative least squares per vertex, with a heavy extra row for the sum."""
    result = []
    for place, target in zip(
        np.moveaxis(bone_places(poses), 1, 0), np.moveaxis(poses.vertices.astype(float), 1, 0)
    ):
        corners = (place - target[:, None]).transpose(0, 2, 1).reshape(-1, place.shape[1])
        heavy = 1e4 * np.abs(corners).max()
        weight, _ = nnls(
            np.vstack([corners, np.full(place.shape[1], heavy)]),
            np.r_[np.zeros(len(corners)), heavy],
        )
        result.append(weight / weight.sum())
    return np.array(result)


def squares(poses: Poses, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Squared distances of a skin, summed over poses: (V,)."""
    dense = np.zeros((len(index), poses.skeleton.bone_count))
    np.add.at(dense, (np.arange(len(index))[:, None], index), weight)
    moved = np.einsum("vb,tvbi->tvi", dense, bone_places(poses))
    return np.sum((moved - poses.vertices.astype(float)) ** 2, axis=(0, 2))


def everything(bones):
    return np.tile(np.arange(bones), (1000, 1))


@pytest.fixture(scope="module")
def noisy() -> Poses:
    """Eight bones, dense weights, and noise that no skin can fit."""
    skeleton, mesh = chain_skeleton(8), grid_mesh(12, 4)
    weights = np.random.default_rng(2).dirichlet(np.full(8, 0.5), mesh.vertex_count)
    return skinned(skeleton, mesh, random_motion(skeleton, 40), weights, noise=0.1)


def test_all_bones_equal_the_slow_reference(noisy):
    ours, slow = solve_dense(NormalEquations.of(noisy)), slow_dense(noisy)
    index = everything(8)[: len(ours)]
    np.testing.assert_allclose(squares(noisy, index, ours), squares(noisy, index, slow), rtol=1e-6)
    np.testing.assert_allclose(ours, slow, atol=2e-3)


def test_weights_are_convex_and_few(noisy):
    equations = NormalEquations.of(noisy)
    dense = solve_dense(equations)
    assert dense.min() >= 0
    np.testing.assert_allclose(dense.sum(axis=1), 1, atol=1e-12)
    for k in (1, 2, 3, 5, 8, 30):
        index, weight = solve_sparse(equations, k)
        assert index.shape == weight.shape == (noisy.vertex_count, min(k, 8))
        assert weight.min() >= 0
        np.testing.assert_allclose(weight.sum(axis=1), 1, atol=1e-12)
        assert (np.diff(weight, axis=1) <= 0).all()
        used = np.where(weight > 0, index, -1 - np.arange(weight.shape[1]))
        assert all(len(set(row)) == len(row) for row in used.tolist())  # no bone twice


def test_more_influences_never_raise_the_error(noisy):
    equations = NormalEquations.of(noisy)
    path = solve_path(equations, range(1, 9))
    errors = np.array([squares(noisy, *level) for level in path])
    assert (np.diff(errors, axis=0) <= 1e-9 * errors[0]).all()
    np.testing.assert_allclose(
        errors[-1],
        squares(noisy, everything(8)[: noisy.vertex_count], solve_dense(equations)),
        rtol=1e-6,
    )


def test_path_equals_separate_solves(noisy):
    equations = NormalEquations.of(noisy)
    for k, (index, weight) in zip((4, 2), solve_path(equations, (4, 2))):
        alone = solve_sparse(equations, k)
        assert (index == alone[0]).all()
        np.testing.assert_array_equal(weight, alone[1])


def test_chunks_change_nothing(noisy, monkeypatch):
    equations = NormalEquations.of(noisy)
    whole = solve_sparse(equations, 3)
    monkeypatch.setattr(skin_weights, "_CHUNK_BYTES", 8 * 64 * 5)
    assert len(equations.chunks()) > 5
    np.testing.assert_allclose(
        squares(noisy, *solve_sparse(equations, 3)), squares(noisy, *whole), rtol=1e-9
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_support_is_optimised(noisy, k):
    """The support is nearly always the best of all, and better than the largest dense weights."""
    equations = NormalEquations.of(noisy)
    problems = equations.problems(slice(0, 30))
    best = np.full(30, np.inf)
    for support in combinations(range(8), k):
        inner = SimplexQP(
            np.ascontiguousarray(problems.matrix[:, support][:, :, support]), problems.scale
        )
        best = np.minimum(best, objective(inner, np.arange(30), solve_simplex_qp(inner)))
    found = objective(problems, np.arange(30), solve_sparse_simplex_qp(problems, k)[k - 1])
    assert (found >= best * (1 - 1e-9)).all()
    assert np.mean(found <= best * (1 + 1e-6)) >= 0.9
    assert found.sum() <= 1.05 * best.sum()
    cut_index, cut = dense_to_influences(solve_dense(equations)[:30])
    cut = cut[:, :k] / cut[:, :k].sum(axis=1, keepdims=True)
    moved = np.take_along_axis(problems.matrix, cut_index[:, :k, None], axis=1)
    moved = np.take_along_axis(moved, cut_index[:, None, :k], axis=2)
    assert (found <= np.einsum("nk,nkl,nl->n", cut, moved, cut) * (1 + 1e-9)).all()


def test_an_exact_skin_is_recovered():
    skeleton, mesh = chain_skeleton(6), grid_mesh(20, 5)
    rng = np.random.default_rng(4)
    weights = np.zeros((mesh.vertex_count, 6))
    for row in weights:
        row[rng.permutation(6)[:3]] = rng.dirichlet([2, 2, 2])
    poses = skinned(skeleton, mesh, random_motion(skeleton, 60), weights)
    np.testing.assert_allclose(solve_dense(NormalEquations.of(poses)), weights, atol=1e-4)
    index, weight = solve_sparse(NormalEquations.of(poses), 3)
    again = np.zeros_like(weights)
    np.add.at(again, (np.arange(len(index))[:, None], index), weight)
    np.testing.assert_allclose(again, weights, atol=1e-4)


def test_far_from_the_origin_nothing_changes():
    skeleton, mesh = chain_skeleton(5), grid_mesh(12, 4)
    weights = np.random.default_rng(5).dirichlet(np.ones(5), mesh.vertex_count)
    motion = random_motion(skeleton, 60)
    here = skinned(skeleton, mesh, motion, weights, noise=0.02)
    far = skinned(skeleton, mesh, motion, weights, noise=0.02, shift=(1e4, 1e4, -1e4))
    # In float32 the far vertices are accurate to half a thousandth; weights are as accurate.
    np.testing.assert_allclose(
        solve_dense(NormalEquations.of(far)), solve_dense(NormalEquations.of(here)), atol=5e-3
    )
    # A translation by a power of two rounds no vertex, so the weights stay the same.
    motion = motion.copy()
    motion[..., 3] += 8192
    coarse = np.round(here.vertices.astype(float) * 512) / 512
    one = solve_dense(NormalEquations.of(Poses(mesh, coarse, skeleton, here.world_from_bone)))
    two = solve_dense(NormalEquations.of(Poses(mesh, coarse + 8192, skeleton, motion)))
    np.testing.assert_allclose(one, two, atol=1e-7)


def test_bones_that_move_alike_and_bones_that_never_move():
    skeleton = chain_skeleton(4)
    mesh = grid_mesh(10, 3)
    motion = random_motion(skeleton, 30)
    matrix = compose(motion, skeleton.bone_from_world)
    matrix[:, 2] = matrix[:, 1]
    matrix[:, 3] = np.eye(3, 4)
    motion = compose(matrix, skeleton.world_from_bone)
    weights = np.random.default_rng(6).dirichlet(np.ones(4), mesh.vertex_count)
    poses = skinned(skeleton, mesh, motion, weights, noise=0.01)
    dense = solve_dense(NormalEquations.of(poses))
    merged = np.column_stack([dense[:, 0], dense[:, 1] + dense[:, 2], dense[:, 3]])
    np.testing.assert_allclose(
        merged,
        np.column_stack([weights[:, 0], weights[:, 1] + weights[:, 2], weights[:, 3]]),
        atol=0.05,
    )
    index, weight = solve_sparse(NormalEquations.of(poses), 3)
    np.testing.assert_allclose(
        squares(poses, index, weight), squares(poses, everything(4)[: len(dense)], dense), rtol=1e-6
    )


def test_one_of_everything():
    skeleton = Skeleton(("only",), [-1], np.eye(3, 4)[None])
    poses = Poses(
        Mesh(np.ones((1, 3)), [], []), np.full((1, 1, 3), 2.0), skeleton, np.eye(3, 4)[None, None]
    )
    equations = NormalEquations.of(poses)
    assert solve_dense(equations).tolist() == [[1.0]]
    assert [a.tolist() for a in solve_sparse(equations, 4)] == [[[0]], [[1.0]]]


def test_poses_at_rest_are_degenerate_but_solved():
    skeleton, mesh = chain_skeleton(5), grid_mesh()
    poses = Poses(
        mesh,
        np.tile(mesh.vertices, (3, 1, 1)),
        skeleton,
        np.tile(skeleton.world_from_bone, (3, 1, 1, 1)),
    )
    equations = NormalEquations.of(poses)
    for weight in (solve_dense(equations), solve_sparse(equations, 3)[1]):
        assert np.isfinite(weight).all()
        assert weight.min() >= 0
        np.testing.assert_allclose(weight.sum(axis=1), 1, atol=1e-12)


def test_chosen_poses(noisy):
    chosen = np.arange(0, 40, 3)
    one, two = NormalEquations.of(noisy, chosen), NormalEquations.of(noisy.take(chosen))
    np.testing.assert_allclose(one.aty, two.aty, atol=1e-9)
    np.testing.assert_allclose(one.ata, two.ata, atol=1e-9)


def test_influences_must_be_positive(noisy):
    with pytest.raises(InputError, match="influences"):
        solve_sparse(NormalEquations.of(noisy), 0)


@pytest.mark.parametrize("name", ["gt_lbs_wolf", "gt_lbs_cheburashka"])
def test_real_skins_are_recovered(real_data, name):
    with np.load(real_data / "sequences" / f"{name}.npz") as file:
        rest, faces, vertices, weights, transforms = (
            file[key] for key in ("rest", "faces", "vertices", "weights", "transforms")
        )
    bones = transforms.shape[1]
    skeleton = Skeleton(
        [f"bone{b}" for b in range(bones)], np.full(bones, -1), np.tile(np.eye(3, 4), (bones, 1, 1))
    )
    found = solve_dense(
        NormalEquations.of(Poses(Mesh.from_faces(rest, faces), vertices, skeleton, transforms))
    )
    np.testing.assert_allclose(found, weights, atol=5e-4)
