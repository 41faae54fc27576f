"""Animation tracks of a glTF file: keys of one property of one node, and their values between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from understudy.core.errors import FileError
from understudy.io.gltf.accessors import Accessors
from understudy.io.gltf.document import Entry, unique
from understudy.io.gltf.own_extras import KEY

_WIDTHS = {"translation": 3, "rotation": 4, "scale": 3}
# Quaternions must have length one. Some files round them to a few digits, and viewers use them as
# they are; so does this reader, up to this difference.
NEARLY_UNIT = 0.01


@dataclass(frozen=True)
class Track:
    """Keys of one property of one node.

    node           index
    path           "translation", "rotation", "scale" or "weights"
    times          (n,) seconds, increasing
    values         (n,width), or (n,3,width) for cubic splines: in-tangent, value, out-tangent
    interpolation  "STEP", "LINEAR" or "CUBICSPLINE"
    """

    node: int
    path: str
    times: np.ndarray
    values: np.ndarray
    interpolation: str

    def sample(self, at: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        """Return the values (F,width) at times `at` (F,); the first and last keys hold.

        keys  (n,) other key times, such as those of frames
        """
        times = self.times if keys is None else keys
        if len(times) == 1:
            only = self.values[0, 1] if self.values.ndim == 3 else self.values[0]
            return np.broadcast_to(only, (len(at), len(only))).copy()
        # A tiny lead keeps a frame that is within rounding before a key on that key.
        step = np.searchsorted(times, at + 1e-9, side="right") - 1
        step = np.clip(step, 0, len(times) - 2)
        span = times[step + 1] - times[step]
        part = np.divide(at - times[step], span, out=np.ones_like(at), where=span > 0)
        part = np.clip(part, 0.0, 1.0)[:, None]
        if self.interpolation == "CUBICSPLINE":
            result = self._spline(step, span[:, None], part)
            result = _unit(result) if self.path == "rotation" else result
        elif self.interpolation == "STEP":
            result = np.where(part >= 1, self.values[step + 1], self.values[step])
        elif self.path == "rotation":
            result = slerp(self.values[step], self.values[step + 1], part)
        else:
            result = (1 - part) * self.values[step] + part * self.values[step + 1]
        return result

    def _spline(self, step: np.ndarray, span: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Return the cubic Hermite spline between keys `step` and `step` + 1 at `part` of it."""
        square, cube = part**2, part**3
        return (
            (2 * cube - 3 * square + 1) * self.values[step, 1]
            + span * (cube - 2 * square + part) * self.values[step, 2]
            + (-2 * cube + 3 * square) * self.values[step + 1, 1]
            + span * (cube - square) * self.values[step + 1, 0]
        )


@dataclass(frozen=True)
class Animation:
    """One animation: its name, its tracks and what its file says about it.

    extras  an object of ours in `extras`, or None
    """

    name: str
    tracks: tuple[Track, ...]
    extras: Entry | None


def read_animations(
    root: Entry,
    accessors: Accessors,
    node_count: int,
    target_count: Callable[[int], int],
    is_wanted: Callable[[str], bool],
) -> list[Animation]:
    """Return the animations of a file that are wanted.

    node_count    nodes of the file
    target_count  gives the number of morph targets of the mesh of a node
    is_wanted     tells whether an animation of that name is to be read
    """
    result = []
    taken: dict[str, int] = {}
    for number, entry in enumerate(root.entries("animations")):
        name = unique(entry.text("name").strip() or f"animation_{number}", taken)
        if not is_wanted(name):
            continue
        samplers = entry.entries("samplers")
        tracks = {}
        for channel in entry.entries("channels"):
            target = channel.entry("target")
            sampler = samplers[channel.integer("sampler", below=len(samplers))]
            if target is None or not target.has("node"):
                continue  # an extension says what it animates
            node, path = target.integer("node", below=node_count), target.text("path")
            width = target_count(node) if path == "weights" else _WIDTHS.get(path)
            if width:
                tracks[node, path] = _track(node, path, width, sampler, accessors)
        extras = entry.entry("extras") if isinstance(entry.data.get("extras"), dict) else None
        ours = extras.entry(KEY) if extras is not None else None
        if tracks:
            result.append(Animation(name, tuple(tracks.values()), ours))
    return result


def slerp(a: np.ndarray, b: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return quaternions (F,4) at `part` (F,1) of the shorter arc from `a` to `b`, both (F,4)."""
    dot = np.sum(a * b, axis=1, keepdims=True)
    b = np.where(dot < 0, -b, b)
    near = np.abs(dot) >= 0.9995  # an arc of less than four degrees is a straight line
    angle = np.arccos(np.where(near, 0.0, np.abs(dot)))
    sine = np.sin(angle)
    along = np.sin((1 - part) * angle) / sine * a + np.sin(part * angle) / sine * b
    straight = np.where((a == b).all(axis=1, keepdims=True), a, _unit((1 - part) * a + part * b))
    return np.where(near, straight, along)


def _track(node: int, path: str, width: int, sampler: Entry, accessors: Accessors) -> Track:
    """Return the track of one sampler."""
    keys = sampler.integer("input", below=len(accessors))
    output = sampler.integer("output", below=len(accessors))
    times = accessors.floats(keys, "SCALAR")[:, 0]
    if not len(times) or (np.diff(times) < 0).any() or np.abs(times).max() > 1e7:
        raise FileError(f"{sampler.where}: key times must increase, from at least one key")
    interpolation = sampler.text("interpolation", "LINEAR")
    if interpolation not in ("STEP", "LINEAR", "CUBICSPLINE"):
        raise sampler.wrong("interpolation", f"unknown interpolation {interpolation[:20]!r}")
    values = accessors.floats(output)
    each = 3 if interpolation == "CUBICSPLINE" else 1
    if values.size != len(times) * each * width:
        raise FileError(
            f"{sampler.where}: {len(times)} keys of {each * width} numbers for {path}, but its "
            f"output has {values.size} numbers"
        )
    if np.abs(values).max(initial=0.0) > 1e30:
        raise FileError(f"{sampler.where}: its output has numbers beyond 1e30")
    shape = (len(times), 3, width) if each == 3 else (len(times), width)
    values = values.reshape(shape)
    if path == "rotation":
        lengths = np.linalg.norm(values[:, 1] if each == 3 else values, axis=1)
        if (lengths < 1e-6).any():
            raise FileError(f"{sampler.where}: its output has a quaternion of length zero")
        if each == 1 and np.abs(lengths - 1).max() > NEARLY_UNIT:
            values = values / lengths[:, None]
    return Track(node, path, times, values, interpolation)


def _unit(quaternions: np.ndarray) -> np.ndarray:
    """Return quaternions (F,4) of length one; the identity where there is no length."""
    length = np.linalg.norm(quaternions, axis=1, keepdims=True)
    safe = np.where(length > 1e-12, length, 1.0)
    return np.where(length > 1e-12, quaternions / safe, [0.0, 0.0, 0.0, 1.0])
