"""Runs inside Blender: writes small .blend files for the tests of Blender rigs.

arm.blend      an arm of two bones with IK, a sleeve, a shape key that a property drives, an action
python.blend   the same, with a driver that needs Python
more.blend     the arm with collections of bones, and cloth on the sleeve
linked.blend   a tube whose mesh is linked from arm.blend, by a path of another machine
nod.blend      an action for the arm; nod.fbx and nod.bvh hold the same motion
tree.blend     bones that deform hang on controls and mechanisms, and on nothing
"""

import json
import math
import sys
from pathlib import Path

import bpy

asked, answered = sys.argv[-2:]
request = json.loads(Path(asked).read_text())
bpy.ops.wm.read_factory_settings(use_empty=True)
scene = bpy.context.scene
scene.unit_settings.system = "METRIC"
scene.render.fps = 30


def add_armature():
    data = bpy.data.armatures.new("Skeleton")
    rig = bpy.data.objects.new("Rig", data)
    scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    places = {
        "root": ((0, 0, -0.5), (0, 0, 0), None, False),
        "upper": ((0, 0, 0), (0, 0, 1), "root", True),
        "helper": ((0, 0, 0.5), (0, 0, 1), "upper", False),
        "lower": ((0, 0, 1), (0, 0.1, 2), "helper", True),
        "reach": ((0, 0.6, 1.8), (0, 0.8, 1.8), "root", False),
    }
    for name, (head, tail, parent, deform) in places.items():
        bone = data.edit_bones.new(name)
        bone.head, bone.tail, bone.use_deform = head, tail, deform
        bone.parent = data.edit_bones[parent] if parent else None
    bpy.ops.object.mode_set(mode="OBJECT")
    for pose_bone in rig.pose.bones:
        pose_bone.rotation_mode = "XYZ"
    rig.pose.bones["lower"].rotation_mode = "QUATERNION"
    rig.pose.bones["helper"].lock_location = (True, True, True)
    rig.pose.bones["helper"].lock_rotation = (True, True, True)
    limit = rig.pose.bones["upper"].constraints.new("LIMIT_ROTATION")
    limit.owner_space = "LOCAL"
    limit.use_limit_x, limit.min_x, limit.max_x = True, math.radians(-30), math.radians(60)
    ik = rig.pose.bones["lower"].constraints.new("IK")
    ik.target, ik.subtarget, ik.chain_count, ik.influence = rig, "reach", 3, 0.5
    bone = rig.pose.bones["upper"]
    bone["bulge"] = 0.0
    bone.id_properties_ui("bulge").update(min=0.0, max=2.0)
    bone["note"] = "text"
    return rig


def add_tube(rig, name, radius, low, high, groups):
    rings, sides = 9, 6
    points, faces = [], []
    for ring in range(rings):
        z = low + (high - low) * ring / (rings - 1)
        for side in range(sides):
            angle = 2 * math.pi * side / sides
            points.append((radius * math.cos(angle), radius * math.sin(angle), z))
    for ring in range(rings - 1):
        for side in range(sides):
            a, b = ring * sides + side, ring * sides + (side + 1) % sides
            faces.append((a, b, b + sides, a + sides))
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(points, [], faces)
    mesh.uv_layers.new(name="UV")
    mesh.materials.append(bpy.data.materials.new(f"{name} skin"))
    ob = bpy.data.objects.new(name, mesh)
    scene.collection.objects.link(ob)
    ob.parent = rig
    for group in groups:
        ob.vertex_groups.new(name=group)
    for k, (_, _, z) in enumerate(points):
        share = min(max(z - 0.5, 0.0), 1.0)
        for group, weight in (("upper", 1 - share), ("lower", share)):
            if weight > 0:
                ob.vertex_groups[group].add([k], weight, "REPLACE")
    modifier = ob.modifiers.new("Armature", "ARMATURE")
    modifier.object = rig
    return ob


def add_key(ob, name, amount):
    if ob.data.shape_keys is None:
        ob.shape_key_add(name="Basis")
    key = ob.shape_key_add(name=name)
    for k, point in enumerate(ob.data.vertices):
        wide = 1 + amount * math.exp(-20 * (point.co.z - 0.5) ** 2)
        key.data[k].co = (point.co.x * wide, point.co.y * wide, point.co.z)
    return key


def drive(key, rig, expression):
    driver = key.driver_add("value").driver
    driver.type = "SCRIPTED"
    variable = driver.variables.new()
    variable.name = "bulge"
    variable.targets[0].id = rig
    variable.targets[0].data_path = 'pose.bones["upper"]["bulge"]'
    driver.expression = expression
    return driver


rig = add_armature()
body = add_tube(rig, "Body", 0.2, 0.0, 2.0, ("upper", "lower", "root"))
muscle = add_key(body, "muscle", 0.5)
add_key(body, "smile", 0.2)
driver = drive(muscle, rig, "bulge / 2")
sleeve = add_tube(rig, "Sleeve", 0.25, 0.2, 0.9, ("upper", "lower"))
subdivision = sleeve.modifiers.new("Smooth", "SUBSURF")
hidden = add_tube(rig, "Hidden", 0.3, 0.0, 1.0, ("upper", "lower"))
hidden.hide_viewport = True
prop = bpy.data.objects.new("Ball", bpy.data.meshes.new("Ball"))
scene.collection.objects.link(prop)

