"""`Material`: what a surface looks like, as glTF 2.0 describes it, and the images that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.core.noun import Noun
from understudy.system import checks
from understudy.system.errors import InputError

ALPHA_MODES = ("OPAQUE", "MASK", "BLEND")
TEXTURES = ("base_colour", "metallic_roughness", "normal", "occlusion", "emission")
_MAGIC = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"\xabKTX": "image/ktx2"}


@dataclass(frozen=True)
class Image:
    """An image as its file holds it, of any kind; equal images are one."""

    name: str
    data: bytes = field(repr=False)

    @property
    def kind(self) -> str:
        """Its media type, by its first bytes; "" if it is none that engines read.

        >>> Image("skin", b"\\x89PNG...").kind
        'image/png'
        """
        is_webp = self.data[:4] == b"RIFF" and self.data[8:12] == b"WEBP"
        starts = (kind for magic, kind in _MAGIC.items() if self.data.startswith(magic))
        return "image/webp" if is_webp else next(starts, "")


@dataclass(frozen=True, eq=False, repr=False)
class Texture(Noun):
    """An image on a surface.

    images      which extension of glTF reads each of them; "": every program does
    uv_set      0: `Mesh.corner_uvs`, n: `Mesh.corner_values["TEXCOORD_n"]`
    sampler     numbers of glTF by name: "magFilter", "minFilter", "wrapS", "wrapT"
    amount      of a normal or occlusion map; None: 1
    extensions  of glTF, such as "KHR_texture_transform"
    """

    images: Mapping[str, Image]
    uv_set: int = 0
    sampler: Mapping[str, int] = field(default_factory=dict)
    amount: float | None = None
    extensions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Material(Noun):
    """How a surface reflects light.

    base_colour   red, green, blue and opacity, linear
    metallic, roughness
    emission      red, green and blue
    alpha_mode    "OPAQUE", "MASK" (visible where opacity is at least `alpha_cutoff`) or "BLEND"
    double_sided  whether the inside is visible too
    textures      of `TEXTURES`, each multiplied with its numbers: name -> `Texture`
    extensions    of glTF: name -> plain values, in which textures are `Texture`s
    """

    base_colour: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    metallic: float = 1.0
    roughness: float = 1.0
    emission: tuple[float, ...] = (0.0, 0.0, 0.0)
    alpha_mode: str = "OPAQUE"
    alpha_cutoff: float = 0.5
    double_sided: bool = False
    textures: Mapping[str, Texture] = field(default_factory=dict)
    extensions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        for name, count in (("base_colour", 4), ("emission", 3)):
            values = checks.array(getattr(self, name), name, (count,), float)
            object.__setattr__(self, name, tuple(values.tolist()))
        for name in ("metallic", "roughness", "alpha_cutoff"):
            object.__setattr__(self, name, float(checks.between(getattr(self, name), name)))
        checks.one_of(self.alpha_mode, "alpha mode", ALPHA_MODES)
        for name, texture in self.textures.items():
            checks.one_of(name, "texture", TEXTURES)
            if not isinstance(texture, Texture):
                raise InputError(f"texture {name}: expected a Texture, got {texture!r}")

    def images(self) -> list[Image]:
        """Return all its images, each once."""
        found: dict[Image, None] = {}
        for texture in textures_in([self.textures, self.extensions]):
            found |= dict.fromkeys(texture.images.values())
        return list(found)


def textures_in(value: Any) -> list[Texture]:
    """Return the textures inside plain values."""
    if isinstance(value, Texture):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping | list | tuple):
        return [texture for part in inner for texture in textures_in(part)]
    return []
