"""A `Character` as plain arrays, to pass it from one process to another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.core.character import BlendShape, Character, CharacterClip
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin

_MESH = ("vertices", "polygon_sizes", "polygon_vertices")
_MESH_OPTIONAL = ("corner_uvs", "corner_normals", "polygon_material")


def character_arrays(character: Character) -> dict[str, np.ndarray]:
    """Return the arrays of a character by name; `character_from_arrays` is the inverse."""
    mesh = character.mesh
    arrays = {name: getattr(mesh, name) for name in _MESH}
    arrays |= {
        name: getattr(mesh, name) for name in _MESH_OPTIONAL if getattr(mesh, name) is not None
    }
    about: dict[str, Any] = {
        "name": character.name,
        "unit": mesh.unit,
        "up_axis": mesh.up_axis,
        "handedness": mesh.handedness,
        "materials": list(mesh.materials),
        "parts": list(mesh.parts),
        "shapes": [shape.name for shape in character.shapes],
        "clips": [[clip.name, clip.frame_rate, clip.start_frame] for clip in character.clips],
    }
    for number, vertices in enumerate(mesh.parts.values()):
        arrays[f"part{number}"] = vertices
    if character.skeleton is not None and character.skin is not None:
        about["bones"] = list(character.skeleton.names)
        about["blend"] = character.skin.blend
        arrays |= {
            "parents": character.skeleton.parents,
            "rest_world_from_bone": character.skeleton.world_from_bone,
            "bone_index": character.skin.bone_index,
            "weight": character.skin.weight,
        }
    for number, shape in enumerate(character.shapes):
        arrays[f"shape{number}_vertices"] = shape.vertices
        arrays[f"shape{number}_offsets"] = shape.offsets
    for number, clip in enumerate(character.clips):
        arrays[f"clip{number}_world_from_bone"] = clip.world_from_bone
        arrays[f"clip{number}_shape_weights"] = clip.shape_weights
        if clip.vertices is not None:
            arrays[f"clip{number}_vertices"] = clip.vertices
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return arrays


def character_from_arrays(arrays: Mapping[str, np.ndarray]) -> Character:
    """Return the character of `character_arrays`; every array is checked again."""
    about = json.loads(arrays["about"].tobytes())
    mesh = Mesh(
        arrays["vertices"],
        arrays["polygon_sizes"],
        arrays["polygon_vertices"],
        arrays.get("corner_uvs"),
        arrays.get("corner_normals"),
        polygon_material=arrays.get("polygon_material"),
        materials=about["materials"],
        parts={name: arrays[f"part{k}"] for k, name in enumerate(about["parts"])},
        unit=about["unit"],
        up_axis=about["up_axis"],
        handedness=about["handedness"],
    )
    skeleton = skin = None
    if "bones" in about:
        skeleton = Skeleton(about["bones"], arrays["parents"], arrays["rest_world_from_bone"])
        skin = Skin(arrays["bone_index"], arrays["weight"], about["blend"])
    shapes = [
        BlendShape(name, arrays[f"shape{k}_vertices"], arrays[f"shape{k}_offsets"])
        for k, name in enumerate(about["shapes"])
    ]
    clips = [
        CharacterClip(
            name,
            arrays[f"clip{k}_world_from_bone"],
            arrays[f"clip{k}_shape_weights"],
            rate,
            start,
            arrays.get(f"clip{k}_vertices"),
        )
        for k, (name, rate, start) in enumerate(about["clips"])
    ]
    return Character(mesh, skeleton, skin, tuple(shapes), tuple(clips), about["name"])
