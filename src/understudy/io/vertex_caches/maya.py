"""Maya's caches: .mc and .mcc (32-bit chunks), .mcx (64-bit chunks), each with an .xml.

    group  tag FOR4 or FOR8, size, type (CACH: the header, MYCH: one frame), chunks
    chunk  tag, size, bytes, padding

Sizes and numbers are big-endian. TIME is in ticks of 1/6000 s; CHNM names the channel whose SIZE
and data (FVCA, DVCA: vectors) follow. The .xml says whether there is one file or one file per
frame, the frame rate, and what each channel means.
"""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.io.numbers import byte_count
from understudy.io.vertex_cache import VertexCache
from understudy.io.vertex_caches.flat import read_start
from understudy.system import checks
from understudy.system.errors import FileError

_DATA = (".mcx", ".mc", ".mcc")
SUFFIXES = (".xml", *_DATA)
_TICKS = 6000  # per second
_MOST_XML = 1 << 20  # bytes
_MOST_CHUNKS = 4_000_000
_NUMBERS = {b"FVCA": (">f4", 12), b"DVCA": (">f8", 24)}
_FRAME_FILE = re.compile(r"^(?P<stem>.*)Frame(?P<frame>-?\d+)(Tick(?P<tick>\d+))?$")


@dataclass(frozen=True)
class _Description:
    """What the .xml of a cache says.

    per_frame   one file per frame
    ticks       per frame, or None
    positions   names of the channels that hold positions
    """

    per_frame: bool = False
    ticks: float | None = None
    positions: tuple[str, ...] = ()


class _NoDoctype(ElementTree.TreeBuilder):
    """Refuses document types, in any encoding: entities can expand to any size and name files."""

    def doctype(self, *_: str | None) -> None:
        """Refuse one, before any entity is declared."""
        raise ValueError("it declares a document type")


def read_maya_cache(path: str | Path, channel: str | None = None) -> VertexCache:
    """Return one channel of a Maya cache.

    path     the .xml, or the .mcx, .mc or .mcc file; one of many where there is a file per frame
    channel  its name; None: the only channel of positions

    Files are looked for beside the .xml, by its name.
    """
    path = Path(path)
    files, description = _files(path)
    channels: dict[str, list[tuple[int, np.ndarray]]] = {}  # ticks and vectors (V,3)
    for file in files:
        for name, tick, vectors in _read_file(file):
            channels.setdefault(name, []).append((tick, vectors))
    name = _choose(path, channels, description, channel)
    samples = sorted(channels[name], key=lambda sample: sample[0])
    if len({len(array) for _, array in samples}) != 1:
        raise FileError(f"{path}: channel {name!r} has different vertex counts in its frames")
    ticks = np.array([tick for tick, _ in samples], np.float64)
    if np.any(np.diff(ticks) <= 0):
        raise FileError(f"{path}: channel {name!r} has two samples at one time")
    step = description.ticks or (float(np.diff(ticks).min()) if len(ticks) > 1 else None)
    with np.errstate(all="ignore"):
        vertices = np.stack([array for _, array in samples]).astype(np.float32)
    if not np.isfinite(vertices).all():
        raise FileError(f"{path}: some positions are NaN or infinite; export it again")
    rate = None if step is None else _TICKS / step
    return VertexCache(vertices, ticks if step is None else ticks / step, rate, name)


def _files(path: Path) -> tuple[list[Path], _Description]:
    """Return the data files of a cache in order, and what its .xml says."""
    byte_count(path)
    match = _FRAME_FILE.match(path.stem)
    stem = path.stem
    if path.suffix.lower() == ".xml":
        description = _read_xml(path)
    else:
        xml = path.with_suffix(".xml")
        if not xml.is_file() and match:
            xml, stem = path.with_name(f"{match['stem']}.xml"), match["stem"]
        description = _read_xml(xml) if xml.is_file() else _Description()
        if not description.per_frame:
            return [path], description
    beside = [
        file for file in path.parent.iterdir() if file.suffix.lower() in _DATA and file.is_file()
    ]
    if description.per_frame:
        matches = [(_FRAME_FILE.match(file.stem), file) for file in beside]
        found = [(m, file) for m, file in matches if m and m["stem"] == stem]
        found.sort(key=lambda each: (int(each[0]["frame"]), int(each[0]["tick"] or 0), each[1]))
        files = [file for _, file in found]
    else:
        files = [file for file in beside if file.stem == stem][:1]
    if not files:
        wanted = f"{stem}Frame1.mcx, ..." if description.per_frame else f"{stem}.mcx"
        raise FileError(f"{path}: its data is missing: expected {wanted} beside it")
    return files, description


