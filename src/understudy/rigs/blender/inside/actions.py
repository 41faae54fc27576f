"""Animations of the file. Blender 4.4 and newer keep the curves of an action in slots."""

import re

import bpy
import numpy as np

BONE_PATH = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]')


def curves_of(action):
    """(slot type or "", curve) of every curve of an action."""
    if hasattr(action, "layers") and action.layers:
        for layer in action.layers:
            for strip in layer.strips:
                for bag in strip.channelbags:
                    slot = next((s for s in action.slots if s.handle == bag.slot_handle), None)
                    kind = slot.target_id_type if slot else ""
                    for curve in bag.fcurves:
                        yield ("KEY" if kind == "KEY" else ""), curve
    else:
        kind = "KEY" if getattr(action, "id_root", "") == "KEY" else ""
        for curve in getattr(action, "fcurves", ()):
            yield kind, curve


def frames_of(action):
    first, last = action.frame_range
    return int(np.floor(first)), int(np.ceil(last))


def usable_actions(armatures, meshes):
    """Actions that animate these armatures or shape keys, and are not parts of constraints."""
    within = {
        constraint.action
        for armature in armatures
        for pose_bone in armature.pose.bones
        for constraint in pose_bone.constraints
        if constraint.type == "ACTION"
    }
    bones = {pose_bone.name for armature in armatures for pose_bone in armature.pose.bones}
    has_keys = any(ob.data.shape_keys for ob in meshes)
    found = []
    for action in bpy.data.actions:
        first, last = frames_of(action)
        if action in within or last <= first:
            continue
        for kind, curve in curves_of(action):
            match = BONE_PATH.match(curve.data_path)
            if (match and bpy.utils.unescape_identifier(match[1]) in bones) or (
                kind == "KEY" and has_keys
            ):
                found.append(action)
                break
    return found


def keyed_paths(actions):
    """(slot type, data path) of what the actions key."""
    return {(kind, curve.data_path) for action in actions for kind, curve in curves_of(action)}


def slot_for(action, block, kind):
    """The slot of an action for a data-block; None: it has none; True: actions have no slots."""
    if not hasattr(action, "slots"):
        return True if getattr(action, "id_root", "OBJECT") == kind else None
    fitting = [slot for slot in action.slots if slot.target_id_type in (kind, "UNSPECIFIED")]
    named = [slot for slot in fitting if slot.identifier[2:] == block.name]
    return (named or fitting or [None])[0]


def stop_animation(armatures, meshes):
    """Detach actions, so that they do not overwrite what is set."""
    blocks = [*armatures, *meshes, *(armature.data for armature in armatures)]
    blocks += [ob.data.shape_keys for ob in meshes if ob.data.shape_keys]
    for block in blocks:
        if block.animation_data:
            block.animation_data.action = None
            block.animation_data.use_nla = False
