"""File formats by suffix: which function reads a path, and which writes to it.

Mesh sequences and recorded poses are read as `Poses`. Files of rigged characters (glTF, FBX, USD)
are read and written as a `Character`; its clips are poses too. A deformer is written as it is to
the formats that hold networks.

Built-in formats are listed here; other packages add theirs by entry point (group
`understudy.formats`, see `understudy.core.plugins`). The suffix decides. A suffix that no format
claims is an error before any work starts, and so is a missing optional package.
"""

from __future__ import annotations

import glob
import importlib.util
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from understudy.core import (
    checks,
    fit_packages,  # noqa: F401  # says what is missing
)
from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError, MissingDependencyError
from understudy.core.joined_samples import join_samples
from understudy.core.mesh import UNITS, UP_AXES, Mesh
from understudy.core.plugins import load_plugin, plugins
from understudy.core.poses import Poses, join_poses
from understudy.core.progress import SILENT, Progress
from understudy.io import onnx, pose_store
from understudy.io import understudy as understudy_file
from understudy.io.blender import find_blender, read_alembic, write_alembic, write_fbx
from understudy.io.bvh import read_bvh
from understudy.io.fbx import read_fbx
from understudy.io.gltf import read_gltf, write_glb
from understudy.io.npz import has_drivers, read_npz_mesh, read_recorded_poses, write_recorded_poses
from understudy.io.pairs import PairCache, pair_poses, read_pair_cache
from understudy.io.sequences import (
    matching_files,
    read_mesh,
    read_rest,
    read_sequence,
    write_sequence,
)
from understudy.io.usd import SUFFIXES as USD_SUFFIXES
from understudy.io.usd import read_usd, write_usd
from understudy.io.vertex_caches import read_cache_poses, write_cache

GROUP = "understudy.formats"

Source = str | Path


@dataclass(frozen=True)
class ReadOptions:
    """What a file cannot say. An option that is given wins over what the file says.

    rest        file with the shape at rest (.obj, .ply or .npz), for mesh sequences
    up_axis     "Y" or "Z"
    unit        one of `understudy.core.mesh.UNITS`
    frame_rate  frames per second
    clips       names of the animations to read from a character's file; empty: all
    meshes      names of the objects to read from a character's file; empty: all
    cache       vertex cache that goes with a character's file: the two are read as a pair
    frame_offset  of a pair: the frame of the clip, counted from its first, that is the first frame
                of the cache; None: it is found
    """

    rest: Source | None = None
    up_axis: str | None = None
    unit: str | None = None
    frame_rate: float | None = None
    clips: tuple[str, ...] = ()
    meshes: tuple[str, ...] = ()
    cache: Source | None = None
    frame_offset: int | None = None

    def __post_init__(self):
        if self.up_axis is not None:
            checks.one_of(self.up_axis, "up axis", UP_AXES)
        if self.unit is not None:
            checks.one_of(self.unit, "unit", UNITS)
        if self.frame_rate is not None:
            checks.between(self.frame_rate, "frame rate", above=0)


@dataclass(frozen=True)
class Format:
    """One file format.

    name            what help texts call it
    suffixes        lower case, with the dot: (".npz",)
    summary         one line: what such a file holds
    read_poses      (path, options, progress) -> Poses, or None: poses cannot be read from it.
                    `read_poses` of this module applies `up_axis`, `unit` and `frame_rate`
    write_deformer  (deformer, path) -> None, or None: a deformer cannot be written to it. It
                    writes the whole file or nothing (`understudy.io.atomic_write`)
    read_character  (path, options, progress) -> Character, or None. It applies `clips`, `meshes`
                    and `frame_rate` (the rate at which animations are sampled)
    write_character (character, path) -> None, or None; whole or nothing too
    needs           the optional module it imports, or ""
    install         the command that installs that module
    check_write     () -> anything; raises a `MissingDependencyError` if a program that writes it is
                    not installed
    only_read       suffixes that are not written
    one_clip        whether a file holds one clip at most
    """

    name: str
    suffixes: tuple[str, ...]
    summary: str
    read_poses: Callable[[Source, ReadOptions, Progress], Poses] | None = None
    write_deformer: Callable[[Deformer, Source], None] | None = None
    read_character: Callable[[Source, ReadOptions, Progress], Character] | None = None
    write_character: Callable[[Character, Source], None] | None = None
    needs: str = ""
    install: str = ""
    check_write: Callable[[], object] | None = None
    only_read: tuple[str, ...] = ()
    one_clip: bool = False


