"""Training of the networks (`understudy train temporal`); the shipped weights were made by this.

As in the paper: binary cross-entropy, Adam with learning rate 1e-3, batches of 4096, and a fifth of
the vertices for validation. Small characters contribute some vertices several times, which may then
be in both parts.

Departures, and why:
- All characters share one set of labels (`body_labels`).
- Bones that move alike are merged (`Character.with_merged_bones`), as no network can separate them.
- Every character contributes the same number of vertices, so that dense meshes do not dominate.
- Each epoch reads the trajectories at one of several lengths, so that the networks do not depend on
  the number of frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

from understudy.io.atomic_write import atomic_write
from understudy.methods.decomposition.bones.classifier import (
    KINDS,
    LABELS,
    NETWORKS,
    shapes,
    trajectories,
)
from understudy.methods.decomposition.solve.motion import read_motion
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress
from understudy.training.stack_training import torch_threads
from understudy.training.trainer import pick_device
from understudy_benchmarks.trajectory_training import published_training
from understudy_benchmarks.trajectory_training.body_labels import (
    bone_descriptors,
    common_labels,
)
from understudy_benchmarks.trajectory_training.corpus import (
    HELD_OUT,
    Character,
    corpus_files,
    family_of,
    read_characters,
)
from understudy_benchmarks.trajectory_training.generated import generate_character

_VERTICES = 1000  # of each character, drawn with repetition if it has fewer
_LENGTHS = (12, 20, 32, 48)  # frames that trajectories are read at
_VALIDATION_LENGTH = 32
_INFLUENCE = 0.05  # weight from which a bone counts as moving a vertex
_VALIDATION_FRACTION = 0.2  # of the vertices
_GENERATED = 60  # characters of each kind if there is no data


@dataclass(frozen=True, eq=False)
class LabelledTrajectories:
    """Training data of one character in one animation.

    trajectories  (n,F,6) float32
    labels        (n,LABELS) bool, whether each label moves the vertex
    validation    how many vertices, the last ones, are for validation
    """

    trajectories: np.ndarray
    labels: np.ndarray
    validation: int

    def part(self, validation: bool) -> slice:
        """Return the vertices for validation, or those for training."""
        split = len(self.trajectories) - self.validation
        return slice(split, None) if validation else slice(0, split)


@dataclass(frozen=True)
class TrainedNetwork:
    """The arrays of a network by name (see `classifier.shapes`), and its history by epoch."""

    weights: dict[str, np.ndarray] = field(default_factory=dict)
    loss: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    validation_accuracy: list[float] = field(default_factory=list)


def label_trajectories(
    characters: Sequence[Character], seed: int = 0, progress: Progress = SILENT
) -> list[LabelledTrajectories]:
    """Return the training data of characters; those with more bones than labels are skipped."""
    random = np.random.default_rng(seed)
    paths, bones, weights = [], [], []
    with progress.task("reading characters", len(characters)) as bar:
        for character in characters:
            bar.advance()
            character = character.with_merged_bones()
            if character.bones > LABELS:
                continue
            motion, normalisation = read_motion(character.poses())
            every = trajectories(motion, np.arange(motion.vertex_count))
            ordered = character.weights[normalisation.order]
            bones.append(bone_descriptors(every, ordered))
            some = random.choice(len(every), _VERTICES, replace=len(every) < _VERTICES)
            paths.append(every[some])
            weights.append(ordered[some])
    result = []
    for own, weight, label in zip(paths, weights, common_labels(bones, LABELS)):
        moved_by = np.zeros((len(own), LABELS), bool)
        moved_by[:, label] = weight > _INFLUENCE
        result.append(LabelledTrajectories(own, moved_by, round(_VALIDATION_FRACTION * len(own))))
    return result


class Network(nn.Module):
    """A network of `classifier` in torch, with the same arrays under the same names.

    `forward` takes trajectories (n,F,6) and returns logits (n,LABELS).
    """

    def __init__(self, network: str, frequencies: np.ndarray | None = None):
        """Initialise at random.

        frequencies  (LABELS,) how often each label is true; the last layer starts from it
        """
        super().__init__()
        self.network = network
        for name, shape in shapes(network).items():
            value = torch.zeros(shape)
            if len(shape) == 2:
                nn.init.orthogonal_(value) if name == "state" else nn.init.xavier_uniform_(value)
            elif name == "dense_bias" and frequencies is not None:
                value += torch.logit(torch.from_numpy(frequencies).float(), 1e-4)
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if self.network != "lstm":
            values = self._convolve(values, "conv_0")
        values = (
            self._convolve(values, "conv_1").amax(dim=1)
            if self.network == "cnn"
            else self._last_state(values)
        )
        return values @ self.get_parameter("dense") + self.get_parameter("dense_bias")

    def _convolve(self, values: torch.Tensor, name: str) -> torch.Tensor:
        pairs = torch.cat([values[:, :-1], values[:, 1:]], dim=2)
        return torch.relu(pairs @ self.get_parameter(name) + self.get_parameter(f"{name}_bias"))

    def _last_state(self, values: torch.Tensor) -> torch.Tensor:
        recurrent = self.get_parameter("state")
        given = values @ self.get_parameter("input") + self.get_parameter("state_bias")
        cell = hidden = values.new_zeros(len(values), recurrent.shape[0])
        for frame in range(values.shape[1]):
            gates = torch.sigmoid(given[:, frame] + hidden @ recurrent)
            enter, forget, new, leave = gates.chunk(4, dim=1)
            cell = forget * cell + enter * new
            hidden = leave * torch.sigmoid(cell)
        return hidden


@torch_threads()
def train(
    network: str,
    data: Sequence[LabelledTrajectories],
    *,
    epochs: int = 100,
    batch_size: int = 4096,
    learning_rate: float = 1e-3,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = SILENT,
) -> TrainedNetwork:
    """Return a trained network; the same data and seed give the same weights on one machine."""
    for name, value in (("epochs", epochs), ("batch_size", batch_size)):
        checks.between(value, name, 1)
    checks.between(learning_rate, "learning_rate", above=0)
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    frequencies = np.mean([one.labels.mean(axis=0) for one in data], axis=0)
    model = Network(network, frequencies).to(device)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    loss_of = nn.BCEWithLogitsLoss()
    training = {length: _stack(data, length, False, device) for length in _LENGTHS}
    validation = _stack(data, _VALIDATION_LENGTH, True, device)
    result = TrainedNetwork()
    with progress.task(f"training {network}", epochs) as bar:
        for _ in range(epochs):
            inputs, labels = training[int(random.choice(_LENGTHS))]
            order = torch.from_numpy(random.permutation(len(inputs))).to(device)
            total = 0.0
            for part in order.split(batch_size):
                optimizer.zero_grad()
                loss = loss_of(model(inputs[part]), labels[part].float())
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                total += float(loss.detach()) * len(part)
            result.loss.append(total / len(inputs))
            with torch.no_grad():
                inputs, labels = validation
                logits = torch.cat([model(part) for part in inputs.split(batch_size)])
                result.validation_loss.append(float(loss_of(logits, labels.float())))
                result.validation_accuracy.append(float(((logits > 0) == labels).float().mean()))
            bar.note(
                f"validation loss {result.validation_loss[-1]:.4f}, accuracy "
                f"{100 * result.validation_accuracy[-1]:.2f} %"
            )
            bar.advance()
    result.weights.update(
        {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}
    )
    return result


def _stack(
    data: Sequence[LabelledTrajectories], length: int, validation: bool, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the trajectories of all characters at `length` frames, and their labels."""
    inputs = np.concatenate(
        [_resample(one.trajectories[one.part(validation)], length) for one in data]
    )
    labels = np.concatenate([one.labels[one.part(validation)] for one in data])
    return torch.from_numpy(inputs).to(device), torch.from_numpy(labels).to(device)


