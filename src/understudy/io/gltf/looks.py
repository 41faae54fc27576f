"""Materials, textures and images of a glTF file, read and written.

Extensions of materials and of textures are carried as they are, with the textures that they use. An
image is the bytes of its file. One that is missing, or that no engine reads, is named in the notes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.core.materials import ALPHA_MODES, Image, Material, Texture
from understudy.io.gltf.accessors import Accessors
from understudy.io.gltf.document import Entry
from understudy.io.gltf.glb_file import GlbFile
from understudy.system.errors import FileError

_PBR = "pbrMetallicRoughness"
# Each texture: the object it is in, its name there, and its amount.
_PLACES = {
    "base_colour": (_PBR, "baseColorTexture", ""),
    "metallic_roughness": (_PBR, "metallicRoughnessTexture", ""),
    "normal": ("", "normalTexture", "scale"),
    "occlusion": ("", "occlusionTexture", "strength"),
    "emission": ("", "emissiveTexture", ""),
}
_SAMPLER = {
    "magFilter": (9728, 9729),
    "minFilter": (9728, 9729, 9984, 9985, 9986, 9987),
    "wrapS": (33071, 33648, 10497),
    "wrapT": (33071, 33648, 10497),
}
_DEPTH = 16  # of objects in an extension
_TEXTURE = 2000  # bytes


class LooksReader:
    """Reads the materials of a document.

    notes  what could not be read
    """

    def __init__(self, accessors: Accessors):
        root = accessors.document.root
        self._accessors = accessors
        self._textures, self._images = root.entries("textures"), root.entries("images")
        self._samplers = root.entries("samplers")
        self._read: dict[int, Image | None] = {}
        self.notes: list[str] = []

    def material(self, entry: Entry) -> Material:
        """Return one material."""
        pbr = entry.entry(_PBR) or Entry({}, entry.where)
        number = lambda of, key, default: of.number(key) if of.has(key) else default
        textures = {}
        for name, (inside, key, amount) in _PLACES.items():
            found = (pbr if inside else entry).entry(key)
            texture = None if found is None else self._texture(found, amount)
            if texture is not None:
                textures[name] = texture
        colour, emission = pbr.numbers("baseColorFactor", 4), entry.numbers("emissiveFactor", 3)
        mode = entry.text("alphaMode", "OPAQUE")
        return Material(
            (1.0,) * 4 if colour is None else tuple(colour),
            number(pbr, "metallicFactor", 1.0),
            number(pbr, "roughnessFactor", 1.0),
            (0.0,) * 3 if emission is None else tuple(emission),
            mode if mode in ALPHA_MODES else "OPAQUE",
            number(entry, "alphaCutoff", 0.5),
            entry.data.get("doubleSided") is True,
            textures,
            self._values(_extensions(entry).data, entry),
        )

    def _texture(self, info: Entry, amount: str = "") -> Texture | None:
        """Return the texture that an object refers to; None without an image."""
        entry = self._textures[info.integer("index", below=len(self._textures))]
        extensions = _extensions(entry)
        self._accessors.budget.take(_TEXTURE * (1 + len(extensions.data)), "textures")
        images: dict[str, Image] = {}
        for name in ("", *extensions.data):
            source = extensions.entry(name) if name else entry
            if source is not None and source.has("source"):
                image = self._image(source.integer("source", below=len(self._images)))
                images |= {} if image is None else {name: image}
        sampler: dict[str, int] = {}
        if entry.has("sampler"):
            given = self._samplers[entry.integer("sampler", below=len(self._samplers))]
            chosen = {key: given.integer(key, None) for key in _SAMPLER}
            sampler = {key: n for key, n in chosen.items() if n in _SAMPLER[key]}
        if not images:
            return None
        return Texture(
            images,
            info.integer("texCoord", 0, below=2**16),
            sampler,
            info.number(amount) if amount and info.has(amount) else None,
            self._values(_extensions(info).data, info),
        )

    def _image(self, number: int) -> Image | None:
        """Return an image; None, and a note, if it cannot be had."""
        if number in self._read:
            return self._read[number]
        entry, document = self._images[number], self._accessors.document
        name, data, problem = entry.text("name").strip(), b"", ""
        if entry.has("bufferView"):
            data = self._accessors.bytes_of(entry)
        else:
            try:
                data, uri = document.beside(entry), entry.data["uri"]
                name = name or ("" if uri[:5].lower() == "data:" else uri.rpartition("/")[2])
            except FileError as wrong:
                problem = str(wrong)
        image = Image(name, data)
        if not image.kind:
            problem = problem or "no PNG, JPEG, WebP or KTX2 image"
        if problem:
            self.notes.append(f"image {name or number!r} is left out: {problem}")
        self._read[number] = None if problem else image
        return self._read[number]

    def _values(self, value: Any, where: Entry, depth: int = 0) -> Any:
        """Return what an extension states, with `Texture`s in place of references to them."""
        if depth > _DEPTH or (isinstance(value, float) and not math.isfinite(value)):
            raise where.wrong("extensions", "nested too deeply, or with numbers that are too large")
        if isinstance(value, list):
            return [self._values(part, where, depth + 1) for part in value]
        if not isinstance(value, dict):
            return value
        found: dict[str, Any] = {}
        for key, part in value.items():
            if key.endswith("Texture") and isinstance(part, dict) and "index" in part:
                texture = self._texture(Entry(part, where.where), "scale")
                found |= {} if texture is None else {key: texture}
            else:
                found[key] = self._values(part, where, depth + 1)
        return found


def _extensions(entry: Entry) -> Entry:
    return entry.entry("extensions") or Entry({}, entry.where)


class LooksWriter:
    """Writes materials to a file in the making."""

    def __init__(self, glb: GlbFile):
        self._glb = glb
        self._known: dict[str, dict[Any, int]] = {"images": {}, "textures": {}, "samplers": {}}
        self._used: set[str] = set()
        self._required: set[str] = set()

    def add(self, name: str, material: Material) -> int:
        """Return the index of a new material."""
        entry: dict[str, Any] = {"name": name}
        pbr: dict[str, Any] = {
            "baseColorFactor": np.clip(material.base_colour, 0, 1).tolist(),
            "metallicFactor": min(max(material.metallic, 0.0), 1.0),
            "roughnessFactor": min(max(material.roughness, 0.0), 1.0),
        }
        for slot, (inside, key, amount) in _PLACES.items():
            texture = material.textures.get(slot)
            if texture is not None:
                (pbr if inside else entry)[key] = self._info(texture, amount)
        entry[_PBR] = pbr
        if any(material.emission):
            entry["emissiveFactor"] = np.clip(material.emission, 0, 1).tolist()
        if material.alpha_mode != "OPAQUE":
            entry["alphaMode"] = material.alpha_mode
        if material.alpha_mode == "MASK":
            entry["alphaCutoff"] = material.alpha_cutoff
        if material.double_sided:
            entry["doubleSided"] = True
        if material.extensions:
            entry["extensions"] = self._values(material.extensions)
            self._used |= set(material.extensions)
        for key, names in (
            ("extensionsUsed", self._used),
            ("extensionsRequired", self._required),
        ):
            if names:
                self._glb.fields[key] = sorted(names)
        return self._glb.add("materials", entry)

    def _info(self, texture: Texture, amount: str = "") -> dict[str, Any]:
        """Return what refers to a texture."""
        entry: dict[str, Any] = {}
        for extension, image in texture.images.items():
            source = {"source": self._image(image)}
            if extension:
                entry.setdefault("extensions", {})[extension] = source
                self._used.add(extension)
                self._required |= set() if "" in texture.images else {extension}
            else:
                entry |= source
        if texture.sampler:
            entry["sampler"] = self._once("samplers", dict(texture.sampler))
        info: dict[str, Any] = {"index": self._once("textures", entry)}
        if texture.uv_set:
            info["texCoord"] = texture.uv_set
        if amount and texture.amount is not None:
            info[amount] = texture.amount
        if texture.extensions:
            info["extensions"] = self._values(texture.extensions)
            self._used |= set(texture.extensions)
        return info

    def _once(self, kind: str, entry: dict[str, Any]) -> int:
        """Return the index of an object that may be there already."""
        key = json.dumps(entry, sort_keys=True)
        if key not in self._known[kind]:
            self._known[kind][key] = self._glb.add(kind, entry)
        return self._known[kind][key]

    def _image(self, image: Image) -> int:
        known = self._known["images"]
        if image not in known:
            view = self._glb.view(image.data)
            entry = {"name": image.name, "bufferView": view, "mimeType": image.kind}
            known[image] = self._glb.add("images", entry)
        return known[image]

    def _values(self, value: Any) -> Any:
        """Return plain values as JSON, with references in place of their textures."""
        if isinstance(value, Texture):
            return self._info(value, "scale")
        if isinstance(value, Mapping):
            return {key: self._values(part) for key, part in value.items()}
        return [self._values(part) for part in value] if isinstance(value, list) else value