def _read_store(path: Source, options: ReadOptions, progress: Progress) -> Poses:
    """Return the poses of a store."""
    if options.rest is not None:
        raise InputError(f"rest: the pose store {path} has its own rest shape; leave it out")
    return pose_store.open_poses(path)


def _read_sequence(path: Source, options: ReadOptions, progress: Progress) -> Poses:
    """Return a mesh sequence."""
    return read_sequence(path, options.rest, progress=progress)


def _read_fbx(path: Source, options: ReadOptions, progress: Progress) -> Character:
    """Return the character of an FBX file."""
    return read_fbx(path, options.clips, options.meshes, options.frame_rate, progress)


def _read_bvh(path: Source, options: ReadOptions, progress: Progress) -> Character:
    """Return the joints of a BVH file as a character; it is one clip at the rate of the file."""
    return read_bvh(path)


def _read_cache(path: Source, options: ReadOptions, progress: Progress) -> Poses:
    """Return a vertex cache as a mesh sequence."""
    return read_cache_poses(path, None if options.rest is None else read_mesh(options.rest))


def _read_npz(path: Source, options: ReadOptions, progress: Progress) -> Poses:
    """Return recorded poses, or a mesh sequence if the file has neither bones nor controls."""
    if not has_drivers(path):
        return _read_sequence(path, options, progress)
    if options.rest is None:
        return read_recorded_poses(path)
    return read_recorded_poses(path, read_rest(options.rest, read_npz_mesh(path), str(path)))


def _write_npz(character: Character, path: Source) -> None:
    """Write the clips of a character as recorded poses, with shape weights as controls."""
    poses = character.poses()
    if poses.pose_count < 2:
        raise InputError(f"{character.name!r} has no animation to record; bake a clip first")
    write_recorded_poses(poses, path)


def _read_usd(path: Source, options: ReadOptions, progress: Progress) -> Character:
    """Return the character of a USD file."""
    return read_usd(path, options.clips, options.meshes, options.frame_rate, progress)