def _resample(paths: np.ndarray, length: int) -> np.ndarray:
    """Return trajectories (n,F,6) at `length` frames, by linear interpolation."""
    at = np.linspace(0, paths.shape[1] - 1, length)
    first = np.minimum(at.astype(int), max(paths.shape[1] - 2, 0))
    second = np.minimum(first + 1, paths.shape[1] - 1)
    share = (at - first).astype(np.float32)[None, :, None]
    return paths[:, first] * (1 - share) + paths[:, second] * share


def training_characters(kind: str, data: Path | None) -> list[Character]:
    """Return the characters that the networks of a kind are trained on, in all their animations.

    data  a data folder, without whose held-out families; None: generated characters
    """
    checks.one_of(kind, "kind of character", KINDS)
    singular = kind.removesuffix("s")
    if data is None:
        made = (generate_character(seed) for seed in range(2 * _GENERATED))
        return [character for character in made if character.kind == singular]
    files = [
        file
        for file in corpus_files(data)
        if family_of(file)[0] == singular and family_of(file)[1] not in HELD_OUT
    ]
    if not files:
        raise InputError(
            f"{data}: holds no {kind} to train on (the families {', '.join(HELD_OUT)} are reserved "
            f"for testing); add characters, or train on generated ones (--generated)"
        )
    return [character for file in files for character in read_characters(file)]


def save_weights(path: Path, trained: TrainedNetwork) -> None:
    """Write a network as float16, as `classifier.read_weights` reads it."""
    with atomic_write(path) as part:
        save_file(
            {
                name: np.ascontiguousarray(value, np.float16)
                for name, value in trained.weights.items()
            },
            part,
        )


