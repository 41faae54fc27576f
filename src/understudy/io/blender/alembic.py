"""Alembic files (.abc) written and read by Blender: meshes whose vertices are stored every frame.

An archive holds vertices, polygons, UVs, normals, names and materials (as face sets), in float32.
It has neither bones nor a rest shape: the first frame is the rest shape of what is read. Alembic
has no field for units, and its convention is Y-up. Numbers are written as they are, Z-up meshes
turned to Y-up; a note in the file restores unit, up axis and names.

Blender imports the meshes but does not tell the frame rate. That is in the header of the archive,
an Ogawa file: 16 bytes with the place of the root group, and groups that list places of groups and
of data. Child 4 of the root group has the time samplings: samples, seconds a cycle, and the times
of one cycle.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.mesh import UNITS, UP_AXES, Mesh
from understudy.core.poses import distinct_names
from understudy.io.atomic_write import atomic_write
from understudy.io.blender import scene
from understudy.io.blender.launch import Answer, run_script
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.mesh_clips import need_same_mesh
from understudy.io.mesh_objects import mesh_objects
from understudy.io.numbers import byte_count, of_file
from understudy.io.vertex_cache import VertexCache
from understudy.io.vertex_caches import write_pc2
from understudy.system import checks
from understudy.system.errors import (
    FileError,
    InputError,
    MissingDependencyError,
    UnderstudyError,
)
from understudy.system.progress import SILENT, Progress

_SCRIPTS = Path(__file__).parent / "scripts"
_READ_SECONDS = 30  # to start Blender and open a file; frames come on top
_BLENDER_FROM_Y_UP = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], np.float32)
_MAGIC = b"Ogawa"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_DATA = 1 << 63  # marks the place of data, in place of a group
_MOST_TEXT = 1 << 20
_MOST_SAMPLES = 10_000  # of a small file
_NOTE = b'{"understudy":'


def write_alembic(character: Character, path: str | Path) -> None:
    """Write the vertices of a character's clip as Alembic, whole or not at all.

    character  with one clip, or none: then its rest shape is written
    """
    scene.right_handed(character, path)
    if len(character.clips) > 1:
        names = ", ".join(clip.name for clip in character.clips)
        raise InputError(
            f"{path}: an Alembic file has one timeline, the character has {len(character.clips)} "
            f"clips ({names}); choose one (--clip)"
        )
    clip = character.clips[0] if character.clips else None
    objects = mesh_objects(character.mesh)
    turn = _BLENDER_FROM_Y_UP if character.mesh.up == "Y" else np.eye(3, dtype=np.float32)
    told, arrays = scene.mesh_arrays(character.mesh, objects)
    parts = scene.object_names(character, objects)
    plain = distinct_names([_plain(part) for part in parts])
    for number in range(len(objects)):
        for key in (f"object{number}_vertices", f"object{number}_normals"):
            if key in arrays:
                arrays[key] = arrays[key] @ turn.T
    with tempfile.TemporaryDirectory(prefix="understudy-alembic-") as folder:
        moving = None if clip is None else character.evaluate_clip(clip)
        start = 0 if clip is None else clip.start_frame
        for number, part in enumerate(objects):
            told[number] |= {"name": plain[number], "cache": None}
            if moving is not None:
                cache = Path(folder) / f"{number}.pc2"
                frames = start + np.arange(len(moving), dtype=np.float64)
                write_pc2(VertexCache(moving[:, part.vertices] @ turn.T, frames), cache)
                told[number]["cache"] = str(cache)
        request = {
            "kind": "abc",
            "frame_rate": scene.frame_rate(character, path),
            "start": start,
            "frames": 1 if clip is None else clip.frame_count,
            "objects": told,
            "note": _note(character, dict(zip(plain, parts))),
        }
        with atomic_write(path) as draft:
            request["target"] = str(draft.absolute())
            seconds = scene.write_seconds(character)
            run_script(_SCRIPTS / "write_scene.py", request, seconds, arrays=arrays)
            if not draft.stat().st_size:
                raise FileError(f"{path}: Blender wrote nothing")


def read_alembic(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Character:
    """Return the meshes of an Alembic file: a character with one clip, a point cache.

    The mesh must keep its polygons in all frames. A file in which nothing moves has no clip.
    """
    path = Path(path)
    size = byte_count(path)
    header = read_alembic_header(path)
    rate = float(options.frame_rate or header.frame_rate or scene.DEFAULT_RATE)
    first = round(header.start * rate)
    seconds = (header.samples - 1) / header.frame_rate if header.samples > 1 else 0.0
    count = int(seconds * rate + 1e-3) + 1
    request = {
        "path": str(path.absolute()),
        "bytes": size,
        "frame_rate": rate,
        # An offset of a fraction of a frame is kept: samples need not lie at whole frames.
        "frames": np.round(header.start * rate + np.arange(count), 4).tolist(),
        "meshes": list(options.meshes),
        "parts": _parts(header),
    }
    values, arrays = _ask(path, request, _READ_SECONDS + 0.5 * count, progress)
    told = lambda key, known, other: header.note[key] if header.note.get(key) in known else other
    up, unit = told("up_axis", UP_AXES, "Y"), told("unit", UNITS, "unitless")
    if up == "Y":  # the inverse of a rotation
        for key in ("vertices", "normals"):
            arrays[key] = arrays[key] @ _BLENDER_FROM_Y_UP
    moving = np.ascontiguousarray(arrays["vertices"])
    mesh = _with_materials(_mesh(values, arrays, moving[0], up, unit), header)
    if options.rest_mesh is not None:
        need_same_mesh(options.rest_mesh, mesh, "the rest shape", str(path))
        mesh = replace(mesh, vertices=options.rest_mesh.vertices)
    clips = []
    if header.samples > 1:
        noted = header.note.get("clip")
        name = noted if isinstance(noted, str) and noted else path.stem
        for wanted in options.clips:
            checks.one_of(wanted, "clip", (name,))
        no_bones, no_shapes = np.zeros((count, 0, 3, 4)), np.zeros((count, 0))
        clips.append(CharacterClip(name, no_bones, no_shapes, rate, first, moving))
    return Character(mesh, clips=tuple(clips), name=path.stem)


def _ask(path: Path, request: dict[str, Any], seconds: float, progress: Progress) -> Answer:
    """Return what Blender finds in the file; a Blender that crashes or hangs is a `FileError`."""
    try:
        return run_script(_SCRIPTS / "read_alembic.py", request, seconds, progress)
    except InputError as problem:  # the script's own words
        raise FileError(f"{path}: {problem}") from problem
    except MissingDependencyError:
        raise
    except UnderstudyError as problem:
        raise FileError(
            f"{path}: Blender, which reads this file in a process of its own, crashed or did not "
            f"end; the file is damaged. Export it again ({problem})"
        ) from problem


def _mesh(
    values: dict[str, Any], arrays: dict[str, np.ndarray], vertices: np.ndarray, up: str, unit: str
) -> Mesh:
    """Return the mesh of all objects of an answer, each a part."""
    ends = np.cumsum([0, *(count for _, count in values["objects"])])
    return Mesh(
        vertices,
        arrays["polygon_sizes"],
        arrays["polygon_vertices"],
        corner_uvs=arrays.get("uvs"),
        corner_normals=arrays["normals"],
        materials=tuple(values["materials"]),
        polygon_material=arrays["polygon_material"] if values["materials"] else None,
        parts={name: np.arange(a, b) for (name, _), a, b in zip(values["objects"], ends, ends[1:])},
        unit=unit,
        up_axis=up,
    )


def _note(character: Character, parts: dict[str, str]) -> str:
    """Return what Alembic has no field for, as JSON; the reader finds it by its first key.

    parts  names of parts by the names of their objects
    """
    note = {
        "understudy": 1,
        "unit": character.mesh.unit,
        "up_axis": character.mesh.up_axis,
        "clip": character.clips[0].name if character.clips else None,
        "parts": parts,
        "materials": character.mesh.materials,
    }
    return json.dumps(note, separators=(",", ":"))


def _parts(header: AlembicHeader) -> dict[str, str]:
    """Return the note's names of parts by the names of their objects."""
    parts = header.note.get("parts")
    if not isinstance(parts, dict) or not all(isinstance(name, str) for name in parts.values()):
        return {}
    return parts if len(set(parts.values())) == len(parts) else {}


