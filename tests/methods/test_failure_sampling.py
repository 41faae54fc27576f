"""Poses around the failures of a deformer."""

import numpy as np
import pytest

from understudy.core.errors import InputError
from understudy.methods import method_type
from understudy.methods.failure_sampling import (
    control_parts,
    control_shares,
    failure_values,
    vertex_errors,
)
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def skin(tube):
    """Skinning of the tube, which fails where it bends far."""
    kind = method_type("lbs")
    return kind(kind.Config()).fit(tube.evaluate(gaussian(tube.controls, 60, seed=0)))


@pytest.fixture(scope="module")
def proposals(tube):
    return tube.evaluate(gaussian(tube.controls, 80, seed=1))


def test_controls_of_the_same_vertices_are_one_part():
    left, right = np.repeat([1.0, 0.0], 5), np.repeat([0.0, 1.0], 5)
    shares = np.stack([left, right, 0.5 * left, 0.2 * right], axis=1)
    parts = control_parts(shares)
    assert parts[0] == parts[2]
    assert parts[1] == parts[3]
    assert parts[0] != parts[1]
    assert control_parts(shares[:, :1]).tolist() == [0]


def test_shares_sum_to_one(skin, proposals):
    shares = control_shares(skin, proposals)
    assert shares.shape == (skin.mesh.vertex_count, proposals.control_spec.count)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)


def test_new_poses_have_larger_errors_than_proposals(tube, skin, proposals):
    values = failure_values(skin, proposals, 200, 0.1, seed=0)
    low, high = tube.controls.low, tube.controls.high
    assert ((low <= values) & (values <= high)).all()
    assert len(np.unique(values, axis=0)) == 200
    found = vertex_errors(skin, tube.evaluate(values)).mean()
    assert found > 1.2 * vertex_errors(skin, proposals).mean()


def test_same_seed_same_values(skin, proposals):
    first, again, other = (failure_values(skin, proposals, 9, 0.1, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_poses_without_controls_are_refused(skin, proposals):
    from dataclasses import replace

    bare = replace(proposals, controls=None, control_spec=None)
    with pytest.raises(InputError, match="controls"):
        failure_values(skin, bare, 5, 0.1, 0)