STORE = Format(
    "pose store",
    (".zarr",),
    "poses sampled from a rig, on disk",
    read_poses=_read_store,
    needs="zarr",
    install="pip install 'understudy[cli]'",
)
NPZ = Format(
    "npz",
    (".npz",),
    "recorded poses with bones or controls, or a mesh sequence",
    read_poses=_read_npz,
    write_character=_write_npz,
)
MESHES = Format(
    "mesh files",
    (".obj", ".ply"),
    "a mesh sequence, one file per frame: a folder or a 'pattern'",
    read_poses=_read_sequence,
    write_character=write_sequence,
)
CACHE = Format(
    "vertex cache",
    (".mdd", ".pc2"),
    "the vertices of every frame, without polygons",
    read_poses=_read_cache,
    write_character=write_cache,
    one_clip=True,
)
MAYA_CACHE = Format(
    "maya cache",
    (".mcx", ".mc", ".mcc"),
    "the vertices of every frame, without polygons",
    read_poses=_read_cache,
)
UNDERSTUDY = Format(
    "understudy",
    (understudy_file.SUFFIX,),
    "a deformer, for every Understudy runtime",
    write_deformer=understudy_file.save,
)
ONNX = Format(
    "onnx",
    (".onnx",),
    "a deformer as one graph, for any ONNX runtime",
    write_deformer=onnx.write_onnx,
    needs="onnx",
    install="pip install 'understudy[onnx]'",
)
FBX = Format(
    "fbx",
    (".fbx",),
    "a rigged character with its takes and point caches; written by Blender",
    read_character=_read_fbx,
    write_character=write_fbx,
    check_write=find_blender,
)
BVH = Format(
    "bvh",
    (".bvh",),
    "the motion of a skeleton, without a mesh",
    read_character=_read_bvh,
)
ALEMBIC = Format(
    "alembic",
    (".abc",),
    "meshes with their vertices in every frame, read and written by Blender",
    read_character=read_alembic,
    write_character=write_alembic,
    check_write=find_blender,
    one_clip=True,
)
GLTF = Format(
    "gltf",
    (".glb", ".gltf"),
    "a rigged character: skin, morph targets, animations",
    read_character=read_gltf,
    write_character=write_glb,
    only_read=(".gltf",),
)
USD = Format(
    "usd",
    USD_SUFFIXES,
    "a character: skeleton, skin, blend shapes and animations, or a point cache",
    read_character=_read_usd,
    write_character=write_usd,
    needs="pxr",
    install="pip install 'understudy[usd]'",
)
BUILT_IN = (
    STORE,
    NPZ,
    MESHES,
    CACHE,
    MAYA_CACHE,
    UNDERSTUDY,
    ONNX,
    GLTF,
    FBX,
    BVH,
    ALEMBIC,
    USD,
)


def formats() -> tuple[Format, ...]:
    """Return the built-in formats, then those of plug-ins that can be loaded."""
    return (*BUILT_IN, *_plugged_in()[0])


def format_of(path: Source, to: Literal["read", "write"] = "read") -> Format:
    """Return the format that reads poses from `path`, or writes to it.

    path  a file, a folder (a pose store, or mesh files) or a pattern such as "walk/*.obj"
    to    "read" or "write"

    An unknown suffix is an `InputError`, a missing optional package a `MissingDependencyError`.

    >>> format_of("walk.npz").name, format_of("hero.onnx", to="write").name
    ('npz', 'onnx')
    """
    if to == "read" and (folder := _format_of_folder(path)) is not None:
        return _ready(folder)
    if to == "write" and str(path).endswith(("/", os.sep)):
        return MESHES
    suffix = Path(path).suffix.lower()
    can = lambda known: _can(known, to)
    for known in BUILT_IN:
        if suffix in _suffixes(known, to) and can(known):
            return _ready(known, to)
    added, broken = _plugged_in()
    for known in added:
        if suffix in _suffixes(known, to) and can(known):
            return _ready(known, to)
    if to == "read" and not suffix and not Path(path).exists():
        raise InputError(f"{path}: no such file or folder")
    able = [known for known in (*BUILT_IN, *added) if can(known)]
    suffixes = ", ".join(s for known in able for s in _suffixes(known, to))
    task = "poses cannot be read from" if to == "read" else "a deformer cannot be written to"
    found = f"a file that ends in {suffix!r}" if suffix else "a file without a suffix"
    where = ", or a folder" if to == "read" else ""
    if to == "read" and suffix == ".blend":
        raise InputError(
            f"{path}: a Blender file is a rig: sample it first (`understudy sample`), or learn it "
            "whole (`understudy learn`)"
        )
    raise InputError(f"{path}: {task} {found}; use {suffixes}{where}{''.join(broken)}")


def read_character(
    path: Source, options: ReadOptions | None = None, progress: Progress = SILENT
) -> Character:
    """Return the character of one file: mesh, bones, skin, blend shapes and clips.

    path     a file of a format that holds rigged characters
    options  what the file cannot say, and what to read of it
    """
    options = ReadOptions() if options is None else options
    known = format_of(path)
    if known.read_character is None:
        can = ", ".join(s for other in formats() if other.read_character for s in other.suffixes)
        raise InputError(f"{path}: {known.name} files hold no rigged character; use {can}")
    character = known.read_character(path, options, progress)
    return replace(character, mesh=_with_axes(character.mesh, options))


