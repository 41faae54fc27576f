"""A deformer as one ONNX graph: features, networks, bases and skinning, for any ONNX runtime.

Inputs, if the deformer reads them: `world_from_bone` (T,B,3,4) and `controls` (T,C), float32.
Output: `vertices` (T,V,3) float32. T is free.

ONNX has no singular value decomposition, so the graph departs from `Deformer.deform` in two places:
- The inverse of a flat parent bone is not bounded by its singular values; the clamp of the features
  bounds it.
- Dual quaternions find a bone's rotation by Newton's iteration, which does not allow mirroring.
Bones are float32: far from the origin they are less exact than in `Deformer.deform`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import NetStack, stack_bases, stack_nets
from understudy.io.atomic_write import atomic_write
from understudy.io.onnx.features import Readings, add_bounds
from understudy.io.onnx.graph import (
    Graph,
    Shape,
    add_nets,
    cross,
    nearest_rotation,
    quaternion_from_rotation,
    quaternion_product,
    sums_at,
)
from understudy.io.onnx.groups import add_groups, rigid_groups
from understudy.system.errors import InputError


def write_onnx(deformer: Deformer, path: str | Path) -> None:
    """Write `deformer` to `path`, whole or not at all."""
    data = onnx_model(deformer).SerializeToString()
    with atomic_write(path) as part:
        part.write_bytes(data)


def onnx_model(deformer: Deformer) -> Any:
    """Return the graph as an `onnx.ModelProto`, checked."""
    graph, deformer = Graph(), deformer.folded
    inputs: list[tuple[str, Shape]] = []
    if deformer.skeleton is not None:
        inputs.append(("world_from_bone", ["poses", deformer.skeleton.bone_count, 3, 4]))
    if deformer.reads_controls or deformer.skeleton is None:
        if deformer.control_spec is None:
            raise InputError("nothing drives this deformer: it has neither bones nor controls")
        inputs.append(("controls", ["poses", deformer.control_spec.count]))
    groups = rigid_groups(deformer)
    if groups is not None:
        add_groups(graph, deformer, groups)
    else:
        points = _points(graph, deformer)
        vertices = points if deformer.skin is None else _skinned(graph, deformer, points)
        graph.op("Identity", vertices, output="vertices")
    return graph.model(
        inputs, ("vertices", ["poses", deformer.mesh.vertex_count, 3]), deformer.method
    )


def _points(graph: Graph, deformer: Deformer) -> str:
    """Add rest + d, (T,V,3)."""
    rest = deformer.mesh.vertices
    base = rest if deformer.mean is None else rest + deformer.mean
    driver = "world_from_bone" if deformer.skeleton is not None else "controls"
    if not any(basis.matrix.size for basis in deformer.bases):
        # One copy per pose.
        poses = graph.op("Shape", driver, start=0, end=1)
        shape = graph.op("Concat", poses, graph.constant(base.shape, np.int64), axis=0)
        return graph.op("Expand", graph.constant(base[None]), shape)
    readings = Readings(graph, deformer)
    coefficients = coefficients_of(graph, deformer, readings.of_nets)
    if deformer.bounds is not None:
        coefficients = add_bounds(graph, deformer.bounds, coefficients, readings.of_features())
    slots: list[list[int]] = [[] for _ in range(deformer.mesh.vertex_count)]
    rows, first = [], 0
    for part, vertices in basis_parts(graph, deformer, coefficients):
        rows.append(part)
        for n, vertex in enumerate(vertices):
            if vertex >= 0:
                slots[vertex].append(first + n)
        first += len(vertices)
    d = sums_at(graph, graph.concat(rows, 1), slots, first, 1)
    return graph.op("Add", d, graph.constant(base[None]))


def coefficients_of(graph: Graph, deformer: Deformer, inputs: Callable[[NetStack], str]) -> str:
    """Add the coefficients (T,N), not bounded; nets of one shape are stacked, as in
    `core.networks`.

    inputs  adds what a stack of networks reads, (G,T,I)
    """
    half = deformer.storage == "float16"
    writers: list[list[int]] = [[] for _ in range(deformer.coefficient_count)]
    flat, first = [], 0
    for stack in stack_nets(deformer.nets, deformer.features.count, deformer.coefficient_count):
        hidden = add_nets(graph, stack, inputs(stack), half)
        outputs = stack.outputs
        flat.append(graph.reshape(graph.transpose(hidden, 1, 0, 2), [-1, outputs.size]))
        for n, coefficient in enumerate(outputs.reshape(-1)):
            if coefficient < deformer.coefficient_count:
                writers[coefficient].append(first + n)
        first += outputs.size
    return sums_at(graph, graph.concat(flat, 1), writers, first, 1)


def basis_parts(
    graph: Graph, deformer: Deformer, coefficients_name: str
) -> Iterator[tuple[str, np.ndarray]]:
    """Add the displacements (T,n,3) of every stack of bases; yield them and their vertices (n,).

    A vertex of -1 is padding.
    """
    half = deformer.storage == "float16"
    for vertices, matrix, coefficients in stack_bases(deformer.bases):
        count, height = vertices.shape
        picked = graph.gather(coefficients_name, coefficients.reshape(-1), 1)
        picked = graph.reshape(picked, [-1, *coefficients.shape])
        if coefficients.ndim == 3:  # shared by x, y and z, and alone
            axes = graph.reshape(picked, [-1, *coefficients.shape[1:]])
            product = graph.op("MatMul", axes, graph.weights(matrix[0], half))
            yield graph.transpose(product, 0, 2, 1), vertices[0]
        else:
            picked = graph.transpose(picked, 1, 0, 2)
            product = graph.op("MatMul", picked, graph.weights(matrix, half))
            product = graph.transpose(product, 1, 0, 2)
            yield graph.reshape(product, [-1, count * height, 3]), vertices.reshape(-1)


def _skinned(graph: Graph, deformer: Deformer, points: str) -> str:
    """Add points (T,V,3) of the rest shape moved by the skin."""
    skeleton, skin = deformer.need_skin()
    linear, shift = graph.cut("world_from_bone", 0, 3, 3), graph.cut("world_from_bone", 3, 4, 3)
    # Relative to the first root, so that a character far from the origin keeps its accuracy.
    centre = graph.gather(shift, np.arange(1), 1)
    turned = graph.op("MatMul", linear, graph.constant(skeleton.bone_from_world[None, :, :, :3]))
    moved = graph.op("MatMul", linear, graph.constant(skeleton.bone_from_world[None, :, :, 3:]))
    moved = graph.op("Add", moved, graph.op("Sub", shift, centre))
    count = skeleton.bone_count
    matrices = graph.reshape(graph.concat([turned, moved], 3), [-1, count, 12])
    if skin.virtual is not None:
        matrices = _blended(graph, matrices, *skin.virtual, count)
        count = len(skin.virtual[0])
    if skin.blend == "dual_quaternion":
        moved = _dual_quaternion(graph, deformer, matrices, count, points)
        return graph.op("Add", moved, graph.reshape(centre, [-1, 1, 3]))
    # The vertices are the inner axis: ONNX Runtime is slow if the inner axis has length three.
    blended = _blended(graph, matrices, skin.bone_index, skin.weight, count)
    blended = graph.transpose(blended, 0, 2, 1)
    blended = graph.reshape(blended, [-1, 3, 4, deformer.mesh.vertex_count])
    one_more = graph.constant([0, 0, 0, 0, 1, 0], np.int64)
    planes = graph.op("Pad", graph.transpose(points, 0, 2, 1), one_more, graph.constant(1.0))
    moved = graph.sum(graph.op("Mul", blended, graph.unsqueeze(planes, 1)), 2)
    moved = graph.op("Add", moved, graph.reshape(centre, [-1, 3, 1]))
    return graph.transpose(moved, 0, 2, 1)


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
    linear = graph.cut(shaped, 0, 3, 3)
    shift = graph.reshape(graph.cut(shaped, 3, 4, 3), [-1, count, 3])
    rotation = nearest_rotation(graph, linear)
    stretch = graph.op("MatMul", graph.transpose(rotation, 0, 1, 3, 2), linear)
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
    shifted = graph.op("Sub", graph.op("Mul", w, ev), graph.op("Mul", ew, v))
    shifted = graph.op("Add", shifted, cross(graph, v, ev))
    stretched = graph.sum(graph.op("Mul", s, graph.unsqueeze(points, 2)), 3)
    twice = graph.op("Mul", cross(graph, v, stretched), graph.constant([2.0]))
    turned = graph.op("Add", stretched, graph.op("Mul", w, twice))
    turned = graph.op("Add", turned, cross(graph, v, twice))
    return graph.op("Add", turned, graph.op("Mul", shifted, graph.constant([2.0])))
