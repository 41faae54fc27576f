"""Mesh sequences: one mesh in many shapes, read from `.npz`, or from `.obj` or `.ply` files that
are a frame each, into `Poses` without bones.

Sequences come from everywhere, so everything that would silently spoil a fit is refused here,
naming the file and the frame: another number or order of vertices, clips of different meshes, mixed
units, NaN, a mesh squashed into a point.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.clip import ClipSpan
from understudy.core.errors import FileError, InputError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.io.atomic_write import atomic_write
from understudy.io.numbers import UNREADABLE
from understudy.io.obj import read_obj, read_obj_vertices
from understudy.io.ply import read_ply, read_ply_vertices

_READERS = {".obj": (read_obj, read_obj_vertices), ".ply": (read_ply, read_ply_vertices)}
# Sizes that differ by one of these (to within a third) are the same thing in other units: decimal
# steps, inches, feet.
_UNIT_FACTORS = (10.0, 100.0, 1000.0, 12.0, 25.4, 30.48, 39.37, 304.8)
_ABOUT = 1.3


@dataclass(frozen=True, eq=False)
class _Clip:
    """One clip as it was read: `places` names each frame for the errors."""

    name: str
    mesh: Mesh
    vertices: np.ndarray
    places: Sequence[str]
    has_rest: bool
    frame_rate: float | None = None
    start_frame: int = 0


def read_sequence(
    sources: str | Path | Iterable[str | Path],
    rest: str | Path | None = None,
    name: str | None = None,
    progress: Progress = SILENT,
) -> Poses:
    """A mesh sequence as `Poses`, one after the other where there are several.

    sources  a `.npz` (see `write_npz`), a folder of `.obj` or `.ply` files, a pattern such as
             "walk/*.obj", or several of these: a clip each. Mesh files named one by one count as
             one clip per folder, so a pattern that the shell has spelled out means the same.
    rest     the shape at rest: an `.obj`, `.ply` or `.npz`. By default the `rest` of the first
             `.npz`, else the first frame
    name     what reports call it; by default the clips' names
    """
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    if not given:
        raise InputError(
            "sequence: nothing to read; give a .npz, a folder or a pattern of .obj or .ply files"
        )
    plans = _plans(given)
    with progress.task("reading", len(plans)) as bar:
        clips = []
        for plan in plans:
            clips.append(_read_npz(plan) if isinstance(plan, Path) else _read_frames(plan))
            bar.advance()
    first = clips[0]
    for clip in clips[1:]:
        _same_mesh(clip.mesh, first.mesh, f"clip {clip.name!r}", f"clip {first.name!r}")
    mesh = first.mesh
    if rest is not None:
        shape = (
            _read_npz(Path(rest), rest_only=True).mesh
            if Path(rest).suffix.lower() == ".npz"
            else _read_mesh(Path(rest))
        )
        _same_mesh(shape, mesh, f"the rest shape {rest}", f"clip {first.name!r}")
        mesh = replace(mesh, vertices=shape.vertices)
    return _joined(clips, mesh, name)


def sequence_from_arrays(
    vertices, faces, rest=None, name: str = "sequence", frame_rate: float | None = None
) -> Poses:
    """Plain arrays as a checked sequence: vertices (T,V,3), faces (M,3) or (M,4), rest (V,3) or, by
    default, the first frame.

    >>> square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    >>> sequence_from_arrays([square, 2 * square], [[0, 1, 2, 3]]).pose_count
    2
    """
    frames = _frames_array(vertices, f"vertices of {name!r}")
    mesh = Mesh.from_faces(frames[0] if rest is None else rest, faces)
    places = [f"frame {k} of {name!r}" for k in range(len(frames))]
    return _joined([_Clip(name, mesh, frames, places, rest is not None, frame_rate)], mesh, name)


def write_npz(path: str | Path, poses: Poses) -> None:
    """Write a sequence as `.npz`: `vertices (T,V,3)`, `rest (V,3)`, and `faces (M,n)` or, for
    polygons of mixed sizes, `polygon_sizes` and `polygon_vertices`; `corner_uvs`, `frame_rate` and
    `start_frame` where they are known. One clip: several go into a file each.
    """
    if len(poses.spans) > 1:
        raise InputError(
            f"{poses.name!r} has {len(poses.spans)} clips; write each to a file of its own"
        )
    mesh = poses.mesh
    arrays = {"vertices": poses.read_poses(0, poses.pose_count), "rest": mesh.vertices}
    if len(np.unique(mesh.polygon_sizes)) == 1:
        arrays["faces"] = mesh.polygon_vertices.reshape(-1, int(mesh.polygon_sizes[0]))
    else:
        arrays |= {"polygon_sizes": mesh.polygon_sizes, "polygon_vertices": mesh.polygon_vertices}
    span = (
        poses.spans[0] if poses.spans else ClipSpan(poses.name, poses.pose_count, poses.frame_rate)
    )
    if mesh.corner_uvs is not None:
        arrays["corner_uvs"] = mesh.corner_uvs
    if span.frame_rate is not None:
        arrays["frame_rate"] = np.float64(span.frame_rate)
    arrays["start_frame"] = np.int64(span.start_frame)
    with atomic_write(path) as part, open(part, "wb") as file:
        np.savez_compressed(file, **arrays)


def natural_key(name: str) -> tuple:
    """Sorts names the way people count: frame 2 before frame 10.

    >>> sorted(["walk10.obj", "walk2.obj", "walk1.obj"], key=natural_key)
    ['walk1.obj', 'walk2.obj', 'walk10.obj']
    """
    return tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part.lower())
        for part in re.split(r"(\d+)", name)
        if part
    )


def _plans(given: list[str | Path]) -> list[Path | list[Path]]:
    """What to read for each clip: the path of a `.npz`, or a list of mesh files in order."""
    plans: list[Path | list[Path]] = []
    single: dict[Path, list[Path]] = {}
    for source in given:
        path = Path(source)
        if path.is_dir():
            plans.append(_mesh_files(path.iterdir(), f"{path}: the folder"))
        elif path.suffix.lower() == ".npz" and path.exists():
            plans.append(path)
        elif path.exists():
            if path.suffix.lower() not in _READERS:
                raise FileError(
                    f"{path}: expected a .npz, .obj or .ply file, or a folder of .obj or .ply files"
                )
            if path.parent not in single:
                single[path.parent] = []
                plans.append(single[path.parent])
            single[path.parent].append(path)
        elif glob.has_magic(str(source)):
            matches = [Path(match) for match in glob.glob(str(source), recursive=True)]
            if not matches:
                raise FileError(f"{source}: no file matches this pattern")
            packed = sorted(
                (m for m in matches if m.suffix.lower() == ".npz"),
                key=lambda m: natural_key(str(m)),
            )
            plans.extend(packed if packed else [_mesh_files(matches, f"{source}: the pattern")])
        else:
            raise FileError(f"{path}: no such file or folder")
    for plan in single.values():
        plan[:] = _mesh_files(plan, f"{plan[0].parent}: the list")
    return plans


def _mesh_files(paths: Iterable[Path], what: str) -> list[Path]:
    kinds: dict[str, list[Path]] = {}
    for path in paths:
        if path.suffix.lower() in _READERS and path.is_file():
            kinds.setdefault(path.suffix.lower(), []).append(path)
    if not kinds:
        raise FileError(f"{what} holds no .obj or .ply files")
    if len(kinds) > 1:
        raise FileError(
            f"{what} holds both .obj and .ply files; give a pattern that picks one kind, such as "
            f"'*.obj'"
        )
    return sorted(next(iter(kinds.values())), key=lambda path: natural_key(path.name))


def _read_mesh(path: Path) -> Mesh:
    if path.suffix.lower() not in _READERS:
        raise FileError(f"{path}: expected a .npz, .obj or .ply file")
    return _READERS[path.suffix.lower()][0](path)


def _read_frames(files: list[Path]) -> _Clip:
    """A list of mesh files, a frame each. Polygons are read once, and again only where a file's
    differ in how they are written.
    """
    whole, positions = _READERS[files[0].suffix.lower()]
    mesh = whole(files[0])
    reference = positions(files[0])
    vertices = np.empty((len(files), mesh.vertex_count, 3), np.float32)
    for number, file in enumerate(files):
        frame = positions(file) if number else reference
        if len(frame.vertices) != mesh.vertex_count:
            raise FileError(
                f"{file}: has {len(frame.vertices)} vertices, {files[0].name} has "
                f"{mesh.vertex_count}; "
                "every frame must be the same mesh, vertex by vertex"
            )
        if frame.faces != reference.faces:
            _same_mesh(whole(file), mesh, str(file), files[0].name)
        vertices[number] = frame.vertices
    numbers = re.findall(r"\d+", files[0].stem)
    folder = files[0].parent.resolve().name
    name = re.sub(r"[\W_]*\d+$", "", files[0].stem) or folder or "sequence"
    return _Clip(
        name,
        mesh,
        vertices,
        [str(file) for file in files],
        False,
        start_frame=int(numbers[-1]) if numbers else 0,
    )


def _read_npz(path: Path, rest_only: bool = False) -> _Clip:
    """`rest_only`: the file may hold just a mesh at rest (`rest` or `vertices (V,3)`)."""
    try:
        with open(path, "rb") as file:
            opened = np.load(file, allow_pickle=False)
            if not isinstance(opened, np.lib.npyio.NpzFile):
                raise FileError(f"{path}: not a .npz file")
            with opened:
                arrays = {key: opened[key] for key in opened.files if key in _NPZ_KEYS}
                found = opened.files
    except FileError:
        raise
    except UNREADABLE as problem:
        raise FileError(f"{path}: damaged, truncated or not a .npz file: {problem}") from problem
    if rest_only and "rest" not in arrays and arrays.get("vertices", np.zeros(0)).ndim == 2:
        arrays["rest"] = arrays["vertices"]
    if "vertices" not in arrays and not (rest_only and "rest" in arrays):
        raise FileError(
            f"{path}: holds no array called vertices (F,N,3); found: "
            f"{', '.join(found) or 'nothing'}"
        )
    if "faces" not in arrays and not {"polygon_sizes", "polygon_vertices"} <= arrays.keys():
        raise FileError(
            f"{path}: holds no faces (M,3); a sequence without faces cannot be fitted. Found: "
            f"{', '.join(found)}"
        )
    try:
        frames = (
            arrays["rest"][None]
            if rest_only and "rest" in arrays
            else _frames_array(arrays["vertices"], "vertices")
        )
        rest = arrays.get("rest", frames[0])
        uvs = arrays.get("corner_uvs")
        if "faces" in arrays:
            mesh = Mesh.from_faces(rest, arrays["faces"], corner_uvs=uvs)
        else:
            mesh = Mesh(rest, arrays["polygon_sizes"], arrays["polygon_vertices"], corner_uvs=uvs)
        checks.same_count(frames.shape[1], mesh.vertex_count, "vertices", "each frame", "rest")
        rate = float(arrays["frame_rate"]) if "frame_rate" in arrays else None
        start = int(arrays["start_frame"]) if "start_frame" in arrays else 0
    except (InputError, TypeError, ValueError) as problem:
        raise FileError(f"{path}: {problem}") from problem
    return _Clip(
        path.stem,
        mesh,
        frames,
        [f"{path}, frame {k}" for k in range(len(frames))],
        "rest" in arrays,
        rate,
        start,
    )


_NPZ_KEYS = (
    "vertices",
    "faces",
    "rest",
    "polygon_sizes",
    "polygon_vertices",
    "corner_uvs",
    "frame_rate",
    "start_frame",
)


def _frames_array(value, name: str) -> np.ndarray:
    """(T,V,3) float32, NaN and all: `_joined` says in which frame they are."""
    try:
        frames = np.ascontiguousarray(value, np.float32)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name}: cannot be read as numbers: {problem}") from problem
    checks.shape_of(frames, name, (None, None, 3))
    if not frames.size:
        raise InputError(f"{name}: holds no frames or no vertices, its shape is {frames.shape}")
    return frames


def _same_mesh(mesh: Mesh, other: Mesh, name: str, other_name: str) -> None:
    checks.same_count(mesh.vertex_count, other.vertex_count, "vertices", name, other_name)
    same = np.array_equal(mesh.polygon_sizes, other.polygon_sizes) and np.array_equal(
        mesh.polygon_vertices, other.polygon_vertices
    )
    if not same and not _same_polygon_set(mesh, other):
        raise InputError(
            f"{name} has other polygons than {other_name} ({len(mesh.polygon_sizes)} and "
            f"{len(other.polygon_sizes)}): "
            "the order of the vertices or the mesh itself has changed; export every frame from the "
            "same mesh"
        )


def _same_polygon_set(mesh: Mesh, other: Mesh) -> bool:
    """The same polygons listed in another order, or from another first corner: harmless, the
    vertices still stand for the same points.
    """
    if not np.array_equal(np.sort(mesh.polygon_sizes), np.sort(other.polygon_sizes)):
        return False
    return all(
        np.array_equal(_listed(mesh, size), _listed(other, size))
        for size in np.unique(mesh.polygon_sizes).tolist()
    )


def _listed(mesh: Mesh, size: int) -> np.ndarray:
    """(n,size) the polygons of one size, each from its lowest vertex on, in ascending order."""
    starts = (np.cumsum(mesh.polygon_sizes) - mesh.polygon_sizes)[mesh.polygon_sizes == size]
    polygons = mesh.polygon_vertices[starts[:, None] + np.arange(size)]
    turned = np.take_along_axis(
        polygons, (polygons.argmin(axis=1)[:, None] + np.arange(size)) % size, axis=1
    )
    return turned[np.lexsort(turned.T[::-1])]


def _joined(clips: Sequence[_Clip], mesh: Mesh, name: str | None) -> Poses:
    """Several clips of one mesh as one sequence, checked."""
    for clip in clips:
        for place, finite in zip(clip.places, np.isfinite(clip.vertices).all(axis=(1, 2))):
            if not finite:
                raise InputError(
                    f"{place}: holds NaN or infinite positions; remove or repair that frame"
                )
    _refuse_degenerate(mesh)
    taken: set[str] = set()
    spans = []
    for clip in clips:
        _check_clip(clip, mesh)
        label = next(
            c
            for c in (clip.name, *(f"{clip.name}_{k}" for k in range(2, len(clips) + 2)))
            if c not in taken
        )
        taken.add(label)
        spans.append(ClipSpan(label, len(clip.vertices), clip.frame_rate, clip.start_frame))
    sizes = [float(np.median(_diagonals(clip.vertices))) for clip in clips]
    for clip, size in zip(clips[1:], sizes[1:]):
        _refuse_units(size, sizes[0], f"clip {clip.name!r}", f"clip {clips[0].name!r}")
    vertices = (
        clips[0].vertices if len(clips) == 1 else np.concatenate([clip.vertices for clip in clips])
    )
    rates = {clip.frame_rate for clip in clips}
    return Poses(
        mesh,
        vertices,
        frame_rate=rates.pop() if len(rates) == 1 else None,
        name=name or "+".join(span.name for span in spans),
        spans=tuple(spans),
    )


def _refuse_degenerate(mesh: Mesh) -> None:
    if not len(mesh.polygon_sizes):
        raise InputError("the mesh has no polygons; a sequence without faces cannot be fitted")
    extent = np.ptp(mesh.vertices.astype(np.float64), axis=0)
    if not extent.max() > 0:
        raise InputError("the mesh at rest is degenerate: all its vertices lie in one point")
    corners = mesh.vertices.astype(np.float64)[mesh.triangles]
    area = (
        np.linalg.norm(
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
        ).sum()
        / 2
    )
    if area <= 1e-10 * extent.max() ** 2:
        raise InputError(
            "the mesh at rest is degenerate: its polygons have no area (all its vertices lie on "
            "one line?)"
        )


def _check_clip(clip: _Clip, mesh: Mesh) -> None:
    """Sizes frame by frame and against the rest shape, and vertices that changed places."""
    diagonals = _diagonals(clip.vertices)
    flat = np.flatnonzero(~(diagonals > 0))
    if flat.size:
        raise InputError(
            f"{clip.places[int(flat[0])]}: degenerate: all its vertices lie in one point"
        )
    rest = float(_diagonals(mesh.vertices[None])[0])
    _refuse_units(float(np.median(diagonals)), rest, f"clip {clip.name!r}", "the rest shape")
    for number in range(1, len(diagonals)):
        _refuse_units(
            diagonals[number], diagonals[number - 1], clip.places[number], "the frame before"
        )
    # Shuffled vertices keep the outline but make every edge a random jump across the mesh.
    edges = mesh.edges
    if not len(edges):
        return
    at_rest = _edge_spread(mesh.vertices[None], edges)[0]
    block = max(1, 4_000_000 // len(edges))
    for start in range(0, len(clip.vertices), block):
        spread = _edge_spread(clip.vertices[start : start + block], edges)
        wrong = np.flatnonzero((spread > 0.7) & (spread > 4 * at_rest))
        if wrong.size:
            raise InputError(
                f"{clip.places[start + int(wrong[0])]}: the order of its vertices differs from the "
                f"rest shape's "
                "(its edges run criss-cross through the mesh); export every frame with the same "
                "vertex order"
            )


def _diagonals(vertices: np.ndarray) -> np.ndarray:
    """(T,) diagonal of each frame's bounding box."""
    return np.linalg.norm(vertices.max(axis=1).astype(np.float64) - vertices.min(axis=1), axis=1)


def _edge_spread(vertices: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """(T,) mean edge length over the vertices' root-mean-square distance from their centre: about
    1.3 if the edges were random pairs.
    """
    length = np.linalg.norm(vertices[:, edges[:, 0]] - vertices[:, edges[:, 1]], axis=2).mean(
        axis=1
    )
    return length / np.sqrt(vertices.var(axis=1, dtype=np.float64).sum(axis=1))


def _refuse_units(size: float, other: float, name: str, other_name: str) -> None:
    ratio = size / other
    large = max(ratio, 1 / ratio)
    if any(factor / _ABOUT < large < factor * _ABOUT for factor in _UNIT_FACTORS):
        nearest = min(_UNIT_FACTORS, key=lambda factor: abs(np.log(large / factor)))
        which = "larger" if ratio > 1 else "smaller"
        raise InputError(
            f"{name} is about {nearest:g} times {which} than {other_name} ({size:.4g} against "
            f"{other:.4g}): "
            "this looks like mixed units; bring all of it to one unit first"
        )
