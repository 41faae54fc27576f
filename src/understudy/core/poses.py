"""`Poses`: one mesh in T shapes, with the bones and controls that made them, if they are known.

Random samples, animations and captured sequences are all `Poses`. Only the vertices are large. They
are in memory, or in a store on disk (`understudy.io.pose_store`). Methods read them with
`read_poses` (some poses, all vertices) or `read_vertices` (all poses, some vertices), so that they
need not be in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from understudy.core.clip import Clip, ClipSpan, cut_clips
from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.noun import Noun, fingerprint, read_only
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.system import checks
from understudy.system.errors import InputError

_BLOCK = 256  # poses read from a store at a time
_BLOCK_BYTES = 1 << 28  # at most, of their vertices


@runtime_checkable
class VertexSource(Protocol):
    """Vertices on disk: what a (T,V,3) array that is not in memory must provide."""

    shape: tuple[int, int, int]

    def read_poses(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return all vertices of some poses, (stop-start, V, 3) float32."""
        ...

    def read(self, start: int, stop: int, vertices: np.ndarray) -> npt.NDArray[np.float32]:
        """Return some vertices of some poses, (stop-start, len(vertices), 3) float32."""
        ...


def pose_tile(source: VertexSource) -> tuple[int, int]:
    """Return the poses that a source reads as one, and how far into such a tile its poses start."""
    return getattr(source, "pose_tile", (1, 0))


