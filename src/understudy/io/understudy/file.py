"""The `.understudy` file: one safetensors file, arrays plus one JSON header. No pickle, no code.

Every array of a `Deformer` has a dotted name. Networks and bases are flat arrays, with their sizes
in the header (`correctives`). A deformer in 16 bits has all arrays in the narrowest type that
represents them (`narrowing`). What poses a character without its rig is optional (`posing`), and
so is the range of the training poses (`bounds`). The header is the value of the
safetensors metadata key `understudy`. There is no other key, because the order of several keys
would vary from run to run.

The reader does not trust the file: sizes, indices and finiteness are checked by the constructors
that methods use, and a file is loaded whole or not at all. The same deformer always gives the same
bytes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as unpack
from safetensors.numpy import save as pack

from understudy.core.clip import Clip, ClipKeys
from understudy.core.controls import ControlSpec
from understudy.core.deformer import STORAGES, Deformer
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.services import SERVICES
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.storage import is_half
from understudy.io.atomic_write import atomic_write
from understudy.io.budget import Budget
from understudy.io.understudy.correctives import (
    basis_arrays,
    basis_entries,
    bounds_arrays,
    bounds_entry,
    net_arrays,
    net_entries,
    read_bases,
    read_bounds,
    read_nets,
)
from understudy.io.understudy.narrowing import narrowed, widened
from understudy.io.understudy.posing import posing_arrays, posing_entry, read_posing
from understudy.io.understudy.strict_reading import (
    TypedArrays,
    check_types,
    need_kind,
    parse_archive_header,
    parse_header,
    text,
    texts,
)
from understudy.system import checks
from understudy.system.errors import FileError, InputError

# Version 2 added 16 bits, 3 added 8 bits (no longer read), 4 added narrow arrays, 5 keys of clips.
# A deformer in float32 without keys is written as version 1, so that older versions can read it.
FORMAT_VERSION = 5
_FIRST_HALF, _FIRST_NARROW, _FIRST_KEYS = 2, 4, 5
SUFFIX = ".understudy"
# Bytes: of a number; of a place where a clip may have a key (12 numbers, with copies); and what a
# byte of a file may stand for, which is such a place.
_NUMBER, _KEY, _PER_BYTE = 32, 600, 640
_MAX_HEADER = 64 << 20  # bytes; a longer one is forged, and is not read
_HEADER_TYPES = {"method": str, "training": dict, "provenance": dict, "nets": list, "bases": list}
_CONTROL_ARRAYS = ("low", "high", "rest", "limit_low", "limit_high", "numeric")
_SKIN_ARRAYS = ("bone_index", "weight", "virtual_index", "virtual_weight")


def save(deformer: Deformer, path: str | Path) -> None:
    """Write `deformer` to `path`, whole or not at all."""
    data = to_bytes(deformer)
    with atomic_write(path) as part:
        part.write_bytes(data)


def to_bytes(deformer: Deformer) -> bytes:
    """Return the file of `deformer` as bytes."""
    arrays, header = _to_arrays(deformer)
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return pack(arrays, metadata={"understudy": text})


def load(path: str | Path) -> Deformer:
    """Return the deformer of a file; `FileError` says what is wrong with it."""
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
        version = header.get("format_version") if isinstance(header, dict) else None
        if type(version) is not int or version < 1:
            raise FileError(f"{path}: the header has no valid format version (found {version!r})")
        if version > FORMAT_VERSION:
            raise FileError(
                f"{path}: written by a newer understudy (format {version}, this one reads up to "
                f"{FORMAT_VERSION}); upgrade understudy to read it"
            )
        if header.get("storage") == "int8":
            raise FileError(
                f"{path}: stored in 8 bits, which understudy no longer reads; export the original "
                f"again, with --half for 16 bits"
            )
        arrays = unpack(data)
        check_types(arrays)
        budget = Budget(path, len(data), _PER_BYTE)
        budget.take(sum(_NUMBER * array.size for array in arrays.values()), "its arrays")
        deformer = _from_arrays(arrays, header, budget)
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
    # The compiled runtime parses these bytes, so a loaded deformer is not serialised to be played.
    object.__setattr__(deformer, "file_bytes", data)
    return deformer


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


def _to_arrays(deformer: Deformer) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return all arrays of a deformer by name, and the header."""
    mesh, half, narrow = deformer.mesh, deformer.storage != "float32", _is_narrow(deformer)
    arrays: dict[str, np.ndarray | None] = {
        "mesh.vertices": mesh.vertices,
        "mesh.polygon_sizes": mesh.polygon_sizes,
        "mesh.polygon_vertices": mesh.polygon_vertices,
        "mesh.corner_uvs": mesh.corner_uvs,
        "mesh.corner_normals": mesh.corner_normals,
        "mesh.polygon_material": mesh.polygon_material,
        "mean": deformer.mean,
        "features.columns": deformer.features.columns,
        "features.low": deformer.features.low,
        "features.high": deformer.features.high,
    }
    arrays |= {f"mesh.part.{number}": part for number, part in enumerate(mesh.parts.values())}
    header: dict[str, Any] = {
        "format_version": 1,
        "method": deformer.method,
        "mesh": {
            "unit": mesh.unit,
            "up_axis": mesh.up_axis,
            "handedness": mesh.handedness,
            "materials": list(mesh.materials),
            "parts": list(mesh.parts),
        },
        "training": dict(deformer.training),
        "provenance": dict(deformer.provenance),
        "nets": net_entries(deformer.nets),
        "bases": basis_entries(deformer.bases),
    }
    if half:
        version = _FIRST_NARROW if narrow else _FIRST_HALF
        header |= {"format_version": version, "storage": deformer.storage}
    if deformer.skeleton is not None:
        header["skeleton"] = {"names": list(deformer.skeleton.names)}
        arrays["skeleton.parents"] = deformer.skeleton.parents
        arrays["skeleton.world_from_bone"] = deformer.skeleton.world_from_bone
    if deformer.control_spec is not None:
        spec = deformer.control_spec
        header["controls"] = {"names": list(spec.names), "units": list(spec.units)}
        arrays |= {f"controls.{name}": getattr(spec, name) for name in _CONTROL_ARRAYS}
    if deformer.skin is not None:
        header["skin"] = {"blend": deformer.skin.blend}
        arrays |= {f"skin.{name}": getattr(deformer.skin, name) for name in _SKIN_ARRAYS}
    if deformer.clips:
        header["clips"] = [
            {"name": clip.name, "frame_rate": clip.frame_rate, "start_frame": clip.start_frame}
            for clip in deformer.clips
        ]
        for number, clip in enumerate(deformer.clips):
            if clip.keys is None or (half and not narrow):
                arrays[f"clip.{number}.world_from_bone"] = clip.world_from_bone
            else:
                header["format_version"] = _FIRST_KEYS
                arrays[f"clip.{number}.keys"] = clip.keys.is_key.astype(np.uint8)
                arrays[f"clip.{number}.values"] = clip.keys.values
    arrays |= net_arrays(deformer.nets, half, half_biases=narrow)
    arrays |= basis_arrays(deformer.bases, half)
    given = {
        name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None
    }
    if narrow:
        given = narrowed(given)
    if deformer.bounds is not None:
        header["bounds"] = bounds_entry(deformer.bounds)
        given |= bounds_arrays(deformer.bounds)
    if deformer.held_out_error is not None:
        given["held_out_error"] = deformer.held_out_error
    if deformer.posing is not None:
        header["posing"] = posing_entry(deformer.posing)
        given |= posing_arrays(deformer.posing)  # small, and read by scripts: never narrowed
    return given, header


