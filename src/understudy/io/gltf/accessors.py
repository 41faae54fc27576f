"""Accessors: typed arrays in the buffers of a glTF file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.io.budget import Budget
from understudy.io.gltf.container import Document
from understudy.io.gltf.document import Entry
from understudy.system.errors import FileError

COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}


class Sparse(NamedTuple):
    """Rows of an array that is zero elsewhere.

    rows    (n,) int64, increasing
    values  (n,width) float64
    """

    rows: np.ndarray
    values: np.ndarray


class Accessors:
    """The accessors of a document, decoded on request."""

    def __init__(self, document: Document):
        self.document = document
        self.entries = document.root.entries("accessors")
        self.views = document.root.entries("bufferViews")
        self.budget = Budget(document.root.where, document.size)
        self._cache: dict[int, np.ndarray] = {}

    def floats(self, user: Entry, key: str, kind: str = "") -> np.ndarray:
        """Return the accessor that a field names as (count, width) float64.

        kind  the type that is allowed there, such as "VEC3"; "": any
        """
        return self._own(self._array(self._number(user, key), kind), np.float64)

    def integers(self, user: Entry, key: str, kind: str) -> np.ndarray:
        """Return an accessor of whole numbers as (count, width) int64."""
        number = self._number(user, key)
        result = self._array(number, kind)
        if result.dtype.kind not in "iu":
            raise self.entries[number].wrong("componentType", "expected whole numbers")
        return self._own(result, np.int64)

    def bytes_of(self, user: Entry) -> bytes:
        """Return the bytes of the buffer view that a field names."""
        view = self.views[user.integer("bufferView", below=len(self.views))]
        return self._rows(user, np.dtype("u1"), 1, view.integer("byteLength")).tobytes()

    def nonzero(self, user: Entry, key: str, kind: str, count: int) -> Sparse:
        """Return the rows of an accessor that are not zero, without a dense array if it is sparse.

        count  the rows that it must have

        Many morph targets are sparse; as dense arrays they would need far more than the file.
        """
        entry = self.entries[self._number(user, key)]
        claimed = entry.integer("count")
        if claimed != count:
            raise FileError(f"{user.where}.{key}: {claimed:,} rows for {count} vertices")
        sparse = entry.entry("sparse")
        if sparse is None or entry.has("bufferView"):
            dense = self.floats(user, key, kind)
            rows = np.flatnonzero(dense.any(axis=1))
            return Sparse(rows, dense[rows])
        self._check_kind(entry, kind)
        component, width = self._kind(entry)
        rows, values = self._sparse(sparse, component, width, count)
        values = self._finished(entry, values).astype(np.float64)
        keep = values.any(axis=1)
        return Sparse(rows[keep], values[keep])

    def _own(self, array: np.ndarray, dtype: type) -> np.ndarray:
        """Return a copy for one user: many may refer to one accessor."""
        self.budget.take(8 * array.size, "arrays")
        return array.astype(dtype)

    def _number(self, user: Entry, key: str) -> int:
        return user.integer(key, below=len(self.entries))

    def _array(self, number: int, kind: str) -> np.ndarray:
        """Return an accessor as (count, width): float64, or integers that are not normalised."""
        if number not in self._cache:
            self._cache[number] = self._decode(number)
        self._check_kind(self.entries[number], kind)
        return self._cache[number]

    def _check_kind(self, entry: Entry, kind: str) -> None:
        found = entry.text("type")
        if kind and found != kind:
            raise entry.wrong("type", f"expected {kind}, got {found!r}")

    def _kind(self, entry: Entry) -> tuple[np.dtype, int]:
        """Return the type and the number of components of an accessor."""
        component, kind = entry.integer("componentType"), entry.text("type")
        if component not in COMPONENTS:
            raise entry.wrong("componentType", f"unknown type {component}")
        if kind not in WIDTHS:
            raise entry.wrong("type", f"unknown type {kind[:20]!r}")
        dtype = np.dtype(COMPONENTS[component])
        if kind.startswith("MAT") and dtype.itemsize < 4:
            raise entry.wrong("componentType", "matrices must be float")
        return dtype, WIDTHS[kind]

    def _decode(self, number: int) -> np.ndarray:
        entry = self.entries[number]
        dtype, width = self._kind(entry)
        count = entry.integer("count")
        sparse = entry.entry("sparse")
        if entry.has("bufferView"):
            result = self._rows(entry, dtype, width, count)
        else:
            # Zeros take no bytes in the file; no real array has more rows than its file has bytes.
            if count > self.document.size:
                raise entry.wrong("count", f"claims {count:,} rows, more than the file has bytes")
            self.budget.take(count * width * dtype.itemsize, "arrays")
            result = np.zeros((count, width), dtype)
        if sparse is not None:
            rows, values = self._sparse(sparse, dtype, width, count)
            result = result.copy()
            result[rows] = values
        return self._finished(entry, result)

    def _finished(self, entry: Entry, values: np.ndarray) -> np.ndarray:
        """Return decoded values: floats checked to be finite, normalised integers as floats."""
        if values.dtype.kind == "f":
            if not np.isfinite(values).all():
                raise FileError(f"{entry.where}: its numbers contain NaN or infinity")
            return values
        if not entry.data.get("normalized", False):
            return values
        self.budget.take(values.size * 8, "arrays")
        return np.maximum(values / np.float64(np.iinfo(values.dtype).max), -1.0)

    def _sparse(
        self, entry: Entry, dtype: np.dtype, width: int, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows (n,) and values (n,width) that replace others."""
        number = entry.integer("count")
        indices, values = entry.entry("indices"), entry.entry("values")
        if indices is None or values is None:
            raise FileError(f"{entry.where}: indices or values are missing")
        component = indices.integer("componentType")
        if component not in (5121, 5123, 5125):
            raise indices.wrong("componentType", "expected unsigned integers")
        rows = self._rows(indices, np.dtype(COMPONENTS[component]), 1, number)[:, 0]
        rows = rows.astype(np.int64)
        if len(rows) and (rows.max() >= count or (np.diff(rows) <= 0).any()):
            raise FileError(f"{indices.where}: expected increasing indices below {count}")
        return rows, self._rows(values, dtype, width, number)

    def _rows(self, entry: Entry, dtype: np.dtype, width: int, count: int) -> np.ndarray:
        """Return `count` rows (count,width) of a buffer view; bounds are checked first."""
        view = self.views[entry.integer("bufferView", below=len(self.views))]
        buffer = self.document.buffers[view.integer("buffer", below=len(self.document.buffers))]
        length, start = view.integer("byteLength"), view.integer("byteOffset", 0)
        if start + length > len(buffer):
            raise FileError(
                f"{view.where}: ends at byte {start + length:,} of a buffer of {len(buffer):,}"
            )
        row = width * dtype.itemsize
        stride = view.integer("byteStride", row, below=2**16) or row
        if stride < row:
            raise view.wrong("byteStride", f"{stride} bytes, but a row has {row}")
        offset = entry.integer("byteOffset", 0)
        if count and offset + (count - 1) * stride + row > length:
            raise FileError(
                f"{entry.where}: claims {count:,} rows of {row} bytes, which its buffer view of "
                f"{length:,} bytes does not have"
            )
        self.budget.take(count * row, "arrays")
        shape, strides = (count, width), (stride, dtype.itemsize)
        if not count:
            return np.zeros(shape, dtype)
        return np.ndarray(shape, dtype, buffer, start + offset, strides).copy()
