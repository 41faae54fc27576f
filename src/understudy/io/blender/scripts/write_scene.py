"""Runs inside Blender: builds a character from arrays and writes it as FBX or Alembic.

Arguments: request.json and answer.json (`understudy.io.blender.launch` describes the exchange).
`understudy.io.blender.scene` writes the request. Only Blender's own Python, NumPy and `bpy` are
used; nothing of the package is imported.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

SHEAR = 1e-4  # the largest part of a bone's matrix that location, rotation and scale may miss


class Refused(Exception):
    """What is asked for cannot be done; the text says why and what to do."""


def named(data, name, what):
    """Return new Blender data, after checking that Blender kept its name."""
    if data.name != name:
        raise Refused(
            f"{what} {name!r}: Blender {bpy.app.version_string} would call it {data.name!r}, "
            "because the name is too long or taken; rename it"
        )
    return data


def add_mesh(request, arrays, number):
    """Return a new mesh object with polygons, UVs, normals and materials."""
    told = request["objects"][number]
    get = lambda key: arrays.get(f"object{number}_{key}")
    # Readers of FBX refuse a mesh of loose vertices that has layers of corners.
    layer_of = lambda key: get(key) if len(get("polygon_sizes")) else None
    vertices, sizes, corners = get("vertices"), get("polygon_sizes"), get("polygon_vertices")
    mesh = bpy.data.meshes.new(told["name"])
    mesh.vertices.add(len(vertices))
    mesh.vertices.foreach_set("co", vertices.astype(np.float32).ravel())
    mesh.loops.add(len(corners))
    mesh.loops.foreach_set("vertex_index", corners.astype(np.int32))
    mesh.polygons.add(len(sizes))
    starts = (np.cumsum(sizes) - sizes).astype(np.int32)
    mesh.polygons.foreach_set("loop_start", starts)
    for name in told["materials"]:
        known = bpy.data.materials.get(name)
        mesh.materials.append(known or named(bpy.data.materials.new(name), name, "material"))
    if get("polygon_material") is not None:
        mesh.polygons.foreach_set("material_index", get("polygon_material").astype(np.int32))
    if layer_of("uvs") is not None:
        layer = mesh.uv_layers.new(name="UVMap", do_init=False)
        layer.uv.foreach_set("vector", get("uvs").astype(np.float32).ravel())
    mesh.update(calc_edges=True)
    if layer_of("normals") is not None:
        set_normals(mesh, get("normals"), follow_deformation=request["kind"] == "abc")
    target = named(bpy.data.objects.new(told["name"], mesh), told["name"], "part")
    bpy.context.scene.collection.objects.link(target)
    return target


def set_normals(mesh, normals, follow_deformation):
    """Set the normals of the corners, (N,3)."""
    # Free normals are exact, but stay as they are when the mesh deforms.
    if bpy.app.version >= (4, 5) and not follow_deformation:
        layer = mesh.attributes.new("custom_normal", "FLOAT_VECTOR", "CORNER")
        layer.data.foreach_set("vector", normals.astype(np.float32).ravel())
    else:
        mesh.normals_split_custom_set(normals.tolist())


def add_shapes(request, arrays, number, target):
    """Add the shape keys of one object; return {shape: key}."""
    keys: dict = {}
    told = request["objects"][number]
    if not told["shapes"]:
        return keys
    basis = "Basis"
    while basis in request["shapes"]:
        basis += "_"
    target.shape_key_add(name=basis, from_mix=False)
    rest = np.asarray(arrays[f"object{number}_vertices"], np.float64)
    for shape in told["shapes"]:
        moved = rest.copy()
        offsets = arrays[f"object{number}_shape{shape}_offsets"]
        moved[arrays[f"object{number}_shape{shape}_vertices"]] += offsets
        name = request["shapes"][shape]
        key = named(target.shape_key_add(name=name, from_mix=False), name, "blend shape")
        key.data.foreach_set("co", moved.astype(np.float32).ravel())
        key.slider_min, key.slider_max, key.value = -10.0, 10.0, 0.0
        keys[shape] = key
    return keys


def add_armature(request, arrays):
    """Return a new armature object whose bones have the rest matrices of the request."""
    from mathutils import Matrix

    armature = bpy.data.armatures.new(request["armature"])
    target = named(bpy.data.objects.new(request["armature"], armature), request["armature"], "name")
    bpy.context.scene.collection.objects.link(target)
    bpy.context.view_layer.objects.active = target
    bpy.ops.object.mode_set(mode="EDIT")
    bones = []
    for name, rest, length in zip(
        request["bones"], arrays["bone_rest"].tolist(), arrays["bone_length"].tolist()
    ):
        bone = named(armature.edit_bones.new(name), name, "bone")
        bone.head, bone.tail = (0, 0, 0), (0, length, 0)
        bone.matrix = Matrix([*rest, (0, 0, 0, 1)])
        bone.length = length
        bones.append(bone)
    for bone, parent in zip(bones, request["parents"]):
        if parent >= 0:
            bone.parent = bones[parent]
        bone.use_connect = False
        bone.inherit_scale = "FULL"
        bone.use_inherit_rotation = bone.use_local_location = True
    bpy.ops.object.mode_set(mode="OBJECT")
    if len(armature.bones) != len(bones):
        raise Refused(f"Blender kept {len(armature.bones)} of {len(bones)} bones")
    for name in request["bones"]:
        target.pose.bones[name].rotation_mode = "QUATERNION"
    return target


def add_weights(request, arrays, number, target, armature):
    """Give an object one vertex group a bone, and the modifier that reads them."""
    bones, vertices, weights = (
        arrays[f"object{number}_{key}"] for key in ("skin_bones", "skin_vertices", "skin_weights")
    )
    used = np.unique(bones)
    groups = {bone: target.vertex_groups.new(name=request["bones"][bone]) for bone in used.tolist()}
    for bone, vertex, weight in zip(bones.tolist(), vertices.tolist(), weights.tolist()):
        groups[bone].add((vertex,), weight, "REPLACE")
    target.parent = armature
    modifier = target.modifiers.new("Armature", "ARMATURE")
    modifier.object = armature
    modifier.use_deform_preserve_volume = False


def split(matrices):
    """Split matrices (...,3,3) into rotation, scale and what is left over.

    Returns rotations (...,3,3), scales (...,3) and the largest entry of the rest, over that of the
    matrix (...).
    """
    norms = np.linalg.norm(matrices, axis=-2)
    # The direction of an axis that is scaled to nothing is rounding error.
    known = norms > 1e-4 * norms.max(axis=-1, keepdims=True, initial=1e-20)
    unit = np.where(known, 1 / np.maximum(norms, 1e-30), 0.0)[..., None, :] * matrices
    u, _, v = np.linalg.svd(unit)
    rotation = u @ v
    mirrored = np.linalg.det(rotation) < 0
    flat = np.linalg.det(unit) > -1e-6  # a scale of zero leaves the sign of its axis open
    u[mirrored & flat, :, 2] *= -1
    rotation = u @ v
    rotation[mirrored & ~flat] *= -1
    scale = np.einsum("...ij,...ij->...j", rotation, matrices)
    rest = np.abs(matrices - rotation * scale[..., None, :]).max(axis=(-1, -2))
    return rotation, scale, rest / np.maximum(np.abs(matrices).max(axis=(-1, -2)), 1e-30)


def quaternions(rotations):
    """Return the quaternions (F,4), w first, of rotations (F,3,3), without jumps of sign."""
    from mathutils import Matrix

    result = np.array([Matrix(each).to_quaternion() for each in rotations.tolist()])
    turned = np.einsum("fi,fi->f", result[1:], result[:-1]) < 0
    signs = np.cumprod(np.concatenate([[1.0], np.where(turned, -1.0, 1.0)]))
    return result * signs[:, None]


def affine(matrices):
    """Return matrices (...,3,4) as (...,4,4)."""
    whole = np.zeros((*matrices.shape[:-2], 4, 4))
    whole[..., :3, :] = matrices
    whole[..., 3, 3] = 1
    return whole


def bone_channels(request, motion, rest, clip):
    """Return location (F,B,3), quaternion (F,B,4) and scale (F,B,3) of the pose bones.

    motion  (F,B,3,4): what each bone does to the mesh, world_from_bone @ bone_from_rest
    rest    (B,4,4): the rest matrices that Blender has
    """
    pose = affine(motion) @ rest
    parents = np.array(request["parents"])
    child = parents >= 0
    basis = np.linalg.inv(rest) @ pose
    of_parent = rest[parents[child]]
    local_rest = np.linalg.inv(of_parent) @ rest[child]
    # A parent with a scale of zero has no inverse; the pseudo-inverse gives one solution.
    seen_by_parent = np.linalg.pinv(pose[:, parents[child]], rcond=1e-9) @ pose[:, child]
    basis[:, child] = np.linalg.inv(local_rest) @ seen_by_parent
    rotation, scale, shear = split(basis[..., :3, :3])
    if shear.size and shear.max() > SHEAR:
        frame, bone = np.unravel_index(shear.argmax(), shear.shape)
        raise Refused(
            f"bone {request['bones'][bone]!r} is sheared in frame {frame} of clip "
            f"{request['clips'][clip]['name']!r} (by {shear.max():.1%}); FBX stores location, "
            "rotation and scale. Export with rigid bones, or with a pair of joints for each bone"
        )
    turned = np.stack([quaternions(rotation[:, b]) for b in range(len(parents))], axis=1)
    return basis[..., :3, 3], turned, scale


def new_action(name, owner):
    """Return a new action for `owner`, its slot and its collection of F-curves."""
    action = bpy.data.actions.new(name)
    if bpy.app.version < (4, 4):
        return action, None, action.fcurves
    slot = action.slots.new(owner.id_type, owner.name)
    strip = action.layers.new("Layer").strips.new(type="KEYFRAME")
    return action, slot, strip.channelbag(slot, ensure=True).fcurves


def add_curve(curves, path, axis, frames, values):
    """Add an F-curve that is keyed at every frame, with linear interpolation."""
    curve = curves.new(path, index=axis)
    points = curve.keyframe_points
    points.add(len(frames))
    points.foreach_set("co", np.stack([frames, values], axis=1).astype(np.float32).ravel())
    linear = bpy.types.Keyframe.bl_rna.properties["interpolation"].enum_items["LINEAR"].value
    points.foreach_set("interpolation", np.full(len(frames), linear, np.int32))
    curve.update()


def add_clip(request, arrays, clip, armature, keys):
    """Return the actions of one clip: [(owner, action, slot), ...], the armature's first.

    keys  for each object its shape keys by shape
    """
    told = request["clips"][clip]
    frames = told["start"] + np.arange(told["frames"])
    made = []
    if armature is not None:
        rest = np.array([armature.data.bones[name].matrix_local for name in request["bones"]])
        channels = bone_channels(request, arrays[f"clip{clip}_motion"], rest, clip)
        action, slot, curves = new_action(f"\x01bones {clip}", armature)
        for bone, name in enumerate(request["bones"]):
            path = f'pose.bones["{bpy.utils.escape_identifier(name)}"].'
            for kind, values in zip(("location", "rotation_quaternion", "scale"), channels):
                for axis in range(values.shape[2]):
                    add_curve(curves, path + kind, axis, frames, values[:, bone, axis])
        made.append((armature, action, slot))
    weights = arrays[f"clip{clip}_weights"]
    for target, of_object in keys:
        if not of_object:
            continue
        owner = target.data.shape_keys
        action, slot, curves = new_action(f"\x01shapes {clip}", owner)
        for shape, key in of_object.items():
            path = f'key_blocks["{bpy.utils.escape_identifier(key.name)}"].value'
            add_curve(curves, path, 0, frames, weights[:, shape])
        made.append((owner, action, slot))
    return made


def play(actions):
    """Make the actions of a clip the active ones."""
    for owner, action, slot in actions:
        data = owner.animation_data or owner.animation_data_create()
        data.action = action
        if slot is not None:
            data.action_slot = slot


class Quiet:
    """What the FBX exporter reports to."""

    def report(self, kind, text):
        """Print a message of the exporter."""
        print(*kind, text)


def write_fbx(request, arrays):
    """Build the rigged character and write it with Blender's FBX exporter."""
    from io_scene_fbx import export_fbx_bin as exporter
    from mathutils import Matrix

    scene = bpy.context.scene
    scene.unit_settings.system = "METRIC"
    scene.unit_settings.scale_length = request["metres"]
    armature = add_armature(request, arrays) if request["bones"] else None
    keys = []
    for number in range(len(request["objects"])):
        target = add_mesh(request, arrays, number)
        if armature is not None:
            add_weights(request, arrays, number, target, armature)
        keys.append((target, add_shapes(request, arrays, number, target)))
    clips = [
        add_clip(request, arrays, clip, armature, keys) for clip in range(len(request["clips"]))
    ]

    # The exporter's own choices move every clip to frame 0 and leave the shape keys of all clips
    # but the active one out. This takes the place of the function that makes them.
    def animations(scene_data):
        stacks: list = []
        animated: set = set()
        first, last = 1e100, -1e100
        for target, _ in keys:  # stepping through frames need not deform the meshes
            for modifier in target.modifiers:
                modifier.show_viewport = False
        for done, (told, actions) in enumerate(zip(request["clips"], clips)):
            if not actions:
                continue
            play(actions)
            start, end = told["start"], told["start"] + told["frames"] - 1
            # The stack gets the name of this empty action.
            label = named(bpy.data.actions.new(told["name"]), told["name"], "clip")
            # Rounding makes the exporter leave out a last frame 0, but not a last frame 0.25.
            stack = exporter.fbx_animations_do(
                scene_data, label, start, end + 0.25, False, None, True
            )
            if stack is not None:
                stacks.append((*stack[:5], end))
                first, last = min(first, start), max(last, end)
                for key, (_, nodes) in stack[1].items():
                    animated.update((key, name) for name in nodes)
            print("progress", done + 1, len(clips), flush=True)
        return stacks, animated, first, last

    exporter.fbx_animations = animations
    # `save` would sort the objects by name, and with them the vertices of the character.
    objects = [target for target, _ in keys]
    exporter.save_single(
        Quiet(),
        scene,
        bpy.context.evaluated_depsgraph_get(),
        filepath=request["target"],
        context_objects=objects if armature is None else [armature, *objects],
        # The arrays are written as they are; the header says which axis is up and which unit.
        global_matrix=Matrix(),
        axis_up=request["up"],
        axis_forward="-Z" if request["up"] == "Y" else "Y",
        apply_unit_scale=True,
        apply_scale_options="FBX_SCALE_UNITS",
        object_types={"ARMATURE", "MESH"},
        use_mesh_modifiers=False,
        mesh_smooth_type="OFF",
        use_mesh_edges=False,
        use_tspace=False,
        add_leaf_bones=False,
        bake_anim=bool(clips),
        bake_anim_simplify_factor=0.0,
        colors_type="NONE",
        use_metadata=False,
    )


