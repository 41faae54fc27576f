"""FBX files written by Blender.

Positions, bones and blend shapes are written as they are, in the unit and with the up axis of the
mesh, which the header of the file states. Every part is an object, every clip a take with a key at
every frame. All influences are written. A mesh without unit is written in metres.
"""

from __future__ import annotations

from pathlib import Path

from understudy.core.character import Character
from understudy.core.coordinates import METRES
from understudy.io.atomic_write import atomic_write
from understudy.io.blender import scene
from understudy.io.blender.launch import run_script
from understudy.io.mesh_objects import mesh_objects
from understudy.system.errors import FileError, InputError

WRITER = Path(__file__).parent / "scripts" / "write_scene.py"
_NTSC_RATES = (23.976, 29.97, 59.94)
_SHAPE_LIMIT = 10.0  # of the weight of a shape key in Blender


def write_fbx(character: Character, path: str | Path) -> None:
    """Write a character as FBX, whole or not at all.

    Its bones may scale, but must not shear relative to their parents; its skin is linear with
    weights between 0 and 1. A point cache does not fit into an FBX file.
    """
    _can_be_fbx(character, path)
    objects = mesh_objects(character.mesh)
    names = scene.object_names(character, objects)
    told, arrays = scene.mesh_arrays(character.mesh, objects)
    arrays |= scene.rig_arrays(character, objects)
    for number, each in enumerate(told):
        shapes = range(len(character.shapes))
        each["name"] = names[number]
        each["shapes"] = [s for s in shapes if f"object{number}_shape{s}_vertices" in arrays]
    skeleton = character.skeleton
    armature = "Armature"
    while armature in names:
        armature += "_"
    request = {
        "kind": "fbx",
        "armature": armature,
        "up": character.mesh.up,
        "metres": METRES[character.mesh.unit],
        "frame_rate": _time_mode(scene.frame_rate(character, path)),
        "objects": told,
        "bones": [] if skeleton is None else list(skeleton.names),
        "parents": [] if skeleton is None else skeleton.parents.tolist(),
        "shapes": [shape.name for shape in character.shapes],
        "clips": [
            {"name": clip.name, "start": clip.start_frame, "frames": clip.frame_count}
            for clip in character.clips
        ],
    }
    with atomic_write(path) as draft:
        request["target"] = str(draft.absolute())
        run_script(WRITER, request, timeout=scene.write_seconds(character), arrays=arrays)
        if not draft.stat().st_size:
            raise FileError(f"{path}: Blender wrote nothing")


def _time_mode(rate: float) -> float:
    """Return the frame rate that the header of the file will state.

    It has these to three decimals. Keys at 30000/1001 frames per second would drift from them.
    """
    return next((known for known in _NTSC_RATES if abs(rate - known) < 1e-4), rate)


def _can_be_fbx(character: Character, path: str | Path) -> None:
    """Raise for what FBX, or Blender's exporter, cannot hold."""
    scene.right_handed(character, path)
    for clip in character.clips:
        if clip.vertices is not None:
            raise InputError(
                f"{path}: clip {clip.name!r} is a point cache, which FBX does not hold; write "
                "it to .abc"
            )
        most = float(abs(clip.shape_weights).max(initial=0.0))
        if most > _SHAPE_LIMIT:
            raise InputError(
                f"{path}: clip {clip.name!r} has a shape weight of {most:g}; Blender holds -10 to "
                "10. Scale the offsets of the shape instead"
            )
