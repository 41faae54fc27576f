"""Training as the paper describes it, several seeds at once (`understudy train temporal --paper`).

Section by section: a label is the number of a bone in its rig and is true where the bone has weight
(3.1); the input is the position x, y, z of a vertex in every frame (3.1, 3.4); the networks, binary
cross-entropy and a fifth of the vertices for validation (3.4); Adam, learning rate 1e-3, batches of
4096, 100 epochs (4). The paper does not say how trajectories of different lengths share a batch:
here shorter ones are padded at the end, and the padding is not read.

This file imports NumPy and torch alone, so that it runs on machines without the package:

    understudy train temporal --paper --examples-only -o networks
    python published_training.py networks/animals.npz networks --networks lstm
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

UNITS, FILTERS, KERNEL, CHANNELS, LABELS = 120, 8, 2, 3, 64  # Section 3.4
NETWORKS = ("lstm", "cnn", "hybrid")
_VALIDATION_FRACTION = 0.2  # Section 3.4
_WARM_UP = 3  # steps before a step is recorded


@dataclass(frozen=True, eq=False)
class Examples:
    """Trajectories of a kind of character and the bones that move them.

    paths    (n,F,3) float32, padded at the end
    lengths  (n,) int64 frames of each
    labels   (n,LABELS) bool, whether the bone of this number in its rig has weight
    """

    paths: torch.Tensor
    lengths: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True)
class Options:
    """How to train; the defaults are the paper's (Section 4)."""

    network: str = "lstm"
    seeds: int = 1
    epochs: int = 100
    batch_size: int = 4096
    learning_rate: float = 1e-3


@dataclass
class Trained:
    """Networks of several seeds: arrays by name (S, ...), and figures by epoch, each (S,)."""

    weights: dict[str, np.ndarray] = field(default_factory=dict)
    loss: list[list[float]] = field(default_factory=list)
    validation_loss: list[list[float]] = field(default_factory=list)
    validation_accuracy: list[list[float]] = field(default_factory=list)


def read_examples(file: Path, reading: str = "positions", device: str = "cpu") -> Examples:
    """Return the examples that `training.write_examples` wrote.

    reading  positions: as the file has them; movement: relative to the first frame
    """
    paths, lengths, labels = [], [], []
    with np.load(file, allow_pickle=False) as data:
        meshes = int(data["meshes"])
        for mesh in range(meshes):
            rest, index, value = (data[f"{name}_{mesh}"] for name in ("rest", "index", "value"))
            own = np.zeros((len(rest), LABELS), bool)
            np.put_along_axis(own, index.astype(np.int64), value > 0, axis=1)
            for name in sorted(n for n in data.files if n.startswith(f"bones_{mesh}_")):
                moved = _skinned(rest, index, value, data[name], device)
                paths.append(moved)
                lengths.append(torch.full((len(rest),), moved.shape[1]))
                labels.append(torch.from_numpy(own))
    longest = max(one.shape[1] for one in paths)
    padded = [nn.functional.pad(one, (0, 0, 0, longest - one.shape[1])) for one in paths]
    whole = torch.cat(padded)
    if reading == "movement":
        whole = whole - whole[:, :1]
    return Examples(whole, torch.cat(lengths).to(device), torch.cat(labels).to(device))


def _skinned(
    rest: np.ndarray, index: np.ndarray, value: np.ndarray, bones: np.ndarray, device: str
) -> torch.Tensor:
    """Return the trajectories (V,F,3) of a skinned mesh."""
    move = torch.from_numpy(bones.astype(np.float32)).to(device)
    at = torch.from_numpy(np.column_stack([rest, np.ones(len(rest), np.float32)])).to(device)
    which = torch.from_numpy(index.astype(np.int64)).to(device)
    share = torch.from_numpy(value.astype(np.float32)).to(device)
    result = torch.zeros(len(rest), len(move), 3, device=device)
    for k in range(index.shape[1]):
        result += share[:, k, None, None] * torch.einsum("fvij,vj->vfi", move[:, which[:, k]], at)
    return result


