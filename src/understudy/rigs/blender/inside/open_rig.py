"""The rig that is open: what `bridge.py` asks."""

import bpy
import numpy as np
from animations import add_actions
from blend_file import (
    chosen_meshes,
    driving_armatures,
    failing_drivers,
    frames_of,
    hide_others,
    keyed_paths,
    need_data,
    prepare_modifiers,
    scene_unit,
    show,
    slot_for,
    stop_animation,
    usable_actions,
)
from channels import ChannelFinder, ChannelSetter
from shapes import Shapes


class OpenRig:
    """The chosen meshes, with what moves them at rest.

    request  meshes, modifiers, patterns of controls, collections of bones, bendy, simulations, and
             files of animations
    trusted  whether scripts of the file may run
    """

    def __init__(self, request, trusted):
        self.trusted = trusted
        self.meshes = chosen_meshes(request["meshes"])
        for ob in self.meshes:
            need_data(ob)
        self.notes = []
        for ob in self.meshes:
            show(ob)
            self.notes += prepare_modifiers(ob, request["modifiers"], request["simulations"])
        hide_others(self.meshes)
        self.armatures = driving_armatures(self.meshes)
        for armature in self.armatures:
            armature.data.pose_position = "POSE"
        added = [a for file in request["animations"] for a in add_actions(file, self.armatures)]
        self.actions = added or usable_actions(self.armatures, self.meshes)
        stop_animation(self.armatures, self.meshes)
        finder = ChannelFinder(self.armatures, self.meshes, keyed_paths(self.actions))
        usual = finder.find([], [])
        patterns, collections = request["patterns"], request["collections"]
        asked = patterns or collections
        self.found = finder.find(patterns, collections) if asked else usual
        names = {channel["name"] for channel in self.found}
        self.every = ChannelSetter(
            self.found + [channel for channel in usual if channel["name"] not in names]
        )
        self.saved = self.every.read()
        self.setter = ChannelSetter([c for c in self.found if not c["left_out"]])
        self.reset()
        scale, self.unit = scene_unit()
        self.shapes = Shapes(self.meshes, self.armatures, scale, request["bendy"])

    def use(self, channels):
        """Set these channels from now on."""
        self.setter = ChannelSetter([])
        self.reset()  # a setter keeps all others as it finds them
        self.setter = ChannelSetter(channels)
        self.setter.quick = self.quick_is_enough()
        self.reset()

    def quick_is_enough(self):
        """Whether a quick update of the channels gives the shape that a full one gives."""
        channels = self.setter.channels
        away = [c["rest"] + (1.0 if c.get("whole") else 0.1) for c in channels]
        shapes = []
        for self.setter.quick in (True, False):
            answer = self.evaluate(np.array([away]))
            shapes.append(np.concatenate([array.ravel() for array in answer.values()]))
        quick, full = shapes
        return bool(np.allclose(quick, full, rtol=0, atol=1e-6 * (np.abs(full).max() + 1e-30)))

    def reset(self):
        """Put every channel to its rest value, wherever the file was saved.

        What an animator would not use stays as it was saved, unless it is set from now on.
        """
        used = {channel["name"] for channel in self.setter.channels}
        self.every.apply(
            saved if channel["left_out"] and channel["name"] not in used else channel["rest"]
            for channel, saved in zip(self.every.channels, self.saved)
        )
        bpy.context.view_layer.update()

    def describe(self):
        """The rig in the bind pose: a header and arrays."""
        graph = bpy.context.evaluated_depsgraph_get()
        for armature in self.armatures:
            armature.data.pose_position = "REST"
        bpy.context.view_layer.update()
        arrays, materials = self.shapes.surface(graph)
        arrays["rest"] = self.shapes.read_vertices(graph)
        arrays["bones"] = self.shapes.read_bones(graph, rest=True)
        for armature in self.armatures:
            armature.data.pose_position = "POSE"
        bpy.context.view_layer.update()
        arrays.update(self.shapes.weights() or {})
        render = bpy.context.scene.render
        header = {
            "meshes": [ob.name for ob in self.meshes],
            "materials": materials,
            "bones": self.shapes.bone_names,
            "parents": self.shapes.bone_parents,
            "channels": self.found,
            "actions": [action.name for action in self.actions],
            "frame_rate": render.fps / render.fps_base,
            "unit": self.unit,
            "notes": self.notes,
            # Drivers are known to be valid only once they have been evaluated.
            "drivers": failing_drivers(self.trusted),
        }
        return header, arrays

    def evaluate(self, values):
        """Vertices (n,V,3) and bones (n,B,3,4) at values (n,C)."""
        vertices, bones = [], []
        for row in values.tolist():
            self.setter.apply(row)
            bpy.context.view_layer.update()
            graph = bpy.context.evaluated_depsgraph_get()
            vertices.append(self.shapes.read_vertices(graph))
            bones.append(self.shapes.read_bones(graph))
        return {"vertices": np.stack(vertices), "bones": np.stack(bones)}

    def action_values(self, name):
        """Values (T,C) of the channels at the frames of an action."""
        action = next(a for a in self.actions if a.name == name)
        scene, before = bpy.context.scene, bpy.context.scene.frame_current
        self.reset()
        targets = [(ob, "OBJECT") for ob in [*self.armatures, *self.meshes]] + [
            (ob.data.shape_keys, "KEY") for ob in self.meshes if ob.data.shape_keys
        ]
        used = []
        for block, kind in targets:
            slot = slot_for(action, block, kind)
            if slot is None:
                continue
            animation = block.animation_data or block.animation_data_create()
            animation.action = action
            if slot is not True:
                animation.action_slot = slot
            used.append(animation)
        first, last = frames_of(action)
        rows = []
        try:
            for frame in range(first, last + 1):
                scene.frame_set(frame)
                rows.append(self.setter.read(rows[-1] if rows else None))
        finally:
            for animation in used:
                animation.action = None
            scene.frame_set(before)
            self.reset()
        return np.array(rows, np.float64).reshape(len(rows), len(self.setter.channels))