class PoseRange:
    """Some consecutive poses of a `VertexSource`, read when they are asked for.

    source       all poses
    start, stop  which of them
    shape        (stop-start, V, 3)
    """

    def __init__(self, source: VertexSource, start: int, stop: int):
        self.source, self.start, self.stop = source, start, stop
        self.shape = (stop - start, source.shape[1], 3)
        height, first = pose_tile(source)
        self.pose_tile = (height, first + start)

    def read_poses(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return all vertices of some poses, (stop-start, V, 3) float32."""
        return self.source.read_poses(self.start + start, min(self.start + stop, self.stop))

    def read(self, start: int, stop: int, vertices: np.ndarray) -> npt.NDArray[np.float32]:
        """Return some vertices of some poses, (stop-start, len(vertices), 3) float32."""
        return self.source.read(self.start + start, min(self.start + stop, self.stop), vertices)


@dataclass(frozen=True, eq=False, repr=False)
class Poses(Noun):
    """T shapes of one mesh.

    Vertices, bones and controls are not copied: do not write to the arrays that were given. What is
    read of them is read-only, as in all nouns.

    mesh             the mesh at rest
    vertices         (T,V,3) float32 array, or a `VertexSource`
    skeleton         bones, or None
    world_from_bone  (T,B,3,4) float64, or None
    control_spec     names and ranges of the controls, or None
    controls         (T,C) float64, or None
    frame_rate       frames per second if the poses are an animation, else None
    name             for reports
    spans            the clips that these poses consist of, one after the other; empty: one clip,
                     or no animation
    notes            what reading changed, in words, for the provenance of what is learned
    skin             the bone weights that the source itself has, or None
    """

    mesh: Mesh
    vertices: np.ndarray | VertexSource
    skeleton: Skeleton | None = None
    world_from_bone: np.ndarray | None = None
    control_spec: ControlSpec | None = None
    controls: np.ndarray | None = None
    frame_rate: float | None = None
    name: str = "poses"
    spans: tuple[ClipSpan, ...] = ()
    notes: tuple[str, ...] = ()
    skin: Skin | None = None

    def __post_init__(self):
        put = self._borrow
        who, count = repr(self.name), self.mesh.vertex_count
        stored = isinstance(self.vertices, VertexSource)
        given: Any = self.vertices if stored else np.asarray(self.vertices)
        if len(given.shape) == 3:
            checks.same_count(given.shape[1], count, "vertices", who, "the mesh")
        if not stored:
            put("vertices", checks.array(given, f"vertices of {who}", (None, count, 3)))
        if not self.pose_count:
            raise InputError(f"{self.name!r} has no poses")
        if (self.skeleton is None) != (self.world_from_bone is None):
            raise InputError("skeleton and world_from_bone belong together: one of them is missing")
        if self.skeleton is not None:
            shape: tuple[int, ...] = (self.pose_count, self.skeleton.bone_count, 3, 4)
            bones = checks.array(self.world_from_bone, "world_from_bone", shape, np.float64)
            put("world_from_bone", bones)
        if (self.control_spec is None) != (self.controls is None):
            raise InputError("control_spec and controls belong together: one of them is missing")
        if self.control_spec is not None:
            shape = (self.pose_count, self.control_spec.count)
            put("controls", checks.array(self.controls, "controls", shape, np.float64))
        if self.skin is not None:
            bone_count = self.need_skeleton("a skin").bone_count
            shape = (self.vertex_count, self.skin.influences)
            checks.index(self.skin.bone_index, f"skin of {who}", bone_count, shape)
        put("spans", tuple(self.spans))
        if self.spans:
            checks.names((span.name for span in self.spans), f"clips of {who}")
            frames, together = (
                sum(s.frame_count for s in self.spans),
                f"the clips of {who} together",
            )
            checks.same_count(frames, self.pose_count, "frames", together, "its vertices")

    @property
    def pose_count(self) -> int:
        """T."""
        return int(self.vertices.shape[0])

    @property
    def vertex_count(self) -> int:
        """V."""
        return int(self.vertices.shape[1])

    def read_poses(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return all vertices of some poses, (stop-start, V, 3) float32."""
        if isinstance(self.vertices, np.ndarray):
            return self.vertices[start:stop]
        return read_only(self.vertices.read_poses(start, min(stop, self.pose_count)))

    def read_vertices(self, vertices: np.ndarray) -> npt.NDArray[np.float32]:
        """Return some vertices of all poses, (T, n, 3) float32; vertices (n,)."""
        return self.read(0, self.pose_count, vertices)

    def read(self, start: int, stop: int, vertices: np.ndarray) -> npt.NDArray[np.float32]:
        """Return some vertices of some poses, (stop-start, n, 3) float32; vertices (n,)."""
        if isinstance(self.vertices, np.ndarray):
            return read_only(self.vertices[start:stop, vertices])
        return read_only(
            self.vertices.read(start, min(stop, self.pose_count), np.asarray(vertices))
        )

    def pose_blocks(
        self, size: int | None = None, vertices: np.ndarray | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield all poses in blocks: a slice of poses, and their vertices (t,V,3).

        size      poses of a block; None: as many as take little memory
        vertices  (n,) the vertices to read, then (t,n,3); None: all

        Every tile of a store is read once, whatever the size.
        """
        size = self.block_size() if size is None else size
        read = self.read_poses if vertices is None else partial(self._read_some, vertices)
        in_memory = isinstance(self.vertices, np.ndarray)
        height, first = (1, 0) if in_memory else pose_tile(self.vertices)  # type: ignore[arg-type]
        tile: np.ndarray = np.zeros(0)
        loaded, tile_start = -1, 0
        for start in range(0, self.pose_count, size):
            stop = min(start + size, self.pose_count)
            if height == 1:
                yield slice(start, stop), read(start, stop)
                continue
            pieces = []
            at = start
            while at < stop:
                number = (at + first) // height
                end = min((number + 1) * height - first, self.pose_count)
                if number != loaded:
                    tile_start = max(0, number * height - first)
                    loaded, tile = number, np.zeros(0)  # frees the last one before the next is read
                    tile = read(tile_start, end)
                pieces.append(tile[at - tile_start : min(stop, end) - tile_start])
                at = min(stop, end)
            yield slice(start, stop), pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def block_size(self, most: int = _BLOCK, most_bytes: int = _BLOCK_BYTES) -> int:
        """Return how many poses have at most `most_bytes` of vertices: 1 to `most`."""
        return int(np.clip(most_bytes // (12 * self.vertex_count), 1, most))

    def _read_some(self, vertices: np.ndarray, start: int, stop: int) -> np.ndarray:
        return self.read(start, stop, vertices)

    def clips(self, world_from_bone: np.ndarray) -> tuple[Clip, ...]:
        """Return bones (T,B,3,4) fitted to these poses as one `Clip` per span."""
        return cut_clips(
            world_from_bone, self.spans or (ClipSpan(self.name, self.pose_count, self.frame_rate),)
        )

    def take(self, poses: np.ndarray, name: str | None = None) -> Poses:
        """Return some poses, in memory, in the order given: poses (n,), indices.

        name  of the result; by default the same
        """
        poses = checks.index(poses, "poses to take", self.pose_count, dtype=np.int64)
        if isinstance(self.vertices, np.ndarray):
            vertices = self.vertices[poses]
        else:  # reads each tile of the store once
            vertices = np.empty((len(poses), self.vertex_count, 3), np.float32)
            height, first = pose_tile(self.vertices)
            number = (poses + first) // height
            for tile in np.unique(number):
                hit = np.flatnonzero(number == tile)
                low, high = int(poses[hit].min()), int(poses[hit].max()) + 1
                vertices[hit] = self.read_poses(low, high)[poses[hit] - low]
        return replace(
            self,
            vertices=vertices,
            world_from_bone=None if self.world_from_bone is None else self.world_from_bone[poses],
            controls=None if self.controls is None else self.controls[poses],
            name=self.name if name is None else name,
            spans=(),
        )

    def between(self, start: int, stop: int, name: str | None = None) -> Poses:
        """Return consecutive poses without reading them, with the clips that lie within them.

        start, stop  0 <= start < stop <= T
        name         of the result; by default the same
        """
        checks.between(start, "first pose", 0, self.pose_count - 1)
        checks.between(stop, "end of the poses", start + 1, self.pose_count)
        inside = slice(start, stop)
        cut = lambda array: None if array is None else array[inside]
        ends = np.cumsum([0, *(span.frame_count for span in self.spans)])
        bounds = zip(self.spans, ends, ends[1:])
        spans = tuple(span for span, a, b in bounds if start <= a and b <= stop)
        whole = sum(span.frame_count for span in spans) == stop - start
        return replace(
            self,
            vertices=self.vertices[inside]
            if isinstance(self.vertices, np.ndarray)
            else PoseRange(self.vertices, start, stop),
            world_from_bone=cut(self.world_from_bone),
            controls=cut(self.controls),
            name=self.name if name is None else name,
            spans=spans if whole else (),
        )

    def need_skeleton(self, who: str) -> Skeleton:
        """Return the skeleton, or raise an error that says what needs it."""
        if self.skeleton is None:
            raise InputError(
                f"{who} needs bones, and {self.name!r} has none; for mesh sequences use a "
                f"decomposition method"
            )
        return self.skeleton

    def need_bones(self, who: str) -> tuple[Skeleton, np.ndarray]:
        """Return the skeleton and world_from_bone (T,B,3,4), or raise: `who` needs them."""
        skeleton = self.need_skeleton(who)
        if self.world_from_bone is None:
            raise InputError(f"{who} needs the bones of every pose, and {self.name!r} has none")
        return skeleton, self.world_from_bone

    def need_controls(self, who: str) -> tuple[ControlSpec, np.ndarray]:
        """Return the control spec and the controls (T,C), or raise: `who` needs them."""
        if self.control_spec is None or self.controls is None:
            raise InputError(f"{who} needs controls, and {self.name!r} has none")
        return self.control_spec, self.controls


def content_of(noun: Noun) -> dict[str, str]:
    """Return hashes of what a noun holds, by the names of its fields."""
    found = {field.name: getattr(noun, field.name) for field in fields(noun)}  # type: ignore[arg-type]
    if isinstance(noun, Poses):  # they may be on disk, and more than memory holds
        from hashlib import sha256  # slow to import, and players need no hashes

        digest = sha256()
        for _, block in noun.pose_blocks():
            digest.update(np.ascontiguousarray(block).data)
        found["vertices"] = digest.hexdigest()
    return {name: fingerprint(value) for name, value in found.items() if value is not None}


def join_poses(parts: Sequence[Poses], name: str | None = None) -> Poses:
    """Return poses of one character as one, in memory, with a span for every clip.

    parts  poses of the same mesh, bones and controls, in the order to join them
    name   of the result; by default the clips' names

    Control ranges may differ: the result has the widest. The rest shape is that of the first part.
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    for part in parts[1:]:
        _need_same_character(part, first)
    given = [
        span
        for part in parts
        for span in part.spans or (ClipSpan(part.name, part.pose_count, part.frame_rate),)
    ]
    labels = distinct_names([span.name for span in given])
    spans = tuple(replace(span, name=label) for span, label in zip(given, labels))
    rates = {span.frame_rate for span in spans}
    stacked = lambda arrays: None if arrays[0] is None else np.concatenate(arrays)
    specs = [part.control_spec for part in parts if part.control_spec is not None]
    return Poses(
        first.mesh,
        np.concatenate([part.read_poses(0, part.pose_count) for part in parts]),
        first.skeleton,
        stacked([part.world_from_bone for part in parts]),
        _widest(specs) if specs else None,
        stacked([part.controls for part in parts]),
        frame_rate=rates.pop() if len(rates) == 1 else None,
        name=name or "+".join(labels),
        spans=spans,
        notes=tuple(note for part in parts for note in part.notes),
        skin=first.skin,
    )


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return `names` with a number appended to those that came before.

    >>> distinct_names(["walk", "run", "walk"])
    ['walk', 'run', 'walk_2']
    """
    taken: dict[str, int] = {}
    return [unique(name, taken) for name in names]


def unique(name: str, taken: dict[str, int]) -> str:
    """Return `name`, or the first of name_2, name_3, ... that is not taken; it is then taken.

    taken  name -> the last number tried, so that many equal names do not take long

    >>> taken = {"a": 1}
    >>> unique("a", taken), unique("a", taken)
    ('a_2', 'a_3')
    """
    if name not in taken:
        taken[name] = 1
        return name
    number = taken[name] + 1
    while f"{name}_{number}" in taken:
        number += 1
    taken[name] = number
    taken[f"{name}_{number}"] = 1
    return f"{name}_{number}"


def evenly(count: int, most: int | None) -> np.ndarray:
    """Return at most `most` of `count` indices, evenly spaced, with the first and the last.

    >>> evenly(10, 4).tolist()
    [0, 3, 6, 9]
    """
    if most is None or most >= count:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))


def _need_same_character(part: Poses, first: Poses) -> None:
    """Raise unless two `Poses` have the same vertices, polygons, bones and controls."""
    name, other = repr(part.name), repr(first.name)
    checks.same_count(part.vertex_count, first.vertex_count, "vertices", name, other)
    same = {
        "polygons": np.array_equal(part.mesh.polygon_sizes, first.mesh.polygon_sizes)
        and np.array_equal(part.mesh.polygon_vertices, first.mesh.polygon_vertices),
        "bones": _same_skeleton(part.skeleton, first.skeleton),
        "controls": _names_of(part.control_spec) == _names_of(first.control_spec),
    }
    for what, agrees in same.items():
        if not agrees:
            raise InputError(f"{name} and {other} have different {what}: they cannot be joined")


def _same_skeleton(a: Skeleton | None, b: Skeleton | None) -> bool:
    if a is None or b is None:
        return a is b
    return (
        a.names == b.names
        and np.array_equal(a.parents, b.parents)
        and np.allclose(a.world_from_bone, b.world_from_bone, rtol=1e-5, atol=1e-6)
    )


def _names_of(spec: ControlSpec | None) -> tuple[str, ...] | None:
    return None if spec is None else spec.names


def _widest(specs: Sequence[ControlSpec]) -> ControlSpec:
    """Return the first spec with the lowest low and the highest high of all."""
    lowest = lambda field: np.min([getattr(spec, field) for spec in specs], axis=0)
    highest = lambda field: np.max([getattr(spec, field) for spec in specs], axis=0)
    return replace(
        specs[0],
        low=lowest("low"),
        high=highest("high"),
        limit_low=lowest("limit_low"),
        limit_high=highest("limit_high"),
    )