def _with_materials(mesh: Mesh, header: AlembicHeader) -> Mesh:
    """Return `mesh` with the materials of the note, whose names face sets cannot hold."""
    noted = header.note.get("materials")
    if not isinstance(noted, list) or not all(isinstance(name, str) for name in noted):
        return mesh
    if not noted and len(mesh.materials) == 1:  # the face set of a mesh without materials
        return replace(mesh, materials=(), polygon_material=None)
    known: dict[str, list[str]] = {}
    for name in noted:
        known.setdefault(_plain(name), []).append(name)
    # Names that differ only in what is replaced cannot be told apart.
    found = [known.get(_plain(name), []) for name in mesh.materials]
    names = [own[0] if len(own) == 1 else name for own, name in zip(found, mesh.materials)]
    return replace(mesh, materials=tuple(names)) if len(set(names)) == len(names) else mesh


def _plain(name: str) -> str:
    """Return a name with underscores for all but letters and digits."""
    return "".join(c if c.isalnum() else "_" for c in name)


@dataclass(frozen=True)
class AlembicHeader:
    """When the samples of an archive are.

    frame_rate  samples per second; 0: nothing is animated
    start       time of the first sample in seconds
    samples     how many there are
    note        what `write_alembic` wrote beside the meshes; empty in files of other programs
    """

    frame_rate: float = 0.0
    start: float = 0.0
    samples: int = 0
    note: dict[str, Any] = field(default_factory=dict)


