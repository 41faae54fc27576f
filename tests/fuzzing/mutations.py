"""Damaged copies of a file. Each mutation takes the bytes and a `random.Random`, and returns bytes.

A mutation that knows the structure keeps what surrounds the damage sound (sizes, sums, JSON), so
that readers get past their first check.
"""

import copy
import io
import json
import re
import struct
import zipfile
import zlib

import numpy as np

VALUES = (
    -1, 0, 1, 2, 3, 255, 65536, 2**31, 2**32 + 5, 2**63, 10**30, -(10**18), 0.5, -0.0, 1e-320, 1e20,
    1e308, True, None, "", "x", "../../etc/passwd", "data:;base64,AAAA", "VEC3", "SCALAR", "MAT4",
    [], {}, [0], [1e38] * 3, [0] * 16, {"understudy": {}}, "\ud800", "a\0b", "x" * 5000,
)  # fmt: skip
WORDS = (
    b"0", b"-1", b"1", b"2", b"3.5", b"1e39", b"1e400", b"-1e-400", b"nan", b"inf", b"NaN(1)",
    b"4294967296", b"2147483647", b"-2147483648", b"18446744073709551616", b"1" * 400, b"", b"x",
    b"0x10", b"1_0", b"1-2", b"1.2.3", b"\xff\xfe", b"\xc2\xb2", b"{", b"}", b"//", b"1/", b"/1",
    b"list", b"uchar", b"float", b"None", b"\0", b"\n", b"\r", b"#", b"\\\n", b"a" * 3000,
)  # fmt: skip
SIZES = [2**k + d for k in (7, 8, 15, 16, 20, 24, 28, 30, 31, 32, 40, 62, 63) for d in (-1, 0, 1)]
_TYPES = (
    "b1",
    "i1",
    "u1",
    "i2",
    ">i4",
    "u4",
    "i8",
    "u8",
    "f2",
    "f4",
    ">f8",
    "c8",
    "U3",
    "S3",
    "U0",
)
FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0, -0.0, 1e30, 0.5)


def flipped(data, rng):
    """Some bytes replaced, most of them near the start, where headers are."""
    data = bytearray(data)
    reach = rng.random() < 0.5
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        at = int(len(data) * rng.random() ** (3 if reach else 1))
        data[at] = rng.randrange(256) if rng.random() < 0.6 else data[at] ^ (1 << rng.randrange(8))
    return bytes(data)


def truncated(data, rng):
    """The file cut short."""
    return data[: rng.randrange(len(data))]


def spliced(data, rng):
    """A piece removed, repeated or moved."""
    first, second = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    second = min(second, first + rng.choice((1, 4, 16, 64, 1024)))
    piece = data[first:second]
    way, at = rng.randrange(3), rng.randrange(len(data))
    if way == 0:
        return data[:first] + data[second:]
    if way == 1:
        return data[:first] + piece * rng.choice((2, 3, 50)) + data[second:]
    return data[:at] + piece + data[at:]


def sized(data, rng):
    """A number overwritten by another, in any width and byte order, at any place."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind = rng.choice(("<i", ">i", "<q", ">q", "<H", ">H", "B", "<f", ">f"))
        at = int(len(data) * rng.random() ** rng.choice((1, 3)))
        at -= at % rng.choice((1, 2, 4))
        width = struct.calcsize(kind)
        if at + width > len(data):
            continue
        if kind[-1] == "f":
            value = struct.pack(kind, rng.choice(FLOATS[3:]))
        else:
            size = rng.choice(SIZES) if rng.random() < 0.6 else rng.randrange(300)
            value = (size % 256**width).to_bytes(width, "little" if kind[0] == "<" else "big")
        data[at : at + width] = value
    return bytes(data)


def reworded(data, rng):
    """Words of a text replaced by others, or moved."""
    found = [m.span() for m in re.finditer(rb"[^\s{}(),\[\]:]+", data)]
    if not found:
        return flipped(data, rng)
    for first, last in sorted(rng.choices(found, k=rng.choice((1, 1, 1, 2, 5))), reverse=True):
        other = rng.choice(found)
        word = rng.choice(WORDS) if rng.random() < 0.7 else data[other[0] : other[1]]
        data = data[:first] + word + data[last:]
    return data


def relined(data, rng):
    """Lines of a text removed, repeated, moved or joined."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
        way = rng.randrange(5)
        if way == 0:
            del lines[at]
        elif way == 1:
            lines[at:at] = lines[at : at + rng.choice((1, 1, 5))] * rng.choice((1, 1, 30))
        elif way == 2:
            lines[at], lines[to] = lines[to], lines[at]
        elif way == 3:
            lines[at] += b" " + lines[to]
        else:
            lines[at : at + 1] = lines[at].split(b" ", 1)
        if not lines:
            break
    return b"\n".join(lines)


