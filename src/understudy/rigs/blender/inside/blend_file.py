"""The open file: its meshes and armatures, drivers that cannot be evaluated, animations, the unit.

Blender 4.4 and newer keep the curves of an action in slots.
"""

import os
import re

import bpy
import numpy as np
from messages import Refused

# Modifiers that are left out: their result has more vertices than the artist's mesh.
SUBDIVISION = ("SUBSURF", "MULTIRES")
# Modifiers that may change the number of vertices.
GENERATIVE = frozenset(
    [
        *("ARRAY", "BEVEL", "BOOLEAN", "BUILD", "DECIMATE", "EDGE_SPLIT", "EXPLODE", "MASK"),
        *("MIRROR", "MULTIRES", "NODES", "OCEAN", "PARTICLE_INSTANCE", "REMESH", "SCREW", "SKIN"),
        *("SOLIDIFY", "SUBSURF", "TRIANGULATE", "VOLUME_TO_MESH", "WELD", "WIREFRAME"),
    ]
)
# Modifiers whose result depends on the frames before.
SIMULATIONS = ("CLOTH", "SOFT_BODY", "WAVE", "DYNAMIC_PAINT", "FLUID", "PARTICLE_SYSTEM")
UNITS = {1.0: "m", 0.01: "cm", 0.001: "mm", 0.0254: "in", 0.3048: "ft"}
# Collections of data-blocks whose drivers can change the shape of a mesh.
DRIVEN = ("objects", "armatures", "meshes", "shape_keys", "lattices", "curves", "metaballs")
BONE_PATH = re.compile(r'pose\.bones\["((?:[^"\\]|\\.)*)"\]')


def open_file(path, trust_scripts, moved=()):
    """Read the file and list the files it links to.

    moved  (path in the file, path here) of folders or files that it links to
    """
    try:
        bpy.ops.wm.open_mainfile(filepath=path, load_ui=False, use_scripts=bool(trust_scripts))
    except RuntimeError as problem:
        raise Refused(f"Blender cannot read it ({str(problem).strip()})") from None
    if not bpy.data.objects:
        raise Refused("it holds no objects")
    for library in bpy.data.libraries:
        there = os.path.normpath(bpy.path.abspath(library.filepath))
        for old, new in moved:
            if there.startswith(old):
                library.filepath = new + there[len(old) :]
                library.reload()
                break
    return {
        "version": list(bpy.app.version),
        "libraries": [library.filepath for library in bpy.data.libraries],
    }


def failing_drivers(trusted):
    """Drivers that Blender evaluates to 0, as text. Call it after an evaluation.

    Without scripts, Blender evaluates simple expressions and Python that it knows to be harmless.
    Only drivers of data-blocks that are evaluated count.
    """
    evaluated = {block.original for block in bpy.context.evaluated_depsgraph_get().ids}
    found = []
    for collection in DRIVEN:
        for block in getattr(bpy.data, collection, ()):
            animation = getattr(block, "animation_data", None)
            for curve in animation.drivers if animation and block in evaluated else ():
                driver = curve.driver
                if driver.is_valid:
                    continue
                scripted = driver.type == "SCRIPTED"
                python = scripted and not driver.is_simple_expression and not trusted
                reason = "needs Python" if python else "fails, or reads something that is not there"
                text = f" ({driver.expression})" if scripted else ""
                found.append(f"{block.name}: {curve.data_path}[{curve.array_index}]{text} {reason}")
    return found


def driven_paths():
    """(data-block, data path, index) of everything that a driver sets."""
    return {
        (block.name, curve.data_path, curve.array_index)
        for collection in DRIVEN
        for block in getattr(bpy.data, collection, ())
        if getattr(block, "animation_data", None)
        for curve in block.animation_data.drivers
    }


def armature_modifiers(ob):
    return [m for m in ob.modifiers if m.type == "ARMATURE" and m.object is not None]


def deformed_meshes():
    """(visible, hidden) mesh objects that an armature, a driver or shape keys deform."""
    shapes = {
        pose_bone.custom_shape
        for ob in bpy.data.objects
        if ob.type == "ARMATURE" and ob.pose
        for pose_bone in ob.pose.bones
    }
    visible, hidden = [], []
    for ob in bpy.data.objects:
        if ob.type != "MESH" or ob in shapes or ob.library is not None:
            continue
        to_armature = ob.parent is not None and ob.parent.type == "ARMATURE"
        to_bone = to_armature and ob.parent_type in ("BONE", "ARMATURE")
        moved = armature_modifiers(ob) or ob.data.shape_keys or to_bone or ob.modifiers
        if not moved:
            continue
        shown = ob.name in bpy.context.view_layer.objects and ob.visible_get()
        (visible if shown else hidden).append(ob)
    return visible, hidden


