"""The formats there are: the built-in ones, and those that other packages add by entry point.

The suffix decides. A suffix that no format claims is an error before any work starts, and so is a
missing optional package.
"""

from __future__ import annotations

import glob
import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from understudy.io import blender, gltf, npz, onnx, pose_store, sequences, usd, vertex_caches
from understudy.io import understudy as understudy_file
from understudy.io.bvh import read_bvh
from understudy.io.fbx import read_fbx
from understudy.io.format import Format, Source
from understudy.system.errors import InputError, MissingDependencyError
from understudy.system.plugins import load_plugin, plugins

GROUP = "understudy.formats"
To = Literal["read", "write"]

STORE = Format(
    "pose store",
    (".zarr",),
    "poses sampled from a rig, on disk",
    read_poses=pose_store.open_poses,
    provenance=pose_store.provenance,
    needs="zarr",
    install="pip install 'understudy[cli]'",
)
LOOKS = ("materials", "images", "UV sets", "vertex colours")
MESHES = Format(
    "mesh files",
    sequences.MESH_SUFFIXES,
    "a mesh sequence, one file per frame: a folder or a 'pattern'",
    read_mesh=sequences.read_mesh,
    read_frame=sequences.read_frame,
    write_character=sequences.write_sequence,
    holds_skin=False,
)
BUILT_IN = (
    STORE,
    Format(
        "npz",
        (".npz",),
        "recorded poses with bones or controls, or a mesh sequence",
        read_poses=npz.read_recorded_poses,
        is_driven=npz.has_drivers,
        read_clips=npz.read_npz_clips,
        read_cache=npz.read_npz_cache,
        read_mesh=npz.read_npz_mesh,
        read_skin=npz.read_npz_skin,
        write_character=npz.write_npz,
        holds_skin=False,
    ),
    MESHES,
    Format(
        "vertex cache",
        (".mdd", ".pc2"),
        "the vertices of every frame, without polygons",
        read_cache=vertex_caches.read_vertex_cache,
        write_character=vertex_caches.write_cache,
        one_clip=True,
        holds_skin=False,
    ),
    Format(
        "maya cache",
        vertex_caches.MAYA_SUFFIXES,
        "the vertices of every frame, without polygons",
        read_cache=vertex_caches.read_vertex_cache,
    ),
    Format(
        "understudy",
        (understudy_file.SUFFIX,),
        "a deformer, for every Understudy runtime",
        write_deformer=understudy_file.save,
    ),
    Format(
        "onnx",
        (".onnx",),
        "a deformer as one graph, for any ONNX runtime",
        write_deformer=onnx.write_onnx,
        needs="onnx",
        install="pip install 'understudy[onnx]'",
    ),
    Format(
        "gltf",
        (".glb", ".gltf"),
        "a rigged character: skin, morph targets, animations",
        read_character=gltf.read_gltf,
        write_character=gltf.write_glb,
        only_read=(".gltf",),
        holds=(*LOOKS, "attributes", "extensions of materials"),
    ),
    Format(
        "fbx",
        (".fbx",),
        "a rigged character with its takes and point caches; written by Blender",
        read_character=read_fbx,
        write_character=blender.write_fbx,
        check_write=blender.find_blender,
    ),
    Format("bvh", (".bvh",), "the motion of a skeleton, without a mesh", read_character=read_bvh),
    Format(
        "alembic",
        (".abc",),
        "meshes with their vertices in every frame, read and written by Blender",
        read_character=blender.read_alembic,
        write_character=blender.write_alembic,
        check_write=blender.find_blender,
        one_clip=True,
        holds_skin=False,
    ),
    Format(
        "usd",
        usd.SUFFIXES,
        "a character: skeleton, skin, blend shapes and animations, or a point cache",
        read_character=usd.read_usd,
        write_character=usd.write_usd,
        holds=LOOKS,
        needs="pxr",
        install="pip install 'understudy[usd]'",
    ),
)


def formats() -> tuple[Format, ...]:
    """Return the built-in formats, then those of plug-ins that can be loaded."""
    return (*BUILT_IN, *_plugged_in()[0])


def format_of(path: Source, to: To = "read") -> Format:
    """Return the format that reads poses from `path`, or writes to it.

    path  a file, a folder (a pose store, or mesh files) or a pattern such as "walk/*.obj"
    to    "read" or "write"

    An unknown suffix is an `InputError`, a missing optional package a `MissingDependencyError`.

    >>> format_of("walk.npz").name, format_of("hero.onnx", to="write").name
    ('npz', 'onnx')
    """
    if to == "read" and (folder := _format_of_folder(Path(path))) is not None:
        return _ready(folder)
    if to == "write" and str(path).endswith(("/", os.sep)):
        return MESHES
    known = format_by_suffix(Path(path), to)
    if known is not None:
        return _ready(known, to)
    suffix = Path(path).suffix.lower()
    if to == "read" and not suffix and not Path(path).exists():
        raise InputError(f"{path}: no such file or folder")
    if to == "read" and suffix == ".blend":
        raise InputError(
            f"{path}: a Blender file is a rig: sample it first (`understudy sample`), or learn it "
            "whole (`understudy learn`)"
        )
    added, broken = _plugged_in()
    suffixes = suffixes_of((one for one in (*BUILT_IN, *added) if _can(one, to)), to)
    task = "poses cannot be read from" if to == "read" else "a deformer cannot be written to"
    found = f"a file that ends in {suffix!r}" if suffix else "a file without a suffix"
    where = ", or a folder" if to == "read" else ""
    raise InputError(f"{path}: {task} {found}; use {suffixes}{where}{''.join(broken)}")


def format_by_suffix(path: Path, to: To = "read") -> Format | None:
    """Return the format of a file by its suffix; plug-ins are loaded if no built-in one has it."""
    suffix = path.suffix.lower()
    for known in BUILT_IN:
        if suffix in _suffixes(known, to) and _can(known, to):
            return known
    matching = (k for k in _plugged_in()[0] if suffix in _suffixes(k, to) and _can(k, to))
    return next(matching, None) if suffix else None


def _can(known: Format, to: To) -> bool:
    """Return whether a format can be read, or written."""
    if to == "read":
        return known.holds_poses
    return known.write_deformer is not None or known.write_character is not None


def _suffixes(known: Format, to: To) -> tuple[str, ...]:
    """Return the suffixes that a format reads, or writes."""
    return tuple(s for s in known.suffixes if to == "read" or s not in known.only_read)


def suffixes_of(kinds: Iterable[Format], to: To = "read") -> str:
    """Return the suffixes of several formats as a text."""
    return ", ".join(suffix for known in kinds for suffix in _suffixes(known, to))


def _format_of_folder(path: Path) -> Format | None:
    """Return the format of a folder, or of a pattern without a suffix; None: it is neither."""
    if path.is_dir():
        if (path / "zarr.json").exists() or path.suffix.lower() in STORE.suffixes:
            return STORE
        known = format_by_suffix(path)
        return MESHES if known is None or known in BUILT_IN else known
    # read_sequence says what is wrong with the files a pattern finds.
    return MESHES if glob.has_magic(str(path)) and not path.suffix else None


def _ready(known: Format, to: To = "read") -> Format:
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
