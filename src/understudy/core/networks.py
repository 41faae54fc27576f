"""Small frozen networks and linear bases: the corrective half of a `Deformer`, evaluated with NumPy
alone.

Many nets run as grouped matrix products: inputs and outputs are padded to the widest net of a group
once, so that a batch of poses costs one stacked product per layer and never a Python loop over
nets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from understudy.core import checks
from understudy.core.errors import InputError

ACTIVATIONS = ("tanh", "relu", "gelu", "rbf")


@dataclass(frozen=True, eq=False)
class Net:
    """net(x[inputs]) added into the coefficients `outputs`; hidden layers have the activation, the
    last is linear.

    inputs      (n,) int32 into the feature vector
    weights     one (out,in) float32 per layer; one layer alone is a linear map
    biases      one (out,) float32 per layer
    activation  tanh, relu, gelu; or rbf: a hidden unit is exp(-bias * |x - weight|^2)
    outputs     (P,) int32 into the coefficient vector
    """

    inputs: np.ndarray
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    outputs: np.ndarray
    activation: str = "tanh"

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        checks.one_of(self.activation, "activation", ACTIVATIONS)
        put("inputs", checks.index(self.inputs, "net inputs", 2**31))
        put("outputs", checks.index(self.outputs, "net outputs", 2**31))
        if not self.weights or len(self.weights) != len(self.biases):
            raise InputError(
                f"net: expected one bias per layer and at least one layer, got {len(self.weights)} "
                f"weights and {len(self.biases)} biases"
            )
        width, weights, biases = len(self.inputs), [], []
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            weights.append(checks.array(weight, f"net weight of layer {layer}", (None, width)))
            width = len(weights[-1])
            biases.append(checks.array(bias, f"net bias of layer {layer}", (width,)))
        checks.same_count(
            width, len(self.outputs), "outputs", "the net's last layer", "its output list"
        )
        put("weights", tuple(weights))
        put("biases", tuple(biases))


@dataclass(frozen=True, eq=False)
class Basis:
    """Displacements of some vertices as a linear map of coefficients.

    vertices      (n,) int32
    matrix        (3n,P) float32 (x, y, z of each vertex in turn), or (n,P) shared by x, y and z
    coefficients  (P,) int32, or (3,P) int32 for a shared matrix: those of x, of y and of z
    """

    vertices: np.ndarray
    matrix: np.ndarray
    coefficients: np.ndarray

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        put("vertices", checks.index(self.vertices, "basis vertices", 2**31))
        put("matrix", checks.array(self.matrix, "basis matrix", (None, None)))
        put(
            "coefficients",
            checks.index(
                self.coefficients,
                "basis coefficients",
                2**31,
                (3, None) if self.shared else (None,),
            ),
        )
        rows = len(self.vertices) * (1 if self.shared else 3)
        checks.shape_of(self.matrix, "basis matrix", (rows, self.coefficients.shape[-1]))

    @property
    def shared(self) -> bool:
        """One row per vertex, the same for x, y and z."""
        return np.ndim(self.coefficients) == 2


class NetGroups:
    """Nets ready to run: those of the same depth, hidden widths and activation share stacked,
    padded arrays.
    """

    def __init__(self, nets: Sequence[Net], feature_count: int, coefficient_count: int):
        self._coefficient_count = coefficient_count
        self._groups = stack_nets(nets, feature_count, coefficient_count)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Features (T,X) float32 -> coefficients (T,N) float32."""
        # One column more on each side: padding reads a zero and writes into a column that is thrown
        # away.
        padded = np.concatenate([features, np.zeros((len(features), 1), features.dtype)], axis=1)
        result = np.zeros((len(features), self._coefficient_count + 1), np.float32)
        for activation, inputs, weights, biases, outputs in self._groups:
            hidden = np.moveaxis(padded[:, inputs], 1, 0)
            for layer, (weight, bias) in enumerate(zip(weights, biases)):
                if layer == len(weights) - 1:
                    hidden = hidden @ weight + bias[:, None]
                elif activation == "rbf":
                    squared = (
                        np.sum(hidden**2, 2, keepdims=True)
                        - 2 * hidden @ weight
                        + np.sum(weight**2, 1)[:, None]
                    )
                    hidden = np.exp(-bias[:, None] * np.maximum(squared, 0))
                else:
                    hidden = _activate(hidden @ weight + bias[:, None], activation)
            np.add.at(
                result,
                (slice(None), outputs.reshape(-1)),
                np.moveaxis(hidden, 0, 1).reshape(len(features), -1),
            )
        return result[:, :-1]


