"""Runs inside Blender: reads an FBX file as arrays of a rigged character.

Arguments: request.json and answer.json (`understudy.io.blender.launch` describes the exchange).
`understudy.io.blender.fbx_reader` writes the request.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from reading_in_blender import (
    Refused,
    answer_request,
    check_frames,
    chosen_meshes,
    get,
    placed,
    surface,
)


def armature_of(target):
    """Return the armature that deforms a mesh object, or None."""
    for modifier in target.modifiers:
        if modifier.type == "ARMATURE" and modifier.object is not None:
            return modifier.object
    return None


class Bones:
    """The bones of all armatures, parents first, then the mesh objects as bones of their own.

    A vertex without weights follows the node of its object.
    """

    def __init__(self, meshes):
        self.names, self.parents, self.sources = [], [], []
        self.numbers: dict = {}
        armatures = [armature_of(target) for target in meshes]
        for armature in dict.fromkeys(a for a in armatures if a is not None):
            pending = [bone for bone in armature.data.bones if bone.parent is None]
            while pending:
                bone = pending.pop(0)
                above = -1 if bone.parent is None else self.numbers[armature, bone.parent.name]
                self._add((armature, bone.name), bone.name, above)
                pending += bone.children
        self.own = {target: None for target in meshes}

    def _add(self, key, name, parent):
        self.numbers[key] = len(self.names)
        while name in self.names:
            name += "_"
        self.names.append(name)
        self.parents.append(parent)
        self.sources.append(key)
        return self.numbers[key]

    def of_object(self, target):
        """Return the bone that an object itself is."""
        if self.own[target] is None:
            self.own[target] = self._add((target, None), target.name, -1)
        return self.own[target]

    def rest(self):
        """World matrices of the bones at rest, (B,4,4)."""
        return np.array(
            [
                np.array(owner.matrix_world)
                if bone is None
                else np.array(owner.matrix_world) @ np.array(owner.data.bones[bone].matrix_local)
                for owner, bone in self.sources
            ]
        ).reshape(-1, 4, 4)

    def posed(self, depsgraph):
        """World matrices of the bones now, (B,4,4)."""
        result = []
        for owner, bone in self.sources:
            shown = owner.evaluated_get(depsgraph)
            world = np.array(shown.matrix_world)
            result.append(
                world if bone is None else world @ np.array(shown.pose.bones[bone].matrix)
            )
        return np.array(result).reshape(-1, 4, 4)


def weights_of(target, bones):
    """Return the weights of an object as (vertices, bones, weights), each (n,)."""
    armature = armature_of(target)
    count = len(target.data.vertices)
    numbers = {}
    for group in target.vertex_groups:
        if armature is not None and (armature, group.name) in bones.numbers:
            numbers[group.index] = bones.numbers[armature, group.name]
    rows = [
        (vertex.index, numbers[entry.group], entry.weight)
        for vertex in (target.data.vertices if numbers else ())
        for entry in vertex.groups
        if entry.group in numbers and entry.weight > 0
    ]
    table = np.array(rows, np.float64).reshape(-1, 3)
    free = np.setdiff1d(np.arange(count), table[:, 0].astype(int))
    if len(free):
        own = np.full(len(free), bones.of_object(target))
        table = np.concatenate([table, np.stack([free, own, np.ones(len(free))], axis=1)])
    vertices = table[:, 0].astype(int)
    total = np.bincount(vertices, table[:, 2], count)
    return vertices, table[:, 1].astype(int), table[:, 2] / total[vertices]


def shapes_of(meshes):
    """Return the offsets of all shape keys in world space, {name: (V,3)}, and their key blocks."""
    total = sum(len(target.data.vertices) for target in meshes)
    offsets: dict = {}
    keys: dict = {}
    start = 0
    for target in meshes:
        count = len(target.data.vertices)
        linear = np.array(target.matrix_world)[:3, :3]
        blocks = target.data.shape_keys.key_blocks if target.data.shape_keys else []
        for key in list(blocks)[1:]:
            key.slider_min, key.slider_max = (
                -10.0,
                10.0,
            )  # else animated weights are clamped to 0..1
            moved = get(key.data, "co", 3, np.float32) - get(
                key.relative_key.data, "co", 3, np.float32
            )
            whole = offsets.setdefault(key.name, np.zeros((total, 3)))
            whole[start : start + count] = moved @ linear.T
            keys.setdefault(key.name, key)
        start += count
    return offsets, keys


def play(action):
    """Make `action` the animation of everything that it has channels for."""
    for owner in (*bpy.data.objects, *bpy.data.shape_keys):
        data = owner.animation_data
        if data is None:
            continue
        slots = [s for s in action.slots if s.target_id_type in (owner.id_type, "UNSPECIFIED")]
        named = [s for s in slots if s.identifier[2:] == owner.name]
        data.action = action if named else None
        if named:
            data.action_slot = named[0]


def read_clip(meshes, bones, keys, frames):
    """Return bones (F,B,3,4), shape weights (F,S) and evaluated vertices (F,V,3)."""
    scene = bpy.context.scene
    motion, weights, vertices = [], [], []
    for frame in frames:
        scene.frame_set(int(np.floor(frame)), subframe=float(frame - np.floor(frame)))
        depsgraph = bpy.context.evaluated_depsgraph_get()
        motion.append(bones.posed(depsgraph)[:, :3])
        weights.append([key.value for key in keys.values()])
        vertices.append(np.concatenate([placed(o.evaluated_get(depsgraph)) for o in meshes]))
    shape = (len(frames), len(keys))
    return np.array(motion), np.array(weights, np.float32).reshape(shape), np.array(vertices)


def read(request):
    """Return the answer and its arrays."""
    scene = bpy.context.scene
    if bpy.app.version < (4, 5):
        raise Refused(
            f"Blender {bpy.app.version_string} is too old to read it; use 4.5 or newer, or "
            "pip install 'understudy[fbx]'"
        )
    try:
        bpy.ops.wm.fbx_import(
            filepath=request["path"],
            anim_offset=0.0,
            ignore_leaf_bones=False,
            validate_meshes=False,
        )
    except RuntimeError as problem:
        raise Refused(f"Blender cannot read it: {' '.join(str(problem).split())}") from problem
    rate = scene.render.fps / scene.render.fps_base
    found = sorted((o for o in bpy.data.objects if o.type == "MESH"), key=lambda o: o.name)
    meshes = [target for _, target in chosen_meshes([(o.name, o) for o in found], request)]
    bpy.context.view_layer.update()
    bones = Bones(meshes)
    skins = [weights_of(target, bones) for target in meshes]
    starts = np.cumsum([0, *(len(target.data.vertices) for target in meshes)])
    arrays, materials = surface(meshes)
    offsets, keys = shapes_of(meshes)
    arrays["rest"] = np.concatenate([placed(target) for target in meshes])
    arrays["skin_vertices"] = np.concatenate([v + at for (v, _, _), at in zip(skins, starts)])
    arrays["skin_bones"] = np.concatenate([b for _, b, _ in skins])
    arrays["skin_weights"] = np.concatenate([w for _, _, w in skins])
    arrays["bone_rest"] = bones.rest()[:, :3]
    arrays["bone_parents"] = np.array(bones.parents, np.int32)
    for number, moved in enumerate(offsets.values()):
        arrays[f"shape{number}"] = moved.astype(np.float32)
    actions = sorted(bpy.data.actions, key=lambda action: action.name)
    known = [action.name for action in actions]
    for wanted in request["clips"]:
        if wanted not in known:
            raise Refused(f"the file has no take {wanted!r}; it has {', '.join(known) or 'none'}")
    clips: list = []
    for action in actions:
        if request["clips"] and action.name not in request["clips"]:
            continue
        play(action)
        step = rate / (request["frame_rate"] or rate)
        first, last = action.frame_range
        frames = first + step * np.arange(int((last - first) / step + 1e-3) + 1)
        check_frames(request, len(frames), starts[-1])
        motion, weights, vertices = read_clip(meshes, bones, keys, frames)
        number = len(clips)
        arrays[f"clip{number}_bones"], arrays[f"clip{number}_weights"] = motion, weights
        arrays[f"clip{number}_vertices"] = vertices
        clips.append({"name": action.name, "rate": rate / step, "start": round(first / step)})
    answer = {
        "objects": [[target.name, len(target.data.vertices)] for target in meshes],
        "materials": materials,
        "bones": bones.names,
        "shapes": list(offsets),
        "clips": clips,
    }
    return answer, arrays


if __name__ == "__main__":
    import bpy

    answer_request(read)
