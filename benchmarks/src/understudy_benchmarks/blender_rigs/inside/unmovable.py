"""A robot of six bones, two of which are not for animators; no control moves the antenna.

root > body > head > antenna > tip, and body > arm

`antenna` has no key and all its channels are locked: a driver turns it by a property of the empty
object `Switch`, which is neither a control of the armature nor of a mesh. `tip` is keyed directly
by the action, though it is hidden, locked, not to be selected and without the custom shape that the
other bones have: who does not read the action does not find it. No vertex group names either bone.
The envelope of `antenna` bends the rod on the head, and the ball `Lamp` is parented to `tip`. The
action `play` has slots for both objects.
"""

import bpy
import numpy as np
import scene

BONES = {
    "root": ((0, 0, 0), (0, 0.3, 0), None),
    "body": ((0, 0, 0.2), (0, 0, 0.8), "root"),
    "head": ((0, 0, 0.8), (0, 0, 1.1), "body"),
    "arm": ((0.2, 0, 0.7), (0.7, 0, 0.7), "body"),
    "antenna": ((0, 0, 1.1), (0, 0, 1.4), "head"),
    "tip": ((0, 0, 1.4), (0, 0, 1.5), "antenna"),
}
STILL = ("antenna", "tip")
LAST = 61


def build(request, body):
    """Build `unmovable`."""
    rig = armature()
    switch = bpy.data.objects.new("Switch", None)
    bpy.context.scene.collection.objects.link(switch)
    switch["swing"] = 0.0
    drive_antenna(rig, switch)
    add_body(rig)
    add_rod(rig)
    bpy.ops.mesh.primitive_uv_sphere_add(segments=12, ring_count=8, radius=0.03)
    lamp = bpy.context.object
    lamp.name = lamp.data.name = "Lamp"
    lamp.parent, lamp.parent_type, lamp.parent_bone = rig, "BONE", "tip"
    add_action(rig, switch)


def armature():
    """The six bones, as an animator finds them."""
    data = bpy.data.armatures.new("Robot_rig")
    rig = bpy.data.objects.new("Robot_rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for name, (head, tail, parent) in BONES.items():
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = head, tail
        bone.parent = data.edit_bones[parent] if parent else None
        bone.use_deform = name != "root"
        bone.head_radius = bone.tail_radius = bone.envelope_distance = 0.06
    bpy.ops.object.mode_set(mode="OBJECT")
    shape = scene.add_mesh("WGT_ring", [(1, 0, 0), (0, 0, 1), (-1, 0, 0), (0, 0, -1)], [range(4)])
    shape.hide_viewport = shape.hide_render = True
    hidden = data.collections.new("Hidden")
    for bone in rig.pose.bones:
        if bone.name not in STILL:
            bone.custom_shape = shape
            continue
        hidden.assign(bone.bone)
        bone.bone.hide_select = True
        bone.lock_location = bone.lock_rotation = bone.lock_scale = (True, True, True)
        bone.lock_rotation_w = True
        bone.rotation_mode = "XYZ"
    hidden.is_visible = False
    return rig


def drive_antenna(rig, switch):
    """Let the property of the empty object turn the antenna."""
    driver = rig.pose.bones["antenna"].driver_add("rotation_euler", 0).driver
    driver.type = "SCRIPTED"
    variable = driver.variables.new()
    variable.name = "swing"
    variable.targets[0].id = switch
    variable.targets[0].data_path = '["swing"]'
    driver.expression = "0.6 * swing"


def tube(radius, start, end, rings=25, sides=16):
    """Points and quads of an open tube."""
    start, end = np.array(start), np.array(end)
    side = np.array([0, 1.0, 0])
    other = np.cross((end - start) / np.linalg.norm(end - start), side)
    angles = 2 * np.pi * np.arange(sides) / sides
    ring = radius * (np.cos(angles)[:, None] * side + np.sin(angles)[:, None] * other)
    points = np.concatenate([start + t * (end - start) + ring for t in np.linspace(0, 1, rings)])
    corner = lambda r, s: r * sides + s % sides
    quads = [
        (corner(r, s), corner(r, s + 1), corner(r + 1, s + 1), corner(r + 1, s))
        for r in range(rings - 1)
        for s in range(sides)
    ]
    return points, quads


def add_body(rig):
    """Trunk with head, and the arm, with smooth weights between their bones."""
    trunk, quads = tube(0.2, (0, 0, 0.2), (0, 0, 1.1), rings=37, sides=24)
    arm, more = tube(0.06, (0.18, 0, 0.7), (0.7, 0, 0.7))
    quads += [tuple(k + len(trunk) for k in quad) for quad in more]
    ob = scene.add_mesh("Robot", np.concatenate([trunk, arm]), quads)
    on_arm = np.arange(len(trunk) + len(arm)) >= len(trunk)
    points = scene.points_of(ob)
    up = np.clip((points[:, 2] - 0.7) / 0.2, 0, 1) * ~on_arm
    out = np.clip((points[:, 0] - 0.18) / 0.1, 0, 1) * on_arm
    scene.set_weights(ob, {"body": 1 - up - out, "head": up, "arm": out})
    scene.attach(ob, rig)


def add_rod(rig):
    """The rod on the head: only the envelopes of bones reach it."""
    ob = scene.add_mesh("Rod", *tube(0.02, (0, 0, 1.1), (0, 0, 1.4)))
    modifier = scene.attach(ob, rig)
    modifier.use_vertex_groups, modifier.use_bone_envelopes = False, True


def add_action(rig, switch):
    """`play`: body, head and arm move, the antenna swings, the tip nods."""
    poser = scene.Poser(rig, ("body", "head", "arm", "tip"))
    action = scene.new_action(rig, "play")
    switch.animation_data_create().action = action
    switch.animation_data.action_slot = action.slots.new("OBJECT", "Switch")
    for frame in range(1, LAST + 1, 6):
        poser.rest()
        t = 2 * np.pi * (frame - 1) / (LAST - 1)
        poser.turn("body", (1, 0, 0), 10 * np.sin(t))
        poser.turn("head", (0, 0, 1), 30 * np.sin(2 * t))
        poser.turn("arm", (0, 1, 0), 40 * np.sin(t + 1))
        poser.turn("tip", (1, 0, 0), 35 * np.sin(3 * t))
        rig.pose.bones["tip"].keyframe_insert("rotation_euler", frame=frame)
        poser.key(frame)
        switch["swing"] = float(np.sin(2 * t))
        switch.keyframe_insert('["swing"]', frame=frame)
    switch["swing"] = 0.0
    scene.show_action(poser, LAST)
