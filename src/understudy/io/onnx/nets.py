"""Networks in an ONNX graph: those of one shape are one matrix product per layer."""

from __future__ import annotations

from understudy.core.networks import NetStack
from understudy.io.onnx.graph import Graph


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
    grown = graph.op(
        "Add", graph.op("Erf", graph.op("Mul", x, graph.constant([2**-0.5]))), graph.constant([1.0])
    )
    return graph.op("Mul", graph.op("Mul", x, graph.constant([0.5])), grown)
