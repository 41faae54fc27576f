"""`compact`: 16 bits where that does not change the error, else 32."""

from dataclasses import replace

import numpy as np
import pytest
from sequence_builders import fitted

from understudy.methods.correctives.storage import stored
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian


@pytest.fixture(scope="module")
def learned():
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, 200, seed=0))
    return fitted(poses, "pca_regression"), poses


def mean_error(deformer, poses):
    shown = deformer.deform(poses.world_from_bone, poses.controls)
    return np.linalg.norm(shown - poses.vertices, axis=2).mean()


def test_networks_are_stored_in_16_bits_at_the_same_error(learned):
    deformer, poses = learned
    small = stored(deformer, "auto", poses)
    assert (deformer.storage, small.storage) == ("float32", "float16")
    assert mean_error(small, poses) < 1.02 * mean_error(deformer, poses)
    np.testing.assert_array_equal(small.mesh.vertices, deformer.mesh.vertices)


def test_what_16_bits_would_change_visibly_stays(learned):
    """Poses that the deformer follows exactly show every rounding."""
    deformer, poses = learned
    exact = replace(poses, vertices=deformer.deform(poses.world_from_bone, poses.controls))
    assert stored(deformer, "auto", exact) is deformer


def test_weights_beyond_the_range_of_16_bits_stay(learned):
    deformer, poses = learned
    net = deformer.nets[0]
    weights = (1e6 * net.weights[0], *net.weights[1:])
    large = replace(deformer, nets=(replace(net, weights=weights), *deformer.nets[1:]))
    assert stored(large, "auto", poses) is large


def test_a_skin_alone_stays(learned):
    _, poses = learned
    skin = fitted(poses, "lbs")
    assert stored(skin, "auto", poses) is skin
