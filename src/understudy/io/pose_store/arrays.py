"""The arrays of a pose store: Zarr arrays, and a mesh, skeleton or controls as a group of them.

Zarr is imported when a store is used, not before: a deployed deformer does not need it.
"""

from __future__ import annotations

import math
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from understudy.io import nouns
from understudy.io.pose_store.header import MOST_SQUEEZED, REPAIR, Header, Place
from understudy.system import checks
from understudy.system.bucket import BucketPath, client_errors, no_answer
from understudy.system.errors import FileError, imported

if TYPE_CHECKING:
    import zarr

SAMPLE = "sample"  # attribute of the vertices: which sample they are of
_CODECS = {"BytesCodec", "BloscCodec", "Crc32cCodec"}
_READ_BLOCKS = 8  # blocks read at a time by vertex: Zarr decodes their tiles in parallel

Selection = slice | tuple[slice, ...] | EllipsisType
_Noun = TypeVar("_Noun")


class StoredVertices:
    """The vertices (T,V,3) of a complete store; a `VertexSource` that several threads may read."""

    def __init__(self, path: Place):
        self.path = path
        array = open_array(path, "vertices")
        poses, vertices, axes = array.shape
        self.shape = poses, vertices, axes
        self.pose_tile = (int(array.chunks[0]), 0)
        self._sample = array.attrs.get(SAMPLE)

    def read_poses(self, start: int, stop: int) -> np.ndarray:
        """Return all vertices of some poses, (stop-start, V, 3) float32."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        return self._read(self._open(), slice(start, max(start, stop)), slice(None))

    def read(self, start: int, stop: int, vertices: np.ndarray) -> np.ndarray:
        """Return some vertices of some poses, (stop-start, len(vertices), 3), in the order given.

        Each tile is read once, as the slice that spans the vertices wanted of it. That is faster
        than Zarr's indexing by a list, and needs little more memory than the result.
        """
        vertices = checks.index(vertices, "vertices to read", self.shape[1], dtype=np.int64)
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        array = self._open()
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

    def _open(self) -> zarr.Array:
        array = open_array(self.path, "vertices")
        if (array.shape, array.attrs.get(SAMPLE)) != (self.shape, self._sample):
            raise FileError(
                f"{self.path}: the store was replaced while it was read; run the same command again"
            )
        return array

    def _read(self, array: zarr.Array, poses: slice, vertices: slice) -> np.ndarray:
        result = _read_part(self.path, "vertices", array, (poses, vertices))
        # Zarr fills in NaN for a file that is not there, and NaN is never written.
        if np.isnan(result[..., 0]).any():
            raise FileError(f"{self.path}: a tile of the vertices has disappeared; {REPAIR}")
        return result


def zarr_module() -> Any:
    """Return the package zarr, which is optional, or raise an error that says how to install it."""
    return imported("zarr", "a pose store", "cli")


def open_array(
    path: Place,
    name: str,
    mode: str = "r",
    shape: tuple[int, ...] | None = None,
    tile: tuple[int, ...] | None = None,
    stored: int | None = None,
) -> zarr.Array:
    """Return an array of the store at `path`, which has the codecs that `new_array` gives.

    shape, tile  what it must have, where that is known; of a tile, 0 is any length
    stored       bytes of its files: it must not claim to hold more than these can
    """
    package = zarr_module()
    try:
        if isinstance(path, BucketPath):
            array = package.open_array(path.zarr_store(), path=name, mode=mode, zarr_format=3)
        else:
            array = package.open_array(path / name, mode=mode, zarr_format=3)
        codecs = array.metadata.codecs
        is_ours = {type(codec).__name__ for codec in codecs} <= _CODECS
    except client_errors() as problem:
        raise no_answer(path, problem) from problem
    except Exception as problem:  # whatever Zarr makes of a damaged file
        raise FileError(
            f"{path}: the array {name} cannot be opened ({str(problem)[:200]}); {REPAIR}"
        ) from problem
    lengths = tuple(max(1, n) for n in array.shape)  # an empty axis has tiles of one
    fits = is_ours and array.dtype.kind in "biuf" and (shape is None or array.shape == shape)
    fits = fits and all(a <= n for a, n in zip(array.chunks, lengths))
    if tile is not None:
        fits = fits and all(b in (0, a) for a, b in zip(array.chunks, tile))
    if not fits:
        raise FileError(
            f"{path}: the array {name} has the shape {array.shape}, tiles of {array.chunks} and "
            f"the type {array.dtype}, which do not fit the header; {REPAIR}"
        )
    size = math.prod(array.shape) * array.dtype.itemsize
    if stored is not None and size > MOST_SQUEEZED * stored:
        raise FileError(
            f"{path}: the array {name} claims {size:,} bytes, its files hold {stored:,}; {REPAIR}"
        )
    return array


def read_array(
    path: Place, name: str, where: Selection = ..., array: zarr.Array | None = None
) -> np.ndarray:
    """Return an array of the store at `path`, or the part `where` of it.

    array  what `open_array` returned
    """
    return _read_part(path, name, array or open_array(path, name), where)


def _read_part(path: Place, name: str, array: zarr.Array, where: Selection) -> np.ndarray:
    """Return a part of an array; a wrong checksum or length is a `FileError`."""
    try:
        return np.asarray(array[where])
    except client_errors() as problem:
        raise no_answer(path, problem) from problem
    except Exception as problem:  # whatever a codec makes of damaged bytes
        text = f"{path}: {name} cannot be read ({str(problem)[:200]}); {REPAIR}"
        raise FileError(text) from problem


def new_array(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    dtype: Any,
    tile: tuple[int, ...],
    attributes: dict[str, Any] | None = None,
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
        attributes=attributes,
    )


def write_noun(root: zarr.Group, name: str, noun: Any) -> dict[str, Any]:
    """Write the arrays of a dataclass as a group, and return the rest of it for the header."""
    group = root.create_group(name)
    arrays, facts = nouns.to_arrays(noun)
    for key, array in arrays.items():
        new_array(group, key, array.shape, array.dtype, array.shape)[...] = array
    return facts


def read_noun(path: Place, name: str, kind: type[_Noun], header: Header) -> _Noun:
    """Return what `write_noun` wrote: a dataclass of type `kind`."""
    facts = header.nouns[name]
    arrays = {key: read_small(path, f"{name}/{key}", header) for key in facts["arrays"]}
    try:
        return nouns.from_arrays(kind, arrays, facts)
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as problem:
        text = f"{path}: the {name} cannot be read ({str(problem)[:200]}); {REPAIR}"
        raise FileError(text) from problem


def read_small(path: Place, name: str, header: Header) -> np.ndarray:
    """Return an array that was written with the header."""
    return read_array(path, name, array=open_array(path, name, stored=header.bytes_of(name)))
