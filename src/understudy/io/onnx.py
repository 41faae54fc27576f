"""Write a deformer as one ONNX graph: features, networks, bases and skinning, for whatever runs
ONNX.

Inputs, where the deformer has them: `world_from_bone` (T,B,3,4) and `controls` (T,C), float32;
output `vertices` (T,V,3) float32. T is free.

Where the graph departs from `Deformer.deform`, because ONNX has no singular value decomposition: a
parent bone that is nearly flat is inverted with its determinant held away from zero (ours raises
the small axes), and dual quaternions find a bone's rotation by Newton's iteration (Higham 1986),
which takes bones that mirror for bones that turn. Bones arrive in float32: far from the origin
their own rounding shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.errors import MissingDependencyError
from understudy.core.networks import stack_bases, stack_nets
from understudy.io.atomic_write import atomic_write

OPSET = 18
# A bone's determinant is held above this share of its size cubed; as in geometry.transforms.
_LEAST_DETERMINANT = 1e-2
_NEWTON_STEPS = 12


def write_onnx(deformer: Deformer, path: str | Path) -> None:
    """Write `deformer` to `path`, whole or not at all."""
    data = onnx_model(deformer).SerializeToString()
    with atomic_write(path) as part:
        part.write_bytes(data)


def onnx_model(deformer: Deformer):
    """The graph as an `onnx.ModelProto`, checked."""
    try:
        import onnx
    except ImportError as problem:
        raise MissingDependencyError(
            "writing ONNX needs the package onnx: pip install 'understudy[onnx]'"
        ) from problem
    graph = _Graph(onnx)
    inputs = []
    if deformer.skeleton is not None:
        inputs.append(("world_from_bone", ["poses", deformer.skeleton.bone_count, 3, 4]))
    if deformer.reads_controls or deformer.skeleton is None:
        inputs.append(("controls", ["poses", deformer.control_spec.count]))
    points = _points(graph, deformer)
    vertices = points if deformer.skin is None else _skinned(graph, deformer, points)
    graph.op("Identity", vertices, output="vertices")
    return graph.model(
        inputs, ("vertices", ["poses", deformer.mesh.vertex_count, 3]), deformer.method
    )


class _Graph:
    """Nodes and constants, added one after the other; every method returns the name of its
    result.
    """

    def __init__(self, onnx):
        self._onnx, self._nodes, self._constants, self._known = onnx, [], [], {}

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes) -> str:
        output = output or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, values, dtype=np.float32) -> str:
        array = np.ascontiguousarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is None or key not in self._known:
            name = f"constant_{len(self._constants)}"
            self._constants.append(self._onnx.numpy_helper.from_array(array, name))
            self._known[key if key is not None else name] = name
            return name
        return self._known[key]

    def weights(self, values: np.ndarray, half: bool) -> str:
        """A constant that is stored in 16 bits where the deformer is."""
        if not half:
            return self.constant(values)
        return self.op("Cast", self.constant(values, np.float16), to=self._onnx.TensorProto.FLOAT)

    def gather(self, data: str, indices, axis: int) -> str:
        return self.op("Gather", data, self.constant(indices, np.int64), axis=axis)

    def reshape(self, data: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", data, self.constant(shape, np.int64))

    def cut(self, data: str, first: int, last: int, axis: int) -> str:
        return self.op("Slice", data, *(self.constant([n], np.int64) for n in (first, last, axis)))

    def sum(self, data: str, axis: int, keep: bool = False) -> str:
        return self.op("ReduceSum", data, self.constant([axis], np.int64), keepdims=int(keep))

    def model(self, inputs, output, method: str):
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        values = [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs]
        graph = helper.make_graph(
            self._nodes,
            method,
            values,
            [helper.make_tensor_value_info(output[0], kind, output[1])],
            self._constants,
        )
        model = helper.make_model(
            graph,
            producer_name="understudy",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=8,
        )
        self._onnx.checker.check_model(model)
        return model


def _points(graph: _Graph, deformer: Deformer) -> str:
    """rest + d, (T,V,3)."""
    base = (
        deformer.mesh.vertices if deformer.mean is None else deformer.mesh.vertices + deformer.mean
    )
    driver = "world_from_bone" if deformer.skeleton is not None else "controls"
    if not deformer.bases:
        # As many copies as there are poses.
        poses = graph.op("Shape", driver, start=0, end=1)
        shape = graph.op("Concat", poses, graph.constant(base.shape, np.int64), axis=0)
        return graph.op("Expand", graph.constant(base[None]), shape)
    coefficients = (
        _coefficients(graph, deformer, _features(graph, deformer)) if deformer.nets else None
    )
    rows, slots, first = [], [[] for _ in range(deformer.mesh.vertex_count)], 0
    for part, vertices in _basis_parts(graph, deformer, coefficients):
        rows.append(part)
        for n, vertex in enumerate(vertices):
            if vertex >= 0:
                slots[vertex].append(first + n)
        first += len(vertices)
    d = _sum_of(
        graph, graph.op("Concat", *rows, axis=1) if len(rows) > 1 else rows[0], slots, first, 1
    )
    return graph.op("Add", d, graph.constant(base[None]))


def _features(graph: _Graph, deformer: Deformer) -> str:
    """(T,X), clamped."""
    columns, parts = deformer.features.columns.astype(np.int64), []
    place = np.full(int(columns.max()) + 1 if len(columns) else 0, -1)
    bones = 0 if deformer.skeleton is None else deformer.skeleton.bone_count
    read = np.unique(columns[columns < 12 * bones] // 12)
    if len(read):
        place_of_bone = {int(bone): n for n, bone in enumerate(read)}
        for column in np.unique(columns[columns < 12 * bones]):
            place[column] = 12 * place_of_bone[int(column) // 12] + int(column) % 12
        parts.append(graph.reshape(_parent_from_bone(graph, deformer, read), [-1, 12 * len(read)]))
    if (columns >= 12 * bones).any():
        for column in np.unique(columns[columns >= 12 * bones]):
            place[column] = 12 * len(read) + int(column) - 12 * bones
        parts.append("controls")
    raw = graph.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    picked = graph.gather(raw, place[columns], 1)
    biggest = np.finfo(np.float32).max
    bounds = [
        np.clip(bound, -biggest, biggest)
        for bound in (deformer.features.low, deformer.features.high)
    ]
    return graph.op(
        "Min", graph.op("Max", picked, graph.constant(bounds[0])), graph.constant(bounds[1])
    )


def _parent_from_bone(graph: _Graph, deformer: Deformer, bones: np.ndarray) -> str:
    """(T,R,3,4): these bones in their parents' frames; a root keeps its own."""
    parents, count = deformer.skeleton.parents[bones], deformer.skeleton.bone_count
    world = "world_from_bone"
    if (parents < 0).any():  # one bone more, at rest at the origin, is the parent of the roots
        identity = graph.op(
            "Add",
            graph.op("Mul", graph.cut(world, 0, 1, 1), graph.constant([0.0])),
            graph.constant(np.eye(3, 4)[None, None]),
        )
        world = graph.op("Concat", world, identity, axis=1)
    parent, own = (
        graph.gather(world, np.where(parents < 0, count, parents), 1),
        graph.gather(world, bones, 1),
    )
    cofactors, determinant = _cofactors(graph, graph.cut(parent, 0, 3, 3))
    size = graph.op(
        "Sqrt", graph.sum(graph.sum(_square(graph, graph.cut(parent, 0, 3, 3)), 3, True), 2, True)
    )
    least = graph.op(
        "Mul",
        graph.op("Mul", size, graph.op("Mul", size, size)),
        graph.constant([_LEAST_DETERMINANT]),
    )
    least = graph.op("Max", least, graph.constant([1e-30]))
    held = graph.op("Max", graph.op("Abs", determinant), least)
    signed = graph.op(
        "Where", graph.op("Less", determinant, graph.constant([0.0])), graph.op("Neg", held), held
    )
    inverse = graph.op("Div", graph.op("Transpose", cofactors, perm=[0, 1, 3, 2]), signed)
    linear = graph.op("MatMul", inverse, graph.cut(own, 0, 3, 3))
    shift = graph.op(
        "MatMul", inverse, graph.op("Sub", graph.cut(own, 3, 4, 3), graph.cut(parent, 3, 4, 3))
    )
    return graph.op("Concat", linear, shift, axis=3)