def stack_nets(nets: Sequence[Net], feature_count: int, coefficient_count: int) -> list[tuple]:
    """Nets of the same depth, hidden widths and activation together: (activation, inputs, weights,
    biases, outputs), padded; see `_stack`.

    Padding reads feature `feature_count` and writes coefficient `coefficient_count`, one beyond
    those there are.
    """
    by_shape: dict[tuple, list[Net]] = {}
    for net in nets:
        by_shape.setdefault((net.activation, *(len(b) for b in net.biases[:-1])), []).append(net)
    return [_stack(group, feature_count, coefficient_count) for group in by_shape.values()]


# Bases of one width are one stacked product unless padding them to the tallest would add more than
# this.
_MOST_PADDING = 1.3


def stack_bases(bases: Sequence[Basis]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Bases of one width together, where that pads little: vertices (G,n), -1 where padded; matrix
    (G,P,3n) and coefficients (G,P), or, shared by x, y and z, always alone, (1,P,n) and (1,3,P).
    Bases without components are left out.
    """
    by_width: dict[int, list[Basis]] = {}
    for basis in bases:
        if not basis.matrix.shape[1]:
            continue
        if basis.shared:
            yield (
                basis.vertices[None],
                np.ascontiguousarray(basis.matrix.T)[None],
                basis.coefficients[None],
            )
        else:
            by_width.setdefault(basis.matrix.shape[1], []).append(basis)
    for width, alike in by_width.items():
        tallest = max(len(basis.vertices) for basis in alike)
        together = tallest * len(alike) <= _MOST_PADDING * sum(
            len(basis.vertices) for basis in alike
        )
        for group in [alike] if together else [[basis] for basis in alike]:
            height = max(len(basis.vertices) for basis in group)
            matrix, vertices = (
                np.zeros((len(group), width, 3 * height), np.float32),
                np.full((len(group), height), -1),
            )
            for g, basis in enumerate(group):
                matrix[g, :, : 3 * len(basis.vertices)] = basis.matrix.T
                vertices[g, : len(basis.vertices)] = basis.vertices
            yield vertices, matrix, np.stack([basis.coefficients for basis in group])


def _stack(nets: list[Net], feature_count: int, coefficient_count: int):
    """Padded arrays of a group: inputs (G,I), weights (G,in,out), biases (G,out), outputs (G,P)."""

    def pad(arrays, shape, fill=0):
        out = np.full((len(arrays), *shape), fill, arrays[0].dtype)
        for place, a in zip(out, arrays):
            place[tuple(slice(n) for n in a.shape)] = a
        return out

    widest_in = max(len(net.inputs) for net in nets)
    widest_out = max(len(net.outputs) for net in nets)
    depth = len(nets[0].weights)
    weights, biases = [], []
    for layer in range(depth):
        rows = widest_in if layer == 0 else len(nets[0].biases[layer - 1])
        columns = widest_out if layer == depth - 1 else len(nets[0].biases[layer])
        weights.append(pad([net.weights[layer].T for net in nets], (rows, columns)))
        biases.append(pad([net.biases[layer] for net in nets], (columns,)))
    inputs = pad([net.inputs for net in nets], (widest_in,), feature_count)
    outputs = pad([net.outputs for net in nets], (widest_out,), coefficient_count)
    return nets[0].activation, inputs, weights, biases, outputs


def _activate(x: np.ndarray, activation: str) -> np.ndarray:
    if activation == "tanh":
        return np.tanh(x)
    if activation == "relu":
        return np.maximum(x, 0)
    return (0.5 * x * (1 + erf(x / np.sqrt(2)))).astype(x.dtype)
