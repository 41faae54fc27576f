"""The header of a pose store: what it holds, which blocks are complete, and where it comes from.

The header is the `attributes` of the store's `zarr.json`. The files that it and the markers of
complete blocks name are compared with those on disk, by size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.system.bucket import BucketPath
from understudy.system.errors import FileError, InputError

FORMAT_VERSION = 1
REPAIR = "the store is damaged: sample it again with overwrite, or restore the files"
SAMPLE_AGAIN = "the store is damaged: run the same sampling command again to redo those poses"

Header = dict[str, Any]
Place = Path | BucketPath


@dataclass(frozen=True, eq=False)
class Sample:
    """The poses that a store is made for.

    values      (T,C) control values of the poses
    provenance  JSON that says how the poses are made: rig, plan, seed, version
    skin        the weights that the rig itself has, or None
    """

    mesh: Mesh
    skeleton: Skeleton | None
    controls: ControlSpec
    values: np.ndarray
    provenance: Mapping[str, Any]
    skin: Skin | None = None


def read_attributes(path: Place) -> Header:
    """Return the attributes of a pose store of any version; `FileError` if it is not one."""
    if isinstance(path, Path) and not path.exists():
        raise FileError(f"{path}: no such pose store; `understudy sample` makes one")
    try:
        attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        attributes["understudy_poses"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        if isinstance(path, BucketPath):
            _explain(path, problem)
        raise FileError(
            f"{path}: not a pose store (no zarr.json with the attribute understudy_poses in it)"
        ) from None
    return attributes


def _explain(path: BucketPath, problem: Exception) -> None:
    """Raise what went wrong in a bucket, if it is not an object of another kind."""
    if isinstance(problem, FileNotFoundError):
        raise FileError(f"{path}: no such pose store; `understudy sample` makes one") from problem
    if isinstance(problem, OSError):
        raise FileError(
            f"{path}: the bucket does not answer ({problem.strerror}); run the same command again "
            "when it does"
        ) from problem


def read_header(path: Place) -> Header:
    """Return the header of a store that this version can read."""
    header = read_attributes(path)
    version = header["understudy_poses"]
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise FileError(
            f"{path}: pose store of format version {version!r}, this understudy reads up to "
            f"{FORMAT_VERSION}; update understudy"
        )
    needed = {"pose_count", "block", "bytes_per_pose", "belongs_to", "nouns", "files"}
    missing = needed - set(header)
    if missing:
        raise FileError(f"{path}: the header lacks {', '.join(sorted(missing))}; {REPAIR}")
    return header


def block_count(header: Header) -> int:
    """Return how many blocks of poses the store has."""
    return -(-header["pose_count"] // header["block"])


def rows_of_block(header: Header, k: int) -> range:
    """Return the poses of block `k`."""
    if not 0 <= k < block_count(header):
        raise InputError(f"block: there are blocks 0..{block_count(header) - 1}, got {k!r}")
    return range(k * header["block"], min((k + 1) * header["block"], header["pose_count"]))


def marker_of_block(path: Place, k: int) -> Place:
    """Return the file whose presence says that block `k` is complete."""
    return path / f"vertices/done/{k}.json"


def complete_blocks(path: Place, header: Header) -> Iterator[int]:
    """Yield the complete blocks; a complete block that is damaged is a `FileError`."""
    sizes = _sizes(path, "vertices/done/")
    for k in range(block_count(header)):
        try:
            _verify_block(path, k, sizes)
        except FileNotFoundError:
            continue
        yield k


def intact_blocks(path: Place, header: Header) -> Iterator[int]:
    """Yield the complete blocks that are not damaged."""
    sizes = _sizes(path, "vertices/done/")
    for k in range(block_count(header)):
        try:
            _verify_block(path, k, sizes)
        except (FileNotFoundError, DamagedBlock):
            continue
        yield k


class DamagedBlock(FileError):
    """A block of poses whose files are not what was written."""


def _sizes(path: Place, needed: str) -> Mapping[str, int] | None:
    """Return the sizes of all objects of a store in a bucket, at once; None on a disk.

    needed  if no name starts with it, there is nothing to compare
    """
    if not isinstance(path, BucketPath):
        return None
    try:
        sizes = path.sizes()
    except OSError as problem:
        _explain(path, problem)
        raise
    return sizes if any(name.startswith(needed) for name in sizes) else {}


def _verify_block(path: Place, k: int, sizes: Mapping[str, int] | None) -> None:
    """Raise `FileNotFoundError` if block `k` is not complete, `DamagedBlock` if it is damaged."""
    marker = marker_of_block(path, k)
    if sizes is not None and f"vertices/done/{marker.name}" not in sizes:
        raise FileNotFoundError(str(marker))
    try:
        files = json.loads(marker.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (ValueError, OSError) as problem:
        if isinstance(path, BucketPath) and isinstance(problem, OSError):
            _explain(path, problem)
        raise DamagedBlock(
            f"{path}: the marker of block {k} cannot be read ({problem}); {SAMPLE_AGAIN}"
        ) from problem
    try:
        verify_files(path, files, SAMPLE_AGAIN, sizes)
    except FileError as problem:
        raise DamagedBlock(str(problem)) from problem


def verify_files(
    path: Place, files: Mapping[str, int], advice: str, sizes: Mapping[str, int] | None = None
) -> None:
    """Raise unless every file is there and has the size it was written with.

    files   name below `path` -> bytes
    advice  what to do about it, for the error
    sizes   of all objects of a bucket; None: they are looked up
    """
    if sizes is None:
        sizes = _sizes(path, "")
    for name, size in files.items():
        try:
            have = os.stat(str(path / name)).st_size if sizes is None else sizes[name]
        except (OSError, KeyError):
            raise FileError(f"{path}: the file {name} is missing; {advice}") from None
        if have != size:
            raise FileError(
                f"{path}: the file {name} holds {have} bytes instead of {size}; {advice}"
            )


def full_provenance(sample: Sample) -> dict[str, Any]:
    """Return the provenance as JSON would give it back, with fingerprints of what is sampled."""
    return json.loads(json.dumps(dict(sample.provenance))) | {
        "mesh": _fingerprint(sample.mesh),
        "skeleton": _fingerprint(sample.skeleton),
        "skin": _fingerprint(sample.skin),
        "ranges": _fingerprint(sample.controls),
        "control values": _fingerprint(sample.values),
    }


def _fingerprint(thing: object) -> str:
    """Return sixteen hexadecimal digits that differ between two meshes, skeletons, ..."""
    digest = hashlib.sha256()
    items: list[tuple[str, Any]] = [("", thing)]
    if dataclasses.is_dataclass(thing):
        items = [(field.name, getattr(thing, field.name)) for field in dataclasses.fields(thing)]
    for name, value in items:
        entries = value.items() if isinstance(value, Mapping) else [("", value)]
        for key, item in entries:
            is_array = isinstance(item, np.ndarray)
            text = f"{item.dtype}{item.shape}" if is_array else repr(item)
            digest.update(f"{name}/{key}:{text};".encode())
            if is_array:
                digest.update(np.ascontiguousarray(item).data)
    return digest.hexdigest()[:16]


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return one text for each fact that differs.

    >>> differences({"plan": {"seed": 0}}, {"plan": {"seed": 1}})
    ['plan seed 0 there, 1 now']
    """
    found = []
    for key in dict.fromkeys([*old, *new]):
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{prefix}{key} ")
        elif a != b:
            found.append(f"{prefix}{key} {a!r} there, {b!r} now")
    return found