def read_alembic_header(path: str | Path) -> AlembicHeader:
    """Return the header of an archive; `FileError` if the file is not one."""
    with of_file(path), open(path, "rb") as file:
        if not file.read(1):
            raise FileError(f"{path}: is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Archive(path, content).header()


class _Archive:
    """The bytes of an archive; every place is checked before it is read."""

    def __init__(self, path: str | Path, content: mmap.mmap):
        self.path = path
        self.content = content

    def header(self) -> AlembicHeader:
        """Return the header, after checking the places of everything in it."""
        if self.content[: len(_HDF5)] == _HDF5:
            raise FileError(
                f"{self.path}: is an Alembic archive of the old HDF5 kind, which Blender does not "
                "read; convert it to Ogawa (abcconvert -toOgawa)"
            )
        if self.content[: len(_MAGIC)] != _MAGIC:
            raise FileError(f"{self.path}: is not an Alembic archive")
        if len(self.content) < 16 or self.content[5] != 0xFF:
            raise self._damaged("it was not written to its end")
        children = self._group(self._number(8))
        if len(children) < 6:
            raise self._damaged(f"its root has {len(children)} entries, expected 6")
        found = self._samplings(self._data(children[4]))
        longest = max(found, key=lambda each: each.samples, default=AlembicHeader())
        return replace(longest, note=self._note())

    def _samplings(self, data: bytes) -> Iterator[AlembicHeader]:
        """Give the rate, start and number of samples of every time sampling."""
        at = 0
        while at < len(data):
            if at + 16 > len(data):
                raise self._damaged("a time sampling is cut off")
            samples, cycle, count = struct.unpack_from("<IdI", data, at)
            at += 16
            if count < 1 or at + 8 * count > len(data):
                raise self._damaged(f"a time sampling claims {count} times")
            times = struct.unpack_from(f"<{count}d", data, at)
            at += 8 * count
            yield self._sampling(samples, cycle, times)

    def _sampling(self, samples: int, cycle: float, times: tuple[float, ...]) -> AlembicHeader:
        """Return rate, start and number of samples of one time sampling."""
        if samples <= 1:
            return AlembicHeader(samples=samples)
        if not all(map(math.isfinite, (cycle, *times))):
            raise self._damaged("a time sampling is not a number")
        uniform = cycle < 1e30  # else the times of all samples are listed
        span = cycle if uniform else (times[-1] - times[0])
        steps = len(times) if uniform else len(times) - 1
        if not 0 < span < 1e9 or steps < 1 or not 1e-6 < steps / span < 1e6:
            raise self._damaged("the times of its samples do not advance")
        if abs(times[0]) > 1e9:
            raise self._damaged(f"its first sample is at {times[0]:g} s")
        if samples > max(_MOST_SAMPLES, len(self.content) // 8):
            raise self._damaged(f"{len(self.content):,} bytes claim {samples:,} samples")
        rate = steps / span
        nearest = round(rate * 1000) / 1000  # 1/24 s is not exact
        rate = nearest if abs(rate - nearest) < 1e-6 * rate else rate
        return AlembicHeader(rate, times[0], samples)

    def _note(self) -> dict[str, Any]:
        """Return the note of `write_alembic`, or an empty table."""
        at = self.content.find(_NOTE)
        if at < 0:
            return {}
        text = self.content[at : at + _MOST_TEXT].split(b"\0")[0].decode("utf-8", "replace")
        try:
            note = json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            return {}
        return note if isinstance(note, dict) else {}

    def _group(self, at: int) -> tuple[int, ...]:
        """Return the children of a group."""
        count = self._number(at)
        if count > (len(self.content) - at - 8) // 8:
            raise self._damaged(f"a group claims {count:,} entries")
        return struct.unpack_from(f"<{count}Q", self.content, at + 8)

    def _data(self, child: int) -> bytes:
        """Return the bytes of a child that is data."""
        if not child & _DATA:
            raise self._damaged("a group is where data should be")
        at = child & ~_DATA
        if at == 0:
            return b""
        size = self._number(at)
        if size > len(self.content) - at - 8:
            raise self._damaged(f"a block claims {size:,} bytes")
        return self.content[at + 8 : at + 8 + size]

    def _number(self, at: int) -> int:
        """Return the whole number at a place."""
        if not 0 <= at <= len(self.content) - 8:
            raise self._damaged("it points outside itself")
        return int(struct.unpack_from("<Q", self.content, at)[0])

    def _damaged(self, what: str) -> FileError:
        return FileError(f"{self.path}: the Alembic archive is damaged: {what}; export it again")
