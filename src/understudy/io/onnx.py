"""A deformer as one ONNX graph: features, networks, bases and skinning, for any ONNX runtime.

Inputs, if the deformer reads them: `world_from_bone` (T,B,3,4) and `controls` (T,C), float32.
Output: `vertices` (T,V,3) float32. T is free.

ONNX has no singular value decomposition, so the graph departs from `Deformer.deform` in two places:
- The inverse of a nearly flat parent bone clamps the determinant, not the small singular values.
- Dual quaternions find a bone's rotation by Newton's iteration, which does not allow mirroring.
Bones are float32: far from the origin they are less exact than in `Deformer.deform`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.errors import InputError, MissingDependencyError
from understudy.core.networks import stack_bases, stack_nets
from understudy.io.atomic_write import atomic_write
from understudy.io.onnx_graph import (
    Graph,
    Shape,
    cofactors,
    cross,
    nearest_rotation,
    quaternion_from_rotation,
    quaternion_product,
    sums_at,
)

# A bone's determinant is clamped to this share of its size cubed; as in geometry.transforms.
_LEAST_DETERMINANT = 1e-2


def write_onnx(deformer: Deformer, path: str | Path) -> None:
    """Write `deformer` to `path`, whole or not at all."""
    data = onnx_model(deformer).SerializeToString()
    with atomic_write(path) as part:
        part.write_bytes(data)


def onnx_model(deformer: Deformer) -> Any:
    """Return the graph as an `onnx.ModelProto`, checked."""
    try:
        import onnx  # optional
    except ImportError as problem:
        raise MissingDependencyError(
            "an ONNX file needs the package onnx: pip install 'understudy[onnx]'"
        ) from problem
    graph = Graph(onnx)
    inputs: list[tuple[str, Shape]] = []
    if deformer.skeleton is not None:
        inputs.append(("world_from_bone", ["poses", deformer.skeleton.bone_count, 3, 4]))
    if deformer.reads_controls or deformer.skeleton is None:
        if deformer.control_spec is None:
            raise InputError("nothing drives this deformer: it has neither bones nor controls")
        inputs.append(("controls", ["poses", deformer.control_spec.count]))
    points = _points(graph, deformer)
    vertices = points if deformer.skin is None else _skinned(graph, deformer, points)
    graph.op("Identity", vertices, output="vertices")
    return graph.model(
        inputs, ("vertices", ["poses", deformer.mesh.vertex_count, 3]), deformer.method
    )


def _points(graph: Graph, deformer: Deformer) -> str:
    """Add rest + d, (T,V,3)."""
    base = (
        deformer.mesh.vertices if deformer.mean is None else deformer.mesh.vertices + deformer.mean
    )
    driver = "world_from_bone" if deformer.skeleton is not None else "controls"
    if not any(basis.matrix.size for basis in deformer.bases):
        # One copy per pose.
        poses = graph.op("Shape", driver, start=0, end=1)
        shape = graph.op("Concat", poses, graph.constant(base.shape, np.int64), axis=0)
        return graph.op("Expand", graph.constant(base[None]), shape)
    coefficients = coefficients_of(graph, deformer, _features(graph, deformer))
    slots: list[list[int]] = [[] for _ in range(deformer.mesh.vertex_count)]
    rows, first = [], 0
    for part, vertices in _basis_parts(graph, deformer, coefficients):
        rows.append(part)
        for n, vertex in enumerate(vertices):
            if vertex >= 0:
                slots[vertex].append(first + n)
        first += len(vertices)
    d = sums_at(
        graph, graph.op("Concat", *rows, axis=1) if len(rows) > 1 else rows[0], slots, first, 1
    )
    return graph.op("Add", d, graph.constant(base[None]))


def _features(graph: Graph, deformer: Deformer) -> str:
    """Add what the nets read, (T,X), clamped."""
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
    return clamped(graph, deformer, graph.gather(raw, place[columns], 1))


def clamped(graph: Graph, deformer: Deformer, picked: str) -> str:
    """Add features (T,X) clamped to their range."""
    biggest = np.finfo(np.float32).max
    bounds = [
        np.clip(bound, -biggest, biggest)
        for bound in (deformer.features.low, deformer.features.high)
    ]
    return graph.op(
        "Min", graph.op("Max", picked, graph.constant(bounds[0])), graph.constant(bounds[1])
    )


def _parent_from_bone(graph: Graph, deformer: Deformer, bones: np.ndarray) -> str:
    """Add some bones (R,) in their parents' frames, (T,R,3,4); a root stays in the world."""
    skeleton, _ = deformer.need_skin()
    parents, count = skeleton.parents[bones], skeleton.bone_count
    world = "world_from_bone"
    if (parents < 0).any():  # an extra bone, the identity, is the parent of the roots
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
    adjugate, determinant = cofactors(graph, graph.cut(parent, 0, 3, 3))
    size = graph.op(
        "Sqrt", graph.sum(graph.sum(graph.square(graph.cut(parent, 0, 3, 3)), 3, True), 2, True)
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
    inverse = graph.op("Div", graph.op("Transpose", adjugate, perm=[0, 1, 3, 2]), signed)
    linear = graph.op("MatMul", inverse, graph.cut(own, 0, 3, 3))
    shift = graph.op(
        "MatMul", inverse, graph.op("Sub", graph.cut(own, 3, 4, 3), graph.cut(parent, 3, 4, 3))
    )
    return graph.op("Concat", linear, shift, axis=3)


def coefficients_of(graph: Graph, deformer: Deformer, features: str) -> str:
    """Add the coefficients (T,N); nets of one shape are stacked, as in `core.networks`."""
    half = deformer.storage == "float16"
    writers: list[list[int]] = [[] for _ in range(deformer.coefficient_count)]
    flat, first = [], 0
    # Padding of narrow nets reads an extra feature, which is zero.
    padded = graph.op("Pad", features, graph.constant([0, 0, 0, 1], np.int64))
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
    return sums_at(
        graph, graph.op("Concat", *flat, axis=1) if len(flat) > 1 else flat[0], writers, first, 1
    )


def _activated(graph: Graph, x: str, activation: str) -> str:
    """Add tanh, relu or gelu of x."""
    if activation == "tanh":
        return graph.op("Tanh", x)
    if activation == "relu":
        return graph.op("Relu", x)
    grown = graph.op(
        "Add", graph.op("Erf", graph.op("Mul", x, graph.constant([2**-0.5]))), graph.constant([1.0])
    )
    return graph.op("Mul", graph.op("Mul", x, graph.constant([0.5])), grown)


def _radial(graph: Graph, x: str, centres: np.ndarray, sharpness: np.ndarray) -> str:
    """Add exp(-s |x - w|^2): x (G,T,in), centres w (G,in,out), sharpness s (G,out)."""
    apart = graph.op(
        "Sub",
        graph.op("Unsqueeze", x, graph.constant([3], np.int64)),
        graph.constant(centres[:, None]),
    )
    return graph.op(
        "Exp",
        graph.op("Mul", graph.sum(graph.square(apart), 2), graph.constant(-sharpness[:, None])),
    )


def _basis_parts(
    graph: Graph, deformer: Deformer, coefficients_name: str
) -> Iterator[tuple[str, np.ndarray]]:
    """Add the displacements (T,n,3) of every stack of bases; yield them and their vertices (n,).

    A vertex of -1 is padding.
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


def _skinned(graph: Graph, deformer: Deformer, points: str) -> str:
    """Add points (T,V,3) of the rest shape moved by the skin."""
    skeleton, skin = deformer.need_skin()
    linear, shift = graph.cut("world_from_bone", 0, 3, 3), graph.cut("world_from_bone", 3, 4, 3)
    # Relative to the first root, so that a character far from the origin keeps its accuracy.
    centre = graph.gather(shift, np.arange(1), 1)
    turned = graph.op("MatMul", linear, graph.constant(skeleton.bone_from_world[None, :, :, :3]))
    moved = graph.op("MatMul", linear, graph.constant(skeleton.bone_from_world[None, :, :, 3:]))
    moved = graph.op("Add", moved, graph.op("Sub", shift, centre))
    matrices = graph.reshape(
        graph.op("Concat", turned, moved, axis=3), [-1, skeleton.bone_count, 12]
    )
    count = skeleton.bone_count
    if skin.virtual is not None:
        matrices = _blended(graph, matrices, *skin.virtual, count)
        count = len(skin.virtual[0])
    if skin.blend == "dual_quaternion":
        return graph.op(
            "Add",
            _dual_quaternion(graph, deformer, matrices, count, points),
            graph.reshape(centre, [-1, 1, 3]),
        )
    # The vertices are the inner axis: ONNX Runtime is slow if the inner axis has length three.
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


def _blended(graph: Graph, rows: str, index: np.ndarray, weight: np.ndarray, count: int) -> str:
    """Add sums of w_k rows[i_k] along axis 1, which has length `count`.

    Few influences are gathered; many are one matrix product.
    """
    if index.shape[1] > min(4, count // 2 + 1):
        dense = np.zeros((len(index), count), np.float32)
        np.add.at(dense, (np.arange(len(index))[:, None], index), weight)
        return graph.op("MatMul", graph.constant(dense), rows)

    def weighted(k: int) -> str:
        part = graph.gather(rows, index[:, k], 1)
        if (weight[:, k] == 1).all():
            return part
        return graph.op("Mul", part, graph.constant(weight[:, k, None]))

    return graph.total(weighted(k) for k in range(index.shape[1]))


def _dual_quaternion(
    graph: Graph, deformer: Deformer, matrices: str, count: int, points: str
) -> str:
    """Add the same as `geometry.skinning.dual_quaternion_blend`, for points (T,V,3)."""
    shaped = graph.reshape(matrices, [-1, count, 3, 4])
    linear, shift = (
        graph.cut(shaped, 0, 3, 3),
        graph.reshape(graph.cut(shaped, 3, 4, 3), [-1, count, 3]),
    )
    rotation = nearest_rotation(graph, linear)
    stretch = graph.op("MatMul", graph.op("Transpose", rotation, perm=[0, 1, 3, 2]), linear)
    real = quaternion_from_rotation(graph, rotation, count)
    moved = graph.op("Pad", shift, graph.constant([0, 0, 1, 0, 0, 0], np.int64))
    dual = graph.op("Mul", quaternion_product(graph, moved, real), graph.constant([0.5]))
    _, skin = deformer.need_skin()
    index, weight = skin.bone_index, skin.weight
    pivot = graph.gather(real, index[:, 0], 1)

    def weighted(k: int) -> tuple[str, str, str]:
        """Add the weighted quaternions and stretches of every vertex's bone k."""
        own, share = graph.gather(real, index[:, k], 1), graph.constant(weight[:, k, None])
        along = graph.sum(graph.op("Mul", pivot, own), 2, True)
        opposite = graph.op("Less", along, graph.constant([0.0]))
        signed = graph.op("Where", opposite, graph.op("Neg", share), share)
        own_dual, own_stretch = (graph.gather(x, index[:, k], 1) for x in (dual, stretch))
        share = graph.constant(weight[:, k, None, None])
        return (
            graph.op("Mul", signed, own),
            graph.op("Mul", signed, own_dual),
            graph.op("Mul", share, own_stretch),
        )

    q, e, s = weighted(0)
    for k in range(1, index.shape[1]):
        parts = weighted(k)
        q, e, s = (graph.op("Add", total, part) for total, part in zip((q, e, s), parts))
    norm = graph.op("Sqrt", graph.sum(graph.square(q), 2, True))
    q, e = graph.op("Div", q, norm), graph.op("Div", e, norm)
    w, v = graph.cut(q, 0, 1, 2), graph.cut(q, 1, 4, 2)
    ew, ev = graph.cut(e, 0, 1, 2), graph.cut(e, 1, 4, 2)
    shifted = graph.op(
        "Add", graph.op("Sub", graph.op("Mul", w, ev), graph.op("Mul", ew, v)), cross(graph, v, ev)
    )
    stretched = graph.sum(
        graph.op("Mul", s, graph.op("Unsqueeze", points, graph.constant([2], np.int64))), 3
    )
    twice = graph.op("Mul", cross(graph, v, stretched), graph.constant([2.0]))
    turned = graph.op(
        "Add", graph.op("Add", stretched, graph.op("Mul", w, twice)), cross(graph, v, twice)
    )
    return graph.op("Add", turned, graph.op("Mul", shifted, graph.constant([2.0])))
