"""Small steps that every character needs: scene, meshes, weights, drivers, keys."""

import bpy
import mathutils
import numpy as np


def empty(frame_rate):
    """Start from an empty scene in metres."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.context.preferences.filepaths.save_version = 0
    bpy.context.scene.unit_settings.system = "METRIC"
    bpy.context.scene.render.fps = frame_rate


def counts():
    """What the open file has."""
    meshes = [ob for ob in bpy.context.scene.objects if ob.type == "MESH" and ob.visible_get()]
    rigs = [ob for ob in bpy.data.objects if ob.type == "ARMATURE"]
    blocks = [*bpy.data.objects, *bpy.data.armatures, *bpy.data.shape_keys]
    animated = [block.animation_data for block in blocks if block.animation_data]
    return {
        "vertices": sum(len(ob.data.vertices) for ob in meshes),
        "meshes": len(meshes),
        "bones": sum(len(rig.data.bones) for rig in rigs),
        "deforming": sum(bone.use_deform for rig in rigs for bone in rig.data.bones),
        "shape_keys": sum(len(keys.key_blocks) - 1 for keys in bpy.data.shape_keys),
        "drivers": sum(len(animation.drivers) for animation in animated),
        "actions": sorted(action.name for action in bpy.data.actions),
    }


def add_mesh(name, points, faces, uvs=None, smooth=True):
    """A mesh object of points (V,3) and faces, in the scene."""
    mesh = bpy.data.meshes.new(name)
    corners = [tuple(int(k) for k in face) for face in faces]
    mesh.from_pydata([tuple(p) for p in np.asarray(points).tolist()], [], corners)
    if uvs is not None:
        layer = mesh.uv_layers.new(name="UVMap")
        layer.data.foreach_set("uv", np.asarray(uvs, np.float32).ravel())
    mesh.polygons.foreach_set("use_smooth", [smooth] * len(mesh.polygons))
    mesh.materials.append(bpy.data.materials.new(name))
    mesh.update()
    ob = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(ob)
    return ob


def remeshed(points, faces, voxel, smoothing):
    """Points and faces of the hull of a mesh: quads of the size of a voxel, smoothed."""
    draft = add_mesh("Draft", points, faces)
    remesh = draft.modifiers.new("Remesh", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", voxel
    smooth = draft.modifiers.new("Smooth", "SMOOTH")
    smooth.factor, smooth.iterations = 0.5, smoothing
    shape = draft.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    points, faces = points_of(shape), [tuple(p.vertices) for p in shape.polygons]
    mesh, material = draft.data, draft.data.materials[0]
    bpy.data.objects.remove(draft)
    bpy.data.meshes.remove(mesh)
    bpy.data.materials.remove(material)
    return points, faces


def set_weights(ob, weights):
    """Vertex groups from bone name -> (V,) weights; small ones are left out."""
    for name, values in weights.items():
        if values.max(initial=0.0) <= 1e-4:
            continue
        group = ob.vertex_groups.new(name=name)
        for vertex in np.flatnonzero(values > 1e-4):
            group.add([int(vertex)], float(values[vertex]), "REPLACE")


def attach(ob, rig):
    """Parent a mesh to an armature that deforms it; returns the modifier."""
    ob.parent = rig
    modifier = ob.modifiers.new("Armature", "ARMATURE")
    modifier.object = rig
    return modifier


def turn_of(rig, bone, axis, degrees):
    """The rotation in a bone's own axes that turns it about an axis of the armature at rest."""
    rest = rig.data.bones[bone].matrix_local.to_quaternion()
    world = mathutils.Quaternion(axis, np.radians(degrees))
    return rest.inverted() @ world @ rest


def drive_by_turn(rig, key, bone, axis, start, full):
    """Let a bone's turn about an axis of the armature move a shape key.

    start, full  degrees at which the key begins and where it is full
    """
    local = rig.data.bones[bone].matrix_local.to_3x3().inverted() @ mathutils.Vector(axis)
    driver = key.driver_add("value").driver
    driver.type = "SCRIPTED"
    terms = []
    for letter, share in zip("xyz", local.normalized()):
        if letter == "y" or abs(share) < 0.05:
            continue
        variable = driver.variables.new()
        variable.name, variable.type = letter, "TRANSFORMS"
        target = variable.targets[0]
        target.id, target.bone_target = rig, bone
        target.transform_type, target.transform_space = f"ROT_{letter.upper()}", "LOCAL_SPACE"
        target.rotation_mode = "SWING_TWIST_Y"
        terms.append(f"{share:.4f} * {letter}")
    begin, width = np.radians(start), np.radians(full - start)
    driver.expression = f"min(max(({' + '.join(terms)} - {begin:.4f}) / {width:.4f}, 0), 1)"


