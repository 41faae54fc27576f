"""Training of the networks: `understudy train temporal`. The shipped weights came from this.

As in the paper: binary cross-entropy, Adam at 1e-3, batches of 4096, a fifth of the vertices drawn
kept for validation (of a small character some are drawn twice, and may be on both sides). Our own:
one set of labels for all characters (`labels`), bones that move alike are one (`Character.apart`),
as many vertices of every character, and clips read at different rates from epoch to epoch, so that
no network counts frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

from understudy.core import checks
from understudy.core.errors import InputError
from understudy.core.progress import SILENT, Progress
from understudy.io.atomic_write import atomic_write
from understudy.methods.decomposition.motion import read_motion
from understudy.methods.decomposition.trajectory_networks.body_labels import (
    common_labels,
    descriptor,
)
from understudy.methods.decomposition.trajectory_networks.classifier import (
    KINDS,
    LABELS,
    NETWORKS,
    shapes,
)
from understudy.methods.decomposition.trajectory_networks.corpus import (
    HELD_OUT,
    Character,
    corpus_files,
    family_of,
    read_characters,
)
from understudy.methods.decomposition.trajectory_networks.generated import generate
from understudy.methods.decomposition.trajectory_networks.trajectories import trajectories
from understudy.training.trainer import pick_device

_VERTICES = 1000  # of each character, drawn with repetition where it has fewer
_LENGTHS = (12, 20, 32, 48)  # frames a clip is read at
_INFLUENCED = 0.05  # from this weight on a bone counts as moving a vertex
_KEPT = 0.2  # of the vertices, for validation
_GENERATED = 60  # characters of each kind where there is no data


@dataclass(frozen=True)
class Lesson:
    """One character in one animation: trajectories (n,F,6) of vertices and what moves them
    (n,LABELS) bool; the last `kept` are for validation.
    """

    read: np.ndarray
    moved_by: np.ndarray
    kept: int


@dataclass(frozen=True)
class Trained:
    """Arrays by name (see `networks.shapes`), and by epoch: loss and validation loss and
    accuracy.
    """

    weights: dict[str, np.ndarray]
    loss: list[float]
    validation_loss: list[float]
    validation_accuracy: list[float]


def lessons(
    characters: Sequence[Character], seed: int = 0, progress: Progress = SILENT
) -> list[Lesson]:
    """What the networks learn from these characters; characters of more bones than there are labels
    are left out.
    """
    random = np.random.default_rng(seed)
    read, bones, weights = [], [], []
    with progress.task("reading characters", len(characters)) as bar:
        for character in characters:
            bar.advance()
            character = character.apart()
            if character.bones > LABELS:
                continue
            motion, frame = read_motion(character.poses())
            every = trajectories(motion, np.arange(motion.vertex_count))
            ordered = character.weights[frame.order]
            bones.append(descriptor(every, ordered))
            some = random.choice(len(every), _VERTICES, replace=len(every) < _VERTICES)
            read.append(every[some])
            weights.append(ordered[some])
    result = []
    for own, weight, label in zip(read, weights, common_labels(bones, LABELS)):
        moved_by = np.zeros((len(own), LABELS), bool)
        moved_by[:, label] = weight > _INFLUENCED
        result.append(Lesson(own, moved_by, round(_KEPT * len(own))))
    return result


class Network(nn.Module):
    """A network of `networks`, with the same arrays under the same names; `forward` returns logits
    (n,LABELS) for trajectories (n,F,6).
    """

    def __init__(self, network: str, rates: np.ndarray | None = None):
        """rates: (LABELS,) how often each label is right, which the last layer starts from."""
        super().__init__()
        self.network = network
        for name, shape in shapes(network).items():
            value = torch.zeros(shape)
            if len(shape) == 2:
                nn.init.orthogonal_(value) if name == "state" else nn.init.xavier_uniform_(value)
            elif name == "dense_bias" and rates is not None:
                value += torch.logit(torch.from_numpy(rates).float(), 1e-4)
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if self.network != "lstm":
            values = self._convolved(values, "conv_0")
        values = (
            self._convolved(values, "conv_1").amax(dim=1)
            if self.network == "cnn"
            else self._last_state(values)
        )
        return values @ self.dense + self.dense_bias

    def _convolved(self, values: torch.Tensor, name: str) -> torch.Tensor:
        pairs = torch.cat([values[:, :-1], values[:, 1:]], dim=2)
        return torch.relu(pairs @ getattr(self, name) + getattr(self, f"{name}_bias"))

    def _last_state(self, values: torch.Tensor) -> torch.Tensor:
        given = values @ self.input + self.state_bias
        cell = hidden = values.new_zeros(len(values), self.state.shape[0])
        for frame in range(values.shape[1]):
            enter, forget, new, leave = torch.sigmoid(given[:, frame] + hidden @ self.state).chunk(
                4, dim=1
            )
            cell = forget * cell + enter * new
            hidden = leave * torch.sigmoid(cell)
        return hidden


def train(
    network: str,
    taught: Sequence[Lesson],
    *,
    epochs: int = 100,
    batch: int = 4096,
    rate: float = 1e-3,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress = SILENT,
) -> Trained:
    """Same lessons, same seed, same machine: the same weights."""
    for name, value in (("epochs", epochs), ("batch", batch)):
        checks.between(value, name, 1)
    checks.between(rate, "rate", above=0)
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Network(
        network, np.mean([lesson.moved_by.mean(axis=0) for lesson in taught], axis=0)
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    loss_of = nn.BCEWithLogitsLoss()
    by_length = {
        length: [_stacked(taught, length, part, device) for part in (False, True)]
        for length in _LENGTHS
    }
    done = Trained({}, [], [], [])
    with progress.task(f"training {network}", epochs) as bar:
        for _ in range(epochs):
            read, moved_by = by_length[int(random.choice(_LENGTHS))][0]
            order = torch.from_numpy(random.permutation(len(read))).to(device)
            total = 0.0
            for part in order.split(batch):
                optimizer.zero_grad()
                loss = loss_of(model(read[part]), moved_by[part].float())
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                total += float(loss.detach()) * len(part)
            done.loss.append(total / len(read))
            with torch.no_grad():
                read, moved_by = by_length[_LENGTHS[-2]][1]
                logits = torch.cat([model(part) for part in read.split(batch)])
                done.validation_loss.append(float(loss_of(logits, moved_by.float())))
                done.validation_accuracy.append(float(((logits > 0) == moved_by).float().mean()))
            bar.note(
                f"validation loss {done.validation_loss[-1]:.4f}, accuracy "
                f"{100 * done.validation_accuracy[-1]:.2f} %"
            )
            bar.advance()
    done.weights.update(
        {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}
    )
    return done


def _stacked(
    taught: Sequence[Lesson], length: int, validation: bool, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """All lessons' trajectories read at `length` frames, and their labels."""
    part = lambda lesson: (
        slice(len(lesson.read) - lesson.kept, None)
        if validation
        else slice(0, len(lesson.read) - lesson.kept)
    )
    read = np.concatenate([_at_length(lesson.read[part(lesson)], length) for lesson in taught])
    moved_by = np.concatenate([lesson.moved_by[part(lesson)] for lesson in taught])
    return torch.from_numpy(read).to(device), torch.from_numpy(moved_by).to(device)


