"""The bytes of a glTF file: `.glb` chunks, `.gltf` text, and the buffers they name.

A file is data from outside. Nothing is fetched from a network, no file outside the folder of the
`.gltf` is opened, and every claimed size is compared with the bytes that are there.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from understudy.io.files import without_repeats
from understudy.io.gltf.document import Entry
from understudy.io.numbers import read_bytes
from understudy.system.errors import FileError

MAGIC = b"glTF"
JSON_CHUNK = 0x4E4F534A
BINARY_CHUNK = 0x004E4942

# Extensions that change which data an accessor has, and what to do about a file that needs them.
_COMPRESSED = {
    "KHR_draco_mesh_compression": "Draco",
    "EXT_meshopt_compression": "meshopt",
    "KHR_meshopt_compression": "meshopt",
}
# Extensions that a reader of geometry and animation may ignore, or that this one supports.
_HARMLESS = re.compile(
    r"KHR_mesh_quantization|EXT_mesh_gpu_instancing|KHR_materials_\w+|KHR_texture_\w+"
    r"|EXT_texture_\w+|MSFT_texture_\w+|KHR_lights_\w+|EXT_lights_\w+|KHR_xmp\w*"
    r"|KHR_node_(visibility|hoverability|selectability)|VRMC?_\w+|VRM"
)
INSTANCES = "EXT_mesh_gpu_instancing"
# Those of which nothing is lost: materials and images are carried with their extensions.
CARRIED = re.compile(
    r"KHR_mesh_quantization|KHR_materials_(?!variants)\w+|KHR_texture_\w+|EXT_texture_\w+"
    r"|MSFT_texture_\w+|EXT_mesh_gpu_instancing|KHR_xmp\w*"
)


@dataclass(frozen=True)
class Document:
    """A glTF file: its JSON and its buffers.

    path     of the file
    root     the JSON
    buffers  the bytes of each buffer, at least as many as it claims
    size     bytes of the file and of all buffers, which bounds what arrays may claim
    opened   the files of buffers and images: each is read once
    """

    path: Path
    root: Entry
    buffers: tuple[bytes, ...]
    size: int
    opened: dict[Path, bytes]

    def beside(self, entry: Entry) -> bytes:
        """Return the bytes of the `uri` of an object: inside it, or a file beside this one."""
        return _uri(entry, self.path, None, self.opened)


def read_document(path: str | Path) -> Document:
    """Return the JSON and the buffers of a `.glb` or `.gltf` file."""
    path = Path(path)
    data = read_bytes(path)
    text, binary = _chunks(data, path) if data[:4] == MAGIC else (data, None)
    root = Entry(_parse(text, path), path.name)
    _check_version(root)
    _check_extensions(root)
    buffers: list[bytes] = []
    opened: dict[Path, bytes] = {}
    for number, entry in enumerate(root.entries("buffers")):
        buffers.append(_buffer(entry, path, binary if number == 0 else None, opened))
    size = len(data) + sum(map(len, buffers))
    return Document(path, root, tuple(buffers), size, opened)


def _chunks(data: bytes, path: Path) -> tuple[bytes, bytes | None]:
    """Return the JSON chunk and the binary chunk (or None) of a `.glb`."""
    if len(data) < 20:
        raise FileError(f"{path}: truncated: the file ends inside the header of a .glb")
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise FileError(
            f"{path}: glTF version {version}; only version 2 can be read. Export it again as glTF 2"
        )
    if length > len(data):
        raise FileError(
            f"{path}: truncated: its header claims {length:,} bytes, the file has {len(data):,}"
        )
    found: dict[int, bytes] = {}
    at = 12
    while at + 8 <= length:
        size, kind = struct.unpack_from("<II", data, at)
        if at + 8 + size > length:
            raise FileError(
                f"{path}: truncated: a chunk claims {size:,} bytes, {length - at - 8:,} are left"
            )
        found.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    if JSON_CHUNK not in found:
        raise FileError(f"{path}: not a .glb file: it has no JSON chunk")
    return found[JSON_CHUNK], found.get(BINARY_CHUNK)


def _parse(text: bytes, path: Path) -> dict[str, Any]:
    """Return the JSON object in `text`."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a JSON number")

    try:
        found = json.loads(
            text.rstrip(b"\0").decode("utf-8-sig"),
            parse_constant=refuse,
            object_pairs_hook=without_repeats,
        )
    except RecursionError:
        raise FileError(f"{path}: its JSON is nested too deeply to be glTF") from None
    except ValueError as problem:  # includes UnicodeDecodeError and JSONDecodeError
        short = str(problem)[:120]
        raise FileError(f"{path}: not a glTF file: its JSON cannot be read ({short})") from None
    if not isinstance(found, dict):
        raise FileError(f"{path}: not a glTF file: its JSON is no object")
    return found


