"""Networks and bases as flat arrays, one after the other, with their sizes beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from understudy.core.networks import Basis, Net
from understudy.system.errors import InputError


def net_entries(nets: Sequence[Net]) -> dict[str, Any]:
    """Return the entries of networks by name; none if there are no networks."""
    if not nets:
        return {}
    return {
        "nets.activations": [net.activation for net in nets],
        "nets.layer_counts": [len(net.biases) for net in nets],
        "nets.input_counts": [len(net.inputs) for net in nets],
        "nets.output_counts": [len(bias) for net in nets for bias in net.biases],
        "nets.inputs": joined(net.inputs for net in nets),
        "nets.outputs": joined(net.outputs for net in nets),
        "nets.weights": joined(weight for net in nets for weight in net.weights),
        "nets.first_biases": joined(net.biases[0] for net in nets),
        "nets.biases": joined(bias for net in nets for bias in net.biases[1:]),
    }


def basis_entries(bases: Sequence[Basis]) -> dict[str, Any]:
    """Return the entries of bases by name; none if there are no bases."""
    if not bases:
        return {}
    return {
        "bases.vertex_counts": [len(basis.vertices) for basis in bases],
        "bases.component_counts": [basis.coefficients.shape[-1] for basis in bases],
        "bases.shared": [basis.shared for basis in bases],
        "bases.vertices": joined(basis.vertices for basis in bases),
        "bases.coefficients": joined(basis.coefficients for basis in bases),
        "bases.matrices": joined(basis.matrix for basis in bases),
    }


def read_nets(entries: dict[str, Any]) -> tuple[Net, ...]:
    """Return the networks that `net_entries` describes."""
    if "nets.activations" not in entries:
        return ()
    flat = FlatReader(
        entries, "nets.", "input_counts", "output_counts", "inputs", "outputs", "weights",
        "first_biases", "biases",
    )  # fmt: skip
    nets: list[Net] = []
    for activation, layers in zip(entries["nets.activations"], entries["nets.layer_counts"]):
        if layers < 1:
            raise InputError(f"nets.layer_counts: net {len(nets)} has {layers} layers")
        width = flat.size("input_counts")
        read = flat.take("inputs", width)
        weights: list[np.ndarray] = []
        biases: list[np.ndarray] = []
        for height in flat.sizes("output_counts", layers):
            weights.append(flat.take("weights", height, width))
            biases.append(flat.take("biases" if biases else "first_biases", height))
            width = height
        written = flat.take("outputs", width)
        nets.append(Net(read, tuple(weights), tuple(biases), written, activation))
    flat.need_end()
    return tuple(nets)


def read_bases(entries: dict[str, Any]) -> tuple[Basis, ...]:
    """Return the bases that `basis_entries` describes."""
    if "bases.shared" not in entries:
        return ()
    flat = FlatReader(
        entries, "bases.", "vertex_counts", "component_counts", "vertices", "coefficients",
        "matrices",
    )  # fmt: skip
    bases: list[Basis] = []
    for shared in entries["bases.shared"]:
        count, components = flat.size("vertex_counts"), flat.size("component_counts")
        matrix = flat.take("matrices", count if shared else 3 * count, components)
        shape = (3, components) if shared else (components,)
        bases.append(Basis(flat.take("vertices", count), matrix, flat.take("coefficients", *shape)))
    flat.need_end()
    return tuple(bases)


def joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Return the numbers of some arrays, one after the other."""
    flat = [array.reshape(-1) for array in arrays]
    return np.concatenate(flat) if flat else np.zeros(0, np.int32)


class FlatReader:
    """Flat arrays, taken apart from their starts; each must be as long as what is taken.

    prefix  what the names of the arrays start with
    fields  what they end in
    """

    def __init__(self, entries: dict[str, Any], prefix: str, *fields: str):
        self._entries, self._prefix = entries, prefix
        self._taken = dict.fromkeys(fields, 0)

    def take(self, field: str, *shape: int) -> np.ndarray:
        """Return the next numbers of a field, in `shape`."""
        name = self._prefix + field
        array = self._entries[name]
        if any(size < 0 for size in shape):
            raise InputError(f"{name}: a negative size {shape}")
        first = self._taken[field]
        end = first + math.prod(shape)
        if end > len(array):
            raise InputError(f"{name}: has {len(array)} numbers, the sizes need more")
        self._taken[field] = end
        return array[first:end].reshape(shape)

    def sizes(self, field: str, count: int) -> list[int]:
        """Return the next numbers, as Python's: their products do not overflow."""
        return self.take(field, count).tolist()

    def size(self, field: str) -> int:
        """Return the next number."""
        return self.sizes(field, 1)[0]

    def need_end(self) -> None:
        """Raise unless everything was taken."""
        for field, taken in self._taken.items():
            name = self._prefix + field
            if taken != len(self._entries[name]):
                raise InputError(
                    f"{name}: has {len(self._entries[name])} numbers, the sizes account for {taken}"
                )
