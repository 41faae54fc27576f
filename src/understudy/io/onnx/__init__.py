"""ONNX: a deformer as one graph, and the weights of a neural engine's files."""

from understudy.io.onnx.weights import WeightsNet, onnx_weights_model, write_onnx_weights
from understudy.io.onnx.writing import onnx_model, write_onnx

__all__ = ["WeightsNet", "onnx_model", "onnx_weights_model", "write_onnx", "write_onnx_weights"]
