"""An ONNX graph that is built node by node: the algebra of bones, and networks.

Every function adds nodes and returns the name of their result. Networks of one shape are one matrix
product per layer. Axis letters: T poses, N bones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from understudy.core.networks import NetStack
from understudy.system.errors import imported

OPSET = 18
_NEWTON_STEPS = 12
Shape = list[int | str]


class Graph:
    """Nodes and constants of an ONNX graph. onnx: the package, which is optional."""

    def __init__(self) -> None:
        self.onnx = imported("onnx", "an ONNX file", "onnx")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node of operator `kind`; output: the name of its result, by default a new one."""
        output = output or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(self.onnx.helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Add a constant; a small one that is there already is used again."""
        array = np.ascontiguousarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._known:
            return self._known[key]
        name = f"constant_{len(self._constants)}"
        self._constants.append(self.onnx.numpy_helper.from_array(array, name))
        if key is not None:
            self._known[key] = name
        return name

    def weights(self, values: np.ndarray, half: bool) -> str:
        """Add a constant that is stored in 16 bits if `half`, and used in 32."""
        if not half:
            return self.constant(values)
        return self.op("Cast", self.constant(values, np.float16), to=self.onnx.TensorProto.FLOAT)

    def gather(self, data: str, indices: Any, axis: int) -> str:
        """Select entries along an axis."""
        return self.op("Gather", data, self.constant(indices, np.int64), axis=axis)

    def reshape(self, data: str, shape: Sequence[int]) -> str:
        """Change the shape; -1: the length that is left."""
        return self.op("Reshape", data, self.constant(shape, np.int64))

    def transpose(self, data: str, *order: int) -> str:
        """Change the order of the axes."""
        return self.op("Transpose", data, perm=list(order))

    def unsqueeze(self, data: str, axis: int) -> str:
        """Add an axis of length one."""
        return self.op("Unsqueeze", data, self.constant([axis], np.int64))

    def concat(self, parts: Sequence[str], axis: int) -> str:
        """Put arrays one after the other along an axis; a single one stays as it is."""
        return self.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]

    def cut(self, data: str, first: int, last: int, axis: int) -> str:
        """Select the entries from `first` up to, and without, `last` along an axis."""
        return self.op("Slice", data, *(self.constant([n], np.int64) for n in (first, last, axis)))

    def split(self, data: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Cut into parts of some lengths along an axis."""
        names = [f"split_{len(self._nodes)}_{k}" for k in range(len(sizes))]
        inputs = [data, self.constant(sizes, np.int64)]
        self._nodes.append(self.onnx.helper.make_node("Split", inputs, names, axis=axis))
        return names

    def sum(self, data: str, axis: int, keep: bool = False) -> str:
        """Sum along an axis; keep: the axis stays, with length one."""
        return self.op("ReduceSum", data, self.constant([axis], np.int64), keepdims=int(keep))

    def square(self, x: str) -> str:
        """Square every number."""
        return self.op("Mul", x, x)

    def total(self, parts: Iterator[str]) -> str:
        """Add up arrays, at least one.

        An iterator, so that each sum follows its part, and a runtime needs one part at a time.
        """
        result = next(parts)
        for part in parts:
            result = self.op("Add", result, part)
        return result

    def model(self, inputs: Sequence[tuple[str, Shape]], output: tuple[str, Shape], name: str):
        """Return the graph as an `onnx.ModelProto`, checked. All inputs and outputs are float32."""
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        values = [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs]
        results = [helper.make_tensor_value_info(output[0], kind, output[1])]
        graph = helper.make_graph(self._nodes, name, values, results, self._constants)
        model = helper.make_model(
            graph,
            producer_name="understudy",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=8,
        )
        self.onnx.checker.check_model(model)
        return model


def sums_at(graph: Graph, data: str, places: list[list[int]], count: int, axis: int) -> str:
    """For each list of places along `axis` of `data`, of length `count`, sum the entries there.

    An empty list gives zero.
    """
    most = max((len(p) for p in places), default=0)
    if any(len(p) < most for p in places) or not most:
        zero = graph.op("Mul", graph.cut(data, 0, 1, axis), graph.constant([0.0]))
        data, most = graph.op("Concat", data, zero, axis=axis), max(most, 1)
    return graph.total(
        graph.gather(data, [p[n] if n < len(p) else count for p in places], axis)
        for n in range(most)
    )


def cofactors(graph: Graph, linear: str) -> tuple[str, str]:
    """Of (T,N,3,3): the matrices of cofactors, row by row, and the determinants (T,N,1,1)."""
    roll = lambda rows, columns: graph.gather(
        graph.gather(linear, np.roll(np.arange(3), -rows), 2), np.roll(np.arange(3), -columns), 3
    )
    first = graph.op("Mul", roll(1, 1), roll(2, 2))
    result = graph.op("Sub", first, graph.op("Mul", roll(1, 2), roll(2, 1)))
    row = graph.op("Mul", graph.cut(linear, 0, 1, 2), graph.cut(result, 0, 1, 2))
    return result, graph.sum(row, 3, True)


def nearest_rotation(graph: Graph, linear: str) -> str:
    """Of (T,N,3,3): the nearest rotations, by Newton's iteration X <- (X + X^-T) / 2.

    Each step is scaled to determinant one (Higham 1986).
    """
    x = linear
    for _ in range(_NEWTON_STEPS):
        adjugate, determinant = cofactors(graph, x)
        size = graph.op("Max", graph.op("Abs", determinant), graph.constant([1e-20]))
        scale = graph.op("Pow", size, graph.constant([-1.0 / 3]))
        # The scaled x has determinant one, so its inverse transpose is its matrix of cofactors.
        scaled = graph.op("Mul", x, scale)
        opposite = graph.op("Mul", adjugate, graph.op("Mul", scale, scale))
        x = graph.op("Mul", graph.op("Add", scaled, opposite), graph.constant([0.5]))
    return x


def quaternion_from_rotation(graph: Graph, rotation: str, count: int) -> str:
    """Of rotations (T,N,3,3), N = count: quaternions (T,N,4), real part first.

    As in `geometry.skinning.quaternion_from_rotation`: the four classical formulas are linear in
    the rotation, and the best conditioned one is used.
    """
    flat = graph.reshape(rotation, [-1, count, 9])
    table, ones = np.zeros((9, 16), np.float32), np.zeros(16, np.float32)
    xx, yy, zz = 0, 4, 8
    for n, signs in enumerate(((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))):
        ones[5 * n] = 1
        for entry, sign in zip((xx, yy, zz), signs):
            table[entry, 5 * n] = sign
    for (row, column), plus, other, sign in (
        ((0, 1), 7, 5, -1),
        ((0, 2), 2, 6, -1),
        ((0, 3), 3, 1, -1),
        ((1, 2), 3, 1, 1),
        ((1, 3), 2, 6, 1),
        ((2, 3), 7, 5, 1),
    ):
        for place in (4 * row + column, 4 * column + row):
            table[plus, place], table[other, place] = 1, sign
    products = graph.op("MatMul", flat, graph.constant(table))
    formulas = graph.op("Add", products, graph.constant(ones))
    formulas = graph.reshape(formulas, [-1, count, 4, 4])
    squares = graph.gather(graph.reshape(formulas, [-1, count, 16]), [0, 5, 10, 15], 2)
    best = graph.op("ArgMax", squares, axis=2, keepdims=0)
    chosen = graph.op("OneHot", best, graph.constant(4, np.int64), graph.constant([0.0, 1.0]))
    quaternion = graph.sum(graph.op("Mul", formulas, graph.unsqueeze(chosen, 3)), 2)
    norm = graph.op("Sqrt", graph.sum(graph.square(quaternion), 2, True))
    return graph.op("Div", quaternion, norm)


def quaternion_product(graph: Graph, a: str, b: str) -> str:
    """The Hamilton product of quaternions (T,N,4), real part first."""
    aw, av = graph.cut(a, 0, 1, 2), graph.cut(a, 1, 4, 2)
    bw, bv = graph.cut(b, 0, 1, 2), graph.cut(b, 1, 4, 2)
    dot = graph.sum(graph.op("Mul", av, bv), 2, True)
    real = graph.op("Sub", graph.op("Mul", aw, bw), dot)
    mixed = graph.op("Add", graph.op("Mul", aw, bv), graph.op("Mul", bw, av))
    imaginary = graph.op("Add", mixed, cross(graph, av, bv))
    return graph.op("Concat", real, imaginary, axis=2)


def cross(graph: Graph, a: str, b: str) -> str:
    """The cross products of vectors (T,N,3)."""
    roll = lambda x, by: graph.gather(x, np.roll(np.arange(3), -by), 2)
    first = graph.op("Mul", roll(a, 1), roll(b, 2))
    return graph.op("Sub", first, graph.op("Mul", roll(a, 2), roll(b, 1)))


def add_nets(graph: Graph, stack: NetStack, inputs: str, half: bool) -> str:
    """Add the outputs (G,T,P) of a stack of networks, of inputs (G,T,I).

    half  whether weights are stored in 16 bits
    """
    hidden, last = inputs, len(stack.weights) - 1
    for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases)):
        kept = graph.weights(weight, half)
        hidden = graph.op("Add", graph.op("MatMul", hidden, kept), graph.constant(bias[:, None]))
        if layer < last:
            hidden = _activated(graph, hidden, stack.activation)
    return hidden


def _activated(graph: Graph, x: str, activation: str) -> str:
    """Add tanh, relu or gelu of x."""
    if activation == "tanh":
        return graph.op("Tanh", x)
    if activation == "relu":
        return graph.op("Relu", x)
    erf = graph.op("Erf", graph.op("Mul", x, graph.constant([2**-0.5])))
    grown = graph.op("Add", erf, graph.constant([1.0]))
    return graph.op("Mul", graph.op("Mul", x, graph.constant([0.5])), grown)
