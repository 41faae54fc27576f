"""Clips of a character as mesh files, one per frame: `.obj` or `.ply`.

The path names the frames: `out/walk_####.obj` becomes `out/walk_0001.obj` and so on, with the
clip's frame numbers. A folder gets files called after the clip. Several clips go into a folder
each.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.mesh import Mesh
from understudy.geometry.normals import CornerNormals
from understudy.io.atomic_write import atomic_write
from understudy.io.sequences.obj import ObjText
from understudy.io.sequences.ply import write_ply
from understudy.system.errors import FileError, InputError

_BLOCK = 32  # frames evaluated at a time
_DIGITS = 4


def write_sequence(character: Character, path: str | Path) -> None:
    """Write every frame of every clip as a mesh file.

    path  a name with #### for the frame number, a name without (then `_####` is added), or a
          folder, which ends in a slash (then `CLIP_####.obj`)

    A character without clips is one file, its rest shape. Files appear when all are complete. A
    folder that has other frames of the same name is refused: they would be read as one sequence.
    """
    is_folder = str(path).endswith(("/", os.sep))
    pattern = Path(path) / "####.obj" if is_folder else Path(path)
    suffix = pattern.suffix.lower()
    if suffix not in (".obj", ".ply"):
        raise FileError(f"{path}: expected a file that ends in .obj or .ply, or a folder")
    plan = list(_plan(character, pattern, is_folder))
    for folder, name, numbers, _ in plan:
        _refuse_other_frames(folder, name, numbers)
    parent = next(p for p in [pattern.parent, *pattern.parent.parents] if p.exists())
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=".understudy-") as draft:
            written = []
            for k, (folder, name, numbers, clip) in enumerate(plan):
                place = Path(draft) / str(k)
                place.mkdir()
                files = [_named(name, number) for number in numbers]
                for file in _write_frames(character, clip, place, files, suffix):
                    written.append((place / file, folder / file))
            for source, target in written:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(source, target)
    except OSError as problem:
        raise FileError(f"{path}: cannot be written: {problem.strerror or problem}") from problem


def _plan(
    character: Character, pattern: Path, is_folder: bool
) -> Iterator[tuple[Path, str, list[int | None], CharacterClip | None]]:
    """Give for each clip its folder, the pattern of its files, its frame numbers and the clip."""
    clips = character.clips
    if not clips:
        name = file_name(character.name) + pattern.suffix if is_folder else pattern.name
        yield pattern.parent, re.sub(r"[._-]*#+", "", name), [None], None
        return
    for clip in clips:
        folder = pattern.parent / file_name(clip.name) if len(clips) > 1 else pattern.parent
        name = f"{file_name(clip.name)}_{'#' * _DIGITS}.obj" if is_folder else pattern.name
        if "#" not in name:
            name = f"{pattern.stem}_{'#' * _DIGITS}{pattern.suffix}"
        # A minus sign is not part of a number in a file name.
        start = max(clip.start_frame, 0)
        yield folder, name, list(range(start, start + clip.frame_count)), clip


def _write_frames(
    character: Character, clip: CharacterClip | None, folder: Path, files: list[str], suffix: str
) -> list[str]:
    """Write the frames of a clip, or the rest shape, to a folder; return the files' names."""
    mesh = character.mesh
    carried = None
    if mesh.corner_normals is not None:
        carried = CornerNormals(
            mesh.vertices, mesh.polygon_sizes, mesh.polygon_vertices, mesh.corner_normals
        )
    library = ""
    names = list(files)
    if suffix == ".obj":
        if mesh.materials:
            library = f"{re.sub(r'[._-]*[0-9]*$', '', Path(files[0]).stem) or 'frame'}.mtl"
            names.append(library)
            with atomic_write(folder / library) as draft:
                draft.write_text(_material_library(mesh), encoding="utf-8")
        text = ObjText(mesh, carried is not None, library)
    for file, vertices in zip(files, _frames(character, clip)):
        normals = None if carried is None else carried.at(vertices)
        if suffix == ".obj":
            text.write(folder / file, vertices, normals)
        else:
            smooth = None if normals is None else _vertex_mean(mesh, normals)
            write_ply(folder / file, mesh, vertices, normals=smooth)
    return names


def _frames(character: Character, clip: CharacterClip | None) -> Iterator[np.ndarray]:
    """Give the vertices (V,3) of each frame."""
    if clip is None:
        yield character.mesh.vertices
        return
    if clip.vertices is not None:
        yield from clip.vertices
        return
    for start in range(0, clip.frame_count, _BLOCK):
        block = slice(start, start + _BLOCK)
        yield from character.evaluate(clip.world_from_bone[block], clip.shape_weights[block])


def _vertex_mean(mesh: Mesh, normals: np.ndarray) -> np.ndarray:
    """Return the mean of the corners' normals at each vertex, (V,3): PLY has no corner normals."""
    total = np.zeros((mesh.vertex_count, 3))
    np.add.at(total, mesh.polygon_vertices, normals)
    length = np.linalg.norm(total, axis=1, keepdims=True)
    up = np.array([0.0, 1.0, 0.0])
    return np.divide(total, length, out=np.tile(up, (len(total), 1)), where=length > 0)


def _material_library(mesh: Mesh) -> str:
    """Return a `.mtl` file of grey materials."""
    grey = "Kd 0.8 0.8 0.8"
    return "".join(f"newmtl {' '.join(name.split())}\n{grey}\n" for name in mesh.materials)


def _named(pattern: str, number: int | None) -> str:
    """Return the name of one frame's file.

    >>> _named("walk_###.obj", 7)
    'walk_007.obj'
    """
    if number is None:
        return pattern
    return re.sub(r"#+", lambda found: f"{number:0{len(found[0])}d}", pattern, count=1)


def file_name(name: str) -> str:
    """Return a name that every file system takes."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "clip"


def _refuse_other_frames(folder: Path, pattern: str, numbers: list[int | None]) -> None:
    """Raise if a folder has frames of the same pattern that would not be overwritten."""
    if not folder.is_dir() or numbers == [None]:
        return
    before, after = re.split(r"#+", pattern, maxsplit=1)
    ours = {_named(pattern, number) for number in numbers}
    for file in sorted(folder.iterdir()):
        inner = file.name.removeprefix(before).removesuffix(after)
        same = file.name.startswith(before) and file.name.endswith(after) and inner.isdigit()
        if same and file.name not in ours:
            raise InputError(
                f"{folder}: has {file.name}, which is no frame of this clip and would be read with "
                "it; remove it or choose another folder"
            )
