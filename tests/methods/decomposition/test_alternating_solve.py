"""The transform step, and the rest shape for given transforms and weights."""

import numpy as np

from understudy.methods.decomposition.fit import Fit, predict
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.skeletons.rest_shape import solve_rest_shape
from understudy.methods.decomposition.transform_solve import solve_transforms


def test_bones_that_could_cancel_each_other_stay_near_what_they_move():
    """Two bones share every vertex almost equally. Noise drives them far apart, unless each also
    approximates its vertices by itself.
    """
    rng = np.random.default_rng(0)
    rest = np.column_stack([rng.normal(size=(200, 3)), np.ones(200)])
    targets = rest[:, :3] + 0.01 * rng.normal(size=(200, 3))
    share = 0.5 + 1e-3 * rng.normal(size=200)
    fit = Fit(
        np.tile(np.eye(3, 4), (1, 2)),
        np.tile(np.array([0, 1], np.int32), (200, 1)),
        np.column_stack([share, 1 - share]),
        (targets**2).sum(axis=1),
    )
    motion = Motion(rest, targets, (targets**2).sum(axis=1))
    drift = lambda individual: np.abs(
        solve_transforms(motion, fit, individual) - np.tile(np.eye(3, 4), (1, 2))
    ).max()
    assert drift(0.0) > 0.3
    assert drift(1e-3) < 0.05


def test_the_rest_shape_is_found_from_where_its_vertices_went():
    rng = np.random.default_rng(0)
    rest = np.column_stack([rng.normal(size=(50, 3)), np.ones(50)])
    weight = rng.dirichlet(np.ones(2), 50)
    index = np.array([rng.permutation(4)[:2] for _ in range(50)], np.int32)
    fit = Fit(rng.normal(size=(18, 16)), index, weight, np.zeros(50))
    targets = predict(Motion(rest, np.zeros((50, 18)), np.zeros(50)), fit)
    moved = rest + np.column_stack([rng.normal(size=(50, 3)), np.zeros(50)])
    motion = Motion(moved, targets, (targets**2).sum(axis=1))
    np.testing.assert_allclose(solve_rest_shape(motion, fit, moved, 0.0), rest, atol=1e-8)
    np.testing.assert_allclose(solve_rest_shape(motion, fit, moved, 1e12), moved, atol=1e-8)
