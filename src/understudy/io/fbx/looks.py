"""Materials of an FBX scene, and the images beside its file or inside it.

A texture of FBX takes the place of a colour, where glTF multiplies both. Roughness and metalness
have an image each; a `Material` has one for both, so the image of one alone is left out, by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.core.materials import Image, Material, Texture
from understudy.io.fbx.beside import find_beside
from understudy.io.fbx.scene import FbxScene

_IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".ktx2")
_WRAP = {"wrapS": 10497, "wrapT": 10497}
_CLAMP = 33071


def read_looks(
    scene: FbxScene, path: Path, uv_sets: Sequence[str]
) -> tuple[dict[str, Material], list[str]]:
    """Return the materials by name, and what is left out of them, in words.

    path     of the file, in whose folder images are looked for
    uv_sets  names of the UV sets of its meshes
    """
    images: dict[str, Image | None] = {}
    files: dict[Path, bytes] = {}
    notes: list[str] = []

    def texture(number: int) -> Texture | None:
        told = scene.header["textures"][number]
        if told["content"] not in images:
            images[told["content"]] = _image(scene, path, told, files, notes)
        image = images[told["content"]]
        if image is None:
            return None
        sampler = {k: _CLAMP if clamp else v for (k, v), clamp in zip(_WRAP.items(), told["clamp"])}
        uv_set = uv_sets.index(told["uv_set"]) if told["uv_set"] in uv_sets else 0
        return Texture({"": image}, uv_set, sampler)

    found: dict[str, Material] = {}
    for told in scene.header["materials"]:
        of = {slot: texture(number) for slot, number in told["textures"].items()}
        rough, metal = of.pop("roughness", None), of.pop("metalness", None)
        opacity = of.pop("opacity", None)
        if opacity is not None and opacity.images != getattr(of.get("base_colour"), "images", None):
            names = opacity.images[""].name
            notes.append(f"material {told['name']!r}: image {names} (opacity) is left out")
        one = rough or metal
        if one is not None:
            same = rough is not None and (metal or rough).images == rough.images
            if same and (metal is not None or not told["metallic"]):
                of["metallic_roughness"] = one
            else:
                names = ", ".join(t.images[""].name for t in (rough, metal) if t is not None)
                notes.append(f"material {told['name']!r}: image {names} is left out")
        used = {slot: made for slot, made in of.items() if made is not None}
        fields = {key: told[key] for key in ("base_colour", "emission", "metallic", "roughness")}
        # An image takes the place of the number, but not of its factor.
        base, emission = told["factors"]
        if "base_colour" in used:
            fields["base_colour"] = [base, base, base, fields["base_colour"][3]]
        if "emission" in used:
            fields["emission"] = [emission] * 3
        if "metallic_roughness" in used:
            fields["roughness"] = 1.0
            fields["metallic"] = 1.0 if metal is not None else 0.0
        see_through = fields["base_colour"][3] < 1 or opacity is not None
        made = Material(
            **fields,
            alpha_mode="BLEND" if see_through else "OPAQUE",
            double_sided=told["double_sided"],
            textures=used,
        )
        found.setdefault(told["name"] or "material", made)
    return found, notes


def _image(
    scene: FbxScene, path: Path, told: dict[str, Any], files: dict[Path, bytes], notes: list[str]
) -> Image | None:
    """Return an image of the file; None, and a note, if it cannot be had.

    files  those that were read: many names of one would be many times its bytes
    """
    name = told["relative"].replace("\\", "/").rpartition("/")[2] or told["name"]
    data, problem = scene.arrays[told["content"]], "not found beside the file"
    scene.budget.take(data.nbytes, "images")
    content = data.tobytes()
    if not content:
        try:
            beside = find_beside(path, _IMAGES, told["relative"], told["absolute"])
            if beside is not None and beside not in files:
                files[beside] = beside.read_bytes()
            content = b"" if beside is None else files[beside]
        except OSError as wrong:
            problem = str(wrong)
    image = Image(name, content)
    if content and not image.kind:
        problem = "no PNG, JPEG, WebP or KTX2 image"
    if not content or not image.kind:
        notes.append(f"image {name!r} is left out: {problem}")
        return None
    return image
