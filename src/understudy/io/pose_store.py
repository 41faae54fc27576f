"""Poses on disk: one Zarr group, tiled by pose x vertex, so that sampling writes by pose, fitting
reads by vertex, and neither holds it all.

    zarr.json               header: format version, names, units, what the store belongs to, sizes
                            of the files below
    mesh skeleton controls  the nouns, one small array per field
    vertices                (T,V,3) float32, tiles of 128 poses x 1024 vertices (1.5 MB)
    world_from_bone         (T,B,3,4) float64, where there is a skeleton
    control_values          (T,C) float64, written first: they are the plan
    vertices/done/K.json    block K of poses is complete: its files, with their sizes

A block is written whole, brought to disk, and only then marked as done. So a store whose writer was
killed continues where it stopped, and a tile that is missing or cut short is seen when the store is
opened. Tiles carry a checksum, so one that was changed is seen when it is read. They are not
compressed: on random poses of a body the best cheap codec (bitshuffle, lz4 or zstd) saves a fifth
of the bytes and nearly halves the speed of reading.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from understudy.core import checks
from understudy.core.controls import ControlSpec
from understudy.core.errors import FileError, InputError, MissingDependencyError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton

if TYPE_CHECKING:
    import zarr

FORMAT_VERSION = 1
BLOCK = 128
TILE = 1024
READ_BLOCKS = 8  # blocks read at a time by vertex: Zarr decodes their tiles side by side
NOUNS = {"mesh": Mesh, "skeleton": Skeleton, "controls": ControlSpec}


class StoredVertices:
    """The (T,V,3) vertices of a complete store; a `VertexSource`. Reads may come from several
    threads at once.
    """

    def __init__(self, path: Path):
        self.path = path
        self.shape: tuple[int, int, int] = _array(path, "vertices").shape

    def read_poses(self, start: int, stop: int) -> np.ndarray:
        """(stop-start, V, 3) float32."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        return self._read(
            _array(self.path, "vertices"), slice(start, max(start, stop)), slice(None)
        )

    def read_vertices(self, vertices: np.ndarray) -> np.ndarray:
        """(T, len(vertices), 3) float32, in the order given."""
        return self.read(0, self.shape[0], vertices)

    def read(self, start: int, stop: int, vertices: np.ndarray) -> np.ndarray:
        """(stop-start, len(vertices), 3) float32, in the order given.

        Tile by tile: each tile is read once, as the slice that spans the vertices wanted of it.
        That measures faster than Zarr's own indexing by a list, and holds little more than the
        result.
        """
        vertices = checks.index(vertices, "vertices to read", self.shape[1], dtype=np.int64)
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        array = _array(self.path, "vertices")
        rows, width = READ_BLOCKS * array.chunks[0], array.chunks[1]
        result = np.empty((max(0, stop - start), len(vertices), 3), np.float32)
        for tile in np.unique(vertices // width):
            where = np.flatnonzero(vertices // width == tile)
            low, high = int(vertices[where].min()), int(vertices[where].max()) + 1
            target = (
                slice(where[0], where[-1] + 1) if where[-1] - where[0] + 1 == len(where) else where
            )  # a slice, where it can be, copies faster
            for first in range(start, stop, rows):
                some = slice(first, min(first + rows, stop))
                block = self._read(array, some, slice(low, high)).take(
                    vertices[where] - low, axis=1
                )
                result[some.start - start : some.stop - start, target] = block
        return result

    def _read(self, array: zarr.Array, poses: slice, vertices: slice) -> np.ndarray:
        result = _part(self.path, "vertices", array, (poses, vertices))
        if np.isnan(
            result[..., 0]
        ).any():  # Zarr fills in for a file that is not there, and no NaN was ever written
            raise FileError(f"{self.path}: a tile of the vertices has disappeared; {_REPAIR}")
        return result


def open_poses(path: str | Path) -> Poses:
    """The poses of a finished store; the vertices stay on disk.

    A FileError says when there is no store, it is something else, of a newer format, not finished,
    or damaged.
    """
    path = Path(path)
    header = _header(path)
    done, count = sum(len(_rows(header, k)) for k in _done(path, header)), header["pose_count"]
    if done < count:
        raise FileError(
            f"{path}: sampling stopped at {done} of {count} poses: run the same command again to "
            f"resume"
        )
    _verify(path, header["files"], _REPAIR)
    nouns = {
        name: _read_noun(path, name, header["nouns"][name]) if name in header["nouns"] else None
        for name in NOUNS
    }
    try:
        return Poses(
            mesh=nouns["mesh"],
            vertices=StoredVertices(path),
            skeleton=nouns["skeleton"],
            world_from_bone=None if nouns["skeleton"] is None else _read(path, "world_from_bone"),
            control_spec=nouns["controls"],
            controls=_read(path, "control_values"),
            name=path.stem,
        )
    except InputError as problem:
        raise FileError(
            f"{path}: the store does not fit together ({problem}); {_REPAIR}"
        ) from problem


def provenance(path: str | Path) -> dict:
    """What the store belongs to: the facts given to `create`, and fingerprints of the mesh,
    skeleton, ranges and control values.
    """
    return _header(Path(path))["belongs_to"]


def create(
    path: str | Path,
    mesh: Mesh,
    skeleton: Skeleton | None,
    control_spec: ControlSpec,
    controls: np.ndarray,
    provenance: Mapping,
    block: int = BLOCK,
    overwrite: bool = False,
) -> None:
    """An empty store for the poses at `controls` (T,C), to be filled block by block of about
    `block` poses.

    provenance  words and numbers (JSON) that say how the poses are made: rig, plan, seed, version
    overwrite   replace a store that is there; anything that is not a pose store is never replaced
    """
    path = Path(path)
    controls = control_spec.check(controls)
    if not len(controls):
        raise InputError("controls: there are no poses to store")
    checks.between(block, "block", low=1)
    if occupied(path) and not overwrite:
        raise FileError(f"{path}: already exists; choose another path, or overwrite it")
    if occupied(path):
        _attributes(path)  # refuses what is not a pose store
    parts = -(-len(controls) // block)
    header = {
        "understudy_poses": FORMAT_VERSION,
        "pose_count": len(controls),
        "block": -(-len(controls) // parts),  # even blocks: Zarr pads the last tile to full size
        "bytes_per_pose": 12 * mesh.vertex_count + 96 * (skeleton.bone_count if skeleton else 0),
        "belongs_to": _belongs_to(mesh, skeleton, control_spec, controls, provenance),
    }
    draft = path.with_name(f".{path.name}.partial")
    with _writing(path, header):
        _need_space(path, header, len(controls))
        draft.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(draft, ignore_errors=True)  # of a writer that was killed right here
        _write_draft(
            draft, header, {"mesh": mesh, "skeleton": skeleton, "controls": control_spec}, controls
        )
        # The store appears whole or not at all.
        if path.exists():
            shutil.rmtree(path)
        draft.rename(path)
        _to_disk(path.parent)


def resume(
    path: str | Path,
    mesh: Mesh,
    skeleton: Skeleton | None,
    control_spec: ControlSpec,
    controls: np.ndarray,
    provenance: Mapping,
) -> list[int]:
    """The blocks still to write, after making sure that the store belongs to the same rig and plan
    (else a FileError says what differs).
    """
    path = Path(path)
    header = _header(path)
    differences = _differences(
        header["belongs_to"], _belongs_to(mesh, skeleton, control_spec, controls, provenance)
    )
    if differences:
        raise FileError(
            f"{path}: holds another sample: {'; '.join(differences)}. Choose another path, or "
            f"overwrite it"
        )
    _verify(path, header["files"], _REPAIR)
    missing = missing_blocks(path)
    with _writing(path, header):
        for left in path.rglob("*.partial"):  # of a writer that was killed
            left.unlink()
        _need_space(path, header, sum(len(_rows(header, k)) for k in missing))
    return missing


def missing_blocks(path: str | Path) -> list[int]:
    """The blocks that are not done, or whose files are no longer what was written."""
    path = Path(path)
    header = _header(path)
    done = set(_done(path, header, damaged=False))
    return [k for k in range(_block_count(header)) if k not in done]


def block_controls(path: str | Path, k: int) -> tuple[range, np.ndarray]:
    """Which poses block `k` holds, and their control values (n,C) float64."""
    path = Path(path)
    rows = _rows(_header(path), k)
    return rows, _read(path, "control_values", slice(rows.start, rows.stop))


def write_block(path: str | Path, k: int, poses: Poses) -> None:
    """Write the poses of block `k` and, once they are safely on disk, mark it as done. Different
    blocks may be written by different processes.
    """
    path = Path(path)
    header = _header(path)
    rows = _rows(header, k)
    data = {"vertices": np.asarray(poses.read_poses(0, poses.pose_count), np.float32)}
    if "skeleton" in header["nouns"]:
        if poses.world_from_bone is None:
            raise InputError(f"block {k}: the store has bones, the poses have none")
        data["world_from_bone"] = np.asarray(poses.world_from_bone, np.float64)
    for name, values in data.items():
        checks.shape_of(values, f"{name} of block {k}", (len(rows), *_array(path, name).shape[1:]))
        _refuse_nan(path, name, values, rows)
    with _writing(path, header):
        files = {}
        for name, values in data.items():
            array = _array(path, name, mode="r+")
            array[rows.start : rows.stop] = values
            tiles = [
                f"{name}/" + array.metadata.encode_chunk_key((k, *rest))
                for rest in np.ndindex(array.cdata_shape[1:])
            ]
            files |= {tile: _to_disk(path / tile) for tile in tiles}
            _to_disk(path / name)
        _write_text(path / f"vertices/done/{k}.json", json.dumps(files, indent=1))


@contextlib.contextmanager
def lock(path: str | Path) -> Iterator[None]:
    """Hold the right to fill the store at `path`; a second holder gets a FileError at once. The
    system lets go of it when a process dies.
    """
    path = Path(path)
    file = path.with_name(f".{path.name}.lock")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        while True:
            handle = os.open(file, os.O_RDWR | os.O_CREAT)
            try:
                _lock(handle)
                held = _same_file(
                    handle, file
                )  # not if another holder removed it after we had opened it
            except BaseException:
                os.close(handle)
                raise
            if held:
                break
            os.close(handle)
    except BlockingIOError:
        raise FileError(
            f"{path}: another process is sampling to this store; wait for it, or choose another "
            f"path"
        ) from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be written there: {problem.strerror}") from problem
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
        os.close(handle)


_REPAIR = "the store is damaged: sample it again with overwrite, or restore the files"
_AGAIN = "the store is damaged: run the same sampling command again to redo those poses"


def _attributes(path: Path) -> dict:
    """The attributes of the store's root, after making sure that there is one and that it is
    ours.
    """
    if not path.exists():
        raise FileError(f"{path}: no such pose store; `understudy sample` makes one")
    try:
        attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        attributes["understudy_poses"]
    except (OSError, ValueError, KeyError, TypeError):
        raise FileError(
            f"{path}: not a pose store (no zarr.json with the attribute understudy_poses in it)"
        ) from None
    return attributes


def _header(path: Path) -> dict:
    """The attributes of a store that this version can read."""
    header = _attributes(path)
    version = header["understudy_poses"]
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise FileError(
            f"{path}: pose store of format version {version!r}, this understudy reads up to "
            f"{FORMAT_VERSION}; update understudy"
        )
    missing = {"pose_count", "block", "bytes_per_pose", "belongs_to", "nouns", "files"} - set(
        header
    )
    if missing:
        raise FileError(f"{path}: the header lacks {', '.join(sorted(missing))}; {_REPAIR}")
    return header


def _block_count(header: dict) -> int:
    return -(-header["pose_count"] // header["block"])


def _rows(header: dict, k: int) -> range:
    """The poses of block `k`."""
    if not 0 <= k < _block_count(header):
        raise InputError(f"block: there are blocks 0..{_block_count(header) - 1}, got {k!r}")
    return range(k * header["block"], min((k + 1) * header["block"], header["pose_count"]))


def _done(path: Path, header: dict, damaged: bool = True) -> Iterator[int]:
    """The blocks marked as done. One with missing or shortened files is an error where `damaged`,
    else it counts as not done.
    """
    for k in range(_block_count(header)):
        try:
            files = json.loads((path / f"vertices/done/{k}.json").read_text(encoding="utf-8"))
            _verify(path, files, _AGAIN)
        except FileNotFoundError:
            continue
        except (ValueError, OSError) as problem:  # FileError is a ValueError
            if damaged and isinstance(problem, FileError):
                raise
            if damaged:
                raise FileError(
                    f"{path}: the marker of block {k} cannot be read ({problem}); {_AGAIN}"
                ) from problem
            continue
        yield k


def _verify(path: Path, files: Mapping[str, int], advice: str) -> None:
    """Raise unless every file is there and as long as when it was written."""
    for name, size in files.items():
        try:
            have = os.stat(path / name).st_size
        except OSError:
            raise FileError(f"{path}: the file {name} is missing; {advice}") from None
        if have != size:
            raise FileError(
                f"{path}: the file {name} holds {have} bytes instead of {size}; {advice}"
            )


def _zarr():
    """Return the package zarr. A deployed deformer needs no store, so zarr is optional."""
    try:
        import zarr.codecs
    except ImportError as problem:
        raise MissingDependencyError(
            "a pose store needs the package zarr: pip install 'understudy[cli]'"
        ) from problem
    return zarr


def _array(path: Path, name: str, mode: str = "r") -> zarr.Array:
    zarr = _zarr()
    try:
        return zarr.open_array(path / name, mode=mode, zarr_format=3)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise FileError(
            f"{path}: the array {name} cannot be opened ({problem}); {_REPAIR}"
        ) from problem


def _read(path: Path, name: str, where: slice | tuple = ...) -> np.ndarray:
    return _part(path, name, _array(path, name), where)


def _part(path: Path, name: str, array: zarr.Array, where: slice | tuple) -> np.ndarray:
    """Part of an array; a wrong checksum or length becomes a FileError."""
    try:
        return np.asarray(array[where])
    except (ValueError, OSError, RuntimeError) as problem:
        raise FileError(f"{path}: {name} cannot be read ({problem}); {_REPAIR}") from problem


def _write_draft(
    draft: Path, header: dict, nouns: Mapping[str, object], controls: np.ndarray
) -> None:
    """Everything but the poses, in a folder of its own."""
    block, count = header["block"], header["pose_count"]
    root = _zarr().create_group(draft, zarr_format=3)
    header["nouns"] = {
        name: _write_noun(root, name, noun) for name, noun in nouns.items() if noun is not None
    }
    vertices = nouns["mesh"].vertex_count
    columns = -(-vertices // TILE)
    _new_array(
        root, "vertices", (count, vertices, 3), np.float32, (block, -(-vertices // columns), 3)
    )
    if nouns["skeleton"] is not None:
        shape = (nouns["skeleton"].bone_count, 3, 4)
        _new_array(root, "world_from_bone", (count, *shape), np.float64, (block, *shape))
    _new_array(root, "control_values", controls.shape, np.float64, (block, controls.shape[1]))[
        ...
    ] = controls
    (draft / "vertices/done").mkdir()
    files = sorted(
        file for file in draft.rglob("*") if file.is_file() and file != draft / "zarr.json"
    )
    header["files"] = {file.relative_to(draft).as_posix(): _to_disk(file) for file in files}
    root.update_attributes(header)
    _to_disk(draft / "zarr.json")


def _new_array(group: zarr.Group, name: str, shape: tuple, dtype, tile: tuple) -> zarr.Array:
    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=tuple(max(1, n) for n in tile),
        compressors=[_zarr().codecs.Crc32cCodec()],
        fill_value=np.nan if np.dtype(dtype).kind == "f" else 0,
        chunk_key_encoding={
            "name": "default",
            "separator": ".",
        },  # flat: one folder to bring to disk
        config={"write_empty_chunks": True},
    )


def _write_noun(root: zarr.Group, name: str, noun: object) -> dict:
    """Arrays of a dataclass into a group, and the rest of it as JSON: {"words": ..., "arrays":
    [...], "tables": {field: {key: array}}}.
    """
    group = root.create_group(name)
    words, arrays, tables = {}, {}, {}
    for field in dataclasses.fields(noun):
        value = getattr(noun, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif isinstance(value, Mapping):  # keys are free text, so the arrays are numbered
            tables[field.name] = {key: f"{field.name}.{i}" for i, key in enumerate(value)}
            arrays |= {tables[field.name][key]: item for key, item in value.items()}
        elif value is not None:
            words[field.name] = value
    for key, value in arrays.items():
        _new_array(group, key, value.shape, value.dtype, value.shape)[...] = value
    return {"words": words, "arrays": list(arrays), "tables": tables}


def _read_noun(path: Path, name: str, facts: Mapping) -> object:
    arrays = {key: _read(path, f"{name}/{key}") for key in facts["arrays"]}
    tables = {
        field: {key: arrays.pop(where) for key, where in table.items()}
        for field, table in facts["tables"].items()
    }
    words = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in facts["words"].items()
    }
    try:
        return NOUNS[name](**arrays, **tables, **words)
    except (TypeError, InputError) as problem:
        raise FileError(f"{path}: the {name} cannot be read ({problem}); {_REPAIR}") from problem


def _belongs_to(
    mesh: Mesh,
    skeleton: Skeleton | None,
    spec: ControlSpec,
    controls: np.ndarray,
    provenance: Mapping,
) -> dict:
    facts = json.loads(json.dumps(dict(provenance)))
    return facts | {
        "mesh": _fingerprint(mesh),
        "skeleton": _fingerprint(skeleton),
        "ranges": _fingerprint(spec),
        "control values": _fingerprint(controls),
    }


def _fingerprint(thing: object) -> str:
    """Sixteen digits that tell two meshes, skeletons, ... apart."""
    digest = hashlib.sha256()
    items = (
        [("", thing)]
        if not dataclasses.is_dataclass(thing)
        else [(f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing)]
    )
    items = [
        (f"{name}/{key}", v)
        for name, value in items
        for key, v in (value.items() if isinstance(value, Mapping) else [("", value)])
    ]
    for name, value in items:
        text = f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else repr(value)
        digest.update(f"{name}:{text};".encode())
        if isinstance(value, np.ndarray):
            digest.update(np.ascontiguousarray(value))
    return digest.hexdigest()[:16]


def _differences(old: Mapping, new: Mapping, prefix: str = "") -> list[str]:
    """One text for each fact that is not the same, e.g. "plan seed 0 there, 1 now"."""
    found = []
    for key in dict.fromkeys([*old, *new]):
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += _differences(a, b, f"{prefix}{key} ")
        elif a != b:
            found.append(f"{prefix}{key} {a!r} there, {b!r} now")
    return found


def _refuse_nan(path: Path, name: str, values: np.ndarray, rows: range) -> None:
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        place = int(
            np.flatnonzero(~np.isfinite(values[row]).reshape(len(values[row]), -1).all(axis=1))[0]
        )
        spec = _read_noun(path, "controls", _header(path)["nouns"]["controls"])
        controls = _read(path, "control_values", slice(rows[row], rows[row] + 1))[0]
        what = "vertex" if name == "vertices" else "bone"
        raise InputError(
            f"pose {rows[row]}: {what} {place} is NaN or infinite; repair the rig there, or narrow "
            f"the ranges. "
            f"Its controls: {controls_text(spec, controls)}"
        )


def controls_text(spec: ControlSpec, values: np.ndarray, most: int = 12) -> str:
    """Control values (C,) of one pose as words, those farthest from rest first (relative to their
    range).
    """
    away = np.abs(values - spec.rest) / np.where(spec.high > spec.low, spec.high - spec.low, np.inf)
    order = [int(c) for c in np.argsort(-away, kind="stable") if values[c] != spec.rest[c]]
    texts = [
        f"{spec.names[c]} = {values[c]:.6g}{' ' + spec.units[c] if spec.units[c] else ''}"
        for c in order[:most]
    ]
    return (", ".join(texts) or "all at rest") + (
        f" and {len(order) - most} more" if len(order) > most else ""
    )


@contextlib.contextmanager
def _writing(path: Path, header: dict) -> Iterator[None]:
    """System errors while writing become a FileError; a full disk also says what is needed."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FileError(
                f"{path}: no space left on the disk: "
                f"{_space_text(path, header, header['pose_count'])}; free some, then run it again "
                f"to resume"
            ) from problem
        raise FileError(f"{path}: cannot be written: {problem.strerror or problem}") from problem


def _need_space(path: Path, header: dict, poses: int) -> None:
    if poses * header["bytes_per_pose"] > _free(path):
        raise FileError(
            f"{path}: too little space on the disk: {_space_text(path, header, poses)}; free some, "
            f"or choose another path or fewer poses"
        )


def _space_text(path: Path, header: dict, poses: int) -> str:
    return (
        f"{poses} poses need {poses * header['bytes_per_pose']:,} bytes, {_free(path):,} bytes are "
        f"free"
    )


def _free(path: Path) -> int:
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free


def occupied(path: Path) -> bool:
    """Whether something is there that a new store would replace; an empty folder is not."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _to_disk(file: Path) -> int:
    """Bring a file (or a folder's entries) from the system's cache to the disk; its size in
    bytes.
    """
    if (
        file.is_dir() and os.name == "nt"
    ):  # Windows brings folders to disk by itself, and cannot open them
        return 0
    handle = os.open(file, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _write_text(file: Path, text: str) -> None:
    """A small file that is there whole or not at all, on disk when this returns."""
    draft = file.with_name(file.name + ".partial")
    draft.write_text(text, encoding="utf-8")
    _to_disk(draft)
    draft.replace(file)
    _to_disk(file.parent)


def _lock(handle: int) -> None:
    """Lock an open file or raise BlockingIOError; the lock goes when the handle closes, also when
    its process is killed.
    """
    if os.name == "nt":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as problem:
            raise BlockingIOError(*problem.args) from problem
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _same_file(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except FileNotFoundError:
        return False
