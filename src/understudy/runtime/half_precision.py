"""A deformer in 16 bits: half the bytes in the file, and half the bytes to read for every pose.

Weights, bases and biases become 16-bit floats, which have 11 significant bits, with one exception.
A first layer reads raw features, whose mean may be large compared with their range (a bone 90 cm
above the ground that moves by 2 cm). Rounded weights would be multiplied by that mean. The error
at the middle of each feature's range is therefore moved into the bias, which stays in 32 bits.

16-bit floats are too coarse for rest positions, skin weights and UVs. They become 16-bit integers
on a grid, `low + number * step`. The step is a power of two, so that sums of such numbers are
exact. Arrays that a grid would round too much stay in 32 bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.networks import Net
from understudy.core.skin import Skin
from understudy.core.storage import grid_step
from understudy.system.errors import InputError

# Limits of a grid: how far rest positions may move, relative to the height, and the largest steps
# of skin weights, UVs and normals.
_REST_ERROR, _WEIGHT_STEP, _UV_STEP, _NORMAL_STEP = 3e-5, 2.0**-14, 2.0**-15, 2.0**-14


def halved(deformer: Deformer) -> Deformer:
    """Return the same deformer with its numbers rounded to 16 bits."""
    if deformer.storage != "float32":
        return deformer
    mesh, mean = _round_rest(deformer)
    return replace(
        halved_correctives(deformer), mesh=mesh, mean=mean, skin=_round_skin(deformer.skin)
    )


def halved_correctives(deformer: Deformer) -> Deformer:
    """Return the same deformer with its networks and bases rounded to 16 bits.

    The rest shape and the skin stay as they are. They are a small part of the bytes.
    """
    middle = _middle(deformer)
    return replace(
        deformer,
        nets=tuple(_round_net(net, middle) for net in deformer.nets),
        bases=tuple(
            replace(basis, matrix=round_to_half(basis.matrix, f"basis {number}"))
            for number, basis in enumerate(deformer.bases)
        ),
        storage="float16",
    )


def round_to_half(values: np.ndarray, name: str) -> np.ndarray:
    """Return the nearest 16-bit floats, as float32. name: of the array, for the error.

    >>> round_to_half(np.array([0.1], np.float32), "weights").tolist()
    [0.0999755859375]
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise InputError(
            f"{name}: {float(np.abs(values).max()):g} exceeds the largest 16-bit float, 65504; "
            f"keep this deformer in float32"
        )
    return rounded


def _to_steps(values: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return values rounded to multiples of `step`, float32."""
    return (np.rint(values / step) * step).astype(np.float32)


def _on_grid(values: np.ndarray | None, coarsest: float) -> np.ndarray | None:
    """Return values (n,d) on the grid of their extents, or unchanged if it is too coarse.

    coarsest  the largest step allowed
    """
    if values is None or not values.size:
        return values
    step = grid_step(np.ptp(values.astype(np.float64), axis=0), spare=1)
    return _to_steps(values, step) if (step <= coarsest).all() else values


def _round_rest(deformer: Deformer) -> tuple[Mesh, np.ndarray | None]:
    """Return the mesh and the mean displacement on one grid, so that their sum is on it too."""
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
    """Return weights on a grid; the largest weight of each row is corrected to keep its sum."""
    if skin is None:
        return None
    weight = skin.weight.astype(np.float64)
    step = float(grid_step(np.asarray(np.ptp(weight)), spare=skin.influences))
    if step > _WEIGHT_STEP:
        return skin
    steps = np.rint(weight / step)
    rows, largest = np.arange(len(weight)), np.abs(weight).argmax(axis=1)
    steps[rows, largest] += np.rint(weight.sum(axis=1) / step) - steps.sum(axis=1)
    return replace(skin, weight=(steps * step).astype(np.float32))


def _middle(deformer: Deformer) -> np.ndarray:
    """Return the middle of each feature's range, (X,); 0 if it is infinite."""
    low, high = (b.astype(np.float64) for b in (deformer.features.low, deformer.features.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    middle = np.zeros(len(low))
    middle[bounded] = low[bounded] / 2 + high[bounded] / 2
    return middle


def _round_net(net: Net, middle: np.ndarray) -> Net:
    """Return a net in 16 bits; middle (X,) of each feature's range."""
    weights = [round_to_half(weight, "net weights") for weight in net.weights]
    moved = (net.weights[0].astype(np.float64) - weights[0]) @ middle[net.inputs]
    first = (net.biases[0] + moved).astype(np.float32)
    later = (round_to_half(bias, "net biases") for bias in net.biases[1:])
    return replace(net, weights=tuple(weights), biases=(first, *later))
