"""Networks in an ONNX graph: those of one shape are one matrix product per layer."""

from __future__ import annotations

import numpy as np

from understudy.core.networks import NetStack
from understudy.io.onnx_graph import Graph


def add_nets(graph: Graph, stack: NetStack, inputs: str, half: bool) -> str:
    """Add the outputs (G,T,P) of a stack of networks, of inputs (G,T,I).

    half  whether weights are stored in 16 bits
    """
    hidden, last = inputs, len(stack.weights) - 1
    for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases)):
        if stack.activation == "rbf" and layer < last:
            hidden = _radial(graph, hidden, weight, bias)
            continue
        kept = graph.weights(weight, half and stack.activation != "rbf")
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
