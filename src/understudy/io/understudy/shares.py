"""Where the bytes of a `.understudy` file are."""

from __future__ import annotations

from pathlib import Path

from understudy.io.understudy.strict_reading import parse_archive_header
from understudy.system.errors import FileError

# What arrays belong to, by the start of their names; everything else is "other".
_GROUPS = {
    "mesh": "mesh",
    "mean": "mesh",
    "skin": "skin",
    "clip": "clips",
    "skeleton": "skeleton",
    "nets": "networks",
    "features": "networks",
    "bases": "bases",
    "posing": "posing",
    "bounds": "bounds",
    "controls": "controls",
    "held_out_error": "held-out error",
}


def byte_shares(path: str | Path) -> dict[str, int]:
    """Return the bytes of the parts of a file, the largest part first; they add up to the file.

    The header has the names and sizes of the arrays, the training errors and the provenance.
    """
    path = Path(path)
    size = path.stat().st_size
    with open(path, "rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length + 8 > size:
            raise FileError(f"{path}: truncated: it ends after {size} bytes, inside its own header")
        opened.seek(0)
        entries = parse_archive_header(opened.read(8 + length))
    shares: dict[str, int] = {"header": 8 + length}
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        group = _GROUPS.get(name.partition(".")[0], "other")
        shares[group] = shares.get(group, 0) + last - first
    return dict(sorted(shares.items(), key=lambda share: -share[1]))