def write_character(character: Character, path: Source) -> None:
    """Write `character` in the format that the suffix of `path` names, whole or not at all."""
    known = format_of(path, to="write")
    if known.write_character is None:
        can = ", ".join(s for other in formats() if other.write_character for s in other.suffixes)
        raise InputError(f"{path}: {known.name} files cannot hold a character; use {can}")
    known.write_character(character, path)


def read_poses(
    sources: Source | Iterable[Source],
    options: ReadOptions | None = None,
    progress: Progress = SILENT,
) -> Poses:
    """Return the poses of one or several sources, checked.

    sources   a pose store, a `.npz`, a folder or pattern of `.obj` or `.ply` files, a file of a
              plug-in's format; or several of these, which become one clip each; or several pose
              stores of one rig, which become one sample
    options   what the files cannot say
    """
    options = ReadOptions() if options is None else options
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    if not given:
        raise InputError("sources: nothing to read; give a pose store, a .npz or mesh files")
    given = [file for source in given for file in _npz_files(source)]
    kinds = [format_of(source) for source in given]
    bare = lambda kind, source: kind is MESHES or (kind is NPZ and not has_drivers(source))
    if options.cache is not None and len(given) > 1:
        raise InputError(f"cache: it belongs to one character's file, got {len(given)} sources")
    if all(map(bare, kinds, given)) and options.cache is None:
        poses = read_sequence(given, options.rest, progress=progress)
    elif len(given) == 1:
        poses = _read_one(kinds[0], given[0], options, progress)
    elif all(kind is STORE for kind in kinds):
        poses = join_samples([_read_one(k, s, options, progress) for k, s in zip(kinds, given)])
    elif STORE in kinds:
        raise InputError(
            "sources: pose stores are read alone or with other pose stores, got "
            f"{', '.join(Path(source).name for source in given)}"
        )
    else:
        poses = join_poses([_read_one(k, s, options, progress) for k, s in zip(kinds, given)])
    return with_options(poses, options)


def source_provenance(sources: Source | Iterable[Source]) -> dict[str, Any]:
    """Return where poses come from: a store's own provenance, else {"source": file name}.

    Several sources give a list of file names, and the rig where all are stores of the same.
    """
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    if len(given) == 1 and format_of(given[0]) is STORE:
        return dict(pose_store.provenance(given[0]))
    names = [Path(source).name for source in given]
    found: dict[str, Any] = {"source": names[0] if len(names) == 1 else names}
    if all(format_of(source) is STORE for source in given):
        rigs = {str(pose_store.provenance(source).get("rig", "")) for source in given}
        if len(rigs) == 1 and "" not in rigs:
            found["rig"] = rigs.pop()
    return found


def write_deformer(deformer: Deformer, path: Source) -> None:
    """Write `deformer` in the format that the suffix of `path` names, whole or not at all."""
    known = format_of(path, to="write")
    if known.write_deformer is None:
        raise InputError(
            f"{path}: {known.name} files hold a skin, blend shapes and clips but no networks; "
            "make a character of the deformer first (understudy.export)"
        )
    known.write_deformer(deformer, path)


def _npz_files(source: Source) -> list[Source]:
    """Return the files of a pattern such as "takes/*.npz"; any other source as it is."""
    is_pattern = glob.has_magic(str(source)) and not Path(source).exists()
    if is_pattern and Path(source).suffix.lower() in NPZ.suffixes:
        return list(matching_files(source))
    return [source]


