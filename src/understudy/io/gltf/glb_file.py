"""A `.glb` file in the making: JSON objects, and arrays behind accessors in one buffer."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.version import __version__
from understudy.io.atomic_write import atomic_write
from understudy.io.gltf.accessors import COMPONENTS
from understudy.io.gltf.container import BINARY_CHUNK, JSON_CHUNK, MAGIC
from understudy.system.errors import InputError

VERTICES, INDICES = 34962, 34963  # what a buffer view is for
_COMPONENT_OF = {np.dtype(kind): number for number, kind in COMPONENTS.items()}
_TYPE_OF = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}


class GlbFile:
    """Collects what a file holds; `save` writes it."""

    def __init__(self) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.fields: dict[str, Any] = {}
        self._data: list[bytes] = []
        self._length = 0

    def add(self, kind: str, entry: dict[str, Any]) -> int:
        """Return the index of a new object of a list ("nodes", "meshes", ...)."""
        entries = self.lists.setdefault(kind, [])
        entries.append(entry)
        return len(entries) - 1

    def accessor(self, values: np.ndarray, target: int | None = None, bounds: bool = False) -> int:
        """Return the accessor of an array (n,) or (n,width) of a type that glTF has.

        target  `VERTICES`, `INDICES` or None
        bounds  whether to store minimum and maximum
        """
        rows = values.reshape(len(values), -1)
        entry = self._described(rows)
        entry["bufferView"] = self._view(rows, target)
        if bounds:
            entry["min"], entry["max"] = _bounds(rows)
        return self.add("accessors", entry)

    def sparse_accessor(self, count: int, rows: np.ndarray, values: np.ndarray) -> int:
        """Return the accessor of an array (count,3) that is zero but at some rows.

        rows    (n,) increasing, at least one
        values  (n,3) float32
        """
        kind = np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32
        entry = self._described(values)
        entry["count"] = count
        low, high = _bounds(values)
        if len(rows) < count:
            low, high = [min(v, 0.0) for v in low], [max(v, 0.0) for v in high]
        entry["min"], entry["max"] = low, high
        entry["sparse"] = {
            "count": len(rows),
            "indices": {
                "bufferView": self._view(rows.astype(kind)[:, None], None),
                "componentType": _COMPONENT_OF[np.dtype(kind)],
            },
            "values": {"bufferView": self._view(values, None)},
        }
        return self.add("accessors", entry)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        length = self._length
        root: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": f"understudy {__version__}"}
        }
        root |= self.fields
        root |= {kind: entries for kind, entries in self.lists.items() if entries}
        if length:
            root["buffers"] = [{"byteLength": length}]
        text = json.dumps(root, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-len(text) % 4)
        total = 12 + 8 + len(text) + (8 + length if length else 0)
        if total >= 2**32:
            raise InputError(
                f"{path}: {total / 2**30:.1f} GiB are more than a .glb can hold (4 GiB); "
                "write fewer clips or blend shapes"
            )
        with atomic_write(path) as draft, draft.open("wb") as file:
            file.write(struct.pack("<4sII", MAGIC, 2, total))
            file.write(struct.pack("<II", len(text), JSON_CHUNK) + text)
            if length:
                file.write(struct.pack("<II", length, BINARY_CHUNK))
                file.writelines(self._data)

    def _described(self, rows: np.ndarray) -> dict[str, Any]:
        """Return type and size of an array (n,width)."""
        return {
            "componentType": _COMPONENT_OF[rows.dtype.newbyteorder("<")],
            "count": len(rows),
            "type": _TYPE_OF[rows.shape[1]],
        }

    def _view(self, rows: np.ndarray, target: int | None) -> int:
        """Return the buffer view of an array."""
        return self.view(np.ascontiguousarray(rows, rows.dtype.newbyteorder("<")).tobytes(), target)

    def view(self, data: bytes, target: int | None = None) -> int:
        """Return the buffer view of new bytes; each starts at a multiple of four."""
        entry: dict[str, Any] = {"buffer": 0, "byteOffset": self._length, "byteLength": len(data)}
        if target is not None:
            entry["target"] = target
        padding = b"\0" * (-len(data) % 4)
        self._data += [data, padding]
        self._length += len(data) + len(padding)
        return self.add("bufferViews", entry)


def _bounds(rows: np.ndarray) -> tuple[list[float], list[float]]:
    """Return minimum and maximum of each column, exactly as stored."""
    return rows.min(axis=0).tolist(), rows.max(axis=0).tolist()
