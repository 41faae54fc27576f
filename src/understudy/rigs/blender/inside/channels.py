"""Channels: the pose-bone channels, custom properties and shape keys that can be set; setting them.

A channel is a dictionary: name, kind, where it is, its rest value, the range that the file declares
(or None), the limits that Blender enforces (or None), and `left_out`: why an animator would not use
it ("hidden", "shapeless" among bones with custom shapes, "locked"; "": he would).
"""

import fnmatch

import bpy
import mathutils
import numpy as np
from blend_file import driven_paths
from messages import Refused

AXES = "xyz"
# Rotations that are not stored as Euler angles are set as angles in this order.
ORDER = "XYZ"


class Patterns:
    """Names that the user asks for: `arm_*`; those that begin with `!` are left out."""

    def __init__(self, patterns):
        self.asked = [pattern for pattern in patterns if not pattern.startswith("!")]
        self.refused = [pattern[1:] for pattern in patterns if pattern.startswith("!")]

    def ask(self, name):
        """Whether a name is asked for."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.asked)

    def allow(self, name):
        """Whether a channel of this name may be a control."""
        refused = any(fnmatch.fnmatchcase(name, pattern) for pattern in self.refused)
        return not refused and (not self.asked or self.ask(name))


class ChannelFinder:
    """Finds channels of the armatures and meshes of a rig.

    keyed  (slot type, data path) of what actions key
    """

    def __init__(self, armatures, meshes, keyed):
        self.armatures, self.meshes, self.keyed = armatures, meshes, keyed
        self.driven = driven_paths()
        self.patterns = Patterns([])

    def find(self, patterns, collections):
        """Every channel that could be a control; those that match where there are patterns.

        collections  of bones: those of other bones are left out; empty: of all bones
        """
        self.patterns = Patterns(patterns)
        found = []
        known = {c.name for armature in self.armatures for c in armature.data.collections_all}
        for name in collections:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise Refused(f"it has no bone collection {name!r} (it has {listed})")
        for armature in self.armatures:
            prefix = f"{armature.name}/" if len(self.armatures) > 1 else ""
            shaped = any(
                pose_bone.custom_shape and is_visible(pose_bone)
                for pose_bone in armature.pose.bones
            )
            for pose_bone in armature.pose.bones:
                within = {c.name for c in pose_bone.bone.collections}
                if collections and not within & set(collections):
                    continue
                found += self.bone_channels(armature, pose_bone, prefix, shaped)
            for owner, path in ((armature, ""), (armature.data, "data.")):
                found += self.property_channels(owner, "", f"{prefix}{path}", "")
        for ob in self.meshes:
            found += self.shape_key_channels(ob)
            found += self.property_channels(ob, "", f"{ob.name}.", "")
        seen = {}
        for channel in found:
            clean = channel["name"].replace("\\", "/").replace('"', "'")
            seen[clean] = seen.get(clean, 0) + 1
            channel["name"] = clean if seen[clean] == 1 else f"{clean}_{seen[clean]}"
            if self.patterns.asked or collections:
                channel["left_out"] = ""
        return found

    def bone_channels(self, armature, pose_bone, prefix, shaped):
        """The channels of one bone that no driver sets."""
        path = f'pose.bones["{escape(pose_bone.name)}"]'
        left_out = ""
        if not is_visible(pose_bone):
            left_out = "hidden"
        elif shaped and pose_bone.custom_shape is None:
            left_out = "shapeless"
        rotation = rotation_path(pose_bone)
        limits = limits_of(pose_bone)
        found = []
        for kind, part, locks in (
            ("location", "loc", pose_bone.lock_location),
            ("rotation", "rot", pose_bone.lock_rotation),
            ("scale", "scale", pose_bone.lock_scale),
        ):
            attribute = rotation if kind == "rotation" else kind
            is_keyed = ("", f"{path}.{attribute}") in self.keyed
            for axis in range(3):
                name = f"{prefix}{pose_bone.name}.{part}.{AXES[axis]}"
                locked = locks[axis] and not self.patterns.ask(name)
                if not self.patterns.allow(name) or (locked and not is_keyed):
                    continue
                index = axis + 1 if attribute != "rotation_euler" and kind == "rotation" else axis
                if (armature.name, f"{path}.{attribute}", index) in self.driven:
                    continue
                found.append(
                    {
                        "name": name,
                        "kind": kind,
                        "owner": armature.name,
                        "bone": pose_bone.name,
                        "axis": axis,
                        "rest": 1.0 if kind == "scale" else 0.0,
                        "range": limits.get((kind, axis)),
                        "limits": None,
                        "left_out": "locked" if locked else left_out,
                    }
                )
        return found + self.property_channels(
            pose_bone, path, f"{prefix}{pose_bone.name}.", left_out
        )

    def property_channels(self, owner, path, prefix, left_out):
        """Custom properties that are numbers with a declared range."""
        found = []
        block = owner.id_data
        for key in sorted(owner.keys()):
            name = f"{prefix}{key}"
            data_path = f'{path}["{escape(key)}"]'
            keyed = ("", data_path) in self.keyed
            if not self.patterns.allow(name):
                continue
            value = owner.get(key)
            if isinstance(value, bool):
                limits = usual = (0.0, 1.0)
            elif isinstance(value, (int, float)):
                try:
                    shown = owner.id_properties_ui(key).as_dict()
                except TypeError:
                    continue
                limits = declared(shown, "min", "max")
                usual = declared(shown, "soft_min", "soft_max") or limits
            else:
                continue
            if usual is None and not keyed:
                continue  # nothing says which values it takes
            if (block.name, data_path, 0) in self.driven:
                continue
            found.append(
                {
                    "name": name,
                    "kind": "property",
                    "owner": block.name,
                    "collection": collection_of(block),
                    "bone": owner.name if path else None,
                    "key": key,
                    "whole": not isinstance(value, float),
                    "rest": float(value),
                    "range": usual,
                    "limits": limits,
                    "left_out": left_out,
                }
            )
        return found

    def shape_key_channels(self, ob):
        """The shape keys that no driver sets."""
        keys = ob.data.shape_keys
        found = []
        for block in list(keys.key_blocks)[1:] if keys and keys.use_relative else ():
            path = f'key_blocks["{escape(block.name)}"].value'
            name = f"{ob.name}.{block.name}"
            if not self.patterns.allow(name) or (block.mute and not self.patterns.ask(name)):
                continue
            if (keys.name, path, 0) in self.driven:
                continue
            keyed = ("KEY", path) in self.keyed
            limits = (block.slider_min, block.slider_max)
            found.append(
                {
                    "name": name,
                    "kind": "shape_key",
                    "owner": keys.name,
                    "key": block.name,
                    "rest": float(min(max(0.0, limits[0]), limits[1])) if keyed else block.value,
                    "range": limits,
                    "limits": limits,
                    "left_out": "",
                }
            )
        return found


def limits_of(pose_bone):
    """(kind, axis) -> (low, high), from limit constraints in the bone's space and IK limits."""
    found = {}
    kinds = {"LIMIT_LOCATION": "location", "LIMIT_ROTATION": "rotation", "LIMIT_SCALE": "scale"}
    for constraint in pose_bone.constraints:
        kind = kinds.get(constraint.type)
        if kind is None or constraint.mute or constraint.influence < 0.5:
            continue
        if constraint.owner_space not in ("LOCAL", "LOCAL_WITH_PARENT"):
            continue
        for axis, letter in enumerate(AXES):
            if kind == "rotation":
                used = (getattr(constraint, f"use_limit_{letter}"),) * 2
            else:
                used = tuple(getattr(constraint, f"use_{end}_{letter}") for end in ("min", "max"))
            low, high = (getattr(constraint, f"{end}_{letter}") for end in ("min", "max"))
            rest = 1.0 if kind == "scale" else 0.0
            if all(used) and low < high and low <= rest <= high:
                found[kind, axis] = (low, high)
    for axis, letter in enumerate(AXES):
        if getattr(pose_bone, f"use_ik_limit_{letter}") and ("rotation", axis) not in found:
            low = getattr(pose_bone, f"ik_min_{letter}")
            high = getattr(pose_bone, f"ik_max_{letter}")
            if low < high:
                found["rotation", axis] = (low, high)
    return found