def add_shape(ob, name, offsets):
    """A shape key of offsets (V,3)."""
    if ob.data.shape_keys is None:
        ob.shape_key_add(name="Basis", from_mix=False)
    key = ob.shape_key_add(name=name, from_mix=False)
    key.data.foreach_set("co", (points_of(ob) + offsets).astype(np.float32).ravel())
    return key


def points_of(ob):
    """(V,3) float64 vertices of a mesh object or a mesh."""
    return _read(ob, "co")


def normals_of(ob):
    """(V,3) float64 normals of the vertices of a mesh object or a mesh."""
    return _read(ob, "normal")


def _read(ob, what):
    vertices = getattr(ob, "data", ob).vertices
    flat = np.empty(3 * len(vertices), np.float32)
    vertices.foreach_get(what, flat)
    return flat.reshape(-1, 3).astype(np.float64)


def generate(meta, name):
    """Rigify's rig of a meta-rig, which goes; the caller silences what Rigify prints."""
    bpy.ops.pose.rigify_generate()
    rig = bpy.context.object
    data = meta.data
    bpy.data.objects.remove(meta)
    bpy.data.armatures.remove(data)
    rig.name = rig.data.name = name
    return rig


def new_action(rig, name):
    """Make a new action the active one of an armature."""
    action = bpy.data.actions.new(name)
    action.use_fake_user = True
    (rig.animation_data or rig.animation_data_create()).action = action
    return action


NO_TURN = mathutils.Quaternion()


class Poser:
    """Sets controls of an armature, in axes of the armature, and keys those it is told to.

    controls    bones that every key has
    properties  (bone, property) that every key has
    """

    def __init__(self, rig, controls, properties=()):
        self.rig, self.controls, self.properties = rig, controls, properties
        self.before = {}

    def rest(self):
        """Put the controls to rest. Rigify's other bones have places that are not to be touched."""
        for name in self.controls:
            bone = self.rig.pose.bones[name]
            bone.location, bone.scale = (0, 0, 0), (1, 1, 1)
            bone.rotation_quaternion, bone.rotation_euler = NO_TURN, (0, 0, 0)

    def turn(self, bone, axis, degrees):
        """Turn a bone about an axis of the armature, after the turns it has."""
        pose_bone = self.rig.pose.bones[bone]
        turn = turn_of(self.rig, bone, axis, degrees)
        if pose_bone.rotation_mode == "QUATERNION":
            pose_bone.rotation_quaternion = turn @ pose_bone.rotation_quaternion
        else:
            old = pose_bone.rotation_euler.to_quaternion()
            pose_bone.rotation_euler = (turn @ old).to_euler(pose_bone.rotation_mode)

    def move(self, bone, offset):
        """Move a bone by an offset in the axes of the armature."""
        pose_bone, offset = self.rig.pose.bones[bone], mathutils.Vector(offset)
        if pose_bone.bone.use_local_location:  # Rigify's IK controls move along the parent's axes
            offset = pose_bone.bone.matrix_local.to_3x3().inverted() @ offset
        pose_bone.location = pose_bone.location + offset

    def scale(self, bone, factors):
        """Scale a bone along its own axes."""
        self.rig.pose.bones[bone].scale = factors

    def key(self, frame):
        """Key all controls at a frame."""
        for name in self.controls:
            bone = self.rig.pose.bones[name]
            turned = bone.rotation_mode == "QUATERNION"
            if turned and bone.rotation_quaternion.dot(self.before.get(name, NO_TURN)) < 0:
                # The nearer of the two quaternions of a turn: no detour between keys.
                bone.rotation_quaternion.negate()
            self.before[name] = bone.rotation_quaternion.copy()
            paths = ["rotation_quaternion" if turned else "rotation_euler"]
            paths += ["location"] * (not all(bone.lock_location))
            paths += ["scale"] * (not all(bone.lock_scale))
            for path in paths:
                bone.keyframe_insert(path, frame=frame)
        for name, key in self.properties:
            self.rig.pose.bones[name].keyframe_insert(f'["{key}"]', frame=frame)


def key_poses(poser, poses, names, step):
    """An action `keyed`: the named poses, one every `step` frames from frame 1 on."""
    new_action(poser.rig, "keyed")
    for number, name in enumerate(names):
        poser.rest()
        poses[name](poser)
        poser.key(1 + step * number)
    poser.rest()


def show_action(poser, last):
    """Leave the rig as an animator does: its action plays, the scene is at the first frame."""
    poser.rest()
    current = bpy.context.scene
    current.frame_start, current.frame_end = 1, last
    current.frame_set(1)
