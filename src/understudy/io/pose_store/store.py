"""Poses on disk: one Zarr group, tiled by pose and vertex, that is never in memory as a whole.

Sampling writes it by pose, and fitting reads it by vertex.

    zarr.json               header: format version, names, units, provenance, sizes of files below
    mesh skeleton controls  one small array per field
    vertices                (T,V,3) float32, tiles of 128 poses x 1024 vertices (1.5 MB)
    world_from_bone         (T,B,3,4) float64, if there is a skeleton
    control_values          (T,C) float64, as drawn; written first
    shown                   a few poses as the rig made them when the store was begun, with their
                            controls: another rig is known by them, also one of the same name
    nearer                  (T,) float32, where poses may stretch only so far: the share of the way
                            from rest to its control values that each was evaluated at
    vertices/done/K.json    marks block K of poses as complete: its files, with their sizes

A block is written whole, brought to disk, and only then marked. So a store whose writer was killed
continues where it stopped, and a tile that is missing or truncated is noticed when the store is
opened. Tiles have a checksum, so a changed one is noticed when it is read. A block belongs to one
writer: processes on several machines can fill one store (`join`). Tiles are compressed with lz4,
which is faster than most disks; stores without compression can be read and continued too.
"""

from __future__ import annotations

import contextlib
import glob
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.noun import fingerprint
from understudy.core.poses import Poses
from understudy.io.atomic_write import folder_to_disk, is_disk_full, to_disk, write_text
from understudy.io.file_lock import lock as file_lock
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.nouns import NOUNS
from understudy.io.pose_store.arrays import (
    SAMPLE,
    StoredVertices,
    new_array,
    open_array,
    read_array,
    read_noun,
    read_small,
    write_noun,
    zarr_module,
)
from understudy.io.pose_store.header import (
    REPAIR,
    STRETCH,
    Header,
    Place,
    Sample,
    complete_blocks,
    differences,
    full_provenance,
    intact_blocks,
    marker_of_block,
    read_attributes,
    read_header,
    verify_files,
)
from understudy.system import checks
from understudy.system.bucket import BucketPath, client_errors, no_answer, place
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

SHOWN = "shown"
_SHOWN = ("controls", "vertices", "world_from_bone")
ANOTHER = "Choose another path, or overwrite it (--overwrite)"
BLOCK = 128  # poses
TILE = 1024  # vertices
BLOCK_BYTES = 256 << 20  # of vertices at most: a writer holds a block, and its tiles, in memory


def lock(path: str | Place) -> AbstractContextManager[None]:
    """Hold the right to write the store at `path`; a bucket has no locks.

    Two processes that write the same blocks of a bucket write the same bytes.
    """
    where = place(path)
    return contextlib.nullcontext() if isinstance(where, BucketPath) else file_lock(where)


