"""The arrays of a pose store: Zarr arrays, and a mesh, skeleton or controls as a group of them.

Zarr is imported when a store is used, not before: a deployed deformer does not need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from understudy.io import nouns
from understudy.io.pose_store.header import REPAIR, Place
from understudy.system import checks
from understudy.system.bucket import BucketPath, client_errors, explained
from understudy.system.errors import FileError, InputError, MissingDependencyError

if TYPE_CHECKING:
    import zarr

_READ_BLOCKS = 8  # blocks read at a time by vertex: Zarr decodes their tiles in parallel

Selection = slice | tuple[slice, ...] | EllipsisType
_Noun = TypeVar("_Noun")


class StoredVertices:
    """The vertices (T,V,3) of a complete store; a `VertexSource` that several threads may read."""

    def __init__(self, path: Place):
        self.path = path
        array = open_array(path, "vertices")
        poses, vertices, _ = array.shape
        self.shape: tuple[int, int, int] = (poses, vertices, 3)
        self.pose_tile = (int(array.chunks[0]), 0)

    def read_poses(self, start: int, stop: int) -> np.ndarray:
        """Return all vertices of some poses, (stop-start, V, 3) float32."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        array = open_array(self.path, "vertices")
        return self._read(array, slice(start, max(start, stop)), slice(None))

    def read(self, start: int, stop: int, vertices: np.ndarray) -> np.ndarray:
        """Return some vertices of some poses, (stop-start, len(vertices), 3), in the order given.

        Each tile is read once, as the slice that spans the vertices wanted of it. That is faster
        than Zarr's indexing by a list, and needs little more memory than the result.
        """
        vertices = checks.index(vertices, "vertices to read", self.shape[1], dtype=np.int64)
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        array = open_array(self.path, "vertices")
        rows, width = _READ_BLOCKS * array.chunks[0], array.chunks[1]
        result = np.empty((max(0, stop - start), len(vertices), 3), np.float32)
        for tile in np.unique(vertices // width):
            where = np.flatnonzero(vertices // width == tile)
            low, high = int(vertices[where].min()), int(vertices[where].max()) + 1
            consecutive = where[-1] - where[0] + 1 == len(where)
            # A slice copies faster than a list of indices.
            target = slice(where[0], where[-1] + 1) if consecutive else where
            for first in range(start, stop, rows):
                some = slice(first, min(first + rows, stop))
                block = self._read(array, some, slice(low, high))
                block = block.take(vertices[where] - low, axis=1)
                result[some.start - start : some.stop - start, target] = block
        return result

    def _read(self, array: zarr.Array, poses: slice, vertices: slice) -> np.ndarray:
        result = _read_part(self.path, "vertices", array, (poses, vertices))
        # Zarr fills in NaN for a file that is not there, and NaN is never written.
        if np.isnan(result[..., 0]).any():
            raise FileError(f"{self.path}: a tile of the vertices has disappeared; {REPAIR}")
        return result


def zarr_module() -> Any:
    """Return the package zarr, which is optional, or raise an error that says how to install it."""
    try:
        import zarr.codecs
    except ImportError as problem:
        raise MissingDependencyError(
            "a pose store needs the package zarr: pip install 'understudy[cli]'"
        ) from problem
    return zarr


def open_array(path: Place, name: str, mode: str = "r") -> zarr.Array:
    """Return an array of the store at `path`."""
    package = zarr_module()
    try:
        if isinstance(path, BucketPath):
            return package.open_array(path.zarr_store(), path=name, mode=mode, zarr_format=3)
        return package.open_array(path / name, mode=mode, zarr_format=3)
    except client_errors() as problem:
        raise _no_answer(path, problem) from problem
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise FileError(
            f"{path}: the array {name} cannot be opened ({problem}); {REPAIR}"
        ) from problem


def read_array(path: Place, name: str, where: Selection = ...) -> np.ndarray:
    """Return an array of the store at `path`, or the part `where` of it."""
    return _read_part(path, name, open_array(path, name), where)


def _read_part(path: Place, name: str, array: zarr.Array, where: Selection) -> np.ndarray:
    """Return a part of an array; a wrong checksum or length is a `FileError`."""
    try:
        return np.asarray(array[where])
    except client_errors() as problem:
        raise _no_answer(path, problem) from problem
    except (ValueError, OSError, RuntimeError) as problem:
        raise FileError(f"{path}: {name} cannot be read ({problem}); {REPAIR}") from problem


def _no_answer(path: Place, problem: Exception) -> FileError:
    return FileError(
        f"{path}: the bucket does not answer ({explained(problem)}); run the same command again "
        "when it does"
    )


def new_array(
    group: zarr.Group, name: str, shape: tuple[int, ...], dtype: Any, tile: tuple[int, ...]
) -> zarr.Array:
    """Return a new array of `group`; tiles of floats are compressed, and every tile has a checksum.

    The tiles of one array hold the same bytes whichever process writes them.
    """
    codecs = zarr_module().codecs
    compressors: list[Any] = [codecs.Crc32cCodec()]
    if np.dtype(dtype).kind == "f":
        size = np.dtype(dtype).itemsize
        fast = codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=size)
        compressors = [fast, *compressors]
    return group.create_array(
        name,
        shape=shape,
        dtype=dtype,
        chunks=tuple(max(1, n) for n in tile),
        compressors=compressors,
        fill_value=np.nan if np.dtype(dtype).kind == "f" else 0,
        # All tiles in one folder, which is brought to disk at once.
        chunk_key_encoding={"name": "default", "separator": "."},
        config={"write_empty_chunks": True},
    )


def write_noun(root: zarr.Group, name: str, noun: Any) -> dict[str, Any]:
    """Write the arrays of a dataclass as a group, and return the rest of it for the header."""
    group = root.create_group(name)
    arrays, facts = nouns.to_arrays(noun)
    for key, array in arrays.items():
        new_array(group, key, array.shape, array.dtype, array.shape)[...] = array
    return facts


def read_noun(path: Place, name: str, kind: type[_Noun], facts: Mapping[str, Any]) -> _Noun:
    """Return what `write_noun` wrote: a dataclass of type `kind`.

    facts  what `write_noun` returned, out of the header
    """
    arrays = {key: read_array(path, f"{name}/{key}") for key in facts["arrays"]}
    try:
        return nouns.from_arrays(kind, arrays, facts)
    except (TypeError, InputError) as problem:
        raise FileError(f"{path}: the {name} cannot be read ({problem}); {REPAIR}") from problem
