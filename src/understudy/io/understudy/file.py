"""The `.understudy` file: one safetensors file, arrays plus one JSON header. No pickle, no code.

`understudy.core.form` declares every entry, and docs/file-format.md describes the file. The header
is the value of the safetensors metadata key `understudy`. There is no other key, because the order
of several keys would vary from run to run.

The reader does not trust the file: sizes, indices and finiteness are checked by the constructors
that methods use, and a file is loaded whole or not at all. The same deformer always gives the same
bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as unpack
from safetensors.numpy import save as pack

from understudy.core import form
from understudy.core.bounds import Bounds
from understudy.core.clip import Clip, ClipKeys
from understudy.core.controls import ControlSpec
from understudy.core.deformer import STORAGES, Deformer
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.io.atomic_write import atomic_write
from understudy.io.budget import Budget
from understudy.io.understudy.correctives import (
    FlatReader,
    basis_entries,
    joined,
    net_entries,
    read_bases,
    read_nets,
)
from understudy.io.understudy.narrowing import base_of, narrowed
from understudy.io.understudy.posing import posing_entries, read_posing
from understudy.io.understudy.strict_reading import (
    checked_entries,
    need_entry,
    parse_archive_header,
    parse_header,
)
from understudy.system import checks
from understudy.system.errors import FileError, InputError

SUFFIX = ".understudy"
# Bytes: of a number; of a place where a clip may have a key (12 numbers, with copies); and what a
# byte of a file may stand for, which is such a place.
_NUMBER, _KEY, _PER_BYTE = 32, 600, 640
_MAX_HEADER = 64 << 20  # bytes; a longer one is forged, and is not read


def save(deformer: Deformer, path: str | Path, dtype: Any = None) -> None:
    """Write a `.understudy` file, whole or not at all.

    dtype  numpy.float16 stores half the bytes; None: as it is
    """
    wanted = deformer.storage
    if dtype is not None:
        wanted = checks.one_of(np.dtype(dtype).name, "dtype", STORAGES)
    if deformer.storage not in ("float32", wanted):
        raise InputError(f"dtype: this deformer is in {deformer.storage} already; save it as it is")
    data = to_bytes(deformer if wanted == deformer.storage else deformer.half())
    with atomic_write(path) as part:
        part.write_bytes(data)


def to_bytes(deformer: Deformer) -> bytes:
    """Return the file of `deformer` as bytes."""
    entries = entries_of(deformer)
    arrays = {name: value for name, value in entries.items() if isinstance(value, np.ndarray)}
    header = {name: value for name, value in entries.items() if name not in arrays}
    header["format_version"] = max(need_entry(name).since for name in entries)
    if deformer.storage != "float32":
        arrays = narrowed(arrays)
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return pack(arrays, metadata={"understudy": text})


def load(path: str | Path) -> Deformer:
    """Read a `.understudy` file; `FileError` says what is wrong with it."""
    path = Path(path)
    data = _read_bytes(path)
    try:
        metadata = parse_archive_header(data).get("__metadata__")  # `unpack` ignores it
        described = metadata.get("understudy") if isinstance(metadata, dict) else None
        if not described:
            raise FileError(
                f"{path}: a safetensors file, but not a deformer (it has no understudy header)"
            )
        header = parse_header(described)
        version = header.pop("format_version", None) if isinstance(header, dict) else None
        if type(version) is not int or version < 1:
            raise FileError(f"{path}: the header has no valid format version (found {version!r})")
        arrays = unpack(data)
        if version > form.FORMAT_VERSION:
            named = (name for name in (*header, *arrays) if form.entry_of(base_of(name)) is None)
            raise FileError(
                f"{path}: has {next(named, 'values')!r} of format {version}, and this understudy "
                f"reads up to format {form.FORMAT_VERSION}; upgrade understudy to read it"
            )
        budget = Budget(path, len(data), _PER_BYTE)
        budget.take(sum(_NUMBER * array.size for array in arrays.values()), "its arrays")
        return _from_entries(checked_entries(arrays, header), budget)
    except FileError:
        raise
    except (
        SafetensorError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as problem:  # InputError is a ValueError
        what = f"{problem.args[0]!r} is missing" if isinstance(problem, KeyError) else str(problem)
        raise FileError(f"{path}: damaged or truncated understudy file: {what}") from problem


def _read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, if it looks like a safetensors file."""
    try:
        with open(path, "rb") as opened:
            start = opened.read(9)
            size = os.fstat(opened.fileno()).st_size
            length = int.from_bytes(start[:8], "little")
            if len(start) < 9 or start[8:9] != b"{" or length > _MAX_HEADER:
                raise FileError(
                    f"{path}: not an understudy file (expected one made by `understudy fit`)"
                )
            if 8 + length > size:
                raise FileError(
                    f"{path}: truncated: the file ends after {size} bytes, inside its own header"
                )
            # Not mapped: if a mapped file shrinks while it is used, the process ends.
            return start + opened.read()
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror or problem}") from problem