def _read_xml(path: Path) -> _Description:
    """Return what the .xml of a cache says."""
    text = read_start(path, _MOST_XML + 1)
    try:
        if len(text) > _MOST_XML:
            raise ValueError(f"it has more than {_MOST_XML:,} bytes")
        root = ElementTree.fromstring(text, ElementTree.XMLParser(target=_NoDoctype()))
    except ElementTree.ParseError as problem:
        raise FileError(f"{path}: is not XML: {problem}") from problem
    except (ValueError, LookupError) as problem:
        raise FileError(f"{path}: is not the description of a Maya cache: {problem}") from problem
    kind = root.find("cacheType")
    if root.tag != "Autodesk_Cache_File" or kind is None:
        raise FileError(f"{path}: is not the description of a Maya cache")
    step = root.find("cacheTimePerFrame")
    channels = root.find("Channels")
    return _Description(
        kind.get("Type") == "OneFilePerFrame",
        None if step is None else _positive(step.get("TimePerFrame")),
        tuple(
            channel.get("ChannelName", "")
            for channel in (() if channels is None else channels)
            if channel.get("ChannelInterpretation", "").lower() in ("positions", "position")
        ),
    )


def _positive(text: str | None) -> float | None:
    """Return a positive number, or None."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < 1e9 else None


def _choose(
    path: Path, channels: Collection[str], description: _Description, channel: str | None
) -> str:
    """Return the name of the channel to read."""
    if not channels:
        raise FileError(f"{path}: has no channel of vectors")
    if channel is not None:
        return checks.one_of(channel, f"channel of {path.name}", channels)
    named = [name for name in description.positions if name in channels]
    found = named or [name for name in channels if not name.lower().endswith("normals")]
    if len(found) != 1:
        raise FileError(f"{path}: has several channels: {', '.join(channels)}; name one")
    return found[0]


def _read_file(path: Path) -> Iterator[tuple[str, int, np.ndarray]]:
    """Yield the name, the ticks and the vectors (V,3) of every channel and frame in a file."""
    size = byte_count(path)
    if size < 16:
        raise FileError(f"{path}: is not a Maya cache: it has {size} bytes")
    data = np.memmap(path, np.uint8, "r")
    start = data[:4].tobytes()
    if start not in (b"FOR4", b"FOR8"):
        raise FileError(f"{path}: is not a Maya cache: it does not start with FOR4 or FOR8")
    ticks, name, count = 0, None, None
    for tag, begin, length in _chunks(path, data, wide=start == b"FOR8"):
        if tag in (b"STIM", b"TIME"):
            ticks = _integer(path, data, begin, length, tag)
        elif tag == b"CHNM":
            name = data[begin : begin + length].tobytes().split(b"\0")[0].decode("utf-8", "replace")
            count = None
        elif tag == b"SIZE":
            count = _integer(path, data, begin, length, tag)
        elif tag in _NUMBERS:
            dtype, width = _NUMBERS[tag]
            if not name or count is None or count * width != length:
                raise FileError(
                    f"{path}: channel {name!r} claims {count} vectors in {length} bytes; the file "
                    "is damaged"
                )
            vectors = np.frombuffer(data, dtype, 3 * count, begin).reshape(count, 3)
            yield name, ticks, vectors


def _chunks(path: Path, data: np.ndarray, wide: bool) -> Iterator[tuple[bytes, int, int]]:
    """Yield tag, start and length of every chunk that holds data; groups are entered."""
    head = struct.Struct(">4s4xQ" if wide else ">4sI")
    align = 8 if wide else 4
    place, end = 0, len(data)
    for _ in range(_MOST_CHUNKS):
        if place + head.size > end:
            return
        tag, length = head.unpack(data[place : place + head.size].tobytes())
        begin = place + head.size
        if length > end - begin:
            raise FileError(
                f"{path}: is truncated or damaged: {tag!r} at byte {place} claims {length:,} bytes"
            )
        if tag in (b"FOR4", b"FOR8"):
            place = begin + 4  # the type of the group: CACH or MYCH
            continue
        if not tag.isalnum():
            raise FileError(f"{path}: is damaged: unknown chunk {tag!r} at byte {place}")
        yield tag, begin, length
        place = begin + -(-length // align) * align
    raise FileError(f"{path}: has more than {_MOST_CHUNKS:,} chunks")


def _integer(path: Path, data: np.ndarray, begin: int, length: int, tag: bytes) -> int:
    """Return a chunk of one 32-bit number."""
    if length != 4:
        raise FileError(f"{path}: is damaged: {tag.decode()} has {length} bytes, expected 4")
    return int.from_bytes(data[begin : begin + 4].tobytes(), "big", signed=True)
