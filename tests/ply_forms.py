"""PLY files in every form that other programs write, made of the binary ones of this package."""

import struct
from pathlib import Path

from understudy.io.sequences import write_ply

FORMS = ("ascii", "binary_little_endian", "binary_big_endian")
_CODES = {"uchar": "B", "uint": "I", "int": "i", "float": "f"}


def write_in_form(path: Path, mesh, form: str, **about) -> None:
    """Write a mesh as `write_ply` does, in one of `FORMS`."""
    write_ply(path, mesh, **about)
    head, _, body = path.read_bytes().partition(b"end_header\n")
    at, elements = 0, []

    def take(code: str, count: int) -> tuple:
        nonlocal at
        values = struct.unpack_from(f"<{count}{code}", body, at)
        at += struct.calcsize(f"<{count}{code}")
        return values

    rows = []  # of (code, values)
    for words in map(str.split, head.decode().splitlines()):
        if words[0] == "element":
            elements.append((int(words[2]), []))
        elif words[0] == "property":
            elements[-1][1].append(words[1:-1])
    for count, properties in elements:
        for _ in range(count):
            row = []
            for kind in properties:
                length = 1
                if kind[0] == "list":
                    row.append((_CODES[kind[1]], take(_CODES[kind[1]], 1)))
                    length = row[-1][1][0]
                row.append((_CODES[kind[-1]], take(_CODES[kind[-1]], length)))
            rows.append(row)
    head = head.replace(b"binary_little_endian", form.encode()) + b"end_header\n"
    if form == "ascii":
        text = (" ".join(f"{x:.9g}" for _, values in row for x in values) for row in rows)
        path.write_bytes(head + "".join(f"{line}\n" for line in text).encode())
        return
    order = "<" if form == "binary_little_endian" else ">"
    packed = (struct.pack(f"{order}{len(v)}{code}", *v) for row in rows for code, v in row)
    path.write_bytes(head + b"".join(packed))
