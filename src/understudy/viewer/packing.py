"""Arrays of a scene as bytes: a safetensors file whose whole numbers are ready to be compressed.

Whole numbers are replaced by their differences along the first axis, once or twice, and stored as
planes of bytes: all lowest bytes, then all second bytes. A general compressor then makes smooth
motion small. `web/src/container.ts` is the reader.

The frames of a clip, which a page compares a stand-in with, take few bytes, and their error is
known. Their difference from a prediction has few principal components. With F frames,

    frames - predicted  ~=  weights (F,r) @ basis (r,3V)

where the basis is rounded to multiples of a step. Any frame is decoded on its own. The prediction
is what the stand-in shows, or one shape for all frames where there is no stand-in.

Letters: F frames, V vertices, r components, B bones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from safetensors.numpy import save as pack_arrays

from understudy.geometry.transforms import parent_from_bone, world_from_local

# The aim for the mean error of stored frames: of the character's size, or of the mean error that
# the page will show, whichever is larger.
TOLERANCE, TOLERANCE_OF_ERROR = 1.5e-5, 0.08
_TURN_STEP = 3e-6  # of the numbers of a rotation
_MOVE_STEP = 1e-6  # of the character's size
_BLOCK = 64  # frames that are decoded at a time


@dataclass
class Container:
    """Arrays and a description, on their way to a page.

    about    what JSON can say
    arrays   stored as they are
    packed   name -> how its numbers are stored: shape and order of the differences, or a length
    """

    about: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    packed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, name: str, array: np.ndarray) -> None:
        """Store an array as it is."""
        self.arrays[name] = np.ascontiguousarray(array)

    def put_whole(self, name: str, array: np.ndarray, order: int = 0) -> None:
        """Store whole numbers as planes of bytes.

        array  (n, ...) integers
        order  how often to take differences along the first axis
        """
        self.arrays[name] = encode(array, order)
        self.packed[name] = {"shape": list(array.shape), "order": order}

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a file, most of which is 16-bit numbers, as two planes of bytes."""
        even = data + b"\0" * (len(data) % 2)
        planes = np.frombuffer(even, np.uint8).reshape(-1, 2).T
        self.arrays[name] = np.ascontiguousarray(planes)
        self.packed[name] = {"length": len(data)}

    def to_bytes(self) -> bytes:
        """Return the file."""
        text = json.dumps(
            {**self.about, "packed": self.packed}, separators=(",", ":"), allow_nan=False
        )
        return pack_arrays(self.arrays, metadata={"scene": text})


def encode(array: np.ndarray, order: int = 0) -> np.ndarray:
    """Return whole numbers as (bytes per number, n) planes of bytes, the lowest bytes first.

    >>> encode(np.array([1000, 1001, 1003]), order=1).tolist()
    [[208, 2, 4], [7, 0, 0]]
    """
    values = np.asarray(array).astype(np.int64)
    for _ in range(order):
        values = np.concatenate([values[:1], np.diff(values, axis=0)])
    signless = ((values << 1) ^ (values >> 63)).reshape(-1)  # small numbers of either sign
    largest = int(signless.max(initial=0))
    if largest >= 2**32:
        raise ValueError("numbers of more than 32 bits")
    width = 1 if largest < 2**8 else 2 if largest < 2**16 else 4
    planes = signless.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
    return np.ascontiguousarray(planes.T)


@dataclass(frozen=True, eq=False)
class PackedFrames:
    """Frames as weights and a basis.

    weights  (F,r) float32
    basis    (r,3,V) whole numbers, in steps
    step     length of a step
    mean     mean distance between the frames and what is decoded
    largest  largest distance
    """

    weights: np.ndarray
    basis: np.ndarray
    step: float
    mean: float
    largest: float

    def difference(self, start: int, stop: int) -> np.ndarray:
        """Return what is added to the prediction in some frames, (stop-start,V,3)."""
        rank, vertex_count = len(self.basis), self.basis.shape[2]
        flat = self.weights[start:stop] @ self.basis.reshape(rank, -1).astype(np.float32)
        return (self.step * flat).reshape(-1, 3, vertex_count).transpose(0, 2, 1)

    def put(self, container: Container, name: str) -> dict[str, float]:
        """Store it under `name` and return its description."""
        container.put(f"{name}.weights", self.weights)
        container.put_whole(f"{name}.basis", self.basis)
        return {"step": self.step, "mean": self.mean, "largest": self.largest}