def chosen_meshes(names):
    """The mesh objects named, or all visible ones that something deforms."""
    visible, hidden = deformed_meshes()
    if not names:
        if not visible:
            listed = ", ".join(ob.name for ob in hidden) or "none"
            raise Refused(
                "no mesh that is visible is deformed by an armature or shape keys; name one with "
                f"--mesh (hidden ones: {listed})"
            )
        return visible
    chosen = []
    for name in names:
        ob = bpy.data.objects.get(name)
        if ob is None or ob.type != "MESH":
            meshes = [o.name for o in visible + hidden]
            raise Refused(f"it has no mesh object {name!r} (it has {', '.join(meshes) or 'none'})")
        chosen.append(ob)
    return chosen


def need_data(ob):
    """Refuse a mesh whose data is in another file that is not there, or that is empty."""
    for block, what in [(ob, "object"), (ob.data, "mesh")] + [
        (m.object.data, "armature") for m in armature_modifiers(ob)
    ]:
        if getattr(block, "is_missing", False) or (
            block.override_library
            and getattr(block.override_library.reference, "is_missing", False)
            and what != "object"
        ):
            library = block.library.filepath if block.library else "another file"
            raise Refused(
                f"the {what} of {ob.name!r} is linked from {library}, which is not there; put that "
                "file in its place, or make the data local (Object > Relations > Make Local)"
            )
    if not len(ob.data.vertices) and not ob.modifiers:
        raise Refused(f"the mesh of {ob.name!r} has no vertices")


def show(ob):
    """Make an object visible whatever hides it: its collection, the view layer, or itself."""
    top = bpy.context.scene.collection
    if bpy.context.view_layer.objects.get(ob.name) is not ob:
        top.objects.link(ob)
    ob.hide_viewport = False
    ob.hide_set(False)
    # A collection can be hidden without being excluded.
    if not ob.visible_get() and top.objects.get(ob.name) is not ob:
        top.objects.link(ob)


def prepare_modifiers(ob, which, simulations):
    """Enable the modifiers of an object as asked; returns sentences about those left out.

    simulations  whether those that depend on earlier frames are kept
    """
    notes = []
    for modifier in ob.modifiers:
        if which == "render":
            modifier.show_viewport = modifier.show_render
        if modifier.type in SUBDIVISION and modifier.show_viewport:
            modifier.show_viewport = False
            notes.append(f"{ob.name}: the modifier {modifier.name!r} (subdivision) is left out")
        elif modifier.type in SIMULATIONS and modifier.show_viewport and not simulations:
            modifier.show_viewport = False
            notes.append(
                f"{ob.name}: the modifier {modifier.name!r} ({modifier.type.lower()}) depends on "
                "earlier frames and is left out; --simulations keeps it as it is at one frame"
            )
        elif modifier.type in GENERATIVE and modifier.show_viewport:
            notes.append(
                f"{ob.name}: the modifier {modifier.name!r} ({modifier.type.lower()}) can add "
                "vertices; they are learned as vertices of the mesh"
            )
    return notes


def hide_others(chosen):
    """Hide objects with a surface that are not asked for. What others depend on is evaluated."""
    for ob in bpy.context.view_layer.objects:
        if ob not in chosen and ob.type in ("MESH", "CURVE", "SURFACE", "META", "FONT", "VOLUME"):
            ob.hide_viewport = True


def driving_armatures(meshes):
    """The armature objects that deform or carry the meshes, in the order of the meshes."""
    found = []
    for ob in meshes:
        for armature in [m.object for m in armature_modifiers(ob)] + [ob.parent]:
            if armature is not None and armature.type == "ARMATURE" and armature not in found:
                found.append(armature)
    return found


def scene_unit():
    """(factor, unit): what coordinates are multiplied with, and the unit they then have."""
    settings = bpy.context.scene.unit_settings
    if settings.system == "NONE":
        return 1.0, "unitless"
    for scale, unit in UNITS.items():
        if abs(settings.scale_length - scale) < 1e-5 * scale:
            return 1.0, unit
    return settings.scale_length, "m"


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