def places(value, found):
    """Every container and key below a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            places(value[key], found)
    return found


def edited(root, rng):
    """Change some fields of a JSON value: replaced, removed or moved."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        all_of = places(root, [])
        if not all_of:
            return
        holder, key = rng.choice(all_of)
        way = rng.random()
        if way < 0.15 and isinstance(holder, dict):
            del holder[key]
        elif way < 0.3 and isinstance(holder[key], list):
            holder[key] = holder[key] * rng.choice((0, 2, 3))
        elif way < 0.6 and isinstance(holder[key], int) and not isinstance(holder[key], bool):
            holder[key] = rng.choice((holder[key] + 1, holder[key] - 1, rng.randrange(64)))
        elif way < 0.7:
            other, name = rng.choice(all_of)
            holder[key] = json.loads(json.dumps(other[name]))
        else:
            holder[key] = copy.deepcopy(rng.choice(VALUES))  # a later change may be inside


def twice(text, rng):
    """A JSON text in which one key is given twice."""
    keys = list(re.finditer(rb'"(\w+)":', text))
    if len(keys) < 2:
        return text
    one, other = rng.sample(keys, 2)
    return text[: one.start(1)] + other[1] + text[one.end(1) :]


def gltf(data, rng):
    """The JSON of a `.glb` or `.gltf` edited."""
    binary = data[:4] == b"glTF"
    length = struct.unpack_from("<I", data, 12)[0] if binary else len(data)
    root = json.loads(data[20 : 20 + length] if binary else data)
    edited(root, rng)
    text = json.dumps(root).encode()
    if rng.random() < 0.1:
        text = twice(text, rng)
    if not binary:
        return text
    text += b" " * (-len(text) % 4)
    rest = data[20 + length :]
    head = struct.pack("<4sIIII", b"glTF", 2, 20 + len(text) + len(rest), len(text), 0x4E4F534A)
    return head + text + rest


