"""`Scene`: everything that the page shows, as one container.

`web/src/scene.ts` is the reader and describes every entry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.core.clip import ClipSpan
from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import skin_weights
from understudy.export.clips import SourceClip
from understudy.geometry.skinning import sparse_to_influences
from understudy.io.understudy import to_bytes
from understudy.rigs.base import Rig, animation_curves, animation_names, name_of
from understudy.system.errors import InputError
from understudy.viewer.packing import Container, PackedBones, pack_bones, pack_frames

VERSION = 1
SKIN_ALONE = "skin alone"
MOST_FRAMES = 600  # of one clip; longer ones are cut
_CONTROL_STEP = 1e-5  # of a control's range: how exactly the controls of a clip are stored
_SHOWN_WEIGHTS = 8  # bones per vertex whose weights the page can show
# Group -> words that a name of it contains. The first group with a word of the name wins.
_WORDS = {
    "Eyes": "eye eyes lid lids gaze pupil iris",
    "Brows": "brow brows forehead scalp",
    "Mouth": "mouth lip lips jaw tongue teeth corner smile frown pucker funnel press sticky roll "
    "shrug dimple sneer snarl viseme mentalis chin",
    "Cheeks and nose": "cheek cheeks nose nostril nasolabial squint platysma clench puff",
    "Fingers": "thumb index middle ring pinky finger fingers hand palm metacarpal",
    "Arm": "clavicle shoulder upperarm arm elbow forearm lowerarm wrist",
    "Foot": "toe toes foot ball heel",
    "Leg": "hip thigh upperleg leg knee shin lowerleg calf ankle",
    "Head and neck": "head neck throat skull",
    "Torso": "waist chest spine torso abdomen belly breast breath ribs stomach pelvis hips",
    "Root": "root master global world cog main",
}
_GROUP = {word: group for group, words in _WORDS.items() for word in words.split()}
_SIDES = {"l": "left", "left": "left", "r": "right", "right": "right"}
OTHER = "Other"


@dataclass(frozen=True, eq=False)
class Model:
    """One stand-in of a scene.

    label     what the page calls it
    deformer  whose file the page plays
    clips     what drives it, in the same order for every model of a scene
    size      bytes of its file, as the page states them
    """

    label: str
    deformer: Deformer
    clips: Sequence[SourceClip] = ()
    size: int | None = None


def deformer_scene(
    models: Sequence[Model], title: str, *, half: bool = True, rig: Rig | None = None
) -> Container:
    """Return the scene of some stand-ins of one character; the first is compared with the others.

    half  whether to store models in 16 bits
    rig   the live rig that a server evaluates, or None
    """
    _refuse_strangers(models)
    first = models[0].deformer
    scene = _scene(title, first.mesh)
    shown = [*models, *_skin_alone(models)]
    scene.about["models"] = []
    played = []
    for number, model in enumerate(shown):
        deformer = _for_page(model.deformer, half)
        played.append(replace(model, deformer=deformer))
        data = to_bytes(deformer)
        scene.put_bytes(f"model.{number}", data)
        scene.about["models"].append(
            {
                "label": model.label,
                "bytes": model.size or len(data),
                "storage": deformer.storage,
                "derived": number >= len(models),
            }
        )
    if first.skeleton is not None:
        _put_skeleton(scene, first.skeleton)
    spec = rig.controls if rig is not None else first.control_spec
    read = None if rig is not None else _read_controls(first)
    if spec is not None:
        scene.about["controls"] = control_entries(spec, read)
    scene.about["clips"] = [
        _put_clip(scene, number, played, rig) for number in range(len(models[0].clips))
    ]
    _put_regions(scene, first)
    if rig is not None:
        scene.about["live"] = {"rig": name_of(rig), "has_bones": rig.skeleton is not None}
    return scene


def poses_scene(poses: Poses, title: str) -> Container:
    """Return the scene of poses alone."""
    scene = _bare_scene(title, poses.mesh, poses.skeleton)
    size, start = float(poses.mesh.height), 0
    spans = poses.spans or (ClipSpan(poses.name, poses.pose_count, poses.frame_rate),)
    for number, span in enumerate(spans):
        stop = start + min(span.frame_count, MOST_FRAMES)
        name, frames = f"clip.{number}", poses.read_poses(start, stop)
        mean = frames.mean(axis=0, dtype=np.float64).astype(np.float32)
        scene.put(f"{name}.original.mean", mean)
        about = _clip_entry(
            span.name, len(frames), span.frame_count, span.frame_rate or 30.0, span.start_frame
        )
        # No stand-in predicts them, so they are relative to their mean shape.
        about["original"] = pack_frames(frames, mean, size).put(scene, f"{name}.original")
        if poses.skeleton is not None and poses.world_from_bone is not None:
            bones = pack_bones(poses.world_from_bone[start:stop], poses.skeleton.parents, size)
            about["bones"].append(bones.put(scene, f"{name}.bones.0"))
        scene.about["clips"].append(about)
        start += span.frame_count
    return scene


def rig_scene(rig: Rig) -> Container:
    """Return the scene of a rig alone, whose poses a server evaluates."""
    scene = _bare_scene(name_of(rig).partition("?")[0], rig.mesh, rig.skeleton)
    scene.about["controls"] = control_entries(rig.controls, None)
    for number, name in enumerate(animation_names(rig)):
        values, rate = animation_curves(rig, name)
        values = values[:MOST_FRAMES]
        scene.put(f"clip.{number}.rig_controls", values.astype(np.float32))
        scene.about["clips"].append(_clip_entry(name, len(values), len(values), rate))
    scene.about["live"] = {"rig": name_of(rig), "has_bones": rig.skeleton is not None}
    return scene


def control_entries(spec: ControlSpec, read: np.ndarray | None) -> list[dict[str, Any]]:
    """Return what the page needs to know of each control.

    read  (C,) whether the deformer reads it; None: the live rig takes all of them
    """
    return [
        {
            "name": name,
            "unit": spec.units[c],
            "low": float(spec.low[c]),
            "high": float(spec.high[c]),
            "limits": [float(spec.limit_low[c]), float(spec.limit_high[c])],
            "rest": float(spec.rest[c]),
            "numeric": bool(spec.numeric[c]),
            "read": True if read is None else bool(read[c]),
            "group": group_of(name),
        }
        for c, name in enumerate(spec.names)
    ]


def _scene(title: str, mesh: Mesh) -> Container:
    """Return a scene with what every kind of it has."""
    scene = Container()
    scene.about |= {
        "version": VERSION,
        "title": title,
        "unit": mesh.unit,
        "up": mesh.up,
        "handedness": mesh.handedness,
        "size": float(mesh.height),
        "vertices": mesh.vertex_count,
        "polygons": len(mesh.polygon_sizes),
        "models": [],
        "controls": [],
        "clips": [],
    }
    scene.put_whole("mesh.edges", mesh.edges.astype(np.int64), order=1)
    if mesh.parts:
        part = np.zeros(mesh.vertex_count, np.int64)
        for number, members in enumerate(mesh.parts.values()):
            part[members] = number + 1
        scene.put_whole("mesh.part", part)
        scene.about["parts"] = list(mesh.parts)
    return scene


def _bare_scene(title: str, mesh: Mesh, skeleton: Skeleton | None) -> Container:
    """Return a scene without a stand-in, so with a mesh of its own."""
    scene = _scene(title, mesh)
    scene.put("mesh.rest", mesh.vertices.astype(np.float32))
    scene.put("mesh.triangles", mesh.triangles.astype(np.uint32))
    if skeleton is not None:
        _put_skeleton(scene, skeleton)
    return scene


def _put_skeleton(scene: Container, skeleton: Skeleton) -> None:
    """Store names, parents and rest of the bones, for scenes without a model to ask."""
    scene.about["bones"] = {
        "names": list(skeleton.names),
        "parents": skeleton.parents.tolist(),
        "groups": [group_of(name) for name in skeleton.names],
    }
    scene.put("bones.rest", skeleton.world_from_bone.reshape(-1, 12).astype(np.float32))


def _clip_entry(name: str, frames: int, of: int, rate: float, start: int = 0) -> dict[str, Any]:
    """Return what every clip states: `frames` of its `of` frames are in the scene."""
    return {"name": name, "frames": frames, "of": of, "rate": rate, "start": start, "bones": []}


def _put_clip(
    scene: Container, number: int, models: Sequence[Model], rig: Rig | None
) -> dict[str, Any]:
    """Store one clip: the bones of every model, the controls, and the original."""
    lead = models[0]
    clip = lead.clips[number]
    frames = min(clip.frame_count, MOST_FRAMES)
    size = float(lead.deformer.mesh.height)
    about = _clip_entry(clip.name, frames, clip.frame_count, clip.frame_rate, clip.start_frame)
    packed: list[tuple[np.ndarray, np.ndarray, dict[str, Any]]] = []
    decoded = None
    for model in models:
        own = model.clips[number].world_from_bone
        skeleton = model.deformer.skeleton
        if own is None or skeleton is None:
            about["bones"].append(None)
            continue
        own = own[:frames]
        same = next(
            (entry for bones, parents, entry in packed
             if bones.shape == own.shape and np.array_equal(parents, skeleton.parents)
             and np.array_equal(bones, own)),
            None,
        )  # fmt: skip
        if same is None:
            bones: PackedBones = pack_bones(own, skeleton.parents, size)
            same = bones.put(scene, f"clip.{number}.bones.{len(packed)}")
            packed.append((own, skeleton.parents, same))
            if model is lead:
                decoded = bones.world_from_bone(skeleton.parents)
        about["bones"].append(same)
    if clip.controls is not None:
        spec = lead.deformer.control_spec
        assert spec is not None  # it reads controls
        about["controls"] = _put_controls(scene, number, clip.controls[:frames], spec)
    if rig is not None and clip.name in animation_names(rig):
        values = animation_curves(rig, clip.name)[0][:frames]
        scene.put(f"clip.{number}.rig_controls", values.astype(np.float32))
    if clip.original is not None:
        controls = None if clip.controls is None else clip.controls[:frames]
        predicted = lead.deformer.deform(decoded, controls)
        about["original"] = pack_frames(clip.original[:frames], predicted, size).put(
            scene, f"clip.{number}.original"
        )
        errors = [
            _frame_errors(predicted if model is lead else _played(model, number, frames),
                          clip.original[:frames])
            for model in models
        ]  # fmt: skip
        scene.put(f"clip.{number}.errors", np.stack(errors))
    return about


def _put_controls(
    scene: Container, number: int, values: np.ndarray, spec: ControlSpec
) -> list[float]:
    """Store the controls of a clip as multiples of a step each, and return the steps."""
    least = _CONTROL_STEP * np.maximum(spec.high - spec.low, 1e-6)
    steps = np.maximum(least, np.abs(values).max(axis=0, initial=0) / 2**28)
    scene.put_whole(f"clip.{number}.controls", np.round(values / steps).astype(np.int64), order=1)
    return steps.tolist()


def _played(model: Model, number: int, frames: int) -> np.ndarray:
    """Return what a model shows in the first frames of a clip."""
    clip = model.clips[number]
    part = lambda array: None if array is None else array[:frames]
    return model.deformer.deform(part(clip.world_from_bone), part(clip.controls))


def _frame_errors(shown: np.ndarray, original: np.ndarray) -> np.ndarray:
    """Return mean and largest distance of every frame, (2,F) float32."""
    distance = np.linalg.norm(shown - original, axis=2)
    return np.stack([distance.mean(axis=1), distance.max(axis=1)]).astype(np.float32)


def _put_regions(scene: Container, deformer: Deformer) -> None:
    """Store what colours the mesh by its skin: weights, groups of networks, virtual bones."""
    skin, skeleton = deformer.skin, deformer.skeleton
    about: dict[str, Any] = {}
    if skin is not None and skeleton is not None:
        index, weight = sparse_to_influences(skin_weights(skin, skeleton.bone_count))
        scene.put_whole("skin.index", index[:, :_SHOWN_WEIGHTS])
        scene.put_whole("skin.weight", np.rint(255 * weight[:, :_SHOWN_WEIGHTS]).astype(np.int64))
        if skin.virtual is not None:
            scene.put_whole("skin.virtual", skin.bone_index[:, 0].astype(np.int64))
            about["virtual_bones"] = len(skin.virtual[0])
    if len(deformer.bases) > 1:
        group = np.full(deformer.mesh.vertex_count, -1, np.int64)
        strongest = np.zeros(deformer.mesh.vertex_count, np.float32)
        for number, basis in enumerate(deformer.bases):
            rows_per = 1 if basis.shared else 3
            strength = np.square(basis.matrix).sum(axis=1).reshape(-1, rows_per).sum(axis=1)
            better = strength > strongest[basis.vertices]
            group[basis.vertices[better]] = number
            strongest[basis.vertices[better]] = strength[better]
        scene.put_whole("groups", group)
        about["groups"] = len(deformer.bases)
    anchors = deformer.provenance.get("anchors")
    if isinstance(anchors, list) and anchors:
        # The header of a file is not trusted.
        count = deformer.mesh.vertex_count
        known = [v for v in anchors if isinstance(v, int) and 0 <= v < count]
        scene.put_whole("anchors", np.array(known, np.int64))
    scene.about["regions"] = about


def _skin_alone(models: Sequence[Model]) -> list[Model]:
    """Return the first model without its correctives, if nothing else shows plain skinning."""
    first = models[0]
    deformer = first.deformer
    if len(models) > 1 or deformer.skin is None or not (deformer.nets or deformer.bases):
        return []
    bare = replace(deformer.skin_alone(), mean=None)
    return [Model(SKIN_ALONE, bare, first.clips)]


def _for_page(deformer: Deformer, half: bool) -> Deformer:
    """Return a deformer without what the page does not draw, in 16 bits if wanted."""
    mesh = replace(
        deformer.mesh, corner_uvs=None, corner_normals=None, materials=(), polygon_material=None
    )
    plain = replace(deformer, mesh=mesh, clips=())
    return plain.half() if half and plain.storage == "float32" else plain


def _read_controls(deformer: Deformer) -> np.ndarray:
    """Return which controls the networks read, (C,) bool."""
    count = 0 if deformer.control_spec is None else deformer.control_spec.count
    read = np.zeros(count, bool)
    columns = deformer.features.columns
    read[columns[columns >= 12 * deformer.bone_count] - 12 * deformer.bone_count] = True
    return read


def _refuse_strangers(models: Sequence[Model]) -> None:
    """Raise unless all models are of one character, with the same clips."""
    if not models:
        raise InputError("a scene needs at least one stand-in")
    first = models[0]
    names = [clip.name for clip in first.clips]
    for model in models[1:]:
        mesh = model.deformer.mesh
        if not np.array_equal(mesh.polygon_vertices, first.deformer.mesh.polygon_vertices):
            raise InputError(
                f"{model.label} has another mesh than {first.label} ({mesh.vertex_count} and "
                f"{first.deformer.mesh.vertex_count} vertices); view them one by one"
            )
        if [clip.name for clip in model.clips] != names:
            raise InputError(
                f"{model.label} has other clips than {first.label}; name clips that both have"
            )


def group_of(name: str) -> str:
    """Return the body part that a control or bone belongs to, with its side.

    >>> group_of("elbow_flex_L"), group_of("head_nod"), group_of("finger2-1.R")
    ('Arm, left', 'Head and neck', 'Fingers, right')
    >>> group_of("wobble")
    'Other'
    """
    words = _words(name)
    found = next((_GROUP[word] for word in words if word in _GROUP), None)
    if found is None:
        # Names such as "upperarm01" or "eyebrow" contain a word without a separator.
        long = [word for word in _GROUP if len(word) > 3 and word in "".join(words)]
        found = _GROUP[max(long, key=len)] if long else OTHER
    side = next((_SIDES[word] for word in reversed(words) if word in _SIDES), None)
    return found if side is None or found == OTHER else f"{found}, {side}"


def _words(name: str) -> list[str]:
    """Return the words of a name, in lower case: split at separators, digits and capitals.

    >>> _words("mouthCorner_L.01")
    ['mouth', 'corner', 'l']
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.split(r"[^A-Za-z]+", spaced) if word]
