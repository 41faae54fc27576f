"""Bones for given weights."""

import numpy as np

from understudy.decomposition.motion import Motion
from understudy.decomposition.rounds import Fit, affine_bones


def test_bones_that_could_cancel_each_other_stay_near_what_they_move():
    """Two bones share every vertex almost equally: noise in the motion then drives them far apart, unless each must also do a little by itself."""
    rng = np.random.default_rng(0)
    rest = np.column_stack([rng.normal(size=(200, 3)), np.ones(200)])
    targets = rest[:, :3] + 0.01 * rng.normal(size=(200, 3))
    share = 0.5 + 1e-3 * rng.normal(size=200)
    fit = Fit(
        np.tile(np.eye(3, 4), (1, 2)), np.tile(np.array([0, 1], np.int32), (200, 1)), np.column_stack([share, 1 - share]), (targets**2).sum(axis=1)
    )
    motion = Motion(rest, targets, (targets**2).sum(axis=1))
    wander = lambda alone: np.abs(affine_bones(motion, fit, alone=alone) - np.tile(np.eye(3, 4), (1, 2))).max()
    assert wander(0.0) > 0.3
    assert wander(1e-3) < 0.05
