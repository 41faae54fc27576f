"""Writes glTF files by hand, with what our writer never writes: for tests of the reader."""

import base64
import json
import struct

import numpy as np

KINDS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
COMPONENTS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}


class GltfMaker:
    """A file in the making. `root` is its JSON, `data` its only buffer."""

    def __init__(self, **fields):
        self.data = bytearray()
        self.root = {
            "asset": {"version": "2.0"},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0, "name": "thing"}],
            "meshes": [],
            "accessors": [],
            "bufferViews": [],
        } | fields

    def view(self, data, **fields):
        """The index of a buffer view of some bytes."""
        self.data += b"\0" * (-len(self.data) % 4)
        entry = {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data)}
        self.root["bufferViews"].append(entry | fields)
        self.data += data
        return len(self.root["bufferViews"]) - 1

    def accessor(self, values, kind="f4", **fields):
        """The index of an accessor of an array (n,) or (n,width)."""
        values = np.asarray(values)
        rows = values.reshape(len(values), -1).astype("<" + kind)
        entry = {
            "bufferView": self.view(rows.tobytes()),
            "componentType": COMPONENTS[kind],
            "count": len(rows),
            "type": KINDS[rows.shape[1]],
        }
        if kind == "f4":
            entry |= {"min": rows.min(axis=0).tolist(), "max": rows.max(axis=0).tolist()}
        self.root["accessors"].append(entry | fields)
        return len(self.root["accessors"]) - 1

    def sparse(self, base, count, rows, values, kind="u1"):
        """The index of an accessor (count,3) that replaces rows of another array, or of zeros."""
        entry = {"componentType": 5126, "count": count, "type": "VEC3"}
        if base is not None:
            entry["bufferView"] = self.view(np.asarray(base, "<f4").tobytes())
        entry["sparse"] = {
            "count": len(rows),
            "indices": {
                "bufferView": self.view(np.asarray(rows, "<" + kind).tobytes()),
                "componentType": COMPONENTS[kind],
            },
            "values": {"bufferView": self.view(np.asarray(values, "<f4").tobytes())},
        }
        self.root["accessors"].append(entry)
        return len(self.root["accessors"]) - 1

    def mesh(self, *primitives, **fields):
        """The index of a mesh."""
        self.root["meshes"].append({"primitives": list(primitives)} | fields)
        return len(self.root["meshes"]) - 1

    def animation(self, *channels, name=None):
        """Add an animation of channels (node, path, times, values, interpolation)."""
        entry = {"channels": [], "samplers": []}
        if name is not None:
            entry["name"] = name
        for node, path, times, values, interpolation in channels:
            output = np.asarray(values, float)
            output = output.reshape(-1) if path == "weights" else output
            entry["channels"].append(
                {"sampler": len(entry["samplers"]), "target": {"node": node, "path": path}}
            )
            entry["samplers"].append(
                {
                    "input": self.accessor(times),
                    "output": self.accessor(output),
                    "interpolation": interpolation,
                }
            )
        self.root.setdefault("animations", []).append(entry)

    def glb(self):
        """The bytes of a .glb."""
        self.data += b"\0" * (-len(self.data) % 4)
        text = json.dumps(self.root | {"buffers": [{"byteLength": len(self.data)}]}).encode()
        text += b" " * (-len(text) % 4)
        chunk = lambda kind, body: struct.pack("<II", len(body), kind) + body
        body = chunk(0x4E4F534A, text) + chunk(0x004E4942, bytes(self.data))
        return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body

    def gltf(self, uri=None):
        """The text of a .gltf; uri: of its buffer, else the buffer is inside."""
        inside = "data:application/octet-stream;base64," + base64.b64encode(self.data).decode()
        buffer = {"byteLength": len(self.data), "uri": inside if uri is None else uri}
        return json.dumps(self.root | {"buffers": [buffer]})

    def save(self, path):
        """Write the file, and return its path."""
        if path.suffix == ".gltf":
            path.write_text(self.gltf(), encoding="utf-8")
        else:
            path.write_bytes(self.glb())
        return path
