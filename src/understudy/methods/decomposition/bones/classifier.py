"""The three networks of the paper in NumPy: trajectories in, probabilities of `LABELS` labels out.

lstm    one layer of 120 units, with a sigmoid instead of tanh on its state; then a dense layer on
        the last state
cnn     two convolutions over time (8 filters of 2 frames, ReLU), the maximum of each filter over
        time, then a dense layer
hybrid  one such convolution, then the lstm

They read the trajectory of each vertex in the sequence's own axes. The solver's motion (`motion`)
is already independent of position and scale; its axes are rotated to the principal axes of all
positions in all frames. The first two point towards the longer tail of the distribution of the
vertices, and the third follows from them. So neither translation, rotation nor scale of the
sequence changes what a network reads. A mirror image does.

A trajectory may have any length. The benchmarks have the same networks in torch and train them; a
test compares the two. The weights are stored as float16, in one safetensors file per network.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load
from scipy.special import expit

from understudy.core.poses import evenly
from understudy.methods.decomposition.solve.motion import Motion, strongest
from understudy.system import checks
from understudy.system.errors import FileError

NETWORKS = ("lstm", "cnn", "hybrid")
KINDS = ("animals", "humans")
_NETWORK_OF = {"animals": "lstm", "humans": "cnn"}  # the paper's, section 4.2
LABELS = 64  # no character of the corpus has more bones that move vertices
UNITS, FILTERS, KERNEL = 120, 8, 2
PUBLISHED_CHANNELS = 3  # x, y, z of a vertex
_BLOCK = 2048  # vertices at a time, so that the state of a block stays in the cache
CHANNELS = 6
MAX_FRAMES = 48  # longer sequences are subsampled; more frames cost time and change little
MIN_FRAMES = 3  # needed by two convolutions over pairs of frames; shorter ones repeat the last
_SAMPLE = 4000  # vertices that the size of the motion is measured on


def principal_axes(motion: Motion) -> np.ndarray:
    """Return a rotation (3,3) whose columns are the sequence's own axes, the widest first."""
    points = motion.targets.reshape(-1, 3)
    directions = np.linalg.eigh(points.T @ points)[1][:, ::-1]
    first, second = ((points @ directions[:, k]) for k in (0, 1))
    tails = np.array([np.einsum("n,n,n->", side, side, side) for side in (first, second)])
    directions = directions[:, :2] * np.where(tails < 0, -1.0, 1.0)
    return np.column_stack([directions, np.cross(directions[:, 0], directions[:, 1])])


def trajectories(motion: Motion, vertices: np.ndarray) -> np.ndarray:
    """Return the trajectories (n,F,6) float32 of some vertices (n,).

    Channels 0 to 2 are the mean position of the vertex. Channels 3 to 5 are its offset from there
    in each frame, divided by the root mean square motion of the sequence.
    """
    frames = motion.rows // 3
    paths = motion.targets[vertices].reshape(len(vertices), frames, 3) @ principal_axes(motion)
    mean = paths.mean(axis=1, keepdims=True)
    sample = motion.targets[evenly(motion.vertex_count, _SAMPLE)].reshape(-1, frames, 3)
    about_mean = sample - sample.mean(axis=1, keepdims=True)
    size = float(np.sqrt((about_mean**2).sum(axis=2).mean())) or 1.0
    channels = np.concatenate([np.broadcast_to(mean, paths.shape), (paths - mean) / size], axis=2)
    return long_enough(channels[:, evenly(frames, MAX_FRAMES)])


def long_enough(paths: np.ndarray) -> np.ndarray:
    """Return paths (n,F,channels) as float32; short ones repeat their last frame."""
    missing = max(0, MIN_FRAMES - paths.shape[1])
    return np.ascontiguousarray(
        np.concatenate([paths] + [paths[:, -1:]] * missing, axis=1), np.float32
    )


