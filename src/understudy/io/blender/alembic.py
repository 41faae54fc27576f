"""Alembic files (.abc) written and read by Blender: meshes whose vertices are stored every frame.

An archive holds vertices, polygons, UVs, normals, names and materials (as face sets), in float32.
It has neither bones nor a rest shape: the first frame is the rest shape of what is read. Alembic
has no field for units, and its convention is Y-up. Numbers are written as they are, Z-up meshes
turned to Y-up; a note in the file restores unit, up axis and names.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core import checks
from understudy.core.character import Character, CharacterClip
from understudy.core.errors import (
    FileError,
    InputError,
    MissingDependencyError,
    UnderstudyError,
)
from understudy.core.mesh import UNITS, UP_AXES, Mesh
from understudy.core.progress import SILENT, Progress
from understudy.io.atomic_write import atomic_write
from understudy.io.blender import scene
from understudy.io.blender.alembic_header import AlembicHeader, read_alembic_header
from understudy.io.blender.launch import Answer, run_script
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.mesh_clips import need_same_mesh
from understudy.io.mesh_objects import mesh_objects

_SCRIPTS = Path(__file__).parent / "scripts"
_READ_SECONDS = 30  # to start Blender and open a file; frames come on top
_BLENDER_FROM_Y_UP = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], np.float32)


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
    plain = _plain_names(parts)
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
                _write_cache(cache, moving[:, part.vertices] @ turn.T, start)
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
            run_script(_SCRIPTS / "write_scene.py", request, folder, seconds, arrays=arrays)
            if not draft.stat().st_size:
                raise FileError(f"{path}: Blender wrote nothing")


def read_alembic(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Character:
    """Return the meshes of an Alembic file: a character with one clip, a point cache.

    The mesh must keep its polygons in all frames. A file in which nothing moves has no clip.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    header = read_alembic_header(path)
    rate = float(options.frame_rate or header.frame_rate or scene.DEFAULT_RATE)
    first = round(header.start * rate)
    seconds = (header.samples - 1) / header.frame_rate if header.samples > 1 else 0.0
    count = int(seconds * rate + 1e-3) + 1
    request = {
        "path": str(path.absolute()),
        "bytes": path.stat().st_size,
        "frame_rate": rate,
        # An offset of a fraction of a frame is kept: samples need not lie at whole frames.
        "frames": np.round(header.start * rate + np.arange(count), 4).tolist(),
        "meshes": list(options.meshes),
        "parts": _parts(header),
    }
    answer = _ask(path, request, _READ_SECONDS + 0.5 * count, progress)
    y_up = answer.arrays["vertices"] @ _BLENDER_FROM_Y_UP  # the inverse of a rotation
    up = _noted(header, "up_axis", UP_AXES) or "Y"
    moving = np.ascontiguousarray(y_up if up == "Y" else answer.arrays["vertices"])
    mesh = _mesh(answer, moving[0], up, _noted(header, "unit", UNITS) or "unitless")
    mesh = _with_materials(mesh, header)
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
        return run_script(_SCRIPTS / "read_alembic.py", request, None, seconds, progress)
    except InputError as problem:  # the script's own words
        raise FileError(f"{path}: {problem}") from problem
    except MissingDependencyError:
        raise
    except UnderstudyError as problem:
        raise FileError(
            f"{path}: Blender, which reads this file in a process of its own, crashed or did not "
            f"end; the file is damaged. Export it again ({problem})"
        ) from problem


def _objects(answer: Answer) -> dict[str, np.ndarray]:
    """Return the objects of an answer as parts: names and their vertices."""
    names = [name for name, _ in answer.values["objects"]]
    ends = np.cumsum([0, *(count for _, count in answer.values["objects"])])
    return {name: np.arange(a, b) for name, a, b in zip(names, ends, ends[1:])}


def _mesh(answer: Answer, vertices: np.ndarray, up: str, unit: str) -> Mesh:
    """Return the mesh of all objects, each a part."""
    arrays, values = answer.arrays, answer.values
    normals = arrays["normals"]
    return Mesh(
        vertices,
        arrays["polygon_sizes"],
        arrays["polygon_vertices"],
        corner_uvs=arrays.get("uvs"),
        corner_normals=normals @ _BLENDER_FROM_Y_UP if up == "Y" else normals,
        materials=tuple(values["materials"]),
        polygon_material=arrays["polygon_material"] if values["materials"] else None,
        parts=_objects(answer),
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


def _noted(header: AlembicHeader, key: str, known: Sequence[str]) -> str | None:
    """Return a text of the note, if it is one of `known`."""
    value = header.note.get(key)
    return value if isinstance(value, str) and value in known else None


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


def _plain_names(names: Sequence[str]) -> list[str]:
    """Return names of letters, digits and underscores, as Alembic has them, each once.

    >>> _plain_names(["left eye", "left.eye", "hair"])
    ['left_eye', 'left_eye_1', 'hair']
    """
    result: list[str] = []
    for name in names:
        plain = _plain(name)
        tried = (plain, *(f"{plain}_{n}" for n in range(1, len(names) + 1)))
        result.append(next(each for each in tried if each not in result))
    return result


def _write_cache(path: Path, vertices: np.ndarray, start: int) -> None:
    """Write vertices (F,V,3) as a .pc2 point cache, which Blender's mesh cache modifier plays."""
    frames, count = vertices.shape[:2]
    header = struct.pack("<12siiffi", b"POINTCACHE2\0", 1, count, float(start), 1.0, frames)
    with open(path, "wb") as file:
        file.write(header)
        vertices.astype("<f4").tofile(file)
