"""What an Alembic archive says before any mesh is read: when its samples are, and who wrote it.

Blender imports the meshes but does not tell the frame rate. An archive is an Ogawa file: a header
of 16 bytes with the place of the root group, and groups that list places of groups and of data.
Child 4 of the root group has the time samplings: samples, seconds a cycle, and the times of one
cycle.
`write_alembic` adds a note, JSON in a text property, with what Alembic has no field for.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.core.errors import FileError

_MAGIC = b"Ogawa"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_DATA = 1 << 63  # marks the place of data, in place of a group
_MOST_TEXT = 1 << 20
_MOST_SAMPLES = 10_000  # of a small file
_NOTE = b'{"understudy":'


@dataclass(frozen=True)
class AlembicHeader:
    """When the samples of an archive are.

    frame_rate  samples per second; 0: nothing is animated
    start       time of the first sample in seconds
    samples     how many there are
    note        what `write_alembic` wrote beside the meshes; empty in files of other programs
    """

    frame_rate: float = 0.0
    start: float = 0.0
    samples: int = 0
    note: dict[str, Any] = field(default_factory=dict)


def read_alembic_header(path: str | Path) -> AlembicHeader:
    """Return the header of an archive; `FileError` if the file is not one."""
    try:
        with open(path, "rb") as file:
            if not file.read(1):
                raise FileError(f"{path}: is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _Archive(path, content).header()
    except OSError as problem:
        raise FileError(f"{path}: cannot be read: {problem.strerror or problem}") from problem


class _Archive:
    """The bytes of an archive; every place is checked before it is read."""

    def __init__(self, path: str | Path, content: mmap.mmap):
        self.path = path
        self.content = content

    def header(self) -> AlembicHeader:
        """Return the header, after checking the places of everything in it."""
        if self.content[: len(_HDF5)] == _HDF5:
            raise FileError(
                f"{self.path}: is an Alembic archive of the old HDF5 kind, which Blender does not "
                "read; convert it to Ogawa (abcconvert -toOgawa)"
            )
        if self.content[: len(_MAGIC)] != _MAGIC:
            raise FileError(f"{self.path}: is not an Alembic archive")
        if len(self.content) < 16 or self.content[5] != 0xFF:
            raise self._damaged("it was not written to its end")
        children = self._group(self._number(8))
        if len(children) < 6:
            raise self._damaged(f"its root has {len(children)} entries, expected 6")
        rate, start, samples = self._longest_sampling(self._data(children[4]))
        return AlembicHeader(rate, start, samples, self._note())

    def _longest_sampling(self, data: bytes) -> tuple[float, float, int]:
        """Return rate, start and number of samples of the time sampling with the most samples."""
        best = (0.0, 0.0, 0)
        at = 0
        while at < len(data):
            if at + 16 > len(data):
                raise self._damaged("a time sampling is cut off")
            samples, cycle, count = struct.unpack_from("<IdI", data, at)
            at += 16
            if count < 1 or at + 8 * count > len(data):
                raise self._damaged(f"a time sampling claims {count} times")
            times = struct.unpack_from(f"<{count}d", data, at)
            at += 8 * count
            found = self._sampling(samples, cycle, times)
            best = max(best, found, key=lambda each: each[2])
        return best

    def _sampling(
        self, samples: int, cycle: float, times: tuple[float, ...]
    ) -> tuple[float, float, int]:
        """Return rate, start and number of samples of one time sampling."""
        if samples <= 1:
            return 0.0, 0.0, min(samples, 1)
        if not all(map(math.isfinite, (cycle, *times))):
            raise self._damaged("a time sampling is not a number")
        uniform = cycle < 1e30  # else the times of all samples are listed
        span = cycle if uniform else (times[-1] - times[0])
        steps = len(times) if uniform else len(times) - 1
        if not 0 < span < 1e9 or steps < 1 or not 1e-6 < steps / span < 1e6:
            raise self._damaged("the times of its samples do not advance")
        if abs(times[0]) > 1e9:
            raise self._damaged(f"its first sample is at {times[0]:g} s")
        if samples > max(_MOST_SAMPLES, len(self.content) // 8):
            raise self._damaged(f"{len(self.content):,} bytes claim {samples:,} samples")
        rate = steps / span
        nearest = round(rate * 1000) / 1000  # 1/24 s is not exact
        return nearest if abs(rate - nearest) < 1e-6 * rate else rate, times[0], samples

    def _note(self) -> dict[str, Any]:
        """Return the note of `write_alembic`, or an empty table."""
        at = self.content.find(_NOTE)
        if at < 0:
            return {}
        text = self.content[at : at + _MOST_TEXT].split(b"\0")[0].decode("utf-8", "replace")
        try:
            note = json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            return {}
        return note if isinstance(note, dict) else {}

    def _group(self, at: int) -> tuple[int, ...]:
        """Return the children of a group."""
        count = self._number(at)
        if count > (len(self.content) - at - 8) // 8:
            raise self._damaged(f"a group claims {count:,} entries")
        return struct.unpack_from(f"<{count}Q", self.content, at + 8)

    def _data(self, child: int) -> bytes:
        """Return the bytes of a child that is data."""
        if not child & _DATA:
            raise self._damaged("a group is where data should be")
        at = child & ~_DATA
        if at == 0:
            return b""
        size = self._number(at)
        if size > len(self.content) - at - 8:
            raise self._damaged(f"a block claims {size:,} bytes")
        return self.content[at + 8 : at + 8 + size]

    def _number(self, at: int) -> int:
        """Return the whole number at a place."""
        if not 0 <= at <= len(self.content) - 8:
            raise self._damaged("it points outside itself")
        return int(struct.unpack_from("<Q", self.content, at)[0])

    def _damaged(self, what: str) -> FileError:
        return FileError(f"{self.path}: the Alembic archive is damaged: {what}; export it again")
