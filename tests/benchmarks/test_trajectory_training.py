"""Characters to train on, and training on them."""

import json

import numpy as np
import pytest

from understudy import FileError, InputError
from understudy.methods.decomposition.bones import classifier
from understudy_benchmarks.baselines.temporal_paper import published_network
from understudy_benchmarks.trajectory_training.corpus import (
    HELD_OUT,
    Character,
    family_of,
    read_characters,
)
from understudy_benchmarks.trajectory_training.generated import generate_character

torch = pytest.importorskip("torch")
from understudy_benchmarks.trajectory_training import (  # noqa: E402
    published_training,
    training,
)


def test_generated_characters_are_exact_skins():
    for seed in range(6):
        character = generate_character(seed)
        assert (character.weights >= 0).all()
        np.testing.assert_allclose(character.weights.sum(axis=1), 1, atol=1e-6)
        assert (character.weights > 0).any(axis=0).all()
        poses = character.poses()
        rest = np.column_stack([character.mesh.vertices, np.ones(character.mesh.vertex_count)])
        vertex = 7 % len(rest)
        expected = np.einsum(
            "b,fbij,j->fi", character.weights[vertex], character.transforms, rest[vertex]
        )
        np.testing.assert_allclose(poses.vertices[:, vertex], expected, atol=1e-5)
    np.testing.assert_array_equal(
        generate_character(3).mesh.vertices, generate_character(3).mesh.vertices
    )
    np.testing.assert_array_equal(
        generate_character(3).transforms, generate_character(3).transforms
    )


def test_bones_that_move_alike_are_merged():
    whole = generate_character(1)
    twice = np.concatenate([whole.transforms, whole.transforms[:, :1]], axis=1)
    weights = np.column_stack([whole.weights, 0.5 * whole.weights[:, 0]])
    weights[:, 0] *= 0.5
    doubled = Character("x", "animal", "made", whole.mesh, weights, twice)
    assert doubled.bones == whole.bones + 1
    assert doubled.with_merged_bones().bones == whole.with_merged_bones().bones
    np.testing.assert_allclose(
        doubled.with_merged_bones().poses().vertices, whole.poses().vertices, atol=1e-3
    )


def test_a_network_learns_and_the_same_seed_gives_the_same_weights():
    data = training.label_trajectories([generate_character(seed) for seed in range(4)])
    assert all((one.labels.sum(axis=1) >= 1).all() for one in data)
    once = training.train("cnn", data, epochs=4, batch_size=256, learning_rate=0.01)
    again = training.train("cnn", data, epochs=4, batch_size=256, learning_rate=0.01)
    assert once.validation_loss[-1] < 0.9 * once.validation_loss[0]
    for name, value in once.weights.items():
        np.testing.assert_array_equal(value, again.weights[name])


def test_written_weights_come_back(tmp_path):
    data = training.label_trajectories([generate_character(0)])
    trained = training.train("cnn", data, epochs=1)
    training.save_weights(tmp_path / "w.safetensors", trained)
    back = classifier.read_weights("cnn", (tmp_path / "w.safetensors").read_bytes(), "w")
    np.testing.assert_allclose(back["dense"], trained.weights["dense"], rtol=1e-3, atol=1e-6)


def test_a_file_that_is_no_character_is_named(tmp_path):
    wrong = tmp_path / "animal_x_Wrong.npz"
    np.savez(wrong, rest=np.zeros((3, 3)))
    with pytest.raises(FileError, match="not a rigged character"):
        list(read_characters(wrong))
    with pytest.raises(InputError, match="kind of character"):
        family_of(tmp_path / "plant_x_Fern.npz")


def test_held_out_families_are_not_trained_on(tmp_path):
    for name in (
        "animal_q_Cow",
        "animal_qfarm_Pig",
        "human_q_Knight",
        "human_qman_King",
        "robot_qmech_Mike",
    ):
        np.savez(
            tmp_path / f"{name}.npz", rest=np.eye(3, dtype=np.float32), faces=[[0, 1, 2]],
            weight_index=np.zeros((3, 1), int),
            weight_value=np.ones((3, 1)), inverse_bind=np.eye(4)[None], anim_00=np.tile(np.eye(3,
            4), (2, 1, 1, 1)),
        )  # fmt: skip
    (tmp_path / "corpus").mkdir()
    for file in tmp_path.glob("*.npz"):
        file.rename(tmp_path / "corpus" / file.name)
    assert [c.name for c in training.training_characters("animals", tmp_path)] == ["animal_q_Cow/0"]
    assert [c.name for c in training.training_characters("humans", tmp_path)] == [
        "human_qman_King/0"
    ]
    assert family_of(tmp_path / "corpus" / "animal_qfarm_Pig.npz")[1] in HELD_OUT
    with pytest.raises(FileError, match="holds no characters"):
        training.training_characters("animals", tmp_path / "corpus")


@pytest.mark.slow
def test_training_as_published_learns_every_seed_and_is_read_again(tmp_path):
    options = [published_training.Options("cnn", seeds=2, epochs=3, batch_size=512)]
    lines = list(training.train_published(tmp_path, None, ["animals"], options, "cpu"))
    assert "batches of 512" in lines[0]
    history = json.loads((tmp_path / "512" / "animals_cnn.json").read_text())
    losses = np.array(history["validation_loss"])
    assert losses.shape == (3, 2)
    assert (losses[-1] < losses[0]).all()
    one, other = (
        published_network("animals", "cnn", seed, str(tmp_path / "512")) for seed in (0, 1)
    )
    assert not np.array_equal(one["dense"], other["dense"])


@pytest.mark.parametrize("network", classifier.NETWORKS)
def test_stacked_networks_are_those_of_numpy_whatever_the_padding(network):
    model = published_training.StackedNetworks(network, 2)
    random = np.random.default_rng(0)
    paths = random.normal(size=(30, 9, 3)).astype(np.float32)
    padded = np.pad(paths, ((0, 0), (0, 5), (0, 0)), constant_values=7)
    both = torch.from_numpy(np.stack([padded, padded]))
    with torch.no_grad():
        logits = model(both, torch.full((2, 30), 9))
    for seed in range(2):
        weights = {k: v[seed].detach().numpy() for k, v in model.named_parameters()}
        expected = classifier.predict_labels(network, weights, paths)
        np.testing.assert_allclose(torch.sigmoid(logits[seed]).numpy(), expected, atol=2e-6)


def test_examples_are_the_skinned_characters(tmp_path):
    characters = [generate_character(0), generate_character(2)]
    training.write_examples(tmp_path / "a.npz", characters)
    examples = published_training.read_examples(tmp_path / "a.npz")
    assert len(examples) == sum(c.mesh.vertex_count for c in characters)
    first = characters[0].vertices().transpose(1, 0, 2)
    np.testing.assert_allclose(examples.paths[: len(first)].numpy(), first, atol=1e-4)
    np.testing.assert_array_equal(
        examples.labels[: len(first), : characters[0].bones].numpy(), characters[0].weights > 0
    )
