"""A plain ONNX graph of a deformer's networks and bases, given their inputs.

`bench runtime` compares the whole graph with it: the difference is the cost of features, skin and
the order of the vertices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import NetStack, stack_nets
from understudy.io.onnx.graph import Graph, Shape, add_nets
from understudy.io.onnx.groups import Group, buckets, padded, padded_height, rigid_groups
from understudy.io.onnx.writing import basis_parts, coefficients_of


def onnx_nets_model(deformer: Deformer) -> Any:
    """Return a plain graph of the networks and bases alone, as an `onnx.ModelProto`, checked.

    Inputs: those of `onnx_nets_inputs`. Output: `displacements`, in the order of the bases.
    Networks of one shape are one product per layer, and so are bases; nothing else is in it, if
    each basis takes the outputs of one network.
    """
    graph = Graph()
    groups = rigid_groups(deformer)
    if groups is not None:
        shape: Shape = _add_group_displacements(graph, deformer, groups, "inputs_0")
    else:
        names = iter(f"inputs_{n}" for n in range(len(deformer.nets)))
        coefficients = coefficients_of(graph, deformer, lambda _: next(names))
        parts = list(basis_parts(graph, deformer, coefficients))
        graph.op("Concat", *(part for part, _ in parts), axis=1, output="displacements")
        shape = ["poses", sum(len(vertices) for _, vertices in parts), 3]
    given: list[tuple[str, Shape]] = [
        (f"inputs_{n}", [len(stack.inputs), "poses", stack.inputs.shape[1]])
        for n, stack in enumerate(_stacks(deformer))
    ]
    return graph.model(given, ("displacements", shape), deformer.method)


def onnx_nets_inputs(deformer: Deformer, features: np.ndarray) -> dict[str, np.ndarray]:
    """Return what `onnx_nets_model` is given: the inputs (G,T,I) float32 of each stack of networks.

    features  (T,X), clamped
    """
    padded = np.concatenate([features, np.zeros((len(features), 1))], axis=1)
    return {
        f"inputs_{n}": np.ascontiguousarray(np.moveaxis(padded[:, stack.inputs], 1, 0), np.float32)
        for n, stack in enumerate(_stacks(deformer))
    }


def _stacks(deformer: Deformer) -> list[NetStack]:
    """Return the networks in the stacks of `onnx_nets_model`."""
    groups = rigid_groups(deformer)
    nets = deformer.nets if groups is None else [group.net for group in groups]
    return stack_nets(nets, deformer.features.count, deformer.coefficient_count)


def _add_group_displacements(
    graph: Graph, deformer: Deformer, groups: list[Group], inputs: str
) -> Shape:
    """Add the networks and bases of groups alone, with the products of `add_groups`; the result is
    called `displacements`. Return its shape.

    inputs  name of (G,T,I), the inputs of the networks
    """
    half = deformer.storage == "float16"
    (stack,) = stack_nets(
        [group.net for group in groups], deformer.features.count, deformer.coefficient_count
    )
    hidden = add_nets(graph, stack, inputs, half)
    runs = buckets(groups)
    rows, height = [], 0
    for bucket in runs:
        height = padded_height(groups[bucket])
        basis, _ = padded(groups[bucket], stack.outputs.shape[1], height, deformer.mesh.vertices)
        own = hidden if len(runs) == 1 else graph.cut(hidden, bucket.start, bucket.stop, 0)
        output = "displacements" if len(runs) == 1 else None
        rows.append(graph.op("MatMul", own, graph.weights(basis, half), output=output))
    if len(runs) == 1:
        return [len(groups), "poses", 3 * height]
    flat = [graph.reshape(graph.op("Transpose", row, perm=[1, 0, 2]), [0, -1]) for row in rows]
    graph.op("Concat", *flat, axis=1, output="displacements")
    return ["poses", sum(len(groups[run]) * 3 * padded_height(groups[run]) for run in runs)]
