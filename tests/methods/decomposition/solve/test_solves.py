"""The transform step: transforms for given weights."""

import numpy as np

from understudy.methods.decomposition.solve.motion import Fit, Motion
from understudy.methods.decomposition.solve.solves import solve_transforms


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