def _check_version(root: Entry) -> None:
    """Raise unless the file is glTF 2."""
    asset = root.entry("asset")
    version = asset.text("version") if asset is not None else ""
    if asset is None or not version:
        raise FileError(f"{root.where}: not a glTF file: it has no asset.version")
    if not version.startswith("2."):
        raise FileError(
            f"{root.where}: glTF version {version[:20]!r}; only version 2 can be read. "
            "Export it again as glTF 2"
        )


def _check_extensions(root: Entry) -> None:
    """Raise if the file cannot be understood without an extension that is not supported."""
    for name in root.texts("extensionsRequired"):
        if name in _COMPRESSED:
            raise FileError(
                f"{root.where}: its meshes are compressed with {_COMPRESSED[name]} ({name}), which "
                "cannot be read. Export it without compression, or convert it with "
                "'npx @gltf-transform/cli copy IN.glb OUT.glb'"
            )
        if not _HARMLESS.fullmatch(name):
            raise FileError(
                f"{root.where}: it requires the extension {name[:60]!r}, which is not supported; "
                "export it without that extension"
            )


def _buffer(entry: Entry, path: Path, binary: bytes | None, opened: dict[Path, bytes]) -> bytes:
    """Return the bytes of one buffer; `opened` are the files that others have named."""
    size = entry.integer("byteLength")
    if entry.has("uri"):
        data = _uri(entry, path, size, opened)
    elif binary is not None:
        data = binary
    else:
        # A buffer without data is a placeholder of a compression extension; views into it fail.
        return b""
    if len(data) < size:
        raise entry.wrong("byteLength", f"claims {size:,} bytes, {len(data):,} are there")
    return data[:size] if len(data) != size else data


def _uri(entry: Entry, path: Path, size: int | None, opened: dict[Path, bytes]) -> bytes:
    """Return the bytes that a URI names: base64 text, or a file beside the `.gltf`.

    size  bytes of the file to read; None: all
    """
    uri = entry.data.get("uri")
    if not isinstance(uri, str):
        raise entry.wrong("uri", "expected a text")
    if uri[:5].lower() == "data:":
        head, comma, body = uri.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise entry.wrong("uri", "data: URIs must be base64")
        try:
            return base64.b64decode(unquote(body), validate=True)
        except (binascii.Error, ValueError) as problem:
            raise entry.wrong("uri", f"damaged base64 ({problem})") from None
    return _sibling(entry, path, uri, size, opened)


def _sibling(
    entry: Entry, path: Path, uri: str, size: int | None, opened: dict[Path, bytes]
) -> bytes:
    """Return the first `size` bytes, or all, of a file in the folder of `path`, or below it."""
    name = unquote(uri)
    shown = repr(name[:80])
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", name) or name.startswith(("//", "\\\\")):
        raise entry.wrong("uri", f"{shown} is not a local file; download it beside {path.name}")
    folder = path.parent.resolve()
    try:
        target = (folder / name).resolve()
        inside = target.is_relative_to(folder) and not Path(name).is_absolute()
        if not inside or "\\" in name:
            raise entry.wrong("uri", f"{shown} leaves the folder of {path.name}; move it there")
        if not target.is_file():
            raise entry.wrong("uri", f"there is no file {shown} beside {path.name}")
        # Many names of one file would be many times its bytes.
        if target in opened and size is not None:
            raise entry.wrong("uri", f"{shown} is another buffer's file too")
        if target not in opened:
            with target.open("rb") as file:
                there = target.stat().st_size
                if size is not None and there < size:
                    raise entry.wrong("uri", f"{shown} has {there:,} bytes, {size:,} are claimed")
                opened[target] = file.read(size)
        return opened[target]
    except (OSError, ValueError, RuntimeError) as problem:
        if isinstance(problem, FileError):
            raise
        raise entry.wrong("uri", f"{shown} cannot be read: {problem}") from None