def gltf_arrays(data, rng):
    """Some words of the arrays of a `.glb` replaced by extreme numbers."""
    if data[:4] != b"glTF":
        return gltf(data, rng)
    data = bytearray(data)
    start = 28 + struct.unpack_from("<I", data, 12)[0]
    for _ in range(rng.choice((1, 4, 32))):
        at = start + 4 * rng.randrange(max(1, (len(data) - start) // 4))
        data[at : at + 4] = struct.pack("<f", rng.choice(FLOATS))
    return bytes(data)


def npz(data, rng):
    """A `.npz` with sound sums, one of whose arrays is damaged, renamed, repeated or left out."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(members))
        name, content = members[at]
        way = rng.randrange(9)
        if way == 0:
            del members[at]
        elif way == 1:
            members[at] = (rng.choice(members)[0], content)
        elif way == 2:
            members[at] = (name, rng.choice(members)[1])
        elif way == 3:
            members.append((reworded(name.encode(), rng).decode("latin-1") + ".npy", content))
        elif way in (4, 5):
            members[at] = (name, _retyped(content, rng))
        else:
            end = 10 + struct.unpack_from("<H", content, 8)[0]
            head, body = content[:end], content[end:]
            if way == 6:
                head = reworded(head, rng)
            elif body:
                body = rng.choice((flipped, sized, truncated, spliced))(body, rng)
            members[at] = (name, head + body)
        if not members:
            break
    packed = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(packed, "w", kind) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name or "x"), content, kind)
    return packed.getvalue()


def _retyped(content, rng):
    """A `.npy` of other numbers, of another type or shape."""
    try:
        array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except Exception:  # NumPy has many ways to fail at what an earlier mutation damaged
        return flipped(content, rng)
    array = np.atleast_1d(array)
    way = rng.randrange(6)
    with np.errstate(all="ignore"):
        if way == 0 and array.dtype.kind in "iufb":
            array = array.astype(rng.choice(_TYPES))
        elif way == 1:
            array = np.zeros(
                rng.choice(((), (0,), (0, 3), (2, 0, 3), (1, 1, 1), (10**6, 1, 3), (7,)))
            )
        elif way == 2 and array.size:
            array = np.repeat(array, rng.choice((0, 2, 3)), axis=rng.randrange(array.ndim))
        elif way == 3 and array.size and array.dtype.kind == "f":
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice(FLOATS)
        elif way == 4 and array.size and array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            place = rng.randrange(array.size)
            array.reshape(-1)[place] = rng.choice((limits.min, limits.max, 0, 1, limits.max - 1))
        else:
            array = array.T if rng.random() < 0.5 else array[..., ::-1]
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), allow_pickle=False)
    return out.getvalue()


def understudy(data, rng):
    """A `.understudy` whose header, or the header in it, is edited; or numbers of its arrays."""
    length = int.from_bytes(data[:8], "little")
    root, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    way = rng.random()
    if way < 0.3 and len(body) > 8:
        body = rng.choice((flipped, sized))(body, rng)
    elif way < 0.5:
        name = rng.choice([key for key in root if key != "__metadata__"])
        other = rng.choice([key for key in root if key != "__metadata__"])
        root[rng.choice((name, other, "mean", "mesh.part_sizes", "posing.axes"))] = root.pop(name)
    elif way < 0.65:
        edited({key: root[key] for key in root if key != "__metadata__"}, rng)
    else:
        inner = json.loads(root["__metadata__"]["understudy"])
        edited(inner, rng)
        told = json.dumps(inner).encode()
        told = twice(told, rng) if rng.random() < 0.05 else told
        root["__metadata__"]["understudy"] = told.decode()
    text = json.dumps(root).encode()
    text = twice(text, rng) if rng.random() < 0.05 else text
    return len(text).to_bytes(8, "little") + text + body


def fbx_arrays(data, rng):
    """A binary FBX one of whose packed arrays is damaged, and packed again to its old length."""
    starts = [m.start() for m in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data)]
    rng.shuffle(starts)
    for at in starts[:20]:
        unpacker = zlib.decompressobj()
        try:
            content = unpacker.decompress(data[at:])
        except zlib.error:
            continue
        old = len(data) - at - len(unpacker.unused_data)
        packed = zlib.compress(rng.choice((flipped, sized))(content, rng), 9)
        if content and len(packed) <= old:
            return data[:at] + packed + b"\0" * (old - len(packed)) + data[at + old :]
    return sized(data, rng)


PLAIN = (flipped, truncated, spliced, sized)
TEXT = (reworded, reworded, relined, spliced, flipped)
BY_SUFFIX = {
    ".obj": TEXT,
    ".ply": (*TEXT, sized),
    ".bvh": TEXT,
    ".xml": TEXT,
    ".usda": TEXT,
    ".npz": (npz, npz, npz, npz, flipped, truncated),
    ".glb": (gltf, gltf, gltf, gltf_arrays, *PLAIN),
    ".gltf": (gltf, gltf, gltf, *TEXT),
    ".understudy": (understudy, understudy, understudy, *PLAIN),
    ".fbx": (fbx_arrays, sized, *PLAIN, reworded, relined),
}


def mutated(data, suffix, rng):
    """A damaged copy of a file with this suffix."""
    return rng.choice(BY_SUFFIX.get(suffix, PLAIN))(data, rng)
