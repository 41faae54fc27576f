"""Recorded poses: a `.npz` of plain arrays, with bones and controls where they are known.

The table of `docs/formats.md` has every array with its shape, meaning and default. Only `vertices`
and the polygons are required. A file without bones and controls is a mesh sequence. Bones need
`world_from_bone` and `parents`. Matrices are of the column-vector convention: see
`understudy.io.npz.bone_matrices`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.character import Character
from understudy.core.clip import ClipSpan
from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.io.atomic_write import atomic_write
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.mesh_clips import MeshClip, frames_array, join_clips, need_same_mesh
from understudy.io.npz.archive import (
    ATTRIBUTE_ARRAYS,
    Arrays,
    array_names,
    attribute_arrays,
    mesh_attributes,
    number,
    read_arrays,
    refuse_misspelled,
    texts,
)
from understudy.io.npz.bone_matrices import as_3x4, check_bones, nearest_pose
from understudy.io.numbers import of_file
from understudy.io.vertex_cache import VertexCache
from understudy.system import checks
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

MESH_ARRAYS = (
    "vertices",
    "faces",
    "polygon_sizes",
    "polygon_vertices",
    "rest",
    "frame_rate",
    "start_frame",
    *ATTRIBUTE_ARRAYS,
)
CLIP_ARRAYS = ("clip_names", "clip_frames", "clip_frame_rates", "clip_start_frames")
BONE_ARRAYS = ("world_from_bone", "rest_world_from_bone", "parents", "bone_names")
CONTROL_ARRAYS = (
    "controls",
    "control_names",
    "control_min",
    "control_max",
    "control_rest",
    "control_numeric",
)
_DRIVERS = (*BONE_ARRAYS, *CONTROL_ARRAYS)
_ALL = (*MESH_ARRAYS, *CLIP_ARRAYS, *_DRIVERS)


def has_drivers(path: str | Path) -> bool:
    """Return whether a `.npz` has arrays of bones or controls; else it is a mesh sequence."""
    names = array_names(path)
    refuse_misspelled(path, names, _ALL)
    return any(name in _DRIVERS for name in names)


def read_recorded_poses(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Poses:
    """Return the poses of a `.npz`, with bones and controls where it has them.

    options  `rest` is the mesh at rest in place of the file's

    Every array is checked. `FileError` names the one that is missing, unknown or has a wrong shape.
    """
    names = array_names(path)
    refuse_misspelled(path, names, _ALL)
    unknown = sorted(set(names) - set(_ALL))
    if unknown:
        raise FileError(
            f"{path}: unknown array {unknown[0]!r}; recorded poses may have: {', '.join(_ALL)}"
        )
    arrays = read_arrays(path, _ALL)
    rest = options.rest_mesh
    if rest is not None:
        need_same_mesh(rest, read_npz_mesh(path), "the rest shape", str(path))
        arrays["rest"] = rest.vertices
        arrays.pop("corner_normals", None)  # of another shape
    clip = _clip(path, arrays)
    with of_file(path):
        count = len(clip.vertices)
        skeleton = world_from_bone = None
        mesh = clip.mesh
        if any(name in arrays for name in BONE_ARRAYS):
            mesh, skeleton, world_from_bone = _bones(arrays, clip)
        spec = controls = None
        if any(name in arrays for name in CONTROL_ARRAYS):
            spec, controls = _controls(arrays, count)
        clips = _split(clip, arrays)
        bare = join_clips(clips, mesh, clips[0].name if len(clips) == 1 else clip.name)
        if skeleton is not None and world_from_bone is not None:
            rest_bones = skeleton.world_from_bone
            check_bones(mesh.vertices, clip.vertices, rest_bones, world_from_bone)
    return replace(
        bare,
        skeleton=skeleton,
        world_from_bone=world_from_bone,
        control_spec=spec,
        controls=controls,
    )


def read_npz_clips(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> list[MeshClip]:
    """Return the mesh sequence of a `.npz` as its clips; arrays of other names are ignored."""
    refuse_misspelled(path, array_names(path), _ALL)
    arrays = read_arrays(path, (*MESH_ARRAYS, *CLIP_ARRAYS))
    clip = _clip(path, arrays)
    with of_file(path):
        return _split(clip, arrays)


def read_npz_cache(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> VertexCache:
    """Return the positions of a `.npz`, which needs no polygons for that."""
    found = read_arrays(path, ("vertices", "frame_rate", "start_frame"))
    if "vertices" not in found:
        raise FileError(f"{path}: expected an array 'vertices' of shape (frames, vertices, 3)")
    with of_file(path):
        vertices = checks.array(found["vertices"], "vertices", (None, None, 3))
        start, rate = number(found, "start_frame"), number(found, "frame_rate")
        frames = (start or 0.0) + np.arange(len(vertices), dtype=np.float64)
        return VertexCache(vertices, frames, rate, Path(path).stem, start is not None)


def read_npz_mesh(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Mesh:
    """Return the mesh at rest of a `.npz`: its `rest`, or its `vertices` if they are (V,3)."""
    arrays = read_arrays(path, MESH_ARRAYS)
    if "rest" not in arrays and arrays.get("vertices", np.zeros(0)).ndim == 2:
        arrays["rest"] = arrays["vertices"]
    if "rest" in arrays:
        arrays["vertices"] = arrays["rest"][None]
    return _clip(path, arrays).mesh


def write_npz(character: Character, path: str | Path) -> None:
    """Write the clips of a character as recorded poses, with shape weights as controls."""
    poses = character.poses()
    if poses.pose_count < 2:
        raise InputError(f"{character.name!r} has no animation to record; bake a clip first")
    write_recorded_poses(poses, path)


def write_recorded_poses(poses: Poses, path: str | Path) -> None:
    """Write poses as a `.npz` that `read_recorded_poses` reads, whole or not at all.

    The units of controls are left out.
    """
    mesh = poses.mesh
    arrays: dict[str, Any] = {
        "vertices": poses.read_poses(0, poses.pose_count),
        "rest": mesh.vertices,
        **attribute_arrays(mesh),
    }
    if len(np.unique(mesh.polygon_sizes)) == 1:
        arrays["faces"] = mesh.polygon_vertices.reshape(-1, int(mesh.polygon_sizes[0]))
    else:
        arrays |= {"polygon_sizes": mesh.polygon_sizes, "polygon_vertices": mesh.polygon_vertices}
    spans = poses.spans or (ClipSpan(poses.name, poses.pose_count, poses.frame_rate),)
    if len({one.frame_rate for one in spans}) == 1 and spans[0].frame_rate is not None:
        arrays["frame_rate"] = spans[0].frame_rate
    arrays["start_frame"] = spans[0].start_frame
    if poses.spans:
        arrays |= {
            "clip_names": np.array([one.name for one in poses.spans], dtype=str),
            "clip_frames": np.array([one.frame_count for one in poses.spans]),
            "clip_frame_rates": np.array([one.frame_rate or 0.0 for one in poses.spans]),
            "clip_start_frames": np.array([one.start_frame for one in poses.spans]),
        }
    if poses.skeleton is not None:
        arrays |= {
            "world_from_bone": poses.world_from_bone,
            "rest_world_from_bone": poses.skeleton.world_from_bone,
            "parents": poses.skeleton.parents,
            "bone_names": np.array(poses.skeleton.names, dtype=str),
        }
    if poses.control_spec is not None:
        spec = poses.control_spec
        arrays |= {
            "controls": poses.controls,
            "control_names": np.array(spec.names, dtype=str),
            "control_min": spec.low,
            "control_max": spec.high,
            "control_rest": spec.rest,
            "control_numeric": spec.numeric,
        }
    with atomic_write(path) as part, open(part, "wb") as file:
        np.savez_compressed(file, **arrays)


def _clip(path: str | Path, arrays: Arrays) -> MeshClip:
    """Return the mesh and its frames; what is wrong with them is a `FileError`."""
    found = ", ".join(arrays) or "nothing"
    if "vertices" not in arrays:
        raise FileError(f"{path}: has no array called vertices (T,V,3); found: {found}")
    if "faces" not in arrays and not {"polygon_sizes", "polygon_vertices"} <= arrays.keys():
        raise FileError(
            f"{path}: has no faces (F,3); a sequence without faces cannot be fitted. Found: {found}"
        )
    with of_file(path):
        frames = frames_array(arrays["vertices"], "vertices")
        about = mesh_attributes(arrays)
        rest = arrays.get("rest", frames[0])
        if "faces" in arrays:
            mesh = Mesh.from_faces(rest, arrays["faces"], **about)
        else:
            mesh = Mesh(rest, arrays["polygon_sizes"], arrays["polygon_vertices"], **about)
        checks.same_count(frames.shape[1], mesh.vertex_count, "vertices", "each frame", "rest")
        rate = number(arrays, "frame_rate")
        if rate is not None:
            checks.between(rate, "frame_rate", above=0)
        start = number(arrays, "start_frame")
        if start is not None and not (abs(start) < 2**31 and start == int(start)):
            raise InputError(f"start_frame: expected a whole number, got {start!r}")
    name = Path(path).stem
    places = [f"{path}, frame {k}" for k in range(len(frames))]
    return MeshClip(name, mesh, frames, places, rate, int(start or 0))


def _split(clip: MeshClip, arrays: Arrays) -> list[MeshClip]:
    """Return the clips that a file consists of; `clip` itself if it does not say."""
    names = texts(arrays, "clip_names")
    if names is None:
        given = [name for name in CLIP_ARRAYS if name in arrays]
        if given:
            raise InputError(f"clip_names is missing: add it, or remove {given[0]}")
        return [clip]
    count, total = len(names), len(clip.vertices)
    if "clip_frames" not in arrays and count > 1:
        raise InputError("clip_frames is missing: add the number of poses of each clip")
    frames = arrays.get("clip_frames", np.array([total]))
    frames = checks.index(frames, "clip_frames", total + 1, (count,))
    have = int(frames.sum(dtype=np.int64))
    if have != total or (frames == 0).any():
        raise InputError(f"clip_frames add up to {have}, expected {total} poses, and none empty")
    rates = arrays.get("clip_frame_rates", np.full(count, clip.frame_rate or 0.0))
    rates = checks.array(rates, "clip_frame_rates", (count,), np.float64)
    if (rates < 0).any():
        raise InputError("clip_frame_rates: a rate is negative")
    starts = arrays.get("clip_start_frames", np.full(count, clip.start_frame))
    checks.shape_of(starts, "clip_start_frames", (count,))
    checks.kind_of(starts, "clip_start_frames", "i")
    checks.within(starts, "clip_start_frames", np.int32)
    ends = np.cumsum(frames)
    return [
        replace(
            clip,
            name=name,
            vertices=clip.vertices[end - length : end],
            places=clip.places[end - length : end],
            frame_rate=float(rate) or None,
            start_frame=int(start),
        )
        for name, length, end, rate, start in zip(names, frames, ends, rates, starts)
    ]


def _bones(arrays: Arrays, clip: MeshClip) -> tuple[Mesh, Skeleton, np.ndarray]:
    """Return the mesh at rest, the skeleton and world_from_bone (T,B,3,4)."""
    for name, meaning in (
        ("world_from_bone", "(T,B,3,4), the matrix of every bone in every pose"),
        ("parents", "(B,), the index of each bone's parent, -1 for a root"),
    ):
        if name not in arrays:
            given = ", ".join(n for n in BONE_ARRAYS if n in arrays)
            raise InputError(f"{name} is missing: add {name} {meaning}, or remove {given}")
    poses = len(clip.vertices)
    world = as_3x4(arrays["world_from_bone"], "world_from_bone", (poses, None))
    count = world.shape[1]
    mesh, rest_world = _rest_pose(arrays, clip, world)
    parents = arrays["parents"]
    if parents.dtype.kind not in "iu":
        raise InputError(f"parents: expected whole numbers, got {parents.dtype.name}")
    checks.shape_of(parents, "parents", (count,))
    names = texts(arrays, "bone_names", count) or tuple(f"bone{b}" for b in range(count))
    return mesh, Skeleton(names, parents, rest_world), world


def _rest_pose(arrays: Arrays, clip: MeshClip, world: np.ndarray) -> tuple[Mesh, np.ndarray]:
    """Return the mesh and the bones (B,3,4) at rest.

    Without both, the first pose is the rest pose. One of them alone must be that of a pose.
    """
    mesh, poses = clip.mesh, clip.vertices
    size = float(np.linalg.norm(np.ptp(mesh.vertices.astype(np.float64), axis=0)))
    if "rest_world_from_bone" not in arrays:
        pose, apart = nearest_pose(poses, mesh.vertices)
        if apart > 1e-4 * size:
            raise InputError(
                "rest_world_from_bone is missing, and rest is none of the poses; add the bones' "
                "matrices (B,3,4) at rest, or leave out both: then the first pose is the rest pose"
            )
        return mesh, world[pose if "rest" in arrays else 0]
    rest_world = as_3x4(arrays["rest_world_from_bone"], "rest_world_from_bone", (world.shape[1],))
    if "rest" in arrays:
        return mesh, rest_world
    pose, apart = nearest_pose(world, rest_world)
    if apart > 1e-4 * max(size, float(np.abs(rest_world).max())):
        raise InputError(
            "rest is missing, and no pose has its bones at rest_world_from_bone; add the mesh "
            "(V,3) at rest, or leave out both: then the first pose is the rest pose"
        )
    return replace(mesh, vertices=poses[pose]), rest_world


def _controls(arrays: Arrays, poses: int) -> tuple[ControlSpec, np.ndarray]:
    """Return the controls' names and ranges, and their values (T,C)."""
    if "controls" not in arrays:
        given = ", ".join(name for name in CONTROL_ARRAYS if name in arrays)
        raise InputError(
            f"controls is missing: add controls (T,C), the values in every pose, or remove {given}"
        )
    values = checks.array(arrays["controls"], "controls", (poses, None), np.float64)
    count = values.shape[1]
    if ("control_min" in arrays) != ("control_max" in arrays):
        raise InputError("control_min and control_max belong together: one of them is missing")
    vector = lambda name: checks.array(arrays[name], name, (count,), np.float64)
    seen = values.min(axis=0), values.max(axis=0)
    low, high = seen
    if "control_min" in arrays:
        low, high = vector("control_min"), vector("control_max")
    numeric = arrays.get("control_numeric", np.ones(count, bool))
    if numeric.dtype != bool:
        raise InputError(f"control_numeric: expected bool, got {numeric.dtype.name}")
    spec = ControlSpec(
        texts(arrays, "control_names", count) or tuple(f"control{c}" for c in range(count)),
        low,
        high,
        rest=vector("control_rest") if "control_rest" in arrays else np.clip(0.0, low, high),
        limit_low=np.minimum(low, seen[0]),
        limit_high=np.maximum(high, seen[1]),
        numeric=checks.shape_of(numeric, "control_numeric", (count,)),
    )
    return spec, values