def _cofactors(graph: _Graph, linear: str) -> tuple[str, str]:
    """Of (T,N,3,3): the matrix of cofactors, row by row, and the determinants (T,N,1,1)."""
    roll = lambda rows, columns: graph.gather(
        graph.gather(linear, np.roll(np.arange(3), -rows), 2), np.roll(np.arange(3), -columns), 3
    )
    first = graph.op("Mul", roll(1, 1), roll(2, 2))
    cofactors = graph.op("Sub", first, graph.op("Mul", roll(1, 2), roll(2, 1)))
    row = graph.op("Mul", graph.cut(linear, 0, 1, 2), graph.cut(cofactors, 0, 1, 2))
    return cofactors, graph.sum(row, 3, True)


def _coefficients(graph: _Graph, deformer: Deformer, features: str) -> str:
    """(T,N): nets of one shape run as stacked products, as in `understudy.core.networks`."""
    half = deformer.storage == "float16"
    flat, writers, first = [], [[] for _ in range(deformer.coefficient_count)], 0
    padded = graph.op(
        "Pad", features, graph.constant([0, 0, 0, 1], np.int64)
    )  # padding of narrow nets reads a zero
    for activation, inputs, weights, biases, outputs in stack_nets(
        deformer.nets, deformer.features.count, deformer.coefficient_count
    ):
        hidden = graph.op(
            "Transpose",
            graph.reshape(graph.gather(padded, inputs.reshape(-1), 1), [-1, *inputs.shape]),
            perm=[1, 0, 2],
        )
        for layer, (weight, bias) in enumerate(zip(weights, biases)):
            if activation == "rbf" and layer < len(weights) - 1:
                hidden = _radial(graph, hidden, weight, bias)
                continue
            product = graph.op(
                "MatMul", hidden, graph.weights(weight, half and activation != "rbf")
            )
            hidden = graph.op("Add", product, graph.constant(bias[:, None]))
            if layer < len(weights) - 1:
                hidden = _activated(graph, hidden, activation)
        flat.append(
            graph.reshape(graph.op("Transpose", hidden, perm=[1, 0, 2]), [-1, outputs.size])
        )
        for n, coefficient in enumerate(outputs.reshape(-1)):
            if coefficient < deformer.coefficient_count:
                writers[coefficient].append(first + n)
        first += outputs.size
    return _sum_of(
        graph, graph.op("Concat", *flat, axis=1) if len(flat) > 1 else flat[0], writers, first, 1
    )


