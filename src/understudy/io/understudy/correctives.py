"""Networks and bases as flat arrays, one after the other, with their sizes in the header; bounds.

Arrays of a file, for `nets` and `bases` each: the indices, `values` (32 bits) and `half` (16 bits).
In a 16-bit file the matrices are in `half`, and so are the biases after the first layer.

The arrays of `Bounds` start with `bounds.`; the header has an entry `bounds`, {"fade_end": number}.
They are never narrowed: they are small, and distances need 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.core.bounds import BOUND_ARRAYS, Bounds
from understudy.core.networks import Basis, Net
from understudy.io.understudy.strict_reading import need_kind
from understudy.system.errors import InputError

Arrays = dict[str, np.ndarray]
PREFIX = "bounds."


def net_entries(nets: Sequence[Net]) -> list[dict[str, Any]]:
    """Return what the header says about networks."""
    return [
        {"activation": net.activation, "sizes": [len(net.inputs), *map(len, net.biases)]}
        for net in nets
    ]


def basis_entries(bases: Sequence[Basis]) -> list[dict[str, Any]]:
    """Return what the header says about bases."""
    return [
        {"vertices": len(b.vertices), "components": b.coefficients.shape[-1], "shared": b.shared}
        for b in bases
    ]


def net_arrays(nets: Sequence[Net], half: bool, half_biases: bool) -> Arrays:
    """Return networks as flat arrays by name.

    half         whether matrices have 16 bits
    half_biases  whether biases after the first layer have, too
    """
    if not nets:
        return {}
    numbers = _Numbers()
    for net in nets:
        for layer, (weight, bias) in enumerate(zip(net.weights, net.biases)):
            numbers.append(weight, half)
            numbers.append(bias, half_biases and layer > 0)
    return {
        "nets.inputs": np.concatenate([net.inputs for net in nets]),
        "nets.outputs": np.concatenate([net.outputs for net in nets]),
        **numbers.arrays("nets"),
    }


def basis_arrays(bases: Sequence[Basis], half: bool) -> Arrays:
    """Return bases as flat arrays by name; half: whether matrices have 16 bits."""
    if not bases:
        return {}
    numbers = _Numbers()
    for basis in bases:
        numbers.append(basis.matrix, half)
    return {
        "bases.vertices": np.concatenate([basis.vertices for basis in bases]),
        "bases.coefficients": np.concatenate([basis.coefficients.reshape(-1) for basis in bases]),
        **numbers.arrays("bases"),
    }


def read_nets(
    arrays: Arrays, entries: list[dict[str, Any]], half: bool, half_biases: bool
) -> tuple[Net, ...]:
    """Return the networks that `net_entries` and `net_arrays` describe."""
    names = ("inputs", "outputs", "values", "half")
    readers = [FlatReader.of(arrays, f"nets.{name}") for name in names]
    inputs, outputs, values, halves = readers
    nets: list[Net] = []
    for entry in entries:
        sizes = entry["sizes"]
        if not isinstance(sizes, list) or len(sizes) < 2:
            raise InputError(f"net {len(nets)}: expected at least two layer sizes, got {sizes!r}")
        if entry["activation"] == "rbf":
            raise InputError(
                f"net {len(nets)} has radial basis functions, which only older versions read; fit "
                "the character again"
            )
        weights, biases = [], []
        for layer, (width, next_width) in enumerate(zip(sizes, sizes[1:])):
            weights.append((halves if half else values).take(next_width, width))
            in_half = half_biases and layer > 0
            biases.append((halves if in_half else values).take(next_width))
        read, written = inputs.take(sizes[0]), outputs.take(sizes[-1])
        nets.append(Net(read, tuple(weights), tuple(biases), written, entry["activation"]))
    for reader in readers:
        reader.need_end()
    return tuple(nets)


def read_bases(arrays: Arrays, entries: list[dict[str, Any]], half: bool) -> tuple[Basis, ...]:
    """Return the bases that `basis_entries` and `basis_arrays` describe."""
    names = ("vertices", "coefficients", "values", "half")
    readers = [FlatReader.of(arrays, f"bases.{name}") for name in names]
    vertices, coefficients, values, halves = readers
    bases: list[Basis] = []
    for entry in entries:
        count, components, shared = (
            need_kind(entry[name], f"{name} of basis {len(bases)}", kind)
            for name, kind in (("vertices", int), ("components", int), ("shared", bool))
        )
        matrix = (halves if half else values).take(count if shared else 3 * count, components)
        shape = (3, components) if shared else (components,)
        bases.append(Basis(vertices.take(count), matrix, coefficients.take(*shape)))
    for reader in readers:
        reader.need_end()
    return tuple(bases)


class _Numbers:
    """Arrays appended to one of two flat arrays, of 32 and of 16 bits."""

    def __init__(self) -> None:
        self._values: list[np.ndarray] = []
        self._halves: list[np.ndarray] = []

    def append(self, array: np.ndarray, half: bool) -> None:
        flat = array.reshape(-1)
        if half:
            self._halves.append(flat.astype(np.float16))
        else:
            self._values.append(flat)

    def arrays(self, name: str) -> Arrays:
        kinds = {"values": self._values, "half": self._halves}
        return {
            f"{name}.{kind}": np.concatenate(pieces) for kind, pieces in kinds.items() if pieces
        }


class FlatReader:
    """A flat array, taken apart from its start; its length must be exactly what is taken."""

    def __init__(self, array: np.ndarray, name: str):
        self._array, self._name, self._taken = array.reshape(-1), name, 0

    @staticmethod
    def of(arrays: Arrays, name: str) -> FlatReader:
        """Return the reader of an array by name; one that is not there is empty."""
        return FlatReader(arrays.get(name, np.zeros(0, np.float32)), name)

    def take(self, *shape: int) -> np.ndarray:
        """Return the next numbers, in `shape`."""
        if any(type(n) is not int or n < 0 for n in shape):
            raise InputError(f"{self._name}: a negative or broken size {shape}")
        count = math.prod(shape)
        if self._taken + count > len(self._array):
            raise InputError(f"{self._name}: has {len(self._array)} numbers, the header needs more")
        self._taken += count
        return self._array[self._taken - count : self._taken].reshape(shape)

    def need_end(self) -> None:
        """Raise unless everything was taken."""
        if self._taken != len(self._array):
            raise InputError(
                f"{self._name}: has {len(self._array)} numbers, the header describes {self._taken}"
            )


def bounds_arrays(bounds: Bounds) -> dict[str, np.ndarray]:
    """Return the arrays of bounds by name."""
    return {PREFIX + name: np.ascontiguousarray(getattr(bounds, name)) for name in BOUND_ARRAYS}


def bounds_entry(bounds: Bounds) -> dict[str, Any]:
    """Return what the header says about bounds."""
    return {"fade_end": bounds.fade_end}


def read_bounds(arrays: dict[str, np.ndarray], about: Any) -> Bounds:
    """Return the bounds of a file; about: the header's `bounds`."""
    if not isinstance(about, dict):
        raise InputError(f"the header's bounds is a {type(about).__name__}, expected a dict")
    end = about["fade_end"]
    if type(end) not in (int, float):
        raise InputError(f"bounds fade_end: expected a number, got {end!r}")
    return Bounds(**{name: arrays[PREFIX + name] for name in BOUND_ARRAYS}, fade_end=end)
