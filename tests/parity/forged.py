"""Files that no exporter writes: small ones that would need a lot of memory, and broken names.

Every function returns the bytes of a file. Without bones and controls a deformer needs no drivers.
"""

import json

import numpy as np
from safetensors.numpy import save


def forged(arrays=None, vertices=1, **header):
    """A mesh of some vertices and nothing else, with other arrays and header entries."""
    text = {
        "format_version": 4,
        "method": "forged",
        "mesh": {
            "unit": "unitless",
            "up_axis": "Y",
            "handedness": "right",
            "materials": [],
            "parts": [],
        },
        "training": {},
        "provenance": {},
        "nets": [],
        "bases": [],
        **header,
    }
    every = {
        "mesh.vertices": np.zeros((vertices, 3), np.float32),
        "mesh.polygon_sizes": np.zeros(0, np.int32),
        "mesh.polygon_vertices": np.zeros(0, np.int32),
        "features.columns": np.zeros(0, np.int32),
        "features.low": np.zeros(0, np.float32),
        "features.high": np.zeros(0, np.float32),
    } | (arrays or {})
    return save(every, metadata={"understudy": json.dumps(text, separators=(",", ":"))})


def many_writers(outputs=20_000, named=20_000):
    """Many net outputs write one coefficient, which a basis names many times."""
    arrays = {
        "nets.outputs": np.zeros(outputs, np.uint8),
        "nets.values": np.zeros(outputs, np.float32),
        "bases.vertices": np.zeros(1, np.uint8),
        "bases.coefficients": np.zeros(named, np.uint8),
        "bases.half": np.zeros(3 * named, np.float16),
    }
    return forged(
        arrays,
        storage="float16",
        nets=[{"activation": "tanh", "sizes": [0, outputs]}],
        bases=[{"vertices": 1, "components": named, "shared": False}],
    )


def many_values(count=4_000_000):
    """A header that holds a long list of numbers."""
    return forged(provenance={"seeds": [0] * count})


def many_keys(count=300_000):
    """A header with an object of many keys."""
    return forged(provenance={f"{key:x}": 0 for key in range(count)})


def many_indices(count=39_000, components=0):
    """Many bases that each move the same 256 vertices."""
    arrays = {"bases.vertices": np.tile(np.arange(256), count).astype(np.uint8)}
    if components:
        arrays |= {
            "nets.outputs": np.zeros(1, np.uint8),
            "nets.values": np.zeros(1, np.float32),
            "bases.coefficients": np.zeros(3 * count * components, np.uint8),
            "bases.half": np.zeros(256 * count * components, np.float16),
        }
    entry = {"vertices": 256, "components": components, "shared": True}
    nets = [{"activation": "tanh", "sizes": [0, 1]}] if components else []
    return forged(arrays, vertices=256, storage="float16", nets=nets, bases=[entry] * count)


def many_layers(count=1_000_000):
    """A net of empty layers."""
    return forged(nets=[{"activation": "tanh", "sizes": [0] * count}])


def many_triangles(corners=4_000_000):
    """One polygon that names one vertex over and over."""
    arrays = {
        "mesh.polygon_sizes": np.array([corners], np.int32),
        "mesh.polygon_vertices": np.zeros(corners, np.uint8),
    }
    return forged(arrays)


def wrapping(vertices=65_536, bases=342):
    """As many vertices of bases as wrap a 32-bit size around, 16 poses of 3 floats each."""
    arrays = {"bases.vertices": np.tile(np.arange(vertices), bases).astype(np.uint16)}
    entry = {"vertices": vertices, "components": 0, "shared": False}
    return forged(arrays, vertices=vertices, bases=[entry] * bases)


def repeated_vertex():
    """A basis that names a vertex twice."""
    arrays = {"bases.vertices": np.zeros(2, np.int32)}
    return forged(arrays, bases=[{"vertices": 2, "components": 0, "shared": False}])


def named(name: bytes):
    """One control whose name is `name`, as it stands in the header's JSON."""
    made = forged(controls={"names": ["#" * len(name)], "units": [""]})
    return made.replace(b"#" * len(name), name)


def repeated(key, also):
    """A file with one more key in front of `key`, both as they stand in the file's header."""
    data = forged(provenance={"inner": {"seed": 0}})
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].replace(key, also + key)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


# Keys that are given twice: in the list of arrays, beside our header, and in our header, where
# quotes have a backslash in front.
REPEATED = {
    "array": lambda: repeated(b'"mesh.vertices":', b'"mesh.vertices":{},'),
    "metadata": lambda: repeated(b'"__metadata__":', b'"__metadata__":{},'),
    "header": lambda: repeated(b'"understudy":', b'"understudy":"{}",'),
    "nets": lambda: repeated(rb"\"nets\":", rb"\"nets\":[],"),
    "escaped": lambda: repeated(rb"\"nets\":", rb"\"\\u006eets\":[],"),
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