def declared(shown, low, high):
    """The range that a custom property declares; None where it is as wide as the number type."""
    if low not in shown or high not in shown:
        return None
    pair = (float(shown[low]), float(shown[high]))
    return pair if abs(pair[0]) < 1e6 and abs(pair[1]) < 1e6 and pair[0] < pair[1] else None


def is_visible(pose_bone):
    bone = pose_bone.bone
    hidden = bone.hide or getattr(pose_bone, "hide", False)
    shown = not bone.collections or any(c.is_visible_effectively for c in bone.collections)
    return shown and not hidden


def escape(name):
    return bpy.utils.escape_identifier(name)


def collection_of(block):
    return {"ARMATURE": "armatures", "OBJECT": "objects", "MESH": "meshes"}[block.id_type]


class ChannelSetter:
    """Sets channels, in order, from rows of values."""

    def __init__(self, channels):
        self.channels = channels
        self.setters = []
        # Blender is not told of custom properties that Python sets, nor of arrays.
        self.tagged = set()
        # True: objects are updated as a new frame updates them, in half of the time.
        self.quick = False
        columns = {}
        for column, channel in enumerate(channels):
            if channel["kind"] in ("location", "rotation", "scale"):
                place = (channel["bone"], channel["kind"], channel["axis"])
                columns.setdefault(channel["owner"], {})[place] = column
            else:
                self.setters.append(self.single_setter(channel, column))
        for owner, places in columns.items():
            self.setters.append(pose_setter(bpy.data.objects[owner], places))
            self.tagged.add(bpy.data.objects[owner])

    def single_setter(self, channel, column):
        """What sets a shape key or a custom property from a row of values."""
        if channel["kind"] == "shape_key":
            block = bpy.data.shape_keys[channel["owner"]].key_blocks[channel["key"]]

            def set_key(values):
                block.value = values[column]

            return set_key
        block = getattr(bpy.data, channel["collection"])[channel["owner"]]
        owner = block.pose.bones[channel["bone"]] if channel["bone"] else block
        key, whole = channel["key"], channel["whole"]
        is_bool = isinstance(owner[key], bool)
        self.tagged.add(block)

        def set_property(values):
            value = values[column]
            owner[key] = bool(round(value)) if is_bool else round(value) if whole else value

        return set_property

    def apply(self, values):
        """Set every channel; values: one for each."""
        values = list(values)
        for setter in self.setters:
            setter(values)
        for block in self.tagged:
            if self.quick and isinstance(block, bpy.types.Object):
                block.update_tag(refresh={"OBJECT", "TIME"})
            else:
                block.update_tag()

    def read(self, before=None):
        """The values of the channels now. before: those of the frame before, for angles."""
        row = []
        for column, channel in enumerate(self.channels):
            kind = channel["kind"]
            if kind == "shape_key":
                block = bpy.data.shape_keys[channel["owner"]].key_blocks[channel["key"]]
                row.append(block.value)
            elif kind == "property":
                block = getattr(bpy.data, channel["collection"])[channel["owner"]]
                owner = block.pose.bones[channel["bone"]] if channel["bone"] else block
                row.append(float(owner[channel["key"]]))
            else:
                bone = bpy.data.objects[channel["owner"]].pose.bones[channel["bone"]]
                value = angles_of(bone) if kind == "rotation" else getattr(bone, kind)
                row.append(value[channel["axis"]])
                if kind == "rotation" and before is not None:  # no jumps of a whole turn
                    turns = round((before[column] - row[-1]) / (2 * np.pi))
                    row[-1] += 2 * np.pi * turns
        return row


