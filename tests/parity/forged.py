"""Files that no exporter writes: small ones that would need a lot of memory, and broken names.

Every function returns the bytes of a file. Without bones and controls a deformer needs no drivers.
"""

import json

import numpy as np
from safetensors.numpy import save


def forged(arrays=None, header=None, vertices=1):
    """A mesh of some vertices and nothing else, with other arrays and header entries."""
    text = {
        "format_version": 1,
        "method": "forged",
        "storage": "float32",
        "mesh.unit": "unitless",
        "mesh.up_axis": "Y",
        "mesh.handedness": "right",
        "mesh.materials": [],
        "mesh.parts": [],
        "training": {},
        "provenance": {},
        **(header or {}),
    }
    every = {
        "mesh.vertices": np.zeros((vertices, 3), np.float32),
        "mesh.polygon_sizes": np.zeros(0, np.int32),
        "mesh.polygon_vertices": np.zeros(0, np.int32),
        "mesh.part_sizes": np.zeros(0, np.int32),
        "mesh.part_vertices": np.zeros(0, np.int32),
        "features.columns": np.zeros(0, np.int32),
        "features.low": np.zeros(0, np.float32),
        "features.high": np.zeros(0, np.float32),
    } | (arrays or {})
    return save(every, metadata={"understudy": json.dumps(text, separators=(",", ":"))})


HALF = {"storage": "float16"}


def nets_of(output_counts, outputs):
    """Arrays of one net without inputs, in 16 bits, and the header of a file with it."""
    arrays = {
        "nets.layer_counts": np.array([len(output_counts)], np.int32),
        "nets.input_counts": np.zeros(1, np.uint8),
        "nets.output_counts": output_counts,
        "nets.inputs": np.zeros(0, np.uint8),
        "nets.outputs": np.zeros(outputs, np.uint8),
        "nets.weights": np.zeros(0, np.float16),
        "nets.first_biases": np.zeros(outputs, np.float32),
        "nets.biases": np.zeros(0, np.float16),
    }
    return arrays, HALF | {"nets.activations": ["tanh"]}


def bases_of(vertices, count, components=0, shared=False):
    """Arrays of some bases in 16 bits, which all move the vertices 0 to `vertices`."""
    rows = vertices if shared else 3 * vertices
    named = 3 * components if shared else components
    return {
        "bases.vertex_counts": np.full(count, vertices, np.int32),
        "bases.component_counts": np.full(count, components, np.int32),
        "bases.shared": np.full(count, shared),
        "bases.vertices": np.tile(np.arange(vertices), count).astype(np.uint16),
        "bases.coefficients": np.zeros(count * named, np.uint8),
        "bases.matrices": np.zeros(count * rows * components, np.float16),
    }


def many_writers(outputs=20_000, named=20_000):
    """Many net outputs write one coefficient, which a basis names many times."""
    arrays, header = nets_of(np.array([outputs], np.uint16), outputs)
    return forged(arrays | bases_of(1, 1, named), header)


def many_values(count=4_000_000):
    """A header that holds a long list of numbers."""
    return forged(header={"provenance": {"seeds": [0] * count}})


def many_keys(count=300_000):
    """A header with an object of many keys."""
    return forged(header={"provenance": {f"{key:x}": 0 for key in range(count)}})


def many_indices(count=39_000, components=0):
    """Many bases that each move the same 256 vertices."""
    arrays, header = nets_of(np.array([1], np.uint8), 1)
    return forged(arrays | bases_of(256, count, components, True), header, vertices=256)


def many_layers(count=1_000_000):
    """A net of empty layers."""
    return forged(*nets_of(np.zeros(count, np.uint8), 0))


def many_triangles(corners=4_000_000):
    """One polygon that names one vertex over and over."""
    arrays = {
        "mesh.polygon_sizes": np.array([corners], np.int32),
        "mesh.polygon_vertices": np.zeros(corners, np.uint8),
    }
    return forged(arrays)


def wrapping(vertices=65_536, bases=342):
    """As many vertices of bases as wrap a 32-bit size around, 16 poses of 3 floats each."""
    return forged(bases_of(vertices, bases), HALF, vertices=vertices)


def repeated_vertex():
    """A basis that names a vertex twice."""
    arrays = bases_of(2, 1)
    arrays["bases.vertices"][:] = 0
    return forged(arrays, HALF)


def named(name: bytes):
    """One control whose name is `name`, as it stands in the header's JSON."""
    numbers = ("low", "high", "rest", "limit_low", "limit_high")
    arrays = {f"controls.{field}": np.zeros(1) for field in numbers}
    arrays["controls.numeric"] = np.zeros(1, bool)
    made = forged(arrays, {"controls.names": ["#" * len(name)], "controls.units": [""]})
    return made.replace(b"#" * len(name), name)


def repeated(key, also):
    """A file with one more key in front of `key`, both as they stand in the file's header."""
    data = forged(header={"provenance": {"inner": {"seed": 0}}})
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].replace(key, also + key)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


# Keys that are given twice: in the list of arrays, beside our header, and in our header, where
# quotes have a backslash in front.
REPEATED = {
    "array": lambda: repeated(b'"mesh.vertices":', b'"mesh.vertices":{},'),
    "metadata": lambda: repeated(b'"__metadata__":', b'"__metadata__":{},'),
    "header": lambda: repeated(b'"understudy":', b'"understudy":"{}",'),
    "method": lambda: repeated(rb"\"method\":", rb"\"method\":\"a\","),
    "escaped": lambda: repeated(rb"\"method\":", rb"\"\\u006dethod\":\"a\","),
    "nested": lambda: repeated(rb"\"seed\":", rb"\"seed\":1,"),
}
HUNGRY = {
    "many writers": many_writers,
    "many values": many_values,
    "many keys": many_keys,
    "many indices": many_indices,
    "many indices, one component": lambda: many_indices(8_000, 1),
    "many layers": many_layers,
    "many triangles": many_triangles,
}
