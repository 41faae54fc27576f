"""Weights and bases in 16 bits: half the bytes to ship and to read at every call.

A 16-bit float has 11 significant bits. Where that would hurt, it is made up for:
- Biases stay in 32 bits; they are few.
- A first layer reads raw features, which may lie far from zero beside how much they vary (a bone 90 cm above the ground that moves by 2). There the
  rounding of the weights would act on the 90. Its effect at the middle of each feature's range is moved into the bias, so that only what the
  feature deviates from its middle is multiplied by a rounding error.
- The centres of radial functions stay in 32 bits: they are compared with features, not multiplied.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.deformer import Deformer
from understudy.errors import InputError
from understudy.networks import Basis, Net


def halved(deformer: Deformer) -> Deformer:
    """The same deformer with its weights and bases rounded to 16-bit floats and kept so in files and by the runtime."""
    if deformer.storage == "float16":
        return deformer
    nets = tuple(_round_net(net, _middle(deformer)) for net in deformer.nets)
    bases = tuple(Basis(b.vertices, round_to_half(b.matrix, f"basis {number}"), b.coefficients) for number, b in enumerate(deformer.bases))
    return replace(deformer, nets=nets, bases=bases, storage="float16")


def round_to_half(values: np.ndarray, name: str) -> np.ndarray:
    """The nearest numbers that a 16-bit float holds, as float32.

    >>> round_to_half(np.array([0.1], np.float32), "weights").tolist()
    [0.0999755859375]
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise InputError(f"{name}: holds {float(np.abs(values).max()):g}; a 16-bit float ends at 65504. Keep this deformer in float32")
    return rounded


def _middle(deformer: Deformer) -> np.ndarray:
    """(X,) the middle of each feature's range; 0 where it has no end."""
    low, high = (bound.astype(np.float64) for bound in (deformer.features.low, deformer.features.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    return np.where(bounded, np.where(bounded, low, 0) / 2 + np.where(bounded, high, 0) / 2, 0.0)


def _round_net(net: Net, middle: np.ndarray) -> Net:
    if net.activation == "rbf":
        return net
    weights = [round_to_half(weight, "net weights") for weight in net.weights]
    biases = list(net.biases)
    moved = (net.weights[0].astype(np.float64) - weights[0]) @ middle[net.inputs]
    biases[0] = (biases[0] + moved).astype(np.float32)
    return Net(net.inputs, tuple(weights), tuple(biases), net.outputs, net.activation)