def _activated(graph: _Graph, x: str, activation: str) -> str:
    if activation == "tanh":
        return graph.op("Tanh", x)
    if activation == "relu":
        return graph.op("Relu", x)
    grown = graph.op(
        "Add", graph.op("Erf", graph.op("Mul", x, graph.constant([2**-0.5]))), graph.constant([1.0])
    )
    return graph.op("Mul", graph.op("Mul", x, graph.constant([0.5])), grown)


def _radial(graph: _Graph, x: str, centres: np.ndarray, sharpness: np.ndarray) -> str:
    """exp(-s |x - w|^2): x (G,T,in), centres (G,in,out), sharpness (G,out)."""
    apart = graph.op(
        "Sub",
        graph.op("Unsqueeze", x, graph.constant([3], np.int64)),
        graph.constant(centres[:, None]),
    )
    return graph.op(
        "Exp",
        graph.op("Mul", graph.sum(_square(graph, apart), 2), graph.constant(-sharpness[:, None])),
    )


def _basis_parts(graph: _Graph, deformer: Deformer, coefficients_name: str | None):
    """(displacements (T,n,3), the vertex of each row or -1) of every basis, those of one width
    stacked.
    """
    half = deformer.storage == "float16"
    for vertices, matrix, coefficients in stack_bases(deformer.bases):
        count, height = vertices.shape
        picked = graph.reshape(
            graph.gather(coefficients_name, coefficients.reshape(-1), 1), [-1, *coefficients.shape]
        )
        if coefficients.ndim == 3:  # shared by x, y and z, and alone
            axes = graph.reshape(picked, [-1, *coefficients.shape[1:]])
            yield (
                graph.op(
                    "Transpose",
                    graph.op("MatMul", axes, graph.weights(matrix[0], half)),
                    perm=[0, 2, 1],
                ),
                vertices[0],
            )
        else:
            product = graph.op(
                "MatMul", graph.op("Transpose", picked, perm=[1, 0, 2]), graph.weights(matrix, half)
            )
            yield (
                graph.reshape(
                    graph.op("Transpose", product, perm=[1, 0, 2]), [-1, count * height, 3]
                ),
                vertices.reshape(-1),
            )