def _is_narrow(deformer: Deformer) -> bool:
    """Return whether its file has narrow arrays: 16 bits, for biases too.

    Deformers that an older version rounded to 16 bits have biases of 32.
    """
    later = (bias for net in deformer.nets for bias in net.biases[1:])
    return deformer.storage != "float32" and all(map(is_half, later))


def _from_arrays(arrays: dict[str, np.ndarray], header: dict[str, Any], budget: Budget) -> Deformer:
    """Return the deformer of a file; the caller turns what this raises into a `FileError`."""
    arrays = TypedArrays(widened(arrays))
    for name, kind in _HEADER_TYPES.items():
        if not isinstance(header[name], kind):
            found = type(header[name]).__name__
            raise InputError(f"the header's {name} is a {found}, expected a {kind.__name__}")
    storage = checks.one_of(header.get("storage", "float32"), "storage", STORAGES)
    half = storage != "float32"
    skeleton = spec = skin = None
    if "skeleton" in header:
        names = texts(header["skeleton"]["names"], "bone names")
        skeleton = Skeleton(names, arrays["skeleton.parents"], arrays["skeleton.world_from_bone"])
    if "controls" in header:
        spec = _control_spec(arrays, header["controls"])
    if "skin" in header:
        skin = Skin(
            blend=header["skin"]["blend"],
            bone_index=arrays["skin.bone_index"],
            weight=arrays["skin.weight"],
            virtual_index=arrays.get("skin.virtual_index"),
            virtual_weight=arrays.get("skin.virtual_weight"),
        )
    posing = None
    if "posing" in header and skeleton is not None:
        rest = np.zeros(0) if spec is None else spec.rest
        posing = read_posing(arrays, header["posing"], skeleton, rest)
    features = (arrays[f"features.{name}"] for name in ("columns", "low", "high"))
    half_biases = half and header["format_version"] >= _FIRST_NARROW
    bounds = read_bounds(arrays, header["bounds"]) if "bounds" in header else None
    deformer = Deformer(
        mesh=_mesh(arrays, header["mesh"]),
        skeleton=skeleton,
        control_spec=spec,
        skin=skin,
        features=Features(*features),
        nets=read_nets(arrays, header["nets"], half, half_biases),
        bases=read_bases(arrays, header["bases"], half),
        mean=arrays.get("mean"),
        method=text(header["method"], "method"),
        training=header["training"],
        provenance=header["provenance"],
        clips=_clips(arrays, header.get("clips", []), budget),
        storage=storage,
        posing=posing,
        bounds=bounds,
        held_out_error=arrays.get("held_out_error"),
    )
    if bounds is not None:  # also where there are no networks, as in C++
        bounds.need_counts(deformer.features.count, deformer.coefficient_count)
    return deformer


