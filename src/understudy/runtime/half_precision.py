"""A deformer in 16 bits: half the bytes to ship and to read at every call.

Weights, bases and biases become 16-bit floats, which have 11 significant bits. Where that would
hurt, it is made up for:
- A first layer reads raw features, which may lie far from zero beside how much they vary (a bone 90
  cm above the ground that moves by 2). There the rounding of the weights would act on the 90. Its
  effect at the middle of each feature's range is moved into the bias, so that only what the feature
  deviates from its middle is multiplied by a rounding error. These biases stay in 32 bits.
- The centres of radial functions stay in 32 bits: they are compared with features, not multiplied.

Rest positions, skin weights and UVs are too coarse as 16-bit floats. They become whole numbers of
16 bits on a grid: `low + number * step`, where the step is a power of two, so that sums of such
numbers are exact. What a grid would round too far stays in 32 bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net
from understudy.core.services import SERVICES
from understudy.core.skin import Skin
from understudy.core.storage import grid_step

# What a grid may cost: rest positions move by at most this share of the height; steps of skin
# weights, UVs and normals are at most these.
_REST_ERROR, _WEIGHT_STEP, _UV_STEP, _NORMAL_STEP = 3e-5, 2.0**-14, 2.0**-15, 2.0**-14


def halved(deformer: Deformer) -> Deformer:
    """The same deformer with its numbers rounded to 16 bits, and kept so in files and by the
    runtime.
    """
    if deformer.storage != "float32":
        return deformer
    nets = tuple(_round_net(net, _middle(deformer)) for net in deformer.nets)
    bases = tuple(
        Basis(b.vertices, round_to_half(b.matrix, f"basis {number}"), b.coefficients)
        for number, b in enumerate(deformer.bases)
    )
    mesh, mean = _round_rest(deformer)
    return replace(
        deformer,
        mesh=mesh,
        mean=mean,
        skin=_round_skin(deformer.skin),
        nets=nets,
        bases=bases,
        storage="float16",
    )


def round_to_half(values: np.ndarray, name: str) -> np.ndarray:
    """The nearest numbers that a 16-bit float holds, as float32.

    >>> round_to_half(np.array([0.1], np.float32), "weights").tolist()
    [0.0999755859375]
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise InputError(
            f"{name}: holds {float(np.abs(values).max()):g}; a 16-bit float ends at 65504. Keep "
            f"this deformer in float32"
        )
    return rounded


def _to_steps(values: np.ndarray, step: np.ndarray) -> np.ndarray:
    return (np.rint(values / step) * step).astype(np.float32)


def _on_grid(values: np.ndarray | None, coarsest: float) -> np.ndarray | None:
    """values (n,d) on the grid of their own extents, or as they are where that would be coarser
    than allowed.
    """
    if values is None or not values.size:
        return values
    step = grid_step(np.ptp(values.astype(np.float64), axis=0), spare=1)
    return _to_steps(values, step) if (step <= coarsest).all() else values


def _round_rest(deformer: Deformer) -> tuple[Mesh, np.ndarray | None]:
    """The mesh, and the mean displacement, on one grid: the runtime adds the two, and their sum is
    on that grid again.
    """
    mesh, mean = deformer.mesh, deformer.mean
    mesh = replace(
        mesh,
        corner_uvs=_on_grid(mesh.corner_uvs, _UV_STEP),
        corner_normals=_on_grid(mesh.corner_normals, _NORMAL_STEP),
    )
    rest = mesh.vertices.astype(np.float64)
    moved = rest if mean is None else rest + mean
    step = grid_step(np.maximum(np.ptp(rest, axis=0), np.ptp(moved, axis=0)), spare=1)
    if np.linalg.norm(step) / 2 > _REST_ERROR * mesh.height:
        return mesh, mean
    mesh = replace(mesh, vertices=_to_steps(rest, step))
    return mesh, None if mean is None else _to_steps(moved, step) - mesh.vertices


def _round_skin(skin: Skin | None) -> Skin | None:
    """Weights on a grid; each row keeps its sum, which its largest weight makes up for."""
    if skin is None:
        return None
    weight = skin.weight.astype(np.float64)
    step = float(grid_step(np.ptp(weight), spare=skin.influences))
    if step > _WEIGHT_STEP:
        return skin
    steps = np.rint(weight / step)
    rows, largest = np.arange(len(weight)), np.abs(weight).argmax(axis=1)
    steps[rows, largest] += np.rint(weight.sum(axis=1) / step) - steps.sum(axis=1)
    return replace(skin, weight=(steps * step).astype(np.float32))


def _middle(deformer: Deformer) -> np.ndarray:
    """(X,) the middle of each feature's range; 0 where it has no end."""
    low, high = (
        bound.astype(np.float64) for bound in (deformer.features.low, deformer.features.high)
    )
    bounded = np.isfinite(low) & np.isfinite(high)
    return np.where(bounded, np.where(bounded, low, 0) / 2 + np.where(bounded, high, 0) / 2, 0.0)


def _round_net(net: Net, middle: np.ndarray) -> Net:
    if net.activation == "rbf":
        return net
    weights = [round_to_half(weight, "net weights") for weight in net.weights]
    moved = (net.weights[0].astype(np.float64) - weights[0]) @ middle[net.inputs]
    biases = (
        (net.biases[0] + moved).astype(np.float32),
        *(_round_bias(bias) for bias in net.biases[1:]),
    )
    return Net(net.inputs, tuple(weights), biases, net.outputs, net.activation)


def _round_bias(bias: np.ndarray) -> np.ndarray:
    """As a 16-bit float, or as it is where that is too small for it: biases are few."""
    return (
        bias
        if np.abs(bias).max(initial=0) > np.finfo(np.float16).max
        else round_to_half(bias, "net biases")
    )


SERVICES.half = halved
