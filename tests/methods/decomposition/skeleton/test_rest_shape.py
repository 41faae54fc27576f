"""The rest shape for given transforms and weights."""

import numpy as np

from understudy.methods.decomposition.skeleton.articulated_fit import solve_rest_shape
from understudy.methods.decomposition.solve.motion import Fit, Motion, predict


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