def _read_pair(source: Source, options: ReadOptions, progress: Progress) -> Poses:
    """Return bones of a character's file with the vertices of a cache."""
    assert options.cache is not None  # the caller checks
    alone = replace(options, cache=None, frame_offset=None)
    cache = read_pair_cache(options.cache)
    if cache is None:
        cache = PairCache.of_poses(read_poses(options.cache, progress=progress))
    if options.frame_rate is not None:
        cache = replace(cache, cache=replace(cache.cache, frame_rate=options.frame_rate))

    def read(rate: float | None) -> Character:
        chosen = options.frame_rate if rate is None else rate
        return read_character(source, replace(alone, frame_rate=chosen), progress)

    return pair_poses(read, cache, options.frame_offset, progress)


def _read_one(kind: Format, source: Source, options: ReadOptions, progress: Progress) -> Poses:
    """Return the poses of one source."""
    if options.cache is not None:
        return _read_pair(source, options, progress)
    if kind.read_poses is not None:
        return kind.read_poses(source, options, progress)
    assert kind.read_character is not None  # format_of returns formats that can read
    return kind.read_character(source, options, progress).poses()


def with_options(poses: Poses, options: ReadOptions) -> Poses:
    """Return `poses` with the up axis, unit and frame rate of `options`, where they are given."""
    mesh = _with_axes(poses.mesh, options)
    if mesh is not poses.mesh:
        poses = replace(poses, mesh=mesh)
    if options.frame_rate is not None:
        rate = float(options.frame_rate)
        spans = tuple(replace(span, frame_rate=rate) for span in poses.spans)
        poses = replace(poses, frame_rate=rate, spans=spans)
    return poses


def _with_axes(mesh: Mesh, options: ReadOptions) -> Mesh:
    """Return `mesh` with the up axis and unit of `options`, where they are given."""
    if options.up_axis is not None:
        mesh = replace(mesh, up_axis=options.up_axis)
    if options.unit is not None:
        mesh = replace(mesh, unit=options.unit)
    return mesh


def _can(known: Format, to: Literal["read", "write"]) -> bool:
    """Return whether a format can be read, or written."""
    if to == "read":
        return known.read_poses is not None or known.read_character is not None
    return known.write_deformer is not None or known.write_character is not None


def _suffixes(known: Format, to: Literal["read", "write"]) -> tuple[str, ...]:
    """Return the suffixes that a format reads, or writes."""
    return tuple(s for s in known.suffixes if to == "read" or s not in known.only_read)


def _format_of_folder(path: Source) -> Format | None:
    """Return the format of a folder, or of a pattern without a suffix; None: it is neither."""
    if Path(path).is_dir():
        is_store = (Path(path) / "zarr.json").exists() or Path(path).suffix.lower() == ".zarr"
        return STORE if is_store else MESHES
    # read_sequence says what is wrong with the files a pattern finds.
    return MESHES if glob.has_magic(str(path)) and not Path(path).suffix else None


def _ready(known: Format, to: Literal["read", "write"] = "read") -> Format:
    """Return `known`, or raise if the optional package or program it needs is not installed."""
    if known.needs and importlib.util.find_spec(known.needs) is None:
        raise MissingDependencyError(
            f"{known.name} ({', '.join(known.suffixes)}) needs the package {known.needs}: "
            f"{known.install or f'pip install {known.needs}'}"
        )
    if to == "write" and known.check_write is not None:
        known.check_write()
    return known


def _plugged_in() -> tuple[list[Format], list[str]]:
    """Return the formats of plug-ins, and a sentence for each plug-in that cannot be used."""
    added, broken = [], []
    for entry in plugins(GROUP).values():
        try:
            found = load_plugin(entry)
        except InputError as problem:
            broken.append(f". {problem}")
            continue
        if isinstance(found, Format):
            added.append(found)
        else:
            broken.append(
                f". The plug-in {entry.name!r} ({entry.value}) is a {type(found).__name__}, "
                "expected an understudy.io.registry.Format"
            )
    return added, broken
