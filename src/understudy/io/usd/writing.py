"""A `Character` as USD: UsdSkel with its animation in a layer of its own.

    /hero                 SkelRoot
    /hero/Skeleton        joints, bind transforms; bound to the first clip
    /hero/walk            SkelAnimation, one per clip      (in hero.anim.usdc, a sublayer)
    /hero/body            Mesh, one per part; its GeomSubsets are materials
    /hero/body/smile      BlendShape
    /hero/Materials       Material

`hero.usd` is the root layer with everything but the animation. A `.usdz` holds both layers.
Custom data called `understudy` keeps what USD has no place for: original names, the frame rate of
each clip, the order of vertices that are in several meshes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdSkel, Vt

from understudy.core.character import Character, CharacterClip
from understudy.core.coordinates import METRES, Conversion
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.io.atomic_write import atomic_write
from understudy.io.mesh_objects import mesh_objects
from understudy.io.usd.joint_transforms import (
    SCALE_JOINTS,
    affine,
    check_shear,
    joint_animation,
    local_matrices,
    with_scale_joints,
)
from understudy.io.usd.looks import write_materials
from understudy.io.usd.mesh_prims import MeshWriter
from understudy.io.usd.prim_names import identifiers, keep_name
from understudy.io.usd.reading import SUFFIXES
from understudy.system.errors import FileError, InputError

# A character that is further from the origin than this many times its size is written relative to
# a translation of its root, which is a double.
_FAR = 16


def write(character: Character, path: Path) -> None:
    """Write the files: see `write_usd`."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")
    stem = identifiers([path.stem])[0] if set(path.stem) & set("[]@") else path.stem
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / f"{stem}{'.usdc' if suffix == '.usdz' else suffix}"
        animation = _write_layers(character, root)
        with ExitStack() as stack:
            draft = stack.enter_context(atomic_write(path))
            images = sorted((Path(folder) / f"{stem}_textures").glob("*"))
            if suffix != ".usdz":
                # Entered last, so it is in place before the root layer that names it.
                if animation is not None:
                    beside = stack.enter_context(atomic_write(path.with_name(animation.name)))
                    shutil.copyfile(animation, beside)
                shutil.copyfile(root, draft)
                for image in images:
                    place = path.parent / image.parent.name / image.name
                    place.parent.mkdir(exist_ok=True)
                    shutil.copyfile(image, stack.enter_context(atomic_write(place)))
                return
            package = Path(folder) / "package.usdz"
            writer = Sdf.ZipFileWriter.CreateNew(str(package))
            for file in (root, animation):
                if file is not None:
                    writer.AddFile(str(file), file.name)
            for image in images:
                writer.AddFile(str(image), f"{image.parent.name}/{image.name}")
            if not writer.Save():
                raise FileError(f"{path}: the package cannot be written")
            shutil.copyfile(package, draft)


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a character is written.

    stage      with the root layer as edit target
    animation  the sublayer of the clips, or None
    root       path of the SkelRoot
    offset     (3,) translation of the root; positions are stored relative to it
    added      whether the character has no bones, and its joint is only there for its blend shapes
    is_scale   (J,) bool, joints that hold a part of the scale of the joint below them
    images     folder that images are written to
    """

    stage: Any
    animation: Any
    root: str
    offset: np.ndarray
    added: bool
    is_scale: np.ndarray
    images: Path


def _write_layers(character: Character, root_file: Path) -> Path | None:
    """Write the root layer to `root_file`; return the file of the animation layer, or None."""
    given, character = character, _ready(character)
    added = given.skeleton is None and character.skeleton is not None
    character, is_scale = with_scale_joints(character)
    stage = Usd.Stage.CreateNew(str(root_file))
    animation = None
    layers = [stage.GetRootLayer()]
    if character.clips:
        animation_file = root_file.with_name(f"{root_file.stem}.anim.usdc")
        animation = Sdf.Layer.CreateNew(str(animation_file))
        layers.append(animation)
        stage.GetRootLayer().subLayerPaths.append(f"./{animation_file.name}")
    for layer in layers:
        _write_metadata(layer, character)
    root = f"/{identifiers([character.name])[0]}"
    images = root_file.with_name(f"{root_file.stem}_textures")
    place = _Place(stage, animation, root, _offset(character), added, is_scale, images)
    _write_character(place, character)
    for layer in layers:
        if not layer.Save():
            raise FileError(f"{layer.identifier}: cannot be written")
    return animation_file if character.clips else None


def _ready(character: Character) -> Character:
    """Return a right-handed character that can be written; `InputError` says why it cannot be."""
    for clip in character.clips[1:]:
        if clip.vertices is not None:
            raise InputError(
                f"clip {clip.name!r} is a point cache, and USD plays only the first clip's; write "
                "each such clip to a file of its own"
            )
    if character.mesh.handedness == "left":
        # Its polygons keep their corners, so they are left-handed (`orientation` in USD).
        character = Conversion.mirror().character(character)
    still = character.clips and character.clips[0].vertices is None
    if character.skeleton is None and (character.shapes or still):
        # Blend shapes and SkelAnimation need a skeleton. The reader removes this joint again.
        count = character.mesh.vertex_count
        clips = [
            replace(clip, world_from_bone=np.tile(np.eye(3, 4), (clip.frame_count, 1, 1, 1)))
            for clip in character.clips
        ]
        skeleton = Skeleton(("root",), np.array([-1]), np.eye(3, 4)[None])
        skin = Skin.rigid(np.zeros(count, int))
        character = replace(character, skeleton=skeleton, skin=skin, clips=tuple(clips))
    return character


def _offset(character: Character) -> np.ndarray:
    """Return the translation (3,) to write a character relative to: zero, unless it is far away."""
    vertices = character.mesh.vertices.astype(np.float64)
    centre = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    size = float(np.ptp(vertices, axis=0).max())
    return np.round(centre) if np.linalg.norm(centre) > _FAR * size else np.zeros(3)


def _write_metadata(layer: Any, character: Character) -> None:
    """Write unit, up axis and frame rate to a layer; each layer has its own."""
    mesh = character.mesh
    layer.pseudoRoot.SetInfo("upAxis", mesh.up)
    layer.pseudoRoot.SetInfo("metersPerUnit", METRES[mesh.unit])
    kept = {"unit": mesh.unit, "upAxis": mesh.up_axis, "name": character.name}
    layer.customLayerData = {"understudy": kept}
    layer.defaultPrim = identifiers([character.name])[0]
    if character.clips:
        clip = character.clips[0]
        layer.timeCodesPerSecond = layer.framesPerSecond = clip.frame_rate
        layer.startTimeCode = float(clip.start_frame)
        layer.endTimeCode = float(clip.start_frame + clip.frame_count - 1)


def _write_character(place: _Place, character: Character) -> None:
    """Write all prims."""
    stage, skeleton = place.stage, character.skeleton
    root = (
        UsdSkel.Root.Define(stage, place.root)
        if skeleton
        else UsdGeom.Xform.Define(stage, place.root)
    )
    keep_name(root.GetPrim(), character.name)
    if place.offset.any():
        root.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Vec3d(*place.offset.tolist()))
    objects = mesh_objects(character.mesh)
    labels = [found.name or character.name for found in objects]
    clip_names = [clip.name for clip in character.clips]
    names = identifiers(["Skeleton", "Materials", *labels, *clip_names])
    mesh_names, animation_names = names[2 : 2 + len(objects)], names[2 + len(objects) :]
    tokens = identifiers([shape.name for shape in character.shapes])
    if tokens:
        root.GetPrim().SetCustomDataByKey("understudy:shapes", "/".join(tokens))
    if character.mesh.materials:
        UsdGeom.Scope.Define(stage, f"{place.root}/Materials")
    materials = write_materials(stage, f"{place.root}/Materials", character.mesh, place.images)
    if character.clips and skeleton is None:
        root.GetPrim().SetCustomDataByKey("understudy:clip", character.clips[0].name)
    cached = bool(character.clips) and character.clips[0].vertices is not None
    writer = MeshWriter(
        stage,
        character,
        place.offset,
        f"{place.root}/Skeleton" if skeleton is not None and not cached else None,
        materials,
        tokens,
    )
    meshes = [
        writer.write(found, f"{place.root}/{name}", first=k == 0)
        for k, (found, name) in enumerate(zip(objects, mesh_names))
    ]
    if skeleton is not None:
        _write_skeleton(place, skeleton, animation_names)
    if not character.clips:
        return
    with Usd.EditContext(stage, place.animation):
        for clip, name in zip(character.clips, animation_names):
            if skeleton is not None:
                _write_animation(place, character, clip, f"{place.root}/{name}", tokens)
        if cached:
            _write_cache(place, character.clips[0], meshes, [o.vertices for o in objects])
        elif skeleton is not None:
            _write_extents(place, character, UsdGeom.Boundable(root.GetPrim()))


def _write_skeleton(place: _Place, skeleton: Skeleton, animations: Sequence[str]) -> None:
    """Write the joints in the bind pose, bound to the first animation."""
    prim = UsdSkel.Skeleton.Define(place.stage, f"{place.root}/Skeleton")
    if place.added:
        prim.GetPrim().SetCustomDataByKey("understudy:added", True)
    paths = joint_paths(skeleton)
    prim.CreateJointsAttr(paths)
    if place.is_scale.any():
        helpers = [paths[joint] for joint in np.flatnonzero(place.is_scale)]
        prim.GetPrim().SetCustomDataByKey(SCALE_JOINTS, Vt.StringArray(helpers))
    prim.CreateJointNamesAttr(list(skeleton.names))
    bind = skeleton.world_from_bone.copy()
    bind[:, :, 3] -= place.offset
    rows = lambda matrices: Vt.Matrix4dArray.FromNumpy(
        np.ascontiguousarray(np.swapaxes(matrices, 1, 2))
    )
    prim.CreateBindTransformsAttr(rows(affine(bind)))
    prim.CreateRestTransformsAttr(rows(local_matrices(bind, skeleton.parents)))
    binding = UsdSkel.BindingAPI.Apply(prim.GetPrim())
    if animations:
        binding.CreateAnimationSourceRel().SetTargets([f"{place.root}/{animations[0]}"])


def joint_paths(skeleton: Skeleton) -> list[str]:
    """Return the joints as UsdSkel names them: the path from the root, of valid names.

    >>> rest = np.tile(np.eye(3, 4), (2, 1, 1))
    >>> joint_paths(Skeleton(("hip", "knee L"), [-1, 0], rest))
    ['hip', 'hip/knee_L']
    """
    paths: list[str] = []
    for name, parent in zip(identifiers(skeleton.names), skeleton.parents.tolist()):
        paths.append(name if parent < 0 else f"{paths[parent]}/{name}")
    return paths


def _write_animation(
    place: _Place, character: Character, clip: CharacterClip, path: str, tokens: Sequence[str]
) -> None:
    """Write one clip as a SkelAnimation."""
    skeleton = character.skeleton
    assert skeleton is not None  # the caller checks
    animation = UsdSkel.Animation.Define(place.stage, path)
    prim = animation.GetPrim()
    keep_name(prim, clip.name)
    prim.SetCustomDataByKey("understudy:frameRate", clip.frame_rate)
    prim.SetCustomDataByKey("understudy:startFrame", clip.start_frame)
    prim.SetCustomDataByKey("understudy:frameCount", clip.frame_count)
    world = clip.world_from_bone.copy()
    world[..., 3] -= place.offset
    joints = joint_animation(world, skeleton.parents, place.is_scale)
    stored = joints.world.copy()
    stored[..., 3] += place.offset
    check_shear(character, clip.name, clip.world_from_bone, stored)
    animation.CreateJointsAttr(joint_paths(skeleton))
    translations = animation.CreateTranslationsAttr()
    rotations = animation.CreateRotationsAttr()
    scales = animation.CreateScalesAttr()
    if tokens:
        animation.CreateBlendShapesAttr(list(tokens))
        weights = animation.CreateBlendShapeWeightsAttr()
    steady = (joints.scales == joints.scales[0]).all()
    if steady:
        scales.Set(Vt.Vec3hArray.FromNumpy(joints.scales[0]))
    for frame, time in enumerate(_times(place, clip)):
        translations.Set(Vt.Vec3fArray.FromNumpy(joints.translations[frame]), time)
        rotations.Set(Vt.QuatfArray.FromNumpy(joints.rotations[frame]), time)
        if not steady:
            scales.Set(Vt.Vec3hArray.FromNumpy(joints.scales[frame]), time)
        if tokens:
            weights.Set(Vt.FloatArray.FromNumpy(clip.shape_weights[frame]), time)


def _write_cache(
    place: _Place, clip: CharacterClip, meshes: Sequence[Any], vertices: Sequence[np.ndarray]
) -> None:
    """Write the vertices of a clip as time samples of the meshes' points."""
    assert clip.vertices is not None  # the caller checks
    times = _times(place, clip)
    for mesh, chosen in zip(meshes, vertices):
        points, extent = mesh.GetPointsAttr(), mesh.GetExtentAttr()
        at_rest = points.Get(), extent.Get()
        # A value in the root layer would win over samples in the sublayer.
        with Usd.EditContext(place.stage, place.stage.GetRootLayer()):
            for name in ("points", "extent"):
                mesh.GetPrim().RemoveProperty(name)
        points.Set(at_rest[0])
        extent.Set(at_rest[1])
        for frame, time in enumerate(times):
            moved = (clip.vertices[frame, chosen] - place.offset).astype(np.float32)
            points.Set(Vt.Vec3fArray.FromNumpy(moved), time)
            extent.Set(_extent(moved), time)


def _write_extents(place: _Place, character: Character, root: Any) -> None:
    """Write the bounding box of every frame of the first clip to the SkelRoot."""
    clip = character.clips[0]
    attribute = root.CreateExtentAttr()
    for start in range(0, clip.frame_count, 32):
        block = slice(start, start + 32)
        frames = character.evaluate(clip.world_from_bone[block], clip.shape_weights[block])
        for time, points in zip(_times(place, clip)[block], frames):
            attribute.Set(_extent((points - place.offset).astype(np.float32)), time)


def _times(place: _Place, clip: CharacterClip) -> list[float]:
    """Return the time code of each frame; all clips share the stage's time codes per second."""
    rate = place.stage.GetTimeCodesPerSecond()
    frames = np.arange(clip.start_frame, clip.start_frame + clip.frame_count, dtype=np.float64)
    return (frames * (rate / clip.frame_rate)).tolist()


def _extent(points: np.ndarray) -> Any:
    """Return the bounding box of points (n,3) as USD has it."""
    return Vt.Vec3fArray.FromNumpy(np.stack([points.min(axis=0), points.max(axis=0)]))
