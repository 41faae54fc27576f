"""Where the bytes of a `.understudy` file are."""

from __future__ import annotations

from pathlib import Path

from understudy.core.form import entry_of
from understudy.io.understudy.narrowing import base_of
from understudy.io.understudy.strict_reading import parse_archive_header
from understudy.system.errors import FileError


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
    for name, about in entries.items():
        if name == "__metadata__":
            continue
        first, last = about["data_offsets"]
        entry = entry_of(base_of(name))
        group = "other" if entry is None else entry.group
        shares[group] = shares.get(group, 0) + last - first
    return dict(sorted(shares.items(), key=lambda share: -share[1]))
