"""Runs inside Blender: plays an action of a .blend file as Blender does, and reads every frame.

Everything that the action has a slot for moves, and drivers and constraints follow. No channel is
set by hand, so that motion is seen that no control has. The meshes and their vertices are those of
`understudy.rigs.blender`, whose own modules (folder `modules` of the request) read them.
"""

import json
import sys
from pathlib import Path

import bpy
import numpy as np

asked, answered = (Path(name) for name in sys.argv[-2:])
request = json.loads(asked.read_text(encoding="utf-8"))
sys.path.insert(0, request["modules"])

import blend_file  # noqa: E402
from messages import Refused  # noqa: E402
from open_rig import OpenRig  # noqa: E402


def play(rig, action, step):
    """Vertices (T,V,3) and bones (T,B,3,4) at the frames of an action; None: once, at rest."""
    if action is None:
        return frames(rig, [bpy.context.scene.frame_current])
    blocks = [*rig.armatures, *rig.meshes, *(ob for ob in bpy.data.objects if ob.type == "EMPTY")]
    blocks += [ob.data.shape_keys for ob in rig.meshes if ob.data.shape_keys]
    for block in blocks:
        kind = "KEY" if block.id_type == "KEY" else "OBJECT"
        slot = blend_file.slot_for(action, block, kind)
        exact = slot is not None and slot.identifier[2:] == block.name
        if exact or (slot is not None and block in rig.armatures):
            animation = block.animation_data or block.animation_data_create()
            animation.action = action
            animation.action_slot = slot
    first, last = blend_file.frames_of(action)
    return frames(rig, range(first, last + 1, step))


def frames(rig, numbers):
    """Vertices and bones at some frames."""
    vertices, bones = [], []
    for done, frame in enumerate(numbers):
        bpy.context.scene.frame_set(frame)
        graph = bpy.context.evaluated_depsgraph_get()
        vertices.append(rig.shapes.read_vertices(graph))
        bones.append(rig.shapes.read_bones(graph))
        print("progress", done + 1, len(numbers), flush=True)
    return {"vertices": np.stack(vertices), "bones": np.stack(bones)}


def answer_request():
    """The answer and its arrays."""
    blend_file.open_file(request["path"], False)
    rig = OpenRig(request["choose"], False)
    header, rest = rig.describe()
    names = [action.name for action in bpy.data.actions]
    if request["action"] is not None and request["action"] not in names:
        raise Refused(f"{request['path']}: no action {request['action']!r}; it has {names}")
    action = None if request["action"] is None else bpy.data.actions[request["action"]]
    played = play(rig, action, request["step"])
    wanted = ("meshes", "materials", "bones", "parents", "unit", "frame_rate")
    answer = {key: header[key] for key in wanted}
    return answer, {f"rest_{key}": array for key, array in rest.items()} | played


try:
    answer, arrays = answer_request()
    np.savez(answered.with_suffix(".npz"), **arrays)
except Refused as problem:
    answer = {"error": str(problem)}
answered.write_text(json.dumps(answer), encoding="utf-8")
