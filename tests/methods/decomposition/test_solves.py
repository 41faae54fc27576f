"""The transform step: transforms for given weights."""

import numpy as np
import pytest

from understudy.methods.decomposition.motion import Fit, Motion, predict, read_motion
from understudy.methods.decomposition.solves import solve_transforms
from understudy_benchmarks.trajectory_training.generated import generate_character


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


def test_conjugate_gradients_find_what_the_direct_solver_finds():
    motion, _ = read_motion(generate_character(1).poses())
    random = np.random.default_rng(0)
    index = np.argsort(random.random((motion.vertex_count, 8)), axis=1)[:, :3].astype(np.int32)
    weight = random.dirichlet(np.ones(3), motion.vertex_count)
    start = Fit(np.zeros((motion.rows, 32)), index, weight, motion.square)
    errors = []
    for solver in ("direct", "conjugate_gradients"):
        transforms = solve_transforms(motion, start, solver=solver)
        predicted = predict(motion, Fit(transforms, index, weight, motion.square))
        errors.append(float(((predicted - motion.targets) ** 2).sum()))
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)
