"""Small networks and linear bases: the correctives of a `Deformer`, evaluated with NumPy alone.

Networks of the same shape run as one stacked matrix product per layer. Their inputs and outputs are
padded to the widest of them once, so there is no Python loop over networks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from understudy.core.noun import Noun
from understudy.system import checks
from understudy.system.errors import InputError

ACTIVATIONS = ("tanh", "relu", "gelu")


@dataclass(frozen=True, eq=False, repr=False)
class Net(Noun):
    """A network whose outputs are added to some of the coefficients. The last layer is linear.

    inputs      (n,) int32, indices into the feature vector
    weights     one (out,in) float32 per layer; a single layer is a linear map
    biases      one (out,) float32 per layer
    activation  of the hidden layers: tanh, relu or gelu
    outputs     (P,) int32, indices into the coefficient vector
    """

    inputs: np.ndarray
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    outputs: np.ndarray
    activation: str = "tanh"

    def __post_init__(self):
        put = self._keep
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
        count = len(self.outputs)
        checks.same_count(width, count, "outputs", "the net's last layer", "its output list")
        put("weights", tuple(weights))
        put("biases", tuple(biases))


@dataclass(frozen=True, eq=False, repr=False)
class Basis(Noun):
    """Displacements of some vertices as a linear map of some coefficients.

    vertices      (n,) int32, indices of vertices, each at most once
    matrix        (3n,P) float32, rows x, y, z of each vertex; or (n,P), shared by x, y and z
    coefficients  (P,) int32, indices of coefficients; or (3,P) if shared: for x, for y and for z
    """

    vertices: np.ndarray
    matrix: np.ndarray
    coefficients: np.ndarray

    def __post_init__(self):
        put = self._keep
        put("vertices", checks.index(self.vertices, "basis vertices", 2**31))
        checks.distinct(self.vertices, "basis vertices")
        put("matrix", checks.array(self.matrix, "basis matrix", (None, None)))
        shape = (3, None) if self.shared else (None,)
        put("coefficients", checks.index(self.coefficients, "basis coefficients", 2**31, shape))
        rows = len(self.vertices) * (1 if self.shared else 3)
        checks.shape_of(self.matrix, "basis matrix", (rows, self.coefficients.shape[-1]))

    @property
    def shared(self) -> bool:
        """Whether one row per vertex serves x, y and z."""
        return np.ndim(self.coefficients) == 2

    def scaled(self, scale: np.ndarray, storage: str) -> Basis:
        """Return the basis with its vertices' displacements scaled, by (n,), in this storage."""
        rows = scale if self.shared else np.repeat(scale, 3)
        return replace(self, matrix=(self.matrix * rows[:, None]).astype(storage))


class NetStack(NamedTuple):
    """G networks of the same depth, hidden widths and activation, padded to the widest.

    activation  of the hidden layers
    inputs      (G,I), indices of features
    weights     one (G,in,out) per layer
    biases      one (G,out) per layer
    outputs     (G,P), indices of coefficients
    """

    activation: str
    inputs: np.ndarray
    weights: list[np.ndarray]
    biases: list[np.ndarray]
    outputs: np.ndarray


class NetGroups:
    """Networks ready to be evaluated: those of the same shape are stacked."""

    def __init__(self, nets: Sequence[Net], feature_count: int, coefficient_count: int):
        self._coefficient_count = coefficient_count
        self._groups = stack_nets(nets, feature_count, coefficient_count)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Return the coefficients (T,N) float32 of features (T,X) float32."""
        # Padding reads an extra column of zeros and writes an extra column that is dropped.
        padded = np.concatenate([features, np.zeros((len(features), 1), features.dtype)], axis=1)
        result = np.zeros((len(features), self._coefficient_count + 1), np.float32)
        for activation, inputs, weights, biases, outputs in self._groups:
            hidden = np.moveaxis(padded[:, inputs], 1, 0)
            for layer, (weight, bias) in enumerate(zip(weights, biases)):
                if layer == len(weights) - 1:
                    hidden = hidden @ weight + bias[:, None]
                else:
                    hidden = _activate(hidden @ weight + bias[:, None], activation)
            columns: Any = (slice(None), outputs.reshape(-1))
            np.add.at(result, columns, np.moveaxis(hidden, 0, 1).reshape(len(features), -1))
        return result[:, :-1]


def stack_nets(nets: Sequence[Net], feature_count: int, coefficient_count: int) -> list[NetStack]:
    """Return networks of the same depth, hidden widths and activation as stacks.

    Padding reads feature `feature_count` and writes coefficient `coefficient_count`, one beyond the
    last.
    """
    by_shape: dict[tuple, list[Net]] = {}
    for net in nets:
        by_shape.setdefault((net.activation, *(len(b) for b in net.biases[:-1])), []).append(net)
    return [_stack(group, feature_count, coefficient_count) for group in by_shape.values()]


# Bases of one width become one stacked product, unless padding them to the tallest would multiply
# their size by more than this.
_MOST_PADDING = 1.3


class BasisStack(NamedTuple):
    """G bases with the same number of components, padded to the tallest.

    vertices      (G,n), -1 where padded
    matrix        (G,P,3n); or (1,P,n), if it is shared by x, y and z
    coefficients  (G,P); or (1,3,P)
    """

    vertices: np.ndarray
    matrix: np.ndarray
    coefficients: np.ndarray


def stack_bases(bases: Sequence[Basis]) -> Iterator[BasisStack]:
    """Yield bases of one width as stacks, if that needs little padding.

    Shared bases are never stacked with others. Bases without components are left out.
    """
    by_width: dict[int, list[Basis]] = {}
    for basis in bases:
        if not basis.matrix.shape[1]:
            continue
        if basis.shared:
            matrix = np.ascontiguousarray(basis.matrix.T)[None]
            yield BasisStack(basis.vertices[None], matrix, basis.coefficients[None])
        else:
            by_width.setdefault(basis.matrix.shape[1], []).append(basis)
    for width, alike in by_width.items():
        heights = [len(basis.vertices) for basis in alike]
        together = max(heights) * len(alike) <= _MOST_PADDING * sum(heights)
        for group in [alike] if together else [[basis] for basis in alike]:
            height = max(len(basis.vertices) for basis in group)
            matrix = np.zeros((len(group), width, 3 * height), np.float32)
            vertices = np.full((len(group), height), -1)
            for g, basis in enumerate(group):
                matrix[g, :, : 3 * len(basis.vertices)] = basis.matrix.T
                vertices[g, : len(basis.vertices)] = basis.vertices
            coefficients = np.stack([basis.coefficients for basis in group])
            yield BasisStack(vertices, matrix, coefficients)


def _stack(nets: list[Net], feature_count: int, coefficient_count: int) -> NetStack:
    """Return networks of one shape as a stack."""

    def pad(arrays: list[np.ndarray], shape: tuple[int, ...], fill: int = 0) -> np.ndarray:
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
    return NetStack(nets[0].activation, inputs, weights, biases, outputs)


def _activate(x: np.ndarray, activation: str) -> np.ndarray:
    if activation == "tanh":
        return np.tanh(x)
    if activation == "relu":
        return np.maximum(x, 0)
    halved = (x / np.sqrt(2)).reshape(-1)
    erf = np.fromiter(map(math.erf, halved.tolist()), np.float64, halved.size)
    return (0.5 * x * (1 + erf.reshape(x.shape))).astype(x.dtype)