def shapes(network: str, channels: int = CHANNELS) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a network's arrays.

    channels  of the trajectories that it reads

    >>> sum(int(np.prod(shape)) for shape in shapes("cnn").values())
    816
    """
    checks.one_of(network, "network", NETWORKS)
    dense = {"dense": (FILTERS if network == "cnn" else UNITS, LABELS), "dense_bias": (LABELS,)}
    first = {"conv_0": (KERNEL * channels, FILTERS), "conv_0_bias": (FILTERS,)}
    if network == "cnn":
        return {**first, "conv_1": (KERNEL * FILTERS, FILTERS), "conv_1_bias": (FILTERS,), **dense}
    inputs = channels if network == "lstm" else FILTERS
    lstm = {"input": (inputs, 4 * UNITS), "state": (UNITS, 4 * UNITS), "state_bias": (4 * UNITS,)}
    return {**(first if network == "hybrid" else {}), **lstm, **dense}


def predict_labels(
    network: str, weights: Mapping[str, np.ndarray], trajectories: np.ndarray
) -> np.ndarray:
    """Return the probabilities (n,LABELS) of labels for trajectories (n,F,channels)."""
    result = np.empty((len(trajectories), LABELS), np.float32)
    for start in range(0, len(trajectories), _BLOCK):
        values = trajectories[start : start + _BLOCK]
        if network != "lstm":
            values = _convolve(values, weights, "conv_0")
        values = (
            _convolve(values, weights, "conv_1").max(axis=1)
            if network == "cnn"
            else _last_state(values, weights)
        )
        result[start : start + _BLOCK] = expit(values @ weights["dense"] + weights["dense_bias"])
    return result


def _convolve(values: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    pairs = np.concatenate([values[:, :-1], values[:, 1:]], axis=2)
    return np.maximum(pairs @ weights[name] + weights[f"{name}_bias"], 0)


def _last_state(values: np.ndarray, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    cell = hidden = np.zeros((len(values), UNITS), np.float32)
    for frame in range(values.shape[1]):
        gates = expit(
            values[:, frame] @ weights["input"] + hidden @ weights["state"] + weights["state_bias"]
        )
        enter, forget, new, leave = np.split(gates, 4, axis=1)
        cell = forget * cell + enter * new
        hidden = leave * expit(cell)
    return hidden


def networks_of(kind: str, network: str) -> list[tuple[str, str]]:
    """Return the kinds that an option allows, each with the network that predicts."""
    kinds = KINDS if kind == "auto" else (kind,)
    return [(one, _NETWORK_OF[one] if network == "auto" else network) for one in kinds]


def highest_labels(probabilities: np.ndarray, influences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bones (V,K) int32 of each vertex and their weights (V,K), which sum to one.

    probabilities  (V,LABELS) of each label; labels that no vertex gets are left out of the numbers
    """
    places = min(influences, probabilities.shape[1])
    label, weight = strongest(probabilities, places)
    weight = np.maximum(weight.astype(np.float64), 1e-12)
    index = np.unique(label, return_inverse=True)[1].reshape(label.shape)
    return np.ascontiguousarray(index, np.int32), weight / weight.sum(axis=1, keepdims=True)


def network_weights(kind: str, network: str, folder: str | None = None) -> Mapping[str, np.ndarray]:
    """Return the float32 weights of a network of `temporal`.

    folder  that `understudy train temporal` wrote; None: the weights that come with the package
    """
    name = f"{kind}_{network}"
    return read_weights(network, _file(name, kind, folder), name)


def _file(name: str, kind: str, folder: str | None) -> bytes:
    """Return the bytes of a file of weights."""
    checks.one_of(kind, "kind of character", KINDS)
    if folder is None:
        packaged = resources.files("understudy.methods.decomposition").joinpath("trained")
        return packaged.joinpath(f"{name}.safetensors").read_bytes()
    file = Path(folder) / f"{name}.safetensors"
    if not file.is_file():
        raise FileError(
            f"{file}: no such file; write it with: understudy train temporal --out {folder}"
        )
    return file.read_bytes()


def read_weights(network: str, data: bytes, name: str) -> dict[str, np.ndarray]:
    """Return float32 weights from the bytes of a safetensors file, which errors call `name`."""
    return checked_weights(read_arrays(data, name), shapes(network), network, name)


def read_arrays(data: bytes, name: str) -> dict[str, np.ndarray]:
    """Return the arrays in the bytes of a safetensors file, which an error calls `name`."""
    try:
        return load(data)
    except SafetensorError as problem:
        raise FileError(f"weights of {name}: not a safetensors file ({problem})") from None


def checked_weights(
    arrays: Mapping[str, np.ndarray],
    expected: Mapping[str, tuple[int, ...]],
    network: str,
    name: str,
) -> dict[str, np.ndarray]:
    """Return arrays as float32; their shapes must be `expected`, and all values finite."""
    if {key: array.shape for key, array in arrays.items()} != expected:
        raise FileError(
            f"weights of {name}: the arrays are not those of the network {network!r}; train it "
            f"with: understudy train temporal"
        )
    result = {key: array.astype(np.float32) for key, array in arrays.items()}
    if not all(np.isfinite(array).all() for array in result.values()):
        raise FileError(f"weights of {name}: some are not finite; train the network again")
    return result
