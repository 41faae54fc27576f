"""Setting the channels of a rig to a row of values, and reading them."""

import bpy
import mathutils
import numpy as np

# Rotations that are not stored as Euler angles are set as angles in this order.
ORDER = "XYZ"


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


def rest_of(channels):
    """The rest values of channels."""
    return [channel["rest"] for channel in channels]


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
