"""Animations that lie in files of their own: their actions are added to those of the rig.

Actions of a .blend file set the same channels. The bones of a .fbx or .bvh file have other axes:
each turns as far from its rest pose, in world space, as the bone of the same name there.
"""

import os

import bpy
import mathutils
from blend_file import BONE_PATH, curves_of, frames_of
from bone_tree import depth_first
from messages import Refused


def add_actions(path, armatures):
    """Add the animations of a .blend, .fbx or .bvh file, and return them as actions."""
    before = set(bpy.data.actions)
    stem, suffix = os.path.splitext(os.path.basename(path))
    try:
        if suffix.lower() == ".blend":
            with bpy.data.libraries.load(path, link=False) as (there, here):
                here.actions = list(there.actions)
            added = [action for action in bpy.data.actions if action not in before]
        elif suffix.lower() in (".fbx", ".bvh"):
            added = retargeted(path, suffix.lower(), armatures)
        else:
            raise Refused(f"{path}: an animation is a .blend, .fbx or .bvh file")
    except (OSError, RuntimeError) as problem:
        raise Refused(f"{path}: Blender cannot read it ({str(problem).strip()})") from None
    bones = {bone.name for armature in armatures for bone in armature.data.bones}
    fitting = [action for action in added if keyed_bones(action) & bones]
    if not fitting:
        raise Refused(f"{path}: no animation in it keys a bone that the rig has by that name")
    for action in fitting:
        action.name = stem if len(fitting) == 1 else f"{stem}_{action.name}"
    return fitting


def retargeted(path, suffix, armatures):
    """The animations of a file's armatures as actions of those armatures that share bones."""
    objects, actions = set(bpy.data.objects), set(bpy.data.actions)
    if suffix == ".bvh":
        bpy.ops.import_anim.bvh(filepath=path, update_scene_fps=False)
    else:
        bpy.ops.wm.fbx_import(filepath=path)
    added = [ob for ob in bpy.data.objects if ob not in objects]
    theirs = [action for action in bpy.data.actions if action not in actions]
    made = []
    for source in added:
        if source.type != "ARMATURE" or not source.animation_data:
            continue
        for action in theirs:
            for target in armatures:
                if keyed_bones(action) & {bone.name for bone in target.data.bones}:
                    made.append(retarget(source, action, target))
    for ob in added:
        bpy.data.objects.remove(ob)
    for action in theirs:
        bpy.data.actions.remove(action)
    return made


def retarget(source, action, target):
    """An action that turns the bones of `target` as `action` turns those of `source`."""
    source.animation_data.action = action
    target.animation_data_create()
    target.animation_data.action = made = bpy.data.actions.new(action.name)
    to_target = (target.matrix_world.inverted() @ source.matrix_world).to_3x3().normalized()
    first, last = frames_of(action)
    for frame in range(first, last + 1):
        bpy.context.scene.frame_set(frame)
        turned = {}
        for bone in depth_first(target.data.bones):
            above = turned[bone.parent.name] if bone.parent else mathutils.Matrix.Identity(3)
            turned[bone.name] = above
            other = source.pose.bones.get(bone.name)
            if other is None:
                continue
            change = other.matrix.to_3x3() @ other.bone.matrix_local.to_3x3().inverted()
            turned[bone.name] = to_target @ change.normalized() @ to_target.inverted()
            rest = bone.matrix_local.to_3x3()
            basis = rest.inverted() @ above.inverted() @ turned[bone.name] @ rest
            key_rotation(target.pose.bones[bone.name], basis, frame)
    return made


def key_rotation(pose_bone, basis, frame):
    """Key a rotation (3x3) in the mode that the bone has."""
    mode = pose_bone.rotation_mode
    if mode == "QUATERNION":
        pose_bone.rotation_quaternion = basis.to_quaternion()
        pose_bone.keyframe_insert("rotation_quaternion", frame=frame)
    elif mode == "AXIS_ANGLE":
        axis, angle = basis.to_quaternion().to_axis_angle()
        pose_bone.rotation_axis_angle = (angle, *axis)
        pose_bone.keyframe_insert("rotation_axis_angle", frame=frame)
    else:
        pose_bone.rotation_euler = basis.to_euler(mode, pose_bone.rotation_euler)
        pose_bone.keyframe_insert("rotation_euler", frame=frame)


def keyed_bones(action):
    """The names of the bones that an action keys."""
    matches = (BONE_PATH.match(curve.data_path) for _, curve in curves_of(action))
    return {bpy.utils.unescape_identifier(match[1]) for match in matches if match}
