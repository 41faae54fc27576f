"""Reads mutated glTF files with little memory, and prints what came of them as JSON.

    python gltf_mutations.py COUNT SEED FILE...

Each file must give a character or an error of ours: anything else ends the program. Its address
space may grow by 1 GiB, which a claimed size that is believed exceeds.
"""

import json
import random
import resource
import struct
import sys
import tempfile
import time
import warnings
from pathlib import Path

from understudy.io.registry import read_character
from understudy.system.errors import UnderstudyError

ROOM = 2**30
VALUES = (
    -1, 0, 1, 2, 3, 255, 65536, 2**31, 2**32 + 5, 2**63, 10**30, -(10**18), 0.5, -0.0, 1e-320, 1e20,
    1e308, True, None, "", "x", "../../etc/passwd", "data:;base64,AAAA", "VEC3", "SCALAR", "MAT4",
    [], {}, [0], [1e38] * 3, [0] * 16, {"understudy": {}},
)  # fmt: skip
WORDS = (
    b"\0\0\xc0\x7f", b"\xff\xff\x7f\x7f", b"\0\0\0\0", b"\x01\0\0\x80", b"\xff\xff\xff\x7e",
    b"\0\0\x80\xbf", b"\x01\x02\x03\x04", b"\0\0\x80\x44", b"\xff\0\xff\0",
)  # fmt: skip


def chunks(data):
    """The JSON and the bytes after it."""
    length = struct.unpack_from("<I", data, 12)[0]
    return json.loads(data[20 : 20 + length]), data[20 + length :]


def joined(root, rest):
    text = json.dumps(root).encode()
    text += b" " * (-len(text) % 4)
    head = struct.pack("<4sIIII", b"glTF", 2, 20 + len(text) + len(rest), len(text), 0x4E4F534A)
    return head + text + rest


def places(value, found):
    """Every container and key below a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            places(value[key], found)
    return found


def edited(data, rng):
    """Some fields of the JSON replaced, removed or moved."""
    root, rest = chunks(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        holder, key = rng.choice(places(root, []))
        way = rng.random()
        if way < 0.15 and isinstance(holder, dict):
            del holder[key]
        elif way < 0.3 and isinstance(holder[key], list):
            holder[key] = holder[key] * rng.choice((0, 2, 3))
        elif way < 0.6 and isinstance(holder[key], int) and not isinstance(holder[key], bool):
            holder[key] = rng.choice((holder[key] + 1, holder[key] - 1, rng.randrange(64)))
        elif way < 0.7:
            other, name = rng.choice(places(root, []))
            holder[key] = json.loads(json.dumps(other[name]))
        else:
            holder[key] = rng.choice(VALUES)
        if not places(root, []):
            break
    return joined(root, rest)


def flipped(data, rng):
    """Some bytes of the file replaced."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 2, 8, 64))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def overwritten(data, rng):
    """Some words of the arrays replaced by NaN, infinity and extreme numbers."""
    data = bytearray(data)
    start = 28 + struct.unpack_from("<I", data, 12)[0]
    for _ in range(rng.choice((1, 4, 32))):
        at = start + 4 * rng.randrange((len(data) - start) // 4)
        data[at : at + 4] = rng.choice(WORDS)
    return bytes(data)


def truncated(data, rng):
    """The file cut short, with or without a header that agrees."""
    data = bytearray(data[: rng.randrange(len(data))])
    if rng.random() < 0.5 and len(data) >= 12:
        struct.pack_into("<I", data, 8, len(data))
    return bytes(data)


def main(count, seed, files):
    rng = random.Random(seed)
    originals = [Path(file).read_bytes() for file in files]
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    read, refused, slowest, messages = 0, 0, 0.0, set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.glb"
        for number in range(count):
            change = (edited, edited, flipped, overwritten, truncated)[number % 5]
            path.write_bytes(change(rng.choice(originals), rng))
            before = time.perf_counter()
            try:
                found = read_character(path)
                for clip in found.clips:
                    shown = found.evaluate(clip.world_from_bone[:2], clip.shape_weights[:2])
                    assert shown.shape[1:] == found.mesh.vertices.shape
                read += 1
            except UnderstudyError as problem:
                text = str(problem)
                if "memory" in text or not text.startswith(("mutated.glb", str(path))):
                    raise AssertionError(text) from problem
                messages.add(text.partition("mutated.glb")[2][:30])
                refused += 1
            except Exception:
                sys.stderr.write(f"mutation {number}\n")
                raise
            slowest = max(slowest, time.perf_counter() - before)
    result = {"read": read, "refused": refused, "slowest": slowest, "messages": len(messages)}
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