class StackedNetworks(nn.Module):
    """The same network once per seed; its arrays have a leading axis of seeds.

    `forward` takes trajectories (S,n,F,3) and their lengths (S,n), and returns logits (S,n,LABELS).
    Initial values are those of Keras: Glorot, orthogonal for the state, one for the forget gate.
    """

    def __init__(self, network: str, seeds: int):
        super().__init__()
        self.network = network
        for name, shape in shapes(network).items():
            values = []
            for seed in range(seeds):
                torch.manual_seed(1000 * seed + len(name))
                value = torch.zeros(shape)
                if len(shape) == 2:
                    nn.init.orthogonal_(value) if name == "state" else _glorot(value)
                elif name == "state_bias":
                    value[UNITS : 2 * UNITS] = 1
                values.append(value)
            self.register_parameter(name, nn.Parameter(torch.stack(values)))

    def forward(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if self.network != "lstm":
            values, lengths = self._convolve(values, "conv_0"), lengths - 1
        if self.network == "cnn":
            values = self._convolve(values, "conv_1")
            padding = torch.arange(values.shape[2], device=values.device) >= lengths[..., None] - 1
            values = values.masked_fill(padding[..., None], 0).amax(dim=2)
        else:
            values = self._last_state(values, lengths)
        return values @ self.get_parameter("dense") + self.get_parameter("dense_bias")[:, None]

    def _convolve(self, values: torch.Tensor, name: str) -> torch.Tensor:
        pairs = torch.cat([values[:, :, :-1], values[:, :, 1:]], dim=3)
        flat = pairs.flatten(1, 2) @ self.get_parameter(name)
        flat = torch.relu(flat + self.get_parameter(f"{name}_bias")[:, None])
        return flat.unflatten(1, pairs.shape[1:3])

    def _last_state(self, values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        recurrent, bias = self.get_parameter("state"), self.get_parameter("state_bias")
        given = values.flatten(1, 2) @ self.get_parameter("input") + bias[:, None]
        given = given.unflatten(1, values.shape[1:3])
        cell = hidden = values.new_zeros(*values.shape[:2], UNITS)
        states = []
        for frame in range(values.shape[2]):
            gates = torch.sigmoid(given[:, :, frame] + hidden @ recurrent)
            enter, forget, new, leave = gates.chunk(4, dim=2)
            cell = forget * cell + enter * new
            hidden = leave * torch.sigmoid(cell)
            states.append(hidden)
        last = (lengths - 1)[:, :, None, None].expand(-1, -1, 1, UNITS)
        return torch.stack(states, dim=2).gather(2, last).squeeze(2)


def shapes(network: str) -> Mapping[str, tuple[int, ...]]:
    """Return the names and shapes of a network's arrays."""
    dense = {"dense": (FILTERS if network == "cnn" else UNITS, LABELS), "dense_bias": (LABELS,)}
    first = {"conv_0": (KERNEL * CHANNELS, FILTERS), "conv_0_bias": (FILTERS,)}
    if network == "cnn":
        return {**first, "conv_1": (KERNEL * FILTERS, FILTERS), "conv_1_bias": (FILTERS,), **dense}
    inputs = CHANNELS if network == "lstm" else FILTERS
    lstm = {"input": (inputs, 4 * UNITS), "state": (UNITS, 4 * UNITS), "state_bias": (4 * UNITS,)}
    return {**(first if network == "hybrid" else {}), **lstm, **dense}


def _glorot(value: torch.Tensor) -> None:
    nn.init.xavier_uniform_(value)


def train_stacked(
    examples: Examples, options: Options, note: Callable[[str], object] = lambda text: None
) -> Trained:
    """Return one trained network per seed.

    A fifth of the trajectories, another fifth for every seed, is for validation. On a GPU the
    training step is recorded once and replayed.
    """
    device = examples.paths.device
    seeds, batch = options.seeds, min(options.batch_size, len(examples))
    model = StackedNetworks(options.network, seeds).to(device)
    optimizer = torch.optim.Adam(
        model.parameters(), options.learning_rate, capturable=device.type == "cuda"
    )
    randoms = [np.random.default_rng(seed) for seed in range(seeds)]
    split = max(batch, round((1 - _VALIDATION_FRACTION) * len(examples)))
    orders = [torch.from_numpy(random.permutation(len(examples))) for random in randoms]
    held_out = torch.stack([order[split:] for order in orders]).to(device)
    step = _recorded_step(model, optimizer, examples, batch)
    result = Trained()
    for epoch in range(options.epochs):
        started = time.perf_counter()
        shuffled = torch.stack(
            [order[:split][torch.from_numpy(r.permutation(split))]
             for order, r in zip(orders, randoms)]
        ).to(device)  # fmt: skip
        total = torch.zeros(seeds, device=device)
        whole = split // batch
        for part in shuffled[:, : whole * batch].split(batch, dim=1):
            total += step(part)
        result.loss.append((total / whole).tolist())
        loss, accuracy = _validate(model, examples, held_out, batch)
        result.validation_loss.append(loss)
        result.validation_accuracy.append(accuracy)
        note(
            f"{options.network} epoch {epoch + 1}: validation loss {loss[0]:.4f}, accuracy "
            f"{100 * accuracy[0]:.2f} %, {time.perf_counter() - started:.2f} s"
        )
    result.weights = {
        name: value.detach().cpu().numpy() for name, value in model.named_parameters()
    }
    return result


def _losses(
    model: StackedNetworks, examples: Examples, part: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss (S,) and the binary accuracy (S,) of some examples (S,n)."""
    labels = examples.labels[part].float()
    logits = model(examples.paths[part], examples.lengths[part])
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return loss.mean(dim=(1, 2)), ((logits > 0) == (labels > 0.5)).float().mean(dim=(1, 2))


def _validate(
    model: StackedNetworks, examples: Examples, held_out: torch.Tensor, batch: int
) -> tuple[list[float], list[float]]:
    total = [torch.zeros(len(held_out), device=held_out.device) for _ in range(2)]
    with torch.no_grad():
        for part in held_out.split(batch, dim=1):
            for sums, value in zip(total, _losses(model, examples, part)):
                sums += value * part.shape[1]
    loss, accuracy = (sums / max(1, held_out.shape[1]) for sums in total)
    return loss.tolist(), accuracy.tolist()


def _recorded_step(
    model: StackedNetworks, optimizer: torch.optim.Optimizer, examples: Examples, batch: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that trains on some examples (S,n) and returns the loss of each seed."""

    def plain(part: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = _losses(model, examples, part)[0]
        loss.sum().backward()
        optimizer.step()
        return loss.detach()

    device = examples.paths.device
    if device.type != "cuda":
        return plain
    # The warm-up changes the networks and the optimiser's state; both are restored after it.
    given = torch.zeros(len(next(model.parameters())), batch, dtype=torch.int64, device=device)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            plain(given)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = plain(given)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(before[name])
        for state in optimizer.state.values():
            for value in state.values():
                value.zero_()

    def replay(part: torch.Tensor) -> torch.Tensor:
        given.copy_(part)
        graph.replay()
        return loss.clone()

    return replay


def write_trained(folder: Path, name: str, trained: Trained, options: Options) -> None:
    """Write the networks of all seeds as `name.npz`, and their history as `name.json`."""
    arrays: dict[str, Any] = {k: v.astype(np.float16) for k, v in trained.weights.items()}
    np.savez(folder / f"{name}.npz", **arrays)
    history = {
        "options": vars(options),
        "loss": trained.loss,
        "validation_loss": trained.validation_loss,
        "validation_accuracy": trained.validation_accuracy,
    }
    (folder / f"{name}.json").write_text(json.dumps(history), encoding="utf-8")


def main() -> None:
    """Train on a file of examples, without the package."""
    parser = argparse.ArgumentParser(description="Train the networks of temporal as published.")
    parser.add_argument("examples", type=Path, nargs="+", help="files of understudy train")
    parser.add_argument("out", type=Path)
    parser.add_argument("--networks", default="lstm,cnn,hybrid")
    parser.add_argument("--readings", default="positions,movement")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-sizes", default="4096")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    given.out.mkdir(parents=True, exist_ok=True)
    for file in given.examples:
        for reading in given.readings.split(","):
            examples = read_examples(file, reading, device)
            for network in given.networks.split(","):
                for size in given.batch_sizes.split(","):
                    options = Options(network, given.seeds, given.epochs, int(size))
                    started = time.perf_counter()
                    trained = train_stacked(examples, options)
                    name = f"{file.stem}_{network}_{reading}_{size}"
                    write_trained(given.out, name, trained, options)
                    print(
                        f"{name}: {len(examples)} trajectories, validation loss "
                        f"{trained.validation_loss[-1]}, accuracy "
                        f"{trained.validation_accuracy[-1]}, {time.perf_counter() - started:.0f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
