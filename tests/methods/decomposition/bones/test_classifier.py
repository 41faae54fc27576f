"""The networks in NumPy against torch, the shipped weights, their inputs."""

import numpy as np
import pytest

from understudy import FileError, Mesh, Poses
from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.bones import classifier
from understudy.methods.decomposition.bones.classifier import (
    CHANNELS,
    MAX_FRAMES,
    MIN_FRAMES,
    principal_axes,
    trajectories,
)
from understudy.methods.decomposition.solve.motion import read_motion
from understudy_benchmarks.trajectory_training.generated import generate_character


def random_weights(network, seed=0):
    random = np.random.default_rng(seed)
    return {
        name: random.normal(size=shape, scale=0.5).astype(np.float32)
        for name, shape in classifier.shapes(network).items()
    }


@pytest.mark.parametrize(
    ("vertices", "frames"), [(2050, 3), (40, 48)]
)  # the first are more than one block
@pytest.mark.parametrize("network", classifier.NETWORKS)
def test_numpy_is_torch(network, vertices, frames):
    torch = pytest.importorskip("torch")
    from understudy_benchmarks.trajectory_training.training import Network

    read = np.random.default_rng(1).normal(size=(vertices, frames, CHANNELS)).astype(np.float32)
    weights = random_weights(network)
    model = Network(network)
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    with torch.no_grad():
        expected = torch.sigmoid(model(torch.from_numpy(read))).numpy()
    np.testing.assert_allclose(
        classifier.predict_labels(network, weights, read), expected, atol=2e-6
    )


@pytest.mark.parametrize("network", classifier.NETWORKS)
@pytest.mark.parametrize("kind", classifier.KINDS)
def test_shipped_weights_tell_vertices_apart(kind, network):
    motion, _ = read_motion(generate_character(3).poses())
    predictions = classifier.predict_labels(
        network,
        classifier.network_weights(kind, network),
        trajectories(motion, np.arange(motion.vertex_count)),
    )
    assert np.isfinite(predictions).all()
    np.testing.assert_array_equal(
        trajectories(motion, np.array([5, 9])),
        trajectories(motion, np.arange(motion.vertex_count))[[5, 9]],
    )
    assert 3 <= len(np.unique(predictions.argmax(axis=1))) <= classifier.LABELS


def test_weights_of_another_network_are_refused(tmp_path):
    from safetensors.numpy import save

    good = save(random_weights("cnn"))
    assert classifier.read_weights("cnn", good, "cnn")["dense"].dtype == np.float32
    with pytest.raises(FileError, match="not those of the network 'lstm'"):
        classifier.read_weights("lstm", good, "x")
    with pytest.raises(FileError, match="not a safetensors file"):
        classifier.read_weights("cnn", good[:40], "x")
    spoiled = random_weights("cnn")
    spoiled["dense"][0, 0] = np.nan
    with pytest.raises(FileError, match="some are not finite"):
        classifier.read_weights("cnn", save(spoiled), "x")


def test_translation_rotation_and_scale_do_not_change_trajectories():
    poses = generate_character(5).poses()
    turn = rotation_from_axis_angle(np.array([0.7, -1.9, 0.4]))
    moved = Poses(
        Mesh.from_faces(3.0 * poses.mesh.vertices @ turn.T + 100, [[0, 1, 2]]),
        3.0 * poses.vertices.astype(np.float64) @ turn.T + [5, 6, 7],
    )
    before, after = (
        trajectories(motion, np.argsort(normalisation.order))
        for motion, normalisation in (read_motion(poses), read_motion(moved))
    )
    np.testing.assert_allclose(after, before, atol=2e-4)


def test_the_axes_are_a_rotation_and_frames_are_bounded():
    poses = generate_character(2, frames=70).poses()
    motion, _ = read_motion(poses)
    np.testing.assert_allclose(
        principal_axes(motion).T @ principal_axes(motion), np.eye(3), atol=1e-12
    )
    assert np.linalg.det(principal_axes(motion)) == pytest.approx(1)
    assert trajectories(motion, np.arange(4)).shape == (4, MAX_FRAMES, CHANNELS)
    one, _ = read_motion(poses.take(np.array([5])))
    held = trajectories(one, np.arange(4))
    assert held.shape == (4, MIN_FRAMES, CHANNELS)
    assert np.isfinite(held).all()