def pose_setter(armature, places):
    """What sets the pose of an armature from a row of values, all bones at once.

    places  (bone, kind, axis) -> column
    """
    bones = armature.pose.bones
    order = {pose_bone.name: row for row, pose_bone in enumerate(bones)}
    arrays, plain, turned = {}, {}, {}
    for (bone, kind, axis), column in places.items():
        attribute = rotation_path(bones[bone]) if kind == "rotation" else kind
        if attribute not in arrays:
            width = 3 if attribute in ("location", "scale", "rotation_euler") else 4
            arrays[attribute] = np.empty((len(bones), width), np.float32)
            bones.foreach_get(attribute, arrays[attribute].reshape(-1))
        if attribute in ("rotation_quaternion", "rotation_axis_angle"):
            turned.setdefault((attribute, order[bone]), [None, None, None])[axis] = column
        else:
            plain.setdefault(attribute, []).append((order[bone], axis, column))
    indices = {attribute: np.array(rows).T for attribute, rows in plain.items()}

    def set_pose(values):
        row = np.asarray(values, np.float64)
        for attribute, (bone, axis, column) in indices.items():
            arrays[attribute][bone, axis] = row[column]
        for (attribute, bone), columns in turned.items():
            angles = [0.0 if column is None else values[column] for column in columns]
            turn = mathutils.Euler(angles, ORDER).to_quaternion()
            if attribute == "rotation_axis_angle":
                axis, angle = turn.to_axis_angle()
                turn = (angle, *axis)
            arrays[attribute][bone] = turn
        for attribute, array in arrays.items():
            bones.foreach_set(attribute, array.reshape(-1))

    return set_pose


def angles_of(pose_bone):
    if pose_bone.rotation_mode == "QUATERNION":
        return pose_bone.rotation_quaternion.to_euler(ORDER)
    if pose_bone.rotation_mode == "AXIS_ANGLE":
        angle, *axis = pose_bone.rotation_axis_angle
        return mathutils.Quaternion(axis, angle).to_euler(ORDER)
    return pose_bone.rotation_euler


def rotation_path(pose_bone):
    names = {"QUATERNION": "rotation_quaternion", "AXIS_ANGLE": "rotation_axis_angle"}
    return names.get(pose_bone.rotation_mode, "rotation_euler")