def write_alembic(request, arrays):
    """Build the meshes with their point caches and write them with Blender's Alembic exporter."""
    scene = bpy.context.scene
    scene.unit_settings.system = "NONE"
    for number, told in enumerate(request["objects"]):
        target = add_mesh(request, arrays, number)
        if told["cache"]:
            modifier = target.modifiers.new("Cache", "MESH_CACHE")
            modifier.cache_format = "PC2"
            modifier.filepath = told["cache"]
            modifier.frame_start = request["start"]
            modifier.interpolation = "NONE"
            modifier.forward_axis, modifier.up_axis = "POS_Y", "POS_Z"
        # Alembic has no field for these. They go in as text that the reader of the package finds.
        target["understudy"] = request["note"]
    bpy.ops.wm.alembic_export(
        filepath=request["target"],
        start=request["start"],
        end=request["start"] + request["frames"] - 1,
        uvs=True,
        packuv=False,
        normals=True,
        vcolors=False,
        face_sets=True,
        orcos=False,
        export_hair=False,
        export_particles=False,
        export_custom_properties=True,
        as_background_job=False,
        check_existing=False,
    )


def main(asked, answered):
    """Answer one request."""
    request = json.loads(Path(asked).read_text(encoding="utf-8"))
    with np.load(Path(asked).with_suffix(".npz"), allow_pickle=False) as packed:
        arrays = dict(packed)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    whole, render = max(1, round(request["frame_rate"])), bpy.context.scene.render
    render.fps, render.fps_base = whole, whole / request["frame_rate"]
    try:
        {"fbx": write_fbx, "abc": write_alembic}[request["kind"]](request, arrays)
        answer = {"version": bpy.app.version_string, "bytes": os.path.getsize(request["target"])}
    except Refused as problem:
        answer = {"error": str(problem)}
    Path(answered).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    import bpy

    main(*(sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else sys.argv[1:]))