def entries_of(deformer: Deformer) -> dict[str, Any]:
    """Return what a deformer consists of by the names of `core.form`, in the types of the form."""
    nouns = {
        "": deformer,
        "mesh": deformer.mesh,
        "skeleton": deformer.skeleton,
        "controls": deformer.control_spec,
        "skin": deformer.skin,
        "features": deformer.features,
        "bounds": deformer.bounds,
    }
    found = {
        entry.name: getattr(nouns[entry.part], entry.field, None)
        for entry in form.ENTRIES
        if nouns.get(entry.part) is not None
    }
    parts = deformer.mesh.parts
    found |= {
        "mesh.part_sizes": [len(part) for part in parts.values()],
        "mesh.part_vertices": joined(parts.values()),
        **net_entries(deformer.nets),
        **basis_entries(deformer.bases),
        **_clip_entries(deformer.clips),
    }
    if deformer.posing is not None:
        found |= posing_entries(deformer.posing)
    return {
        name: _typed(need_entry(name), value) for name, value in found.items() if value is not None
    }


def _typed(entry: form.Entry, value: Any) -> Any:
    """Return a value in the type of its entry."""
    if entry.in_header:
        return {"text": str, "texts": tuple, "object": dict}[entry.type](value)
    if entry.type == "int32":
        value = checks.within(np.asarray(value, np.int64), entry.name, np.int32)
    return np.asarray(value, entry.type, order="C")


def _clip_entries(clips: Sequence[Clip]) -> dict[str, Any]:
    """Return the entries of clips by name; none if there are no clips."""
    if not clips:
        return {}
    found: dict[str, Any] = {
        "clips.names": [clip.name for clip in clips],
        "clips.frame_rates": [clip.frame_rate or 0.0 for clip in clips],
        "clips.start_frames": [clip.start_frame for clip in clips],
    }
    for number, clip in enumerate(clips):
        if clip.keys is None:
            found[f"clip.{number}.world_from_bone"] = clip.world_from_bone
        else:
            found[f"clip.{number}.keys"] = clip.keys.is_key
            found[f"clip.{number}.values"] = clip.keys.values
    return found


def _from_entries(entries: dict[str, Any], budget: Budget) -> Deformer:
    """Return the deformer of a file; the caller turns what this raises into a `FileError`."""
    skeleton = _noun(Skeleton, "skeleton", entries)
    spec = _noun(ControlSpec, "controls", entries)
    posing = None
    if "posing.parents" in entries:
        if skeleton is None:
            raise InputError("posing: there is no skeleton")
        posing = read_posing(entries, skeleton, np.zeros(0) if spec is None else spec.rest)
    bounds = _noun(Bounds, "bounds", entries)
    deformer = _noun(
        Deformer,
        "",
        entries,
        mesh=_noun(Mesh, "mesh", entries, parts=_parts(entries)),
        skeleton=skeleton,
        control_spec=spec,
        skin=_noun(Skin, "skin", entries),
        features=_noun(Features, "features", entries),
        nets=read_nets(entries),
        bases=read_bases(entries),
        clips=_clips(entries, budget),
        posing=posing,
        bounds=bounds,
    )
    if bounds is not None:  # also where there are no networks, as in C++
        bounds.need_counts(deformer.features.count, deformer.coefficient_count)
    return deformer


def _noun(kind: type[Any], part: str, entries: dict[str, Any], **others: Any) -> Any:
    """Return the noun of a part of a file; None: the file has no such part.

    others  fields that are no entries
    """
    own = {f.name for f in fields(kind)} - others.keys()
    given = {
        entry.field: entries[entry.name]
        for entry in form.entries_of(part)
        if entry.name in entries and entry.field in own
    }
    return kind(**given, **others) if given else None


def _parts(entries: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the named parts of a mesh."""
    flat = FlatReader(entries, "mesh.part_", "sizes", "vertices")
    names = checks.names(entries["mesh.parts"], "parts")
    found = {name: flat.take("vertices", flat.size("sizes")) for name in names}
    flat.need_end()
    return found


def _clips(entries: dict[str, Any], budget: Budget) -> tuple[Clip, ...]:
    """Return the clips of a file."""
    clips = []
    names = entries.get("clips.names", ())
    for number, name in enumerate(names):
        rate = float(entries["clips.frame_rates"][number])
        timing = (rate or None, int(entries["clips.start_frames"][number]))
        is_key = entries.get(f"clip.{number}.keys")
        if is_key is None:
            clips.append(Clip(name, entries[f"clip.{number}.world_from_bone"], *timing))
        else:
            budget.take(_KEY * is_key.size, f"clip {name!r}")
            keys = ClipKeys(is_key, entries[f"clip.{number}.values"])
            clips.append(Clip.from_keys(name, keys, *timing))
    return tuple(clips)