def default_block(mesh: Mesh) -> int:
    """Return how many poses of a mesh a block holds: 128, or fewer where the mesh is large."""
    return int(min(BLOCK, max(1, BLOCK_BYTES // (12 * mesh.vertex_count))))


def open_poses(
    path: str | Place, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Poses:
    """Return the poses of a finished store; the vertices stay on disk.

    A `FileError` says if there is no store, it is something else, of a newer format, not finished,
    or damaged.
    """
    path = place(path)
    header = read_header(path)
    stored: Counter[str] = Counter()
    done, count = 0, header.pose_count
    for k, files in complete_blocks(path, header):
        done += len(header.rows(k))
        for name, size in files.items():
            stored[name.partition("/")[0]] += size
    if done < count:
        raise FileError(
            f"{path}: sampling stopped at {done} of {count} poses: run the same command again to "
            f"resume"
        )
    verify_files(path, header.files, REPAIR)
    nouns = {
        name: read_noun(path, name, kind, header)
        for name, kind in NOUNS.items()
        if name in header.nouns
    }
    mesh, skeleton, spec = nouns["mesh"], nouns.get("skeleton"), nouns["controls"]
    shapes: dict[str, tuple[int, ...]] = {"vertices": (count, mesh.vertex_count, 3)}
    if skeleton is not None:
        shapes["world_from_bone"] = (count, skeleton.bone_count, 3, 4)
    if STRETCH in header.belongs_to:
        shapes["nearer"] = (count,)
    arrays = {
        name: open_array(
            path, name, shape=shape, tile=(header.block, 0, *shape[2:]), stored=stored[name]
        )
        for name, shape in shapes.items()
    }
    controls = read_small(path, "control_values", header)
    bones = None
    if skeleton is not None:
        bones = read_array(path, "world_from_bone", array=arrays["world_from_bone"])
    notes = []
    if STRETCH in header.belongs_to:
        nearer = read_array(path, "nearer", array=arrays["nearer"])
        controls = spec.rest + nearer[:, None] * (controls - spec.rest)
        if (nearer < 1).any():
            notes.append(
                f"{np.count_nonzero(nearer < 1)} of {count} poses stretched more than "
                f"{100 * header.belongs_to[STRETCH]:.3g} % of the edges by half, and were drawn "
                "nearer to rest"
            )
    try:
        return Poses(
            mesh=mesh,
            vertices=StoredVertices(path),
            skeleton=skeleton,
            world_from_bone=bones,
            control_spec=spec,
            controls=controls,
            notes=tuple(notes),
            skin=nouns.get("skin"),
            name=path.stem,
        )
    except InputError as problem:
        raise FileError(
            f"{path}: the parts of the store do not belong together ({problem}); {REPAIR}"
        ) from problem


def provenance(path: str | Place) -> dict[str, Any]:
    """Return the facts given to `create`, and fingerprints of mesh, skeleton, ranges, controls."""
    return dict(read_header(place(path)).belongs_to)


def create(
    path: str | Place, sample: Sample, block: int | None = None, overwrite: bool = False
) -> None:
    """Make an empty store for the poses of a sample, to be filled with `write_block`.

    block      poses per block, about; None: `default_block`
    overwrite  replace a pose store that is there; nothing else is ever replaced
    """
    block = default_block(sample.mesh) if block is None else block
    path = place(path)
    controls = sample.controls.check(sample.values)
    if not len(controls):
        raise InputError("controls: there are no poses to store")
    checks.between(block, "block", low=1)
    if occupied(path) and not overwrite:
        raise FileError(f"{path}: already exists; choose another path, or overwrite it")
    if occupied(path):
        read_attributes(path)  # raises if it is not a pose store
    parts = -(-len(controls) // block)
    bones = sample.skeleton.bone_count if sample.skeleton else 0
    header = Header(
        pose_count=len(controls),
        block=-(-len(controls) // parts),  # even blocks: Zarr pads the last tile to full size
        bytes_per_pose=12 * sample.mesh.vertex_count + 96 * bones,
        belongs_to=full_provenance(sample),
    )
    if isinstance(path, BucketPath):
        with _writing(path, header):
            path.remove()
            _write_draft(path, header, sample)
        return
    # A name of its own: other processes may create the same store at this moment (`join`).
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    with _writing(path, header):
        _need_space(path, header, len(controls))
        draft.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_draft(draft, header, sample)
            # The store appears whole or not at all.
            if overwrite and path.exists():
                shutil.rmtree(path)
            elif path.is_dir():
                with contextlib.suppress(OSError):
                    path.rmdir()  # an empty folder
            draft.rename(path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        folder_to_disk(path.parent)


def resume(path: str | Place, sample: Sample) -> list[int]:
    """Return the blocks still to write of a store made by `create` with the same arguments.

    A store of another rig or plan is a `FileError` that says what differs. No other process may
    write to the store.
    """
    path = place(path)
    missing = _missing_of_same(path, sample)
    header = read_header(path)
    with _writing(path, header):
        _remove_drafts(path)
        _need_space(path, header, sum(len(header.rows(k)) for k in missing))
    return missing


def join(path: str | Place, sample: Sample, block: int | None = None) -> list[int]:
    """Return the blocks still to write of a store that several processes fill; create it if needed.

    Processes may run on several machines that share the disk. If several create the store at once,
    one succeeds and the others use its store. Arguments as in `create`.
    """
    path = place(path)
    for attempt in range(2):
        if not occupied(path):
            try:
                create(path, sample, block)
            except FileError:
                if attempt or not occupied(path):
                    raise
                continue  # another process was faster
        break
    return _missing_of_same(path, sample)


def tidy(path: str | Place) -> None:
    """Remove what killed writers left of a store that is complete."""
    path = place(path)
    with _writing(path, read_header(path)):
        _remove_drafts(path)


def _remove_drafts(path: Place) -> None:
    if isinstance(path, BucketPath):
        return
    for left in path.rglob("*.partial"):
        left.unlink(missing_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        shutil.rmtree(left, ignore_errors=True)


def _missing_of_same(path: Place, sample: Sample) -> list[int]:
    """Return the blocks still to write; `FileError` if the store holds another sample."""
    header = read_header(path)
    now = full_provenance(sample)
    found = differences(header.belongs_to, now)
    if found:
        raise FileError(f"{path}: holds another sample: {'; '.join(found)}. {ANOTHER}")
    verify_files(path, header.files, REPAIR)
    return missing_blocks(path)


def shown(path: str | Place) -> dict[str, Any]:
    """Return the fields of the few poses that were kept when the store was begun, if any were."""
    path = place(path)
    header = read_header(path)
    there = [name for name in _SHOWN if header.bytes_of(f"{SHOWN}/{name}")]
    return {name: read_small(path, f"{SHOWN}/{name}", header) for name in there}


def missing_blocks(path: str | Place) -> list[int]:
    """Return the blocks that are not complete, or whose files have changed in size."""
    path = place(path)
    header = read_header(path)
    done = set(intact_blocks(path, header))
    return [k for k in range(header.block_count) if k not in done]


def count_blocks(path: str | Place) -> int:
    """Return how many blocks the store has."""
    return read_header(place(path)).block_count


def block_controls(path: str | Place, k: int) -> tuple[range, np.ndarray]:
    """Return which poses block `k` holds, and their control values (n,C) float64."""
    path = place(path)
    header = read_header(path)
    rows = header.rows(k)
    shape, stored = (header.pose_count, header.control_count), header.bytes_of("control_values")
    array = open_array(path, "control_values", shape=shape, stored=stored)
    return rows, read_array(path, "control_values", slice(rows.start, rows.stop), array)


def stretch_limit(path: str | Place) -> float | None:
    """Return the share of the edges that a pose may stretch; None: poses are kept as drawn."""
    return provenance(path).get(STRETCH)


def write_block(path: str | Place, k: int, poses: Poses, nearer: np.ndarray | None = None) -> None:
    """Write the poses of block `k` and, once they are on disk, mark it as complete.

    nearer  in a store with a limit of stretch: see the module's docstring

    Different blocks may be written by different processes.
    """
    path = place(path)
    header = read_header(path)
    rows = header.rows(k)
    data = {"vertices": np.asarray(poses.read_poses(0, poses.pose_count), np.float32)}
    if "skeleton" in header.nouns:
        if poses.world_from_bone is None:
            raise InputError(f"block {k}: the store has bones, the poses have none")
        data["world_from_bone"] = np.asarray(poses.world_from_bone, np.float64)
    for name, values in data.items():
        shape = (len(rows), *open_array(path, name).shape[1:])
        checks.shape_of(values, f"{name} of block {k}", shape)
        _refuse_nan(path, header, name, values, rows)
    if nearer is not None:
        data["nearer"] = nearer
    try:
        with _writing(path, header):
            _write_tiles(path, k, rows, data)
    except FileError:
        # Another process wrote this block at the same time, completed the store and removed drafts.
        if k in missing_blocks(path):
            raise


def _write_tiles(path: Place, k: int, rows: range, data: Mapping[str, np.ndarray]) -> None:
    files: dict[str, int] = {}
    for name, values in data.items():
        array = open_array(path, name, mode="r+")
        array[rows.start : rows.stop] = values
        if isinstance(path, BucketPath):
            first = array.metadata.encode_chunk_key((k, *(0 for _ in array.cdata_shape[1:])))
            files |= path.sizes(f"{name}/" + first.rpartition(f"{k}.")[0] + f"{k}.")
            continue
        tiles = [
            f"{name}/" + array.metadata.encode_chunk_key((k, *rest))
            for rest in np.ndindex(array.cdata_shape[1:])
        ]
        files |= {tile: to_disk(path / tile) for tile in tiles}
        folder_to_disk(path / name)
    marker, text = marker_of_block(path, k), json.dumps(files, indent=1)
    if isinstance(marker, BucketPath):
        marker.write_text(text)
    else:
        write_text(marker, text)


def occupied(path: str | Place) -> bool:
    """Return whether something is there that a new store would replace; not an empty folder.

    In a bucket, a header without its facts is that of a store whose creation was interrupted.
    """
    path = place(path)
    if isinstance(path, BucketPath):
        try:
            read_attributes(path)
        except FileError as problem:
            if isinstance(problem.__cause__, FileNotFoundError) or problem.__cause__ is None:
                return False
            raise
        return True
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def controls_text(spec: ControlSpec, values: np.ndarray, most: int = 12) -> str:
    """Return control values (C,) of one pose as text, those farthest from rest first.

    most  how many are named; the rest is counted
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


def _write_draft(draft: Place, header: Header, sample: Sample) -> None:
    """Write everything but the poses into a folder of its own, and complete the header."""
    block, count, vertices = header.block, header.pose_count, sample.mesh.vertex_count
    where = draft.zarr_store() if isinstance(draft, BucketPath) else draft
    root = zarr_module().create_group(where, zarr_format=3)
    nouns = {
        name: write_noun(root, name, getattr(sample, name))
        for name in NOUNS
        if getattr(sample, name) is not None
    }
    width = -(-vertices // -(-vertices // TILE))  # even tiles
    which = {SAMPLE: fingerprint([header.belongs_to, sample.shown and sample.shown.vertices])}
    new_array(root, "vertices", (count, vertices, 3), np.float32, (block, width, 3), which)
    if sample.skeleton is not None:
        shape = (sample.skeleton.bone_count, 3, 4)
        new_array(root, "world_from_bone", (count, *shape), np.float64, (block, *shape))
    if STRETCH in header.belongs_to:
        new_array(root, "nearer", (count,), np.float32, (block,))
    values = sample.controls.check(sample.values)
    tile = (block, values.shape[1])
    new_array(root, "control_values", values.shape, np.float64, tile)[...] = values
    for name in _SHOWN if sample.shown is not None else ():
        array = getattr(sample.shown, name)
        if array is not None:
            new_array(root, f"{SHOWN}/{name}", array.shape, array.dtype, array.shape)[...] = array
    if isinstance(draft, BucketPath):
        files = {n: size for n, size in draft.sizes().items() if n != "zarr.json"}
        root.update_attributes(replace(header, nouns=nouns, files=files).to_json())
        return
    (draft / "vertices/done").mkdir()
    written = sorted(
        file for file in draft.rglob("*") if file.is_file() and file != draft / "zarr.json"
    )
    files = {file.relative_to(draft).as_posix(): to_disk(file) for file in written}
    root.update_attributes(replace(header, nouns=nouns, files=files).to_json())
    to_disk(draft / "zarr.json")


def _refuse_nan(path: Place, header: Header, name: str, values: np.ndarray, rows: range) -> None:
    """Raise if `values` (n, vertices or bones, ...) has a number that is not finite."""
    finite = np.isfinite(values).reshape(*values.shape[:2], -1).all(axis=2)
    if finite.all():
        return
    row, place = (int(i) for i in np.argwhere(~finite)[0])
    spec = read_noun(path, "controls", ControlSpec, header)
    controls = read_array(path, "control_values", slice(rows[row], rows[row] + 1))[0]
    what = "vertex" if name == "vertices" else "bone"
    raise InputError(
        f"pose {rows[row]}: {what} {place} is NaN or infinite; repair the rig there, or narrow the "
        f"ranges. Its controls: {controls_text(spec, controls)}"
    )


@contextlib.contextmanager
def _writing(path: Place, header: Header) -> Iterator[None]:
    """Turn errors of the system into a `FileError`; if the disk is full, say what is needed."""
    try:
        yield
    except client_errors() as problem:
        raise no_answer(path, problem) from problem
    except OSError as problem:
        if isinstance(path, BucketPath):
            raise no_answer(path, problem) from problem
        if is_disk_full(problem):
            raise FileError(
                f"{path}: no space left on the disk: "
                f"{_space_text(path, header, header.pose_count)}; free some, then run it again "
                f"to resume"
            ) from problem
        raise FileError(f"{path}: cannot be written: {problem.strerror or problem}") from problem


def _need_space(path: Place, header: Header, poses: int) -> None:
    if isinstance(path, BucketPath):
        return
    if poses * header.bytes_per_pose > _free(path):
        raise FileError(
            f"{path}: too little space on the disk: {_space_text(path, header, poses)}; free some, "
            f"or choose another path or fewer poses"
        )


def _space_text(path: Path, header: Header, poses: int) -> str:
    needed = poses * header.bytes_per_pose
    return f"{poses} poses need {needed:,} bytes, {_free(path):,} bytes are free"


def _free(path: Path) -> int:
    """Return the free bytes on the disk of `path`, which may not exist yet."""
    there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free
