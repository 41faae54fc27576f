"""The header of a pose store: what it holds, which blocks are complete, and where it comes from.

The header is the `attributes` of the store's `zarr.json`; nothing in it is used before its types
and bounds are checked. The files that it and the markers of complete blocks name are compared with
those on disk, by size.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.noun import fingerprint
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.io.nouns import NOUNS
from understudy.system.bucket import BucketPath
from understudy.system.errors import FileError, InputError

FORMAT_VERSION = 1
REPAIR = "the store is damaged: sample it again with overwrite, or restore the files"
SAMPLE_AGAIN = "the store is damaged: run the same sampling command again to redo those poses"

STRETCH = "stretch"  # in the provenance
LARGEST_HEADER = 64 << 20  # bytes
_FEW_BLOCKS = 10_000  # of a store without controls
# Bytes of an array for each of its files, at most: what lz4 can reach.
MOST_SQUEEZED = 256

Place = Path | BucketPath


@dataclass(frozen=True)
class Header:
    """What the header of a store says; `of_json` checks it.

    pose_count      T
    block           poses per block
    bytes_per_pose  on disk, about
    belongs_to      the provenance
    nouns           "mesh", "skeleton", ... -> what `nouns.to_arrays` returned besides the arrays
    files           name below the store, of all but the blocks -> bytes
    """

    pose_count: int
    block: int
    bytes_per_pose: int
    belongs_to: Mapping[str, Any]
    nouns: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    files: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of_json(path: Place, attributes: Mapping[str, Any]) -> Header:
        """The header in the attributes of the store at `path`; `FileError` if it is wrong."""
        fields = [field.name for field in dataclasses.fields(Header)]
        missing = [name for name in fields if name not in attributes]
        if missing:
            raise FileError(f"{path}: the header lacks {', '.join(sorted(missing))}; {REPAIR}")
        header = Header(**{name: attributes[name] for name in fields})
        try:
            header._check()
        except InputError as problem:
            raise FileError(f"{path}: the header is wrong: {problem}; {REPAIR}") from problem
        return header

    def _check(self) -> None:
        _whole(self.pose_count, "pose_count", 1)
        _whole(self.block, "block", 1, self.pose_count)
        _whole(self.bytes_per_pose, "bytes_per_pose", 0)
        limit = _table(self.belongs_to, "belongs_to").get(STRETCH, 0.0)
        if type(limit) not in (int, float) or not 0 <= limit <= 1:
            raise InputError(f"{STRETCH}: expected a number between 0 and 1, got {_short(limit)}")
        check_files(self.files, "files")
        for name in _table(self.nouns, "nouns"):
            _check_noun(self.nouns[name], name)
        if not {"mesh", "controls"} <= self.nouns.keys():
            raise InputError("nouns: expected a mesh and controls")
        if not isinstance(self.nouns["controls"]["words"].get("names"), list):
            raise InputError("nouns: the names of the controls are not a list")
        # A claimed number of poses is believed where the tiles of their control values are there.
        tiles = sum(name.startswith("control_values/c.") for name in self.files)
        most = tiles if self.control_count else _FEW_BLOCKS
        if self.block_count > most:
            raise InputError(f"{self.block_count} blocks, but control values of {tiles}")

    @property
    def control_count(self) -> int:
        """C."""
        return len(self.nouns["controls"]["words"]["names"])

    @property
    def block_count(self) -> int:
        """How many blocks of poses the store has."""
        return -(-self.pose_count // self.block)

    def rows(self, k: int) -> range:
        """The poses of block `k`."""
        if not 0 <= k < self.block_count:
            raise InputError(f"block: there are blocks 0..{self.block_count - 1}, got {k!r}")
        return range(k * self.block, min((k + 1) * self.block, self.pose_count))

    def bytes_of(self, array: str) -> int:
        """The bytes of the tiles of an array that was written with the header."""
        return sum(size for name, size in self.files.items() if name.startswith(f"{array}/c"))

    def to_json(self) -> dict[str, Any]:
        """The attributes that `of_json` reads."""
        return {"understudy_poses": FORMAT_VERSION, **vars(self)}


def check_files(files: Any, what: str) -> Mapping[str, int]:
    """Return a table of file names and sizes; `InputError` if it is none."""
    for name, size in _table(files, what).items():
        if name.startswith("/") or {"..", ""} & set(name.split("/")) or "\\" in name:
            raise InputError(f"{what}: {_short(name)} is not the name of a file below the store")
        _whole(size, f"{what}: size of {_short(name)}", 0)
    return files


def _whole(value: Any, what: str, low: int, high: int = 1 << 62) -> None:
    if type(value) is not int or not low <= value <= high:
        raise InputError(
            f"{what}: expected a whole number from {low} to {high}, got {_short(value)}"
        )


def _short(value: Any) -> str:
    return repr(value)[:80]


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{what}: expected a table, got {type(value).__name__}")
    return value


def _check_noun(facts: Any, name: str) -> None:
    """Raise unless the facts name fields of the noun, and arrays without a path in their names."""
    if name not in NOUNS:
        raise InputError(f"nouns: expected {', '.join(NOUNS)}, got {_short(name)}")
    kind = NOUNS[name]
    known = {field.name for field in dataclasses.fields(kind)}
    parts = {part: _table(facts, name).get(part) for part in ("words", "arrays", "tables")}
    words, tables = (_table(parts[part], f"{part} of {name}") for part in ("words", "tables"))
    arrays, numbered = parts["arrays"], []
    for table in tables.values():
        numbered += _table(table, f"tables of {name}").values()
    if not isinstance(arrays, list) or not all(isinstance(a, str) for a in [*arrays, *numbered]):
        raise InputError(f"nouns: the arrays of the {name} are not a list of names")
    fields = {*words, *tables, *(array for array in arrays if array not in numbered)}
    if fields - known or set(numbered) - set(arrays) or any("/" in array for array in arrays):
        raise InputError(f"nouns: the fields of the {name} are not those of a {kind.__name__}")


@dataclass(frozen=True, eq=False)
class Sample:
    """The poses that a store is made for.

    values      (T,C) control values of the poses
    provenance  JSON that says how the poses are made: rig, plan, seed, version
    skin        the weights that the rig itself has, or None
    shown       a few of the poses as the rig makes them, by which it is known again; or None
    """

    mesh: Mesh
    skeleton: Skeleton | None
    controls: ControlSpec
    values: np.ndarray
    provenance: Mapping[str, Any]
    skin: Skin | None = None
    shown: Poses | None = None


def read_attributes(path: Place) -> dict[str, Any]:
    """Return the attributes of a pose store of any version; `FileError` if it is not one."""
    if isinstance(path, Path) and not path.exists():
        raise FileError(f"{path}: no such pose store; `understudy sample` makes one")
    try:
        attributes = json.loads(_text(path / "zarr.json"))["attributes"]
        attributes["understudy_poses"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        if isinstance(path, BucketPath):
            _explain(path, problem)
        raise FileError(
            f"{path}: not a pose store (no zarr.json with the attribute understudy_poses in it)"
        ) from None
    return attributes


def _text(file: Place) -> str:
    """Return the text of a small file; of a pipe or a device it would never come."""
    if isinstance(file, Path):
        found = file.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_HEADER:
            raise ValueError("not a file of the size of a header")
    return file.read_text(encoding="utf-8")


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
    attributes = read_attributes(path)
    version = attributes["understudy_poses"]
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise FileError(
            f"{path}: pose store of format version {_short(version)}, this understudy reads up to "
            f"{FORMAT_VERSION}; update understudy"
        )
    return Header.of_json(path, attributes)


def marker_of_block(path: Place, k: int) -> Place:
    """Return the file whose presence says that block `k` is complete."""
    return path / f"vertices/done/{k}.json"


def complete_blocks(path: Place, header: Header) -> Iterator[tuple[int, Mapping[str, int]]]:
    """Yield the complete blocks and the sizes of their files; a damaged one is a `FileError`."""
    sizes = _sizes(path, "vertices/done/")
    for k in range(header.block_count):
        with contextlib.suppress(FileNotFoundError):
            yield k, _verified_files(path, k, sizes)


def intact_blocks(path: Place, header: Header) -> Iterator[int]:
    """Yield the complete blocks that are not damaged."""
    sizes = _sizes(path, "vertices/done/")
    for k in range(header.block_count):
        with contextlib.suppress(FileNotFoundError, DamagedBlock):
            _verified_files(path, k, sizes)
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


def _verified_files(path: Place, k: int, sizes: Mapping[str, int] | None) -> Mapping[str, int]:
    """Return the files of block `k`: name -> bytes.

    `FileNotFoundError`: it is not complete; `DamagedBlock`: it is damaged.
    """
    marker = marker_of_block(path, k)
    if sizes is not None and f"vertices/done/{marker.name}" not in sizes:
        raise FileNotFoundError(str(marker))
    try:
        files = check_files(json.loads(_text(marker)), "files")
        if not files:
            raise ValueError("it names no files")
    except FileNotFoundError:
        raise
    except (ValueError, OSError, RecursionError) as problem:
        if isinstance(path, BucketPath) and isinstance(problem, OSError):
            _explain(path, problem)
        raise DamagedBlock(
            f"{path}: the marker of block {k} cannot be read ({problem}); {SAMPLE_AGAIN}"
        ) from problem
    try:
        verify_files(path, files, SAMPLE_AGAIN, sizes)
    except FileError as problem:
        raise DamagedBlock(str(problem)) from problem
    return files


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
        "mesh": fingerprint(sample.mesh),
        "skeleton": fingerprint(sample.skeleton),
        "skin": fingerprint(sample.skin),
        "ranges": fingerprint(sample.controls),
        "control values": fingerprint(sample.values),
    }


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