def train_networks(
    out: Path,
    data: Path | None,
    kinds: Sequence[str],
    networks: Sequence[str],
    epochs: int,
    device: str = "auto",
    seed: int = 0,
    progress: Progress = SILENT,
) -> Iterator[str]:
    """Train each network for each kind, write one file each to `out`, and yield a line about each.

    data      a data folder; None: generated characters
    kinds     of `classifier.KINDS`
    networks  of `classifier.NETWORKS`
    device    cpu, cuda or auto

    Files that exist are kept.
    """
    for name in kinds:
        checks.one_of(name, "kind of character", KINDS)
    for name in networks:
        checks.one_of(name, "network", NETWORKS)
    checks.one_of(device, "device", ("auto", "cpu", "cuda"))
    device = str(pick_device(device))
    out.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        path = {network: out / f"{kind}_{network}.safetensors" for network in networks}
        missing = [network for network in networks if not path[network].exists()]
        for network in networks:
            if network not in missing:
                yield f"{kind} {network}: exists, kept"
        if not missing:
            continue
        examples = label_trajectories(training_characters(kind, data), seed, progress)
        for network in missing:
            trained = train(
                network, examples, epochs=epochs, seed=seed, device=device, progress=progress
            )
            save_weights(path[network], trained)
            yield (
                f"{kind} {network}: {len(examples)} animations, {epochs} epochs, loss "
                f"{trained.loss[-1]:.4f}, validation loss {trained.validation_loss[-1]:.4f}, "
                f"validation accuracy {100 * trained.validation_accuracy[-1]:.2f} %"
            )


def write_examples(file: Path, characters: Sequence[Character]) -> None:
    """Write what `published_training.read_examples` reads: skins, and the motion of their bones.

    A character's bones are numbered in the order of its rig, without those that move no vertex.
    """
    arrays: dict[str, Any] = {}
    meshes: dict[int, int] = {}
    for number, character in enumerate(characters):
        if character.bones > LABELS:
            continue
        mesh = meshes.setdefault(id(character.mesh), len(meshes))
        if f"rest_{mesh}" not in arrays:
            places = int((character.weights > 0).sum(axis=1).max())
            index = np.argsort(-character.weights, axis=1, kind="stable")[:, :places]
            arrays[f"rest_{mesh}"] = character.mesh.vertices.astype(np.float32)
            arrays[f"index_{mesh}"] = index.astype(np.uint8)
            arrays[f"value_{mesh}"] = np.take_along_axis(character.weights, index, axis=1)
        arrays[f"bones_{mesh}_{number:04d}"] = character.transforms.astype(np.float32)
    with atomic_write(file) as part, part.open("wb") as out:
        np.savez_compressed(out, meshes=np.array(len(meshes)), **arrays)


def train_published(
    out: Path,
    data: Path | None,
    kinds: Sequence[str],
    options: Sequence[published_training.Options],
    device: str = "auto",
    examples_only: bool = False,
) -> Iterator[str]:
    """Train networks as published, write the seeds of each into one file, yield a line about each.

    out            gets the examples of each kind, the networks, and their history by epoch; those
                   of other batch sizes than the paper's are in a folder of that name
    data           a data folder; None: generated characters
    options        one for each network to train
    examples_only  write the examples alone, to train elsewhere with `published_training`
    """
    device = str(pick_device(checks.one_of(device, "device", ("auto", "cpu", "cuda"))))
    out.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        file = out / f"{checks.one_of(kind, 'kind of character', KINDS)}.npz"
        write_examples(file, training_characters(kind, data))
        if examples_only:
            yield f"{kind}: examples written to {file}"
            continue
        examples = published_training.read_examples(file, device=device)
        for one in options:
            trained = published_training.train_stacked(examples, one)
            usual = one.batch_size == published_training.Options.batch_size
            folder = out if usual else out / str(one.batch_size)
            folder.mkdir(exist_ok=True)
            name = f"{kind}_{one.network}"
            published_training.write_trained(folder, name, trained, one)
            save_published(folder / f"{name}.npz", folder / f"published_{name}.safetensors")
            yield (
                f"{name}, batches of {one.batch_size}: {len(examples)} trajectories, "
                f"{one.epochs} epochs, validation loss "
                f"{trained.validation_loss[-1][0]:.4f}, validation accuracy "
                f"{100 * trained.validation_accuracy[-1][0]:.2f} %"
            )


def save_published(file: Path, out: Path, seeds: int | None = None) -> None:
    """Write the networks in a file of `published_training` as `classifier` reads them.

    seeds  how many of the seeds to write; None: all
    """
    with np.load(file, allow_pickle=False) as data, atomic_write(out) as part:
        save_file({name: np.ascontiguousarray(data[name][:seeds]) for name in data.files}, part)
