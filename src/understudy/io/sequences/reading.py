"""Mesh sequences: one mesh in many shapes, read into `Poses` without bones.

A sequence is a file with clips, such as a `.npz` (see `understudy.io.npz`), or mesh files such as
`.obj` or `.ply`, one per frame. `understudy.io.mesh_clips` checks what was read.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.io.format import AS_IT_IS, Format, ReadOptions, Source
from understudy.io.mesh_clips import FrameData, MeshClip, frames_array, join_clips, need_same_mesh
from understudy.io.numbers import of_file
from understudy.io.sequences.obj import read_obj, read_obj_vertices
from understudy.io.sequences.ply import read_ply, read_ply_vertices
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

# By suffix: the function that reads a whole mesh, and the one that reads its positions.
_READERS: dict[str, tuple[Callable[[Source], Mesh], Callable[[Source], FrameData]]] = {
    ".obj": (read_obj, read_obj_vertices),
    ".ply": (read_ply, read_ply_vertices),
}
MESH_SUFFIXES = tuple(_READERS)


def read_mesh(path: Source, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT) -> Mesh:
    """Return the mesh of an `.obj` or `.ply` file."""
    return _READERS[Path(path).suffix.lower()][0](path)


def read_frame(
    path: Source, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> FrameData:
    """Return the positions of an `.obj` or `.ply` file."""
    return _READERS[Path(path).suffix.lower()][1](path)


def read_sequence(
    sources: Sequence[Source],
    format_of: Callable[[Path], Format | None],
    options: ReadOptions = AS_IT_IS,
    progress: Progress = SILENT,
) -> Poses:
    """Return a mesh sequence as `Poses`; several sources become one clip each, in their order.

    sources    files with clips, folders of mesh files, patterns such as "walk/*.obj", or several of
               these. Mesh files named one by one are one clip per folder, so a pattern that the
               shell expands means the same
    format_of  returns the format of a file with clips or with one mesh; None: it is neither
    options    `rest` is the shape at rest. By default that of the first clip
    """
    if not sources:
        raise InputError(
            "sequence: nothing to read; give a .npz, a folder or a pattern of .obj or .ply files"
        )
    plans = _plans(sources, format_of)
    with progress.task("reading", len(plans)) as bar:
        clips: list[MeshClip] = []
        for known, files in plans:
            if known.read_clips is not None:
                clips += known.read_clips(files[0], options, progress)
            else:
                clips.append(_read_frames(known, files, options, progress))
            bar.advance()
    first = clips[0]
    for clip in clips[1:]:
        need_same_mesh(clip.mesh, first.mesh, f"clip {clip.name!r}", f"clip {first.name!r}")
    mesh = first.mesh
    if options.rest_mesh is not None:
        need_same_mesh(options.rest_mesh, mesh, "the rest shape", f"clip {first.name!r}")
        # Normals of the first frame are not those of another shape.
        mesh = replace(mesh, vertices=options.rest_mesh.vertices, corner_normals=None)
    return join_clips(clips, mesh)


def sequence_from_arrays(
    vertices: npt.ArrayLike,
    faces: npt.ArrayLike,
    rest: npt.ArrayLike | None = None,
    name: str = "sequence",
    frame_rate: float | None = None,
) -> Poses:
    """Return plain arrays as a checked sequence.

    vertices    (T,V,3)
    faces       (F,3) or (F,4), vertex indices
    rest        (V,3), by default the first frame
    name        for reports
    frame_rate  frames per second, or None: unknown

    >>> square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    >>> sequence_from_arrays([square, 2 * square], [[0, 1, 2, 3]]).pose_count
    2
    """
    frames = frames_array(vertices, f"vertices of {name!r}")
    mesh = Mesh.from_faces(frames[0] if rest is None else rest, faces, up_axis="unknown")
    places = [f"frame {k} of {name!r}" for k in range(len(frames))]
    return join_clips([MeshClip(name, mesh, frames, places, frame_rate)], mesh, name)


def natural_key(name: str) -> tuple:
    """Return a sort key that puts frame 2 before frame 10.

    >>> sorted(["walk10.obj", "walk2.obj", "walk1.obj"], key=natural_key)
    ['walk1.obj', 'walk2.obj', 'walk10.obj']
    """
    return tuple(
        (0, int(part), "") if part.isdecimal() else (1, 0, part.lower())
        for part in re.split(r"(\d+)", name)
        if part
    )


def frame_numbers(names: Sequence[str]) -> list[int] | None:
    """Return the frame number in each file name: the one number that varies; None: there is none.

    A number that is missing or occurs twice is an `InputError`. Numbers may advance in steps.

    >>> frame_numbers(["s1_walk_0008", "s1_walk_0009", "s1_walk_0010"])
    [8, 9, 10]
    """
    split = [re.split(r"(\d+)", name) for name in names]
    if len({tuple(parts[::2]) for parts in split}) > 1:  # text between the numbers differs
        return None
    columns = [[int(parts[k]) for parts in split] for k in range(1, len(split[0]), 2)]
    varying = [column for column in columns if len(set(column)) > 1]
    if len(names) == 1 and columns:
        return columns[-1]
    if len(varying) != 1:
        if columns and not varying:
            raise InputError(f"frame number {columns[-1][0]} occurs twice: {', '.join(names[:2])}")
        return None
    numbers = varying[0]
    steps = [after - before for before, after in zip(numbers, numbers[1:])]
    least = min(steps)
    for before, step, name in zip(numbers, steps, names):
        if step == 0:
            raise InputError(f"frame number {before} occurs twice, the first time as {name}")
        if step > least > 0:
            missing = range(before + least, before + step, least)
            last = f" to {missing[-1]}" if len(missing) > 1 else ""
            raise InputError(
                f"frame {missing[0]}{last} is missing after {name}; export it, or give the parts "
                "before and after it as clips of their own"
            )
    return numbers


def _plans(
    sources: Sequence[Source], format_of: Callable[[Path], Format | None]
) -> list[tuple[Format, list[Path]]]:
    """Return what to read for each clip: the format, and one file or the frames in order."""
    plans: list[tuple[Format, list[Path]]] = []
    single: dict[Path, list[Path]] = {}
    for source in sources:
        path = Path(source)
        if path.is_dir():
            plans.append(_mesh_files(path.iterdir(), format_of, f"{path}: the folder"))
        elif path.exists():
            known = format_of(path)
            if known is None:
                raise FileError(
                    f"{path}: expected a .npz, .obj or .ply file, or a folder of .obj or .ply files"
                )
            if known.read_clips is not None:
                plans.append((known, [path]))
                continue
            if path.parent not in single:
                single[path.parent] = []
                plans.append((known, single[path.parent]))
            single[path.parent].append(path)
        elif glob.has_magic(str(source)):
            matches = matching_files(source)
            found = [(known, match) for match in matches if (known := format_of(match))]
            packed = [(known, [match]) for known, match in found if known.read_clips is not None]
            what = f"{source}: the pattern"
            plans += packed if packed else [_mesh_files(matches, format_of, what)]
        else:
            raise FileError(f"{path}: no such file or folder")
    for plan in single.values():
        plan[:] = _mesh_files(plan, format_of, f"{plan[0].parent}: the list")[1]
    return plans


def matching_files(pattern: Source) -> list[Path]:
    """Return the files that match a pattern such as "walk/*.obj", in natural order."""
    matches = sorted(glob.glob(str(pattern), recursive=True), key=natural_key)
    if not matches:
        raise FileError(f"{pattern}: no file matches this pattern")
    return [Path(match) for match in matches]


def _mesh_files(
    paths: Iterable[Path], format_of: Callable[[Path], Format | None], what: str
) -> tuple[Format, list[Path]]:
    """Return the mesh files among `paths` in natural order; they must be of one kind."""
    kinds: dict[str, list[Path]] = {}
    for path in paths:
        if path.is_file():
            kinds.setdefault(path.suffix.lower(), []).append(path)
    found = [
        (known, files)
        for files in kinds.values()
        if (known := format_of(files[0])) is not None and known.is_one_frame
    ]
    if not found:
        raise FileError(f"{what} holds no .obj or .ply files")
    if len(found) > 1:
        both = " and ".join(sorted(files[0].suffix.lower() for _, files in found))
        raise FileError(
            f"{what} holds both {both} files; give a pattern that picks one kind, such as '*.obj'"
        )
    known, files = found[0]
    return known, sorted(files, key=lambda path: natural_key(path.name))


def _read_frames(
    known: Format, files: list[Path], options: ReadOptions, progress: Progress
) -> MeshClip:
    """Return mesh files, one per frame, as a clip.

    Polygons are read once, and again only if a file writes them differently.
    """
    read_mesh = known.read_mesh
    assert read_mesh is not None  # it is a format of one frame

    def positions(file: Path) -> FrameData:
        if known.read_frame is not None:
            return known.read_frame(file, options, progress)
        whole = read_mesh(file, options, progress)
        polygons = whole.polygon_sizes.tobytes() + whole.polygon_vertices.tobytes()
        return FrameData(whole.vertices, polygons)

    with of_file(files[0].parent):
        numbers = frame_numbers([file.stem for file in files])
    mesh = read_mesh(files[0], options, progress)
    reference = positions(files[0])
    vertices = np.empty((len(files), mesh.vertex_count, 3), np.float32)
    for number, file in enumerate(files):
        frame = positions(file) if number else reference
        if len(frame.vertices) != mesh.vertex_count:
            raise FileError(
                f"{file}: has {len(frame.vertices)} vertices, {files[0].name} has "
                f"{mesh.vertex_count}; every frame must be the same mesh, vertex by vertex"
            )
        if frame.polygons != reference.polygons:
            need_same_mesh(read_mesh(file, options, progress), mesh, str(file), files[0].name)
        with np.errstate(over="ignore"):  # infinite positions are found with their frame
            vertices[number] = frame.vertices
    folder = files[0].parent.resolve().name
    name = re.sub(r"[\W_]*\d+$", "", files[0].stem) or folder or "sequence"
    places = [str(file) for file in files]
    return MeshClip(name, mesh, vertices, places, start_frame=numbers[0] if numbers else 0)
