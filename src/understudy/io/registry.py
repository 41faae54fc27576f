"""Reading and writing by suffix: poses, characters, meshes and caches of any format.

Mesh sequences and recorded poses are read as `Poses`. Files of rigged characters (glTF, FBX, USD)
are read and written as a `Character`; its clips are poses too. A deformer is written as it is to
the formats that hold networks.

Built-in formats are listed in `understudy.io.formats`; other packages add theirs by entry point
(group `understudy.formats`, see `understudy.system.plugins`). `understudy.io.format` says what a
format can do.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.system import fit_packages  # noqa: F401  # says what is missing

# isort: split
from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.joined_samples import join_samples
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, join_poses
from understudy.io import sequences, vertex_caches
from understudy.io.format import AS_IT_IS, Format, Reader, ReadOptions, Source
from understudy.io.formats import format_by_suffix, format_of, formats, suffixes_of
from understudy.io.pairs import pair_poses
from understudy.io.vertex_cache import VertexCache
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

__all__ = [
    "Format",
    "ReadOptions",
    "Source",
    "format_of",
    "formats",
    "read_cache",
    "read_character",
    "read_mesh",
    "read_poses",
    "read_sequence",
    "read_skinned",
    "source_provenance",
    "write_character",
    "write_deformer",
]


_MAGIC = {b"glTF": ".glb", b"Kaydara FBX": ".fbx", b"PXR-USDC": ".usdc"}


def read_character(
    path: Source, options: ReadOptions | None = None, progress: Progress = SILENT
) -> Character:
    """Return the character of one file: mesh, bones, skin, blend shapes and clips.

    path     a file of a format that holds rigged characters
    options  what the file cannot say, and what to read of it
    """
    known = format_of(path)
    if known.read_character is None:
        can = suffixes_of(one for one in formats() if one.read_character)
        raise InputError(f"{path}: {known.name} files hold no rigged character; use {can}")
    return _character(known.read_character, path, options, progress)


def read_skinned(
    path: Source, options: ReadOptions | None = None, progress: Progress = SILENT
) -> Character:
    """Return the character in a file whose skin is to be reduced: skin, and clips if it has any."""
    known = format_of(path)
    if known.read_skin is None:
        return read_character(path, options, progress)
    return _character(known.read_skin, path, options, progress)


@np.errstate(all="ignore")  # extreme numbers overflow; the nouns refuse what comes of them
def _character(
    read: Reader[Character], path: Source, options: ReadOptions | None, progress: Progress
) -> Character:
    """Return the character of one file, with the up axis and unit of the options."""
    options = _prepared(options, progress)
    if Path(path).is_file():
        with open(path, "rb") as file:
            start = file.read(16)
        found = next((suffix for magic, suffix in _MAGIC.items() if start.startswith(magic)), None)
        known = format_of(f"any{found}") if found else None
        if known and known.read_character not in (read, None):
            raise InputError(f"{path}: this is a {found} file by its content; name it so")
    character = read(path, options, progress).with_unit_bones()
    for note in character.notes:
        progress.say(f"note: {note}")
    return replace(character, mesh=_with_axes(character.mesh, options))


def read_mesh(
    path: Source, options: ReadOptions | None = None, progress: Progress = SILENT
) -> Mesh:
    """Return the mesh of one file, such as the shape at rest of others."""
    known = format_of(path)
    if known.read_mesh is None:
        can = suffixes_of(one for one in formats() if one.read_mesh)
        raise InputError(f"{path}: {known.name} files are not read as one mesh; use {can}")
    options = AS_IT_IS if options is None else options
    return _with_axes(known.read_mesh(path, options, progress), options)


def read_cache(
    path: Source, options: ReadOptions | None = None, progress: Progress = SILENT
) -> VertexCache:
    """Return the vertices over time of one file, with or without polygons."""
    known = format_of(path)
    if known.read_cache is None:
        return VertexCache.of_poses(read_poses(path, options, progress))
    return known.read_cache(path, _prepared(options, progress), progress)


def write_character(character: Character, path: Source) -> list[str]:
    """Write `character` in the format that the suffix of `path` names, whole or not at all.

    What the format cannot hold of materials and corners is returned, in words.
    """
    known = format_of(path, to="write")
    if known.write_character is None:
        can = suffixes_of(one for one in formats() if one.write_character)
        raise InputError(f"{path}: {known.name} files cannot hold a character; use {can}")
    known.write_character(character, path)
    dress = character.mesh.dress().items()
    lost = [f"{what} {', '.join(names)}" for what, names in dress if what not in known.holds]
    return [f"{Path(path).name} does not hold: {'; '.join(lost)}."] if lost else []


@np.errstate(all="ignore")  # as in `_character`
def read_poses(
    sources: Source | Iterable[Source],
    options: ReadOptions | None = None,
    progress: Progress = SILENT,
) -> Poses:
    """Return the poses of one or several sources, checked.

    sources   a file, folder or pattern of any format; or several of these, which become one clip
              each; or several pose stores of one rig, which become one sample
    options   what the files cannot say
    """
    given = _files_of(sources)
    kinds = [format_of(file) for file in given]
    options = ReadOptions() if options is None else options
    samples = [file for kind, file in zip(kinds, given) if kind.provenance is not None]
    if samples and options.rest is not None:
        raise InputError(f"rest: the pose store {samples[0]} has its own rest shape; leave it out")
    if options.cache is not None and len(given) > 1:
        raise InputError(f"cache: it belongs to one character's file, got {len(given)} sources")
    options = _prepared(options, progress)
    if options.cache is not None:
        poses = _read_pair(given[0], options, progress)
    elif all(map(_is_sequence, kinds, given)):
        poses = sequences.read_sequence(given, _sequence_format, options, progress)
    elif len(given) == 1:
        poses = _read_one(kinds[0], given[0], options, progress)
    elif samples and len(samples) < len(given):
        raise InputError(
            "sources: pose stores are read alone or with other pose stores, got "
            f"{', '.join(Path(file).name for file in given)}"
        )
    else:
        join = join_samples if samples else join_poses
        poses = join([_read_one(k, s, options, progress) for k, s in zip(kinds, given)])
    poses = with_options(poses, options)
    rates = [span.frame_rate for span in poses.spans] or [poses.frame_rate]
    if all(map(_is_sequence, kinds, given)) and None in rates:
        progress.say("note: no frame rate is stated; exports play 30 per second (--frame-rate)")
    return poses


def read_sequence(
    sources: Source | Iterable[Source],
    options: ReadOptions | None = None,
    progress: Progress = SILENT,
) -> Poses:
    """Return one or several sources as a mesh sequence; bones and controls are not read."""
    given = _listed(sources)
    options = _prepared(options, progress)
    poses = sequences.read_sequence(given, _sequence_format, options, progress)
    return with_options(poses, options)


def source_provenance(sources: Source | Iterable[Source]) -> dict[str, Any]:
    """Return where poses come from: a store's own provenance, else {"source": file name}.

    Several sources give a list of file names, and the rig where all are stores of the same.
    """
    given = _listed(sources)
    of = [format_of(file).provenance for file in given]
    facts = [read(file) for read, file in zip(of, given) if read is not None]
    if len(given) == len(facts) == 1:
        return dict(facts[0])
    names = [Path(file).name for file in given]
    found: dict[str, Any] = {"source": names[0] if len(names) == 1 else names}
    rigs = {str(fact.get("rig", "")) for fact in facts}
    if len(facts) == len(given) and len(rigs) == 1 and "" not in rigs:
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


def _prepared(options: ReadOptions | None, progress: Progress) -> ReadOptions:
    """Return the options for a reader: the shape at rest is read."""
    options = AS_IT_IS if options is None else options
    if isinstance(options.rest, str | Path):
        return replace(options, rest=read_mesh(options.rest, progress=progress))
    return options


def _listed(sources: Source | Iterable[Source]) -> list[Source]:
    """Return one or several sources as a list."""
    return [sources] if isinstance(sources, str | Path) else list(sources)


def _files_of(sources: Source | Iterable[Source]) -> list[Source]:
    """Return the sources; a pattern such as "takes/*.npz" is every file that matches.

    Patterns of mesh files stay: they are one clip.
    """
    given = _listed(sources)
    if not given:
        raise InputError("sources: nothing to read; give a pose store, a .npz or mesh files")
    files: list[Source] = []
    for one in given:
        is_pattern = glob.has_magic(str(one)) and not Path(one).exists()
        known = format_by_suffix(Path(one)) if is_pattern else None
        if known is None or known.is_one_frame:
            files.append(one)
        else:
            files += sequences.matching_files(one)
    return files


def _is_sequence(kind: Format, source: Source) -> bool:
    """Return whether a source is a mesh sequence, without bones and controls."""
    if kind.read_clips is None:
        return kind.is_one_frame
    if kind.read_poses is None and kind.read_character is None:
        return True
    return kind.is_driven is not None and not kind.is_driven(source)


def _sequence_format(path: Path) -> Format | None:
    """Return the format of a file with clips of a mesh, or with one mesh; None: it has neither."""
    known = format_by_suffix(path)
    has_frames = known is not None and (known.is_one_frame or known.read_clips is not None)
    return format_of(path) if has_frames else None


def _read_pair(source: Source, options: ReadOptions, progress: Progress) -> Poses:
    """Return bones of a character's file with the vertices of a cache."""
    assert options.cache is not None  # the caller checks
    alone = replace(options, cache=None, frame_offset=None)
    cache = read_cache(options.cache, progress=progress)
    if options.frame_rate is not None:
        cache = replace(cache, frame_rate=options.frame_rate)

    def read(rate: float | None) -> Character:
        chosen = options.frame_rate if rate is None else rate
        return read_character(source, replace(alone, frame_rate=chosen))

    return pair_poses(read, cache, options.frame_offset, progress)


def _read_one(kind: Format, source: Source, options: ReadOptions, progress: Progress) -> Poses:
    """Return the poses of one source, by the first way that its format has."""
    if _is_sequence(kind, source):
        return sequences.read_sequence([source], _sequence_format, options, progress)
    if kind.read_poses is not None:
        return kind.read_poses(source, options, progress)
    if kind.read_character is not None:
        character = _character(kind.read_character, source, options, progress)
        try:
            return character.poses()
        except InputError as problem:  # vertices that overflow
            raise FileError(f"{source}: {problem}") from problem
    assert kind.read_cache is not None  # format_of returns formats that can read
    cache = kind.read_cache(source, options, progress)
    return vertex_caches.cache_poses(source, cache, options.rest_mesh)


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