rig.animation_data_create()
action = bpy.data.actions.new("wave")
rig.animation_data.action = action
for frame, angle in ((1, 0.0), (5, 0.4), (9, 0.0)):
    rig.pose.bones["upper"].rotation_euler.x = angle
    rig.pose.bones["upper"].keyframe_insert("rotation_euler", frame=frame)
    rig.pose.bones["reach"].location.y = angle
    rig.pose.bones["reach"].keyframe_insert("location", frame=frame)
rig.pose.bones["lower"].rotation_quaternion = (0.9, 0.4, 0.0, 0.0)  # left behind by the animator
bpy.ops.wm.save_as_mainfile(filepath=request["folder"] + "/arm.blend")

driver.expression = "(lambda x: x / 2)(bulge)"
bpy.ops.wm.save_as_mainfile(filepath=request["folder"] + "/python.blend")

driver.expression = "bulge / 2"
sleeve.modifiers.new("Fabric", "CLOTH")
for name, members in (("Arm", ("upper", "lower")), ("Target", ("reach",))):
    collection = rig.data.collections.new(name)
    for member in members:
        collection.assign(rig.data.bones[member])
bpy.ops.wm.save_as_mainfile(filepath=request["folder"] + "/more.blend")

# The upper arm alone bends forward by 0.3 radians; nothing else moves.
rig.animation_data.action = bpy.data.actions.new("nod")
for name in ("upper", "lower"):
    for frame, angle in ((1, 0.0), (9, 0.3 if name == "upper" else 0.0)):
        pose_bone = rig.pose.bones[name]
        pose_bone.rotation_euler.x = angle
        pose_bone.rotation_quaternion = (1.0, 0.0, 0.0, 0.0)
        channel = "rotation_euler" if name == "upper" else "rotation_quaternion"
        pose_bone.keyframe_insert(channel, frame=frame)
rig.pose.bones["lower"].constraints[0].influence = 0.0
rig.pose.bones["reach"].location.y = 0.0
scene.frame_start, scene.frame_end = 1, 9
bpy.data.actions.remove(action)
bpy.ops.object.select_all(action="DESELECT")
rig.select_set(True)
bpy.context.view_layer.objects.active = rig
nod = request["folder"] + "/nod"
bpy.ops.export_scene.fbx(filepath=nod + ".fbx", use_selection=True, add_leaf_bones=False)
bpy.ops.export_anim.bvh(filepath=nod + ".bvh", frame_start=1, frame_end=9)
bpy.ops.wm.save_as_mainfile(filepath=nod + ".blend")

bpy.ops.wm.read_factory_settings(use_empty=True)
with bpy.data.libraries.load(request["folder"] + "/arm.blend", link=True) as (_, here):
    here.objects = ["Rig", "Body"]
for ob in here.objects:
    bpy.context.scene.collection.objects.link(ob)
    ob.override_create(remap_local_usages=True)
bpy.data.libraries[0].filepath = "/no/such/machine/arm.blend"
bpy.ops.wm.save_as_mainfile(filepath=request["folder"] + "/linked.blend")
# A control rig: each bone that deforms hangs on another that does not.
bpy.ops.wm.read_factory_settings(use_empty=True)
scene = bpy.context.scene
data = bpy.data.armatures.new("Skeleton")
rig = bpy.data.objects.new("Rig", data)
scene.collection.objects.link(rig)
bpy.context.view_layer.objects.active = rig
bpy.ops.object.mode_set(mode="EDIT")
for name, height, parent in (
    ("root", 0, None),
    ("org hip", 0, "root"),
    ("org arm", 1, "org hip"),
    ("org hand", 2, "org arm"),
    ("hip", 0, "root"),
    ("hand", 2, "org hand"),  # its place says that it is the hand's mechanism
    ("arm", 1, None),  # a constraint carries it
    ("nail", 2.5, "org hand"),
    ("tail", 0.5, None),
):
    bone = data.edit_bones.new(name)
    bone.head, bone.tail = (0, 0, height), (0, 0, height + 1)
    bone.parent = data.edit_bones[parent] if parent else None
    bone.use_deform = not name.startswith(("root", "org"))
bpy.ops.object.mode_set(mode="OBJECT")
for name, target in (("hip", "org hip"), ("arm", "org arm")):
    copy = rig.pose.bones[name].constraints.new("COPY_TRANSFORMS")
    copy.target, copy.subtarget = rig, target
mesh = bpy.data.meshes.new("Rod")
mesh.from_pydata([(0.1 * (k % 2), 0, k / 2) for k in range(8)], [], [(0, 1, 3), (4, 5, 7)])
rod = bpy.data.objects.new("Rod", mesh)
scene.collection.objects.link(rod)
rod.parent = rig
for k, name in enumerate(("hip", "arm", "hand", "nail", "tail")):
    rod.vertex_groups.new(name=name).add([k], 1.0, "REPLACE")
rod.modifiers.new("Armature", "ARMATURE").object = rig
bpy.ops.wm.save_as_mainfile(filepath=request["folder"] + "/tree.blend")
Path(answered).write_text(json.dumps({"version": list(bpy.app.version)}))