def _at_length(read: np.ndarray, length: int) -> np.ndarray:
    """Trajectories (n,F,6) read at `length` moments, in between by linear interpolation."""
    at = np.linspace(0, read.shape[1] - 1, length)
    first = np.minimum(at.astype(int), max(read.shape[1] - 2, 0))
    share = (at - first).astype(np.float32)[None, :, None]
    return read[:, first] * (1 - share) + read[:, np.minimum(first + 1, read.shape[1] - 1)] * share


def characters_of(kind: str, data: Path | None) -> list[Character]:
    """The characters a kind's networks learn from, every animation of each, those held out left
    out; without data, generated ones.
    """
    checks.one_of(kind, "kind of character", KINDS)
    one = kind.removesuffix("s")
    if data is None:
        made = (generate(seed) for seed in range(2 * _GENERATED))
        return [character for character in made if character.kind == one]
    files = [
        file
        for file in corpus_files(data)
        if family_of(file)[0] == one and family_of(file)[1] not in HELD_OUT
    ]
    if not files:
        raise InputError(
            f"{data}: holds no {kind} to learn from; families {', '.join(HELD_OUT)} are kept aside"
        )
    return [character for file in files for character in read_characters(file)]


def save_weights(path: Path, trained: Trained) -> None:
    """Write a network as `networks.read_weights` reads it: float16."""
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
    """Train each network for each kind into `out`, one file each; a line about each as it is done.
    Those that are there already are kept.
    """
    for name in kinds:
        checks.one_of(name, "kind of character", KINDS)
    for name in networks:
        checks.one_of(name, "network", NETWORKS)
    checks.one_of(device, "device", ("auto", "cpu", "cuda"))
    device = str(pick_device(device))
    out.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        wanted = [
            network for network in networks if not (out / f"{kind}_{network}.safetensors").exists()
        ]
        yield from (
            f"{kind} {network}: there already, kept"
            for network in networks
            if network not in wanted
        )
        taught = lessons(characters_of(kind, data), seed, progress) if wanted else []
        for network in wanted:
            trained = train(
                network, taught, epochs=epochs, seed=seed, device=device, progress=progress
            )
            save_weights(out / f"{kind}_{network}.safetensors", trained)
            accuracy = 100 * trained.validation_accuracy[-1]
            yield (
                f"{kind} {network}: {len(taught)} animations, {epochs} epochs, loss "
                f"{trained.loss[-1]:.4f}, "
                f"on draws kept aside {trained.validation_loss[-1]:.4f} ({accuracy:.2f} % of "
                f"labels right)"
            )