def _sum_of(graph: _Graph, data: str, places: list[list[int]], count: int, axis: int) -> str:
    """For each list of places along `axis` of `data`, which has `count`, the sum there; an empty
    list gives zero.
    """
    most = max((len(p) for p in places), default=0)
    if any(len(p) < most for p in places) or not most:
        zero = graph.op("Mul", graph.cut(data, 0, 1, axis), graph.constant([0.0]))
        data, most = graph.op("Concat", data, zero, axis=axis), max(most, 1)
    total = None
    for n in range(most):
        part = graph.gather(data, [p[n] if n < len(p) else count for p in places], axis)
        total = part if total is None else graph.op("Add", total, part)
    return total


def _skinned(graph: _Graph, deformer: Deformer, points: str) -> str:
    skin, skeleton = deformer.skin, deformer.skeleton
    linear, shift = graph.cut("world_from_bone", 0, 3, 3), graph.cut("world_from_bone", 3, 4, 3)
    # Around the first root, so that a character far from the origin keeps its accuracy.
    centre = graph.gather(shift, np.arange(1), 1)
    turned = graph.op("MatMul", linear, graph.constant(skeleton.bone_from_world[None, :, :, :3]))
    moved = graph.op("MatMul", linear, graph.constant(skeleton.bone_from_world[None, :, :, 3:]))
    moved = graph.op("Add", moved, graph.op("Sub", shift, centre))
    matrices = graph.reshape(
        graph.op("Concat", turned, moved, axis=3), [-1, skeleton.bone_count, 12]
    )
    count = skeleton.bone_count
    if skin.virtual_index is not None:
        matrices = _blended(graph, matrices, skin.virtual_index, skin.virtual_weight, count)
        count = len(skin.virtual_index)
    if skin.blend == "dual_quaternion":
        return graph.op(
            "Add",
            _dual_quaternion(graph, deformer, matrices, count, points),
            graph.reshape(centre, [-1, 1, 3]),
        )
    # Coordinate by coordinate, all vertices side by side: ONNX Runtime is slow where the inner axis
    # is three long.
    blended = graph.op(
        "Transpose", _blended(graph, matrices, skin.bone_index, skin.weight, count), perm=[0, 2, 1]
    )
    blended = graph.reshape(blended, [-1, 3, 4, deformer.mesh.vertex_count])
    planes = graph.op(
        "Pad",
        graph.op("Transpose", points, perm=[0, 2, 1]),
        graph.constant([0, 0, 0, 0, 1, 0], np.int64),
        graph.constant(1.0),
    )
    moved = graph.sum(
        graph.op("Mul", blended, graph.op("Unsqueeze", planes, graph.constant([1], np.int64))), 2
    )
    return graph.op(
        "Transpose", graph.op("Add", moved, graph.reshape(centre, [-1, 3, 1])), perm=[0, 2, 1]
    )