def pack_frames(frames: np.ndarray, predicted: np.ndarray, size: float) -> PackedFrames:
    """Return frames (F,V,3) relative to a prediction (F,V,3) or (V,3), as weights and a basis.

    size  of the character: the mean error will be about `TOLERANCE` of it, or
          `TOLERANCE_OF_ERROR` of the mean error of a prediction of each frame
    """
    count, vertex_count = frames.shape[:2]
    rest = (frames - predicted).astype(np.float32).transpose(0, 2, 1).reshape(count, -1)
    energy, vectors = np.linalg.eigh((rest @ rest.T).astype(np.float64))
    energy, vectors = np.maximum(energy[::-1], 0), vectors[:, ::-1]
    aim = TOLERANCE * size
    if predicted.ndim == 3:
        distance = np.linalg.norm(rest.reshape(count, 3, vertex_count), axis=1)
        aim = max(aim, TOLERANCE_OF_ERROR * float(distance.mean()))
    # Root mean square distance that is left after each number of components.
    left = np.sqrt((energy.sum() - np.cumsum(energy)).clip(0) / (count * vertex_count))
    rank = int(np.argmax(left <= aim / 2)) + 1 if (left <= aim / 2).any() else count
    weights = np.ascontiguousarray(vectors[:, :rank], np.float32)
    components = weights.T @ rest
    # Rounding adds an error of step / sqrt(12) to each of 3 rank / count numbers of a vertex.
    step = float(aim * np.sqrt(4 * count / rank)) or 1.0
    step = max(step, float(np.abs(components).max(initial=0)) / 2**29)
    basis = np.round(components / step).astype(np.int32).reshape(rank, 3, vertex_count)
    packed = PackedFrames(weights, basis, step, 0.0, 0.0)
    total = largest = 0.0
    for start in range(0, count, _BLOCK):
        stop = min(start + _BLOCK, count)
        shape = predicted if predicted.ndim == 2 else predicted[start:stop]
        off = np.linalg.norm(shape + packed.difference(start, stop) - frames[start:stop], axis=2)
        total, largest = total + float(off.sum()), max(largest, float(off.max()))
    return PackedFrames(weights, basis, step, total / (count * vertex_count), largest)


@dataclass(frozen=True, eq=False)
class PackedBones:
    """Bones of a clip, each relative to its parent, as whole numbers.

    numbers    (F,B,12), in steps
    steps      of the 9 numbers that turn and of the 3 that move
    relative   whether a bone is relative to its parent; False: all are relative to the world
    """

    numbers: np.ndarray
    steps: tuple[float, float]
    relative: bool

    def world_from_bone(self, parents: np.ndarray) -> np.ndarray:
        """Return the decoded bones, (F,B,3,4) float64."""
        scale = np.array([*([self.steps[0]] * 3), self.steps[1]])
        local = self.numbers.reshape(*self.numbers.shape[:2], 3, 4) * scale
        return world_from_local(local, parents) if self.relative else local

    def put(self, container: Container, name: str) -> dict[str, object]:
        """Store it under `name` and return its description."""
        order = 2 if len(self.numbers) > 2 else 0
        container.put_whole(name, self.numbers, order)
        return {"array": name, "steps": list(self.steps), "relative": self.relative}


def pack_bones(world_from_bone: np.ndarray, parents: np.ndarray, size: float) -> PackedBones:
    """Return bones (F,B,3,4) as whole numbers; they are exact to a millionth of the size."""
    # A bone that is nearly flat has no useful inverse.
    spread = np.linalg.svd(world_from_bone[..., :3], compute_uv=False)
    relative = bool((spread[..., 2] > 1e-3 * spread[..., 0]).all())
    local = parent_from_bone(world_from_bone, parents) if relative else world_from_bone
    steps = tuple(
        max(least, float(np.abs(part).max(initial=0)) / 2**28)
        for least, part in ((_TURN_STEP, local[..., :3]), (_MOVE_STEP * size, local[..., 3]))
    )
    numbers = np.round(local / np.array([*([steps[0]] * 3), steps[1]])).astype(np.int64)
    return PackedBones(numbers.reshape(*numbers.shape[:2], 12), (steps[0], steps[1]), relative)
