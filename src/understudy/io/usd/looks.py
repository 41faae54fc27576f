"""Materials of a stage as `UsdPreviewSurface`, written and read, with the images they use."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from pxr import Ar, Gf, Sdf, Usd, UsdGeom, UsdShade

from understudy.core.materials import Image, Material, Texture
from understudy.core.mesh import Mesh
from understudy.io.budget import Budget
from understudy.io.usd.prim_names import identifiers, keep_name, original_name
from understudy.io.usd.scene_meshes import ScenePart

_KINDS = Sdf.ValueTypeNames
_PLAIN = Material((0.18, 0.18, 0.18, 1.0), metallic=0.0, roughness=0.5)
# Inputs of a surface: their type, the texture that they may be connected to, and its output.
_INPUTS = {
    "diffuseColor": (_KINDS.Color3f, "base_colour", "rgb"),
    "opacity": (_KINDS.Float, "base_colour", "a"),
    "metallic": (_KINDS.Float, "metallic_roughness", "b"),
    "roughness": (_KINDS.Float, "metallic_roughness", "g"),
    "emissiveColor": (_KINDS.Color3f, "emission", "rgb"),
    "normal": (_KINDS.Normal3f, "normal", "rgb"),
    "occlusion": (_KINDS.Float, "occlusion", "r"),
}
_WRAP = {10497: "repeat", 33071: "clamp", 33648: "mirror"}
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg"}


def write_materials(stage: Any, path: str, mesh: Mesh, folder: Path) -> list[Any]:
    """Write the materials of a mesh below `path`, and images to `folder`; return the prims."""
    files: dict[Image, str] = {}
    result = []
    for name, identifier in zip(mesh.materials, identifiers(mesh.materials)):
        look, place = mesh.looks.get(name, _PLAIN), f"{path}/{identifier}"
        material = UsdShade.Material.Define(stage, place)
        keep_name(material.GetPrim(), name)
        surface = _shader(stage, f"{place}/Surface", "UsdPreviewSurface")
        material.CreateSurfaceOutput().ConnectToSource(
            surface.CreateOutput("surface", _KINDS.Token)
        )
        values = _values(look)
        textures = {}
        for slot, texture in look.textures.items():
            image = texture.images.get("")
            if image is None or image.kind not in _ENDINGS:
                continue
            if image not in files:
                folder.mkdir(exist_ok=True)
                stem = identifiers([Path(image.name).stem or "image"])[0]
                files[image] = f"{stem}_{len(files)}{_ENDINGS[image.kind]}"
                (folder / files[image]).write_bytes(image.data)
            file = f"./{folder.name}/{files[image]}"
            textures[slot] = _write_texture(stage, f"{place}/{slot}", slot, look, file)
        for key, (kind, slot, output) in _INPUTS.items():
            if key == "opacity" and look.alpha_mode == "OPAQUE":
                continue
            if slot in textures:
                number = _KINDS.Float3 if output == "rgb" else _KINDS.Float
                source = textures[slot].CreateOutput(output, number)
                surface.CreateInput(key, kind).ConnectToSource(source)
            elif key in values:
                surface.CreateInput(key, kind).Set(values[key])
        if look.alpha_mode == "MASK":
            surface.CreateInput("opacityThreshold", _KINDS.Float).Set(look.alpha_cutoff)
        result.append(material)
    return result


def _values(look: Material) -> dict[str, Any]:
    return {
        "diffuseColor": Gf.Vec3f(*look.base_colour[:3]),
        "opacity": look.base_colour[3],
        "metallic": look.metallic,
        "roughness": look.roughness,
        "emissiveColor": Gf.Vec3f(*look.emission),
    }


def _shader(stage: Any, path: str, kind: str) -> Any:
    made = UsdShade.Shader.Define(stage, path)
    made.CreateIdAttr(kind)
    return made


def _write_texture(stage: Any, path: str, slot: str, look: Material, file: str) -> Any:
    """Write one texture and what reads its UVs; return its shader."""
    texture, made = look.textures[slot], _shader(stage, path, "UsdUVTexture")
    reader = _shader(stage, f"{path}_uv", "UsdPrimvarReader_float2")
    reader.CreateInput("varname", _KINDS.String).Set(f"st{texture.uv_set or ''}")
    made.CreateInput("st", _KINDS.Float2).ConnectToSource(
        reader.CreateOutput("result", _KINDS.Float2)
    )
    made.CreateInput("file", _KINDS.Asset).Set(Sdf.AssetPath(file))
    space = "sRGB" if slot in ("base_colour", "emission") else "raw"
    made.CreateInput("sourceColorSpace", _KINDS.Token).Set(space)
    scale = {
        "base_colour": look.base_colour,
        "emission": (*look.emission, 1.0),
        "metallic_roughness": (1.0, look.roughness, look.metallic, 1.0),
        "normal": (2.0, 2.0, 2.0, 1.0),
    }
    made.CreateInput("scale", _KINDS.Float4).Set(Gf.Vec4f(*scale.get(slot, (1.0,) * 4)))
    if slot == "normal":
        made.CreateInput("bias", _KINDS.Float4).Set(Gf.Vec4f(-1, -1, -1, 0))
    for key in ("wrapS", "wrapT"):
        wrap = _WRAP.get(texture.sampler.get(key, 10497), "repeat")
        made.CreateInput(key, _KINDS.Token).Set(wrap)
    return made


def read_looks(
    stage: Any, parts: list[ScenePart], budget: Budget
) -> tuple[dict[str, Material], list[str]]:
    """Return the materials that the meshes of a stage use, and what is left out, in words."""
    doubled = {
        n for p in parts if UsdGeom.Mesh(p.prim).GetDoubleSidedAttr().Get() for n in p.material
    }
    used = {name for part in parts for name in part.material}
    images = _Images(Path(os.path.realpath(stage.GetRootLayer().realPath)).parent, budget)
    found: dict[str, Material] = {}
    for prim in Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies()):
        name = original_name(prim) if prim.GetTypeName() == "Material" else ""
        if name in used and name not in found:
            made = _read_material(prim, name in doubled, images)
            found |= {} if made is None else {name: made}
    return found, list(dict.fromkeys(images.notes))


class _Images:
    """The images in the folder of a stage or below, each read once.

    notes  what could not be read
    """

    def __init__(self, folder: Path, budget: Budget):
        self._folder, self._budget = folder, budget
        self._read: dict[tuple[str, str], Image | None] = {}
        self.notes: list[str] = []

    def read(self, asset: Any) -> Image | None:
        """Return the image of an asset path; None, and a note, if it cannot be had."""
        path = str(asset.resolvedPath) if asset else ""
        file, member = Ar.SplitPackageRelativePathOuter(path)
        key = os.path.realpath(file), member
        if key not in self._read:
            inside = bool(path) and Path(key[0]).is_relative_to(self._folder)
            opened = Ar.GetResolver().OpenAsset(Ar.ResolvedPath(path)) if inside else None
            self._budget.take(2 * opened.GetSize() if opened else 0, "images")
            data = bytes(opened.GetBuffer()) if opened else b""
            image = Image((member or file).rpartition("/")[2], data)
            self._read[key] = image if image.kind else None
        if self._read[key] is None:
            said = asset.path if asset else ""
            self.notes.append(f"image {said!r} is left out: no image in its folder")
        return self._read[key]


def _read_material(prim: Any, double_sided: bool, images: _Images) -> Material | None:
    """Return a material; None: it is no `UsdPreviewSurface`."""
    surface = UsdShade.Material(prim).ComputeSurfaceSource()[0]
    if not surface or surface.GetIdAttr().Get() != "UsdPreviewSurface":
        return None
    numbers: dict[str, Any] = {}
    found = _PLAIN
    textures: dict[str, Texture] = {}
    for key, (_, slot, _) in _INPUTS.items():
        given = surface.GetInput(key)
        sources = given.GetConnectedSources()[0] if given else []
        if sources:
            texture, scale = _read_texture(sources[0].source.GetPrim(), images)
            textures |= {} if texture is None else {slot: texture}
            at = {"opacity": 3, "metallic": 2, "roughness": 1}.get(key, slice(0, 3))
            numbers[key] = scale[at] if isinstance(at, int) else tuple(scale[:3])
        elif given and given.Get() is not None:
            numbers[key] = given.Get()
    threshold = surface.GetInput("opacityThreshold")
    cutoff = float(threshold.Get() or 0.0) if threshold else 0.0
    opacity = float(numbers.get("opacity", 1.0))
    connected = bool(
        surface.GetInput("opacity") and surface.GetInput("opacity").HasConnectedSource()
    )
    see_through = "BLEND" if connected or opacity < 1 else "OPAQUE"
    return replace(
        found,
        base_colour=(*numbers.get("diffuseColor", found.base_colour[:3]), opacity),
        metallic=float(numbers.get("metallic", found.metallic)),
        roughness=float(numbers.get("roughness", found.roughness)),
        emission=tuple(numbers.get("emissiveColor", found.emission)),
        alpha_mode="MASK" if cutoff > 0 else see_through,
        alpha_cutoff=cutoff or 0.5,
        double_sided=double_sided,
        textures=textures,
    )


def _read_texture(prim: Any, images: _Images) -> tuple[Texture | None, Any]:
    """Return the texture of a `UsdUVTexture` and what it is multiplied with."""
    shader = UsdShade.Shader(prim)
    value = lambda key, default: (
        default if not shader.GetInput(key) else shader.GetInput(key).Get() or default
    )
    scale, asset = value("scale", (1.0,) * 4), value("file", None)
    image = images.read(asset)
    if image is None:
        return None, scale
    st = shader.GetInput("st")
    sources = st.GetConnectedSources()[0] if st else []
    read = UsdShade.Shader(sources[0].source.GetPrim()).GetInput("varname") if sources else None
    digits = "".join(c for c in str(read.Get()) if c.isdecimal()) if read else ""
    numbers = {name: number for number, name in _WRAP.items()}
    sampler = {key: numbers.get(value(key, "repeat"), 10497) for key in ("wrapS", "wrapT")}
    return Texture({"": image}, int(digits or 0) % 8, sampler), scale
