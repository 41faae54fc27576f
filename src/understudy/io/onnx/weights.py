"""The weights of blend shapes as one small ONNX graph: the networks of a deformer, without bases.

    weights = matrix @ (coefficients of the networks, features) + offset

Inputs, where they are read: `bones` (T,R,3,4), each in the frame of its parent, and `controls`
(T,C), float32. Output: `weights` (T,S) float32. T is free. What the rows of each are is in the
model's doc_string and, as JSON, in its metadata property `understudy`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.io.atomic_write import atomic_write
from understudy.io.onnx.features import add_bounds, clamped, inputs_from
from understudy.io.onnx.graph import Graph, Shape
from understudy.io.onnx.writing import coefficients_of

PROPERTY = "understudy"


@dataclass(frozen=True, eq=False)
class WeightsNet:
    """The networks of a deformer and a linear map from them to the weights of blend shapes.

    deformer  whose features and networks are used
    matrix    (S,N+X) float64: of the N coefficients, then of the X features
    offset    (S,) float64
    """

    deformer: Deformer
    matrix: np.ndarray
    offset: np.ndarray

    @property
    def bones(self) -> np.ndarray:
        """The bones that the networks read, (R,)."""
        columns = self.deformer.features.columns
        return np.unique(columns[columns < 12 * self.deformer.bone_count] // 12)

    @property
    def controls(self) -> np.ndarray:
        """The controls that the networks read, (C,)."""
        controls = self.deformer.features.columns - 12 * self.deformer.bone_count
        return np.unique(controls[controls >= 0])


def onnx_weights_model(net: WeightsNet, about: Mapping[str, Any], text: str) -> Any:
    """Return the graph as an `onnx.ModelProto`, checked, with metadata and a doc_string."""
    graph = Graph()
    columns, count = net.deformer.features.columns, 12 * net.deformer.bone_count
    inputs: list[tuple[str, Shape]] = []
    parts, place = [], np.zeros(len(columns), np.int64)
    of_bone = columns < count
    if len(net.bones):
        inputs.append(("bones", ["poses", len(net.bones), 3, 4]))
        parts.append(graph.reshape("bones", [-1, 12 * len(net.bones)]))
        which = np.searchsorted(net.bones, columns[of_bone] // 12)
        place[of_bone] = 12 * which + columns[of_bone] % 12
    if len(net.controls):
        inputs.append(("controls", ["poses", len(net.controls)]))
        parts.append("controls")
        which = np.searchsorted(net.controls, columns[~of_bone] - count)
        place[~of_bone] = 12 * len(net.bones) + which
    readings = graph.gather(graph.concat(parts, 1), place, 1)
    features = clamped(graph, net.deformer, readings)
    read = coefficients_of(graph, net.deformer, inputs_from(graph, features))
    read = add_bounds(graph, net.deformer.bounds, read, readings)
    width = net.deformer.coefficient_count
    matrix = net.matrix[:, :width]
    if np.any(net.matrix[:, width:]):
        read, matrix = graph.concat([read, features], 1), net.matrix
    product = graph.op("MatMul", read, graph.constant(matrix.T))
    graph.op("Add", product, graph.constant(net.offset), output="weights")
    model = graph.model(inputs, ("weights", ["poses", len(net.offset)]), "neural_morphs")
    model.doc_string = text
    graph.onnx.helper.set_model_props(model, {PROPERTY: json.dumps(about)})
    return model


def write_onnx_weights(
    net: WeightsNet, path: str | Path, about: Mapping[str, Any], text: str
) -> None:
    """Write the net to `path`, whole or not at all; `about` and `text` as in the model."""
    data = onnx_weights_model(net, about, text).SerializeToString()
    with atomic_write(path) as part:
        part.write_bytes(data)