def _control_spec(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> ControlSpec:
    """Return the controls of a file; about: the header's `controls`."""
    names = texts(about["names"], "control names")
    units = texts(about["units"], "control units")
    if len(units) != len(names):
        raise InputError(f"control units: expected {len(names)}, got {len(units)}")
    given = {
        name: checks.shape_of(arrays[f"controls.{name}"], f"controls.{name}", (len(names),))
        for name in _CONTROL_ARRAYS
    }
    return ControlSpec(names, units=units, **given)


def _clips(arrays: dict[str, np.ndarray], entries: Any, budget: Budget) -> tuple[Clip, ...]:
    """Return the clips of a file; entries: the header's `clips`."""
    clips = []
    for number, entry in enumerate(need_kind(entries, "clips", list)):
        rate = entry["frame_rate"]
        if rate is not None and type(rate) not in (int, float):
            raise InputError(f"clip {number}: expected a frame rate or null, got {rate!r}")
        name = text(entry["name"], f"name of clip {number}")
        start = need_kind(entry["start_frame"], f"start frame of clip {number}", int)
        if f"clip.{number}.keys" in arrays:
            budget.take(_KEY * arrays[f"clip.{number}.keys"].size, f"clip {name!r}")
            clips.append(Clip.from_keys(name, _keys(arrays, f"clip.{number}"), rate, start))
        else:
            clips.append(Clip(name, arrays[f"clip.{number}.world_from_bone"], rate, start))
    return tuple(clips)


def _keys(arrays: dict[str, np.ndarray], clip: str) -> ClipKeys:
    """Return the keys of a clip of a file; clip: what the names of its arrays start with."""
    is_key = arrays[f"{clip}.keys"]
    if is_key.max(initial=0) > 1 or is_key.min(initial=0) < 0:
        raise InputError(f"{clip}.keys: expected 0 or 1")
    return ClipKeys(is_key.astype(bool), arrays[f"{clip}.values"])


def _mesh(arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Mesh:
    """Return the mesh of a file; about: the header's `mesh`."""
    return Mesh(
        arrays["mesh.vertices"],
        arrays["mesh.polygon_sizes"],
        arrays["mesh.polygon_vertices"],
        corner_uvs=arrays.get("mesh.corner_uvs"),
        corner_normals=arrays.get("mesh.corner_normals"),
        materials=texts(about["materials"], "materials"),
        polygon_material=arrays.get("mesh.polygon_material"),
        parts={
            name: arrays[f"mesh.part.{number}"]
            for number, name in enumerate(texts(about["parts"], "parts"))
        },
        unit=text(about["unit"], "unit"),
        up_axis=text(about["up_axis"], "up axis"),
        handedness=text(about["handedness"], "handedness"),
    )


SERVICES.save = save
SERVICES.load = load