def _blended(graph: _Graph, rows: str, index: np.ndarray, weight: np.ndarray, count: int) -> str:
    """Sums of w_k rows[i_k] along axis 1: few influences are gathered, many are one matrix
    product.
    """
    if index.shape[1] > min(4, count // 2 + 1):
        dense = np.zeros((len(index), count), np.float32)
        np.add.at(dense, (np.arange(len(index))[:, None], index), weight)
        return graph.op("MatMul", graph.constant(dense), rows)
    total = None
    for k in range(index.shape[1]):
        part = graph.gather(rows, index[:, k], 1)
        if not (weight[:, k] == 1).all():
            part = graph.op("Mul", part, graph.constant(weight[:, k, None]))
        total = part if total is None else graph.op("Add", total, part)
    return total


def _dual_quaternion(
    graph: _Graph, deformer: Deformer, matrices: str, count: int, points: str
) -> str:
    """As `geometry.skinning.dual_quaternion_blend`, for points (T,V,3)."""
    shaped = graph.reshape(matrices, [-1, count, 3, 4])
    linear, shift = (
        graph.cut(shaped, 0, 3, 3),
        graph.reshape(graph.cut(shaped, 3, 4, 3), [-1, count, 3]),
    )
    rotation = _rotation_of(graph, linear)
    stretch = graph.op("MatMul", graph.op("Transpose", rotation, perm=[0, 1, 3, 2]), linear)
    real = _quaternion_of(graph, rotation, count)
    dual = graph.op(
        "Mul",
        _product(graph, graph.op("Pad", shift, graph.constant([0, 0, 1, 0, 0, 0], np.int64)), real),
        graph.constant([0.5]),
    )
    index, weight = deformer.skin.bone_index, deformer.skin.weight
    pivot = graph.gather(real, index[:, 0], 1)
    q = e = s = None
    for k in range(index.shape[1]):
        own = graph.gather(real, index[:, k], 1)
        along = graph.sum(graph.op("Mul", pivot, own), 2, True)
        share = graph.constant(weight[:, k, None])
        turn = graph.op(
            "Where", graph.op("Less", along, graph.constant([0.0])), graph.op("Neg", share), share
        )
        parts = (
            graph.op("Mul", turn, own),
            graph.op("Mul", turn, graph.gather(dual, index[:, k], 1)),
            graph.op(
                "Mul",
                graph.constant(weight[:, k, None, None]),
                graph.gather(stretch, index[:, k], 1),
            ),
        )
        q, e, s = (
            parts
            if q is None
            else (graph.op("Add", total, part) for total, part in zip((q, e, s), parts))
        )
    norm = graph.op("Sqrt", graph.sum(_square(graph, q), 2, True))
    q, e = graph.op("Div", q, norm), graph.op("Div", e, norm)
    w, v = graph.cut(q, 0, 1, 2), graph.cut(q, 1, 4, 2)
    ew, ev = graph.cut(e, 0, 1, 2), graph.cut(e, 1, 4, 2)
    shifted = graph.op(
        "Add", graph.op("Sub", graph.op("Mul", w, ev), graph.op("Mul", ew, v)), _cross(graph, v, ev)
    )
    stretched = graph.sum(
        graph.op("Mul", s, graph.op("Unsqueeze", points, graph.constant([2], np.int64))), 3
    )
    twice = graph.op("Mul", _cross(graph, v, stretched), graph.constant([2.0]))
    turned = graph.op(
        "Add", graph.op("Add", stretched, graph.op("Mul", w, twice)), _cross(graph, v, twice)
    )
    return graph.op("Add", turned, graph.op("Mul", shifted, graph.constant([2.0])))


def _rotation_of(graph: _Graph, linear: str) -> str:
    """The rotation nearest to (T,N,3,3), by Newton's iteration X <- (X + X^-T) / 2, each step
    scaled to determinant one.
    """
    x = linear
    for _ in range(_NEWTON_STEPS):
        cofactors, determinant = _cofactors(graph, x)
        size = graph.op("Max", graph.op("Abs", determinant), graph.constant([1e-20]))
        scale = graph.op("Pow", size, graph.constant([-1.0 / 3]))
        # Of the scaled x the determinant is one, so its inverse transpose is its cofactors.
        x = graph.op(
            "Add",
            graph.op("Mul", x, scale),
            graph.op("Mul", cofactors, graph.op("Mul", scale, scale)),
        )
        x = graph.op("Mul", x, graph.constant([0.5]))
    return x


def _quaternion_of(graph: _Graph, rotation: str, count: int) -> str:
    """As `geometry.skinning.quaternion_from_rotation`: the four classical formulas are linear in
    the rotation; the best conditioned one is taken.
    """
    flat = graph.reshape(rotation, [-1, count, 9])
    table, ones = np.zeros((9, 16), np.float32), np.zeros(16, np.float32)
    xx, yy, zz = 0, 4, 8
    for n, signs in enumerate(((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))):
        ones[5 * n] = 1
        for entry, sign in zip((xx, yy, zz), signs):
            table[entry, 5 * n] = sign
    for (row, column), plus, other, sign in (
        ((0, 1), 7, 5, -1), ((0, 2), 2, 6, -1), ((0, 3), 3, 1, -1), ((1, 2), 3, 1, 1), ((1, 3), 2,
        6, 1), ((2, 3), 7, 5, 1)
    ):  # fmt: skip
        for place in (4 * row + column, 4 * column + row):
            table[plus, place], table[other, place] = 1, sign
    rows = graph.reshape(
        graph.op("Add", graph.op("MatMul", flat, graph.constant(table)), graph.constant(ones)),
        [-1, count, 4, 4],
    )
    squares = graph.gather(graph.reshape(rows, [-1, count, 16]), [0, 5, 10, 15], 2)
    best = graph.op("ArgMax", squares, axis=2, keepdims=0)
    chosen = graph.op("OneHot", best, graph.constant(4, np.int64), graph.constant([0.0, 1.0]))
    row = graph.sum(
        graph.op("Mul", rows, graph.op("Unsqueeze", chosen, graph.constant([3], np.int64))), 2
    )
    return graph.op("Div", row, graph.op("Sqrt", graph.sum(_square(graph, row), 2, True)))


def _product(graph: _Graph, a: str, b: str) -> str:
    """Hamilton product of (T,N,4) quaternions, real part first."""
    aw, av, bw, bv = (
        graph.cut(a, 0, 1, 2),
        graph.cut(a, 1, 4, 2),
        graph.cut(b, 0, 1, 2),
        graph.cut(b, 1, 4, 2),
    )
    real = graph.op("Sub", graph.op("Mul", aw, bw), graph.sum(graph.op("Mul", av, bv), 2, True))
    imaginary = graph.op(
        "Add",
        graph.op("Add", graph.op("Mul", aw, bv), graph.op("Mul", bw, av)),
        _cross(graph, av, bv),
    )
    return graph.op("Concat", real, imaginary, axis=2)


def _cross(graph: _Graph, a: str, b: str) -> str:
    """Of (T,N,3) vectors."""
    roll = lambda x, by: graph.gather(x, np.roll(np.arange(3), -by), 2)
    return graph.op(
        "Sub", graph.op("Mul", roll(a, 1), roll(b, 2)), graph.op("Mul", roll(a, 2), roll(b, 1))
    )


def _square(graph: _Graph, x: str) -> str:
    return graph.op("Mul", x, x)
