"""The bounds of coefficients in an ONNX graph; see `understudy.core.bounds` for the equations."""

from __future__ import annotations

import numpy as np

from understudy.core.bounds import LARGEST_FEATURE, Bounds
from understudy.io.onnx.graph import Graph


def add_bounds(graph: Graph, bounds: Bounds | None, coefficients: str, readings: str) -> str:
    """Add coefficients (T,N) clamped and faded; without bounds, return them as they are.

    readings  name of the features (T,X) before they are clamped
    """
    if bounds is None:
        return coefficients
    held = graph.op("Max", coefficients, graph.constant(bounds.low))
    held = graph.op("Min", held, graph.constant(bounds.high))
    if not bounds.unit_count or not len(bounds.units):
        return held
    return graph.op("Mul", held, _fades(graph, bounds, readings))


def _fades(graph: Graph, bounds: Bounds, readings: str) -> str:
    """Add the fade of every coefficient, (T,N)."""
    units, _, width = bounds.centres.shape
    limit, last = np.float32(LARGEST_FEATURE), graph.constant([2], np.int64)
    near = graph.op("Max", readings, graph.constant([-limit]))
    near = graph.op("Min", near, graph.constant([limit]))
    picked = graph.gather(near, bounds.features.reshape(-1), 1)
    picked = graph.reshape(picked, [-1, units, 1, width])
    off = graph.square(graph.op("Sub", picked, graph.constant(bounds.centres)))
    off = graph.op("Mul", off, graph.constant(bounds.scale[:, None]))
    distance = graph.op("ReduceMin", graph.sum(off, 3), last, keepdims=0)
    end = bounds.fade_end**2
    s = graph.op("Sub", graph.constant([end]), distance)
    s = graph.op("Mul", s, graph.constant([1 / (end - 1)]))
    s = graph.op("Min", graph.op("Max", s, graph.constant([0.0])), graph.constant([1.0]))
    slope = graph.op("Sub", graph.constant([3.0]), graph.op("Add", s, s))
    fade = graph.op("Mul", graph.square(s), slope)
    groups, most = bounds.units.shape
    of_groups = graph.gather(fade, bounds.units.reshape(-1), 1)
    of_groups = graph.reshape(of_groups, [-1, groups, most])
    of_groups = graph.op("ReduceMin", of_groups, last, keepdims=0)
    group = bounds.group
    if (group < 0).any():
        # One more group, which never fades.
        ones = graph.constant(1.0)
        of_groups = graph.op("Pad", of_groups, graph.constant([0, 0, 0, 1], np.int64), ones)
        group = np.where(group < 0, groups, group)
    return graph.gather(of_groups, group, 1)
