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
from collections.abc import Callable, Iterator, Mapping
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
from understudy.system.bucket import BucketPath, no_answer
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
        for name, is_right in header._rules().items():
            try:
                wrong = not is_right()
            except (TypeError, ValueError, AttributeError, LookupError):  # another type
                wrong = True
            if wrong:
                text = repr(attributes.get(name, ""))[:80]
                raise FileError(f"{path}: the header is wrong: {name} {text}; {REPAIR}")
        return header

    def _rules(self) -> dict[str, Callable[[], bool]]:
        """What must hold, in an order in which each may rely on those before."""
        files, nouns = self.files, self.nouns
        limit = lambda: self.belongs_to.get(STRETCH, 0.0)
        # A claimed number of poses is believed where the tiles of their control values are there.
        tiles = lambda: sum(name.startswith("control_values/c.") for name in files)
        return {
            "pose_count": lambda: _is_whole(self.pose_count, 1),
            "block": lambda: _is_whole(self.block, 1) and self.block <= self.pose_count,
            "bytes_per_pose": lambda: _is_whole(self.bytes_per_pose),
            "belongs_to": lambda: type(limit()) in (int, float) and 0 <= limit() <= 1,
            "files": lambda: are_files(files),
            "nouns": lambda: (
                {"mesh", "controls"} <= nouns.keys() <= NOUNS.keys()
                and all(_is_noun(facts, NOUNS[name]) for name, facts in nouns.items())
                and type(nouns["controls"]["words"]["names"]) is list
            ),
            "number of blocks": lambda: (
                self.block_count <= (tiles() if self.control_count else _FEW_BLOCKS)
            ),
        }

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


def are_files(files: Any) -> bool:
    """Whether a value is a table of files below a store, and their sizes."""
    parts = [part for name in files.keys() for part in name.split("/")]  # noqa: SIM118
    return not {"", ".."}.intersection(parts) and all(map(_is_whole, files.values()))


def _is_whole(value: Any, low: int = 0) -> bool:
    return type(value) is int and low <= value < 1 << 62


def _is_noun(facts: Mapping[str, Any], kind: type) -> bool:
    """Whether facts name fields of a noun, and arrays without a path in their names."""
    arrays = facts["arrays"]
    numbered = [where for table in facts["tables"].values() for where in table.values()]
    named = {*facts["words"].keys(), *facts["tables"].keys(), *arrays} - set(numbered)
    known = {field.name for field in dataclasses.fields(kind)}
    return type(arrays) is list and named <= known and not any("/" in name for name in arrays)


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
        raise no_answer(path, problem) from problem


def read_header(path: Place) -> Header:
    """Return the header of a store that this version can read."""
    attributes = read_attributes(path)
    version = attributes["understudy_poses"]
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise FileError(
            f"{path}: pose store of format version {str(version)[:80]}, this understudy reads up "
            f"to {FORMAT_VERSION}; update understudy"
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
        files = json.loads(_text(marker))
        if not files or not are_files(files):
            raise ValueError("it names no files with their sizes")
    except FileNotFoundError:
        raise
    except (ValueError, OSError, RecursionError, TypeError, AttributeError) as problem:
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
