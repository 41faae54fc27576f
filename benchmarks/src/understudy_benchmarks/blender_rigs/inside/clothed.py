"""The human in clothes: shells around the body, each an object with its own modifiers.

Shirt      weights taken over from the body, Armature, Corrective Smooth, Solidify
Trousers   weights taken over from the body, Armature, Smooth
Shoes      hulls of the feet, weights taken over, Armature
Buttons    Surface Deform on the shirt, no weights
Teeth      two rows, each with one bone
Eye.L/.R   parented to a bone, no weights
"""

import bmesh
import bpy
import human
import human_fit
import human_motion
import mathutils
import numpy as np
import scene

OFFSET_M = 0.012


def build(request, body):
    """Build `clothed`."""
    rig, skin = human.dressed_rig(request, body)
    points, normals = scene.points_of(skin), scene.normals_of(skin)
    share = shares(skin)
    neck = share("spine.004", "spine.005")
    trunk = share("spine", "pelvis", "breast", "shoulder") - neck - share("spine.006")
    arms, legs = share("upper_arm", "forearm"), share("thigh", "shin")
    hands, feet = share("hand", "palm"), share("foot", "toe")
    height = points[:, 2]
    collar = 1.525 + 0.4 * points[:, 1]  # higher at the back
    is_shirt = (trunk + arms + neck > 0.5) & (hands < 0.2) & (height > 0.93) & (height < collar)
    shirt = shell("Shirt", points, normals, body["quads"], is_shirt)
    take_weights(shirt, skin, rig)
    smooth = shirt.modifiers.new("CorrectiveSmooth", "CORRECTIVE_SMOOTH")
    smooth.factor, smooth.iterations = 0.5, 4
    thickness = shirt.modifiers.new("Solidify", "SOLIDIFY")
    thickness.thickness, thickness.offset = 0.003, 1
    is_trousers = (trunk + legs > 0.5) & (feet < 0.3) & (height < 1.02) & (arms < 0.1)
    trousers = shell("Trousers", points, normals, body["quads"], is_trousers, 0.8)
    take_weights(trousers, skin, rig)
    folds = trousers.modifiers.new("Smooth", "SMOOTH")
    folds.factor, folds.iterations = 0.3, 2
    add_shoes(rig, skin, points[feet > 0.5])
    add_buttons(shirt)
    add_teeth(rig, request["joints"])
    for side in "LR":
        add_eye(rig, side)
    human_motion.add_walk(rig)


def shares(ob):
    """What gives the (V,) weight of bones by the beginnings of their names, both sides."""
    names = [group.name[4:] for group in ob.vertex_groups]
    weights = np.zeros((len(ob.data.vertices), len(names)))
    for vertex in ob.data.vertices:
        for group in vertex.groups:
            weights[vertex.index, group.group] = group.weight

    def share(*wanted):
        return weights[:, [name.startswith(wanted) for name in names]].sum(axis=1)

    return share


def shell(name, points, normals, quads, chosen, factor=1.0):
    """A part of the body as a mesh of its own, smoothed and moved outwards."""
    quads = quads[chosen[quads].all(axis=1)]
    kept, quads = np.unique(quads, return_inverse=True)
    quads = quads.reshape(-1, 4)
    ob = scene.add_mesh(name, points[kept] + factor * OFFSET_M * normals[kept], quads)
    edges = np.concatenate([quads[:, [k, (k + 1) % 4]] for k in range(4)])
    edges = np.unique(np.r_[edges, edges[:, ::-1]], axis=0)
    degree = np.bincount(edges[:, 0], minlength=len(kept))[:, None]
    placed = scene.points_of(ob)
    for _ in range(4):
        total = np.zeros_like(placed)
        np.add.at(total, edges[:, 0], placed[edges[:, 1]])
        placed = 0.5 * placed + 0.5 * total / degree
    ob.data.vertices.foreach_set("co", placed.astype(np.float32).ravel())
    ob.data.update()
    return ob


def take_weights(ob, source, rig):
    """Give an object the weights of the nearest faces of another, and the armature."""
    bpy.ops.object.select_all(action="DESELECT")
    ob.select_set(True)
    source.select_set(True)
    bpy.context.view_layer.objects.active = source
    bpy.ops.object.data_transfer(
        data_type="VGROUP_WEIGHTS",
        vert_mapping="POLYINTERP_NEAREST",
        layers_select_src="ALL",
        layers_select_dst="NAME",
    )
    scene.attach(ob, rig)


def add_shoes(rig, skin, points):
    """Convex hulls of the feet, rounded."""
    all_points, all_faces = [], []
    for sign in (1, -1):
        draft = bmesh.new()
        for point in points[points[:, 0] * sign > 0]:
            draft.verts.new(point)
        bmesh.ops.convex_hull(draft, input=draft.verts)
        bmesh.ops.delete(draft, geom=[v for v in draft.verts if not v.link_faces], context="VERTS")
        draft.verts.index_update()
        corners = np.array([vertex.co for vertex in draft.verts])
        middle = corners.mean(axis=0)
        corners = middle + (corners - middle) * [1.16, 1.08, 1.12]
        faces = [tuple(vertex.index for vertex in face.verts) for face in draft.faces]
        draft.free()
        hull, quads = scene.remeshed(corners, faces, 0.011, 6)
        hull[:, 2] += 0.001 - hull[:, 2].min()
        start = sum(len(part) for part in all_points)
        all_points.append(hull)
        all_faces += [tuple(k + start for k in quad) for quad in quads]
    shoes = scene.add_mesh("Shoes", np.concatenate(all_points), all_faces)
    take_weights(shoes, skin, rig)


def add_buttons(shirt):
    """Five buttons on the front of the shirt, bound to its surface."""
    graph = bpy.context.evaluated_depsgraph_get()
    all_points, all_faces = [], []
    for height in np.linspace(1.04, 1.36, 5):
        _, place, normal, _ = shirt.evaluated_get(graph).ray_cast((0, -1, height), (0, 1, 0))
        axes = normal.to_track_quat("Z", "Y").to_matrix()
        start = len(all_points) * 24
        ring = [(np.cos(a), np.sin(a)) for a in 2 * np.pi * np.arange(12) / 12]
        disc = [(0.008 * x, 0.008 * y, z) for z in (0.001, 0.004) for x, y in ring]
        all_points.append([place + axes @ mathutils.Vector(point) for point in disc])
        around = lambda k: (k + 1) % 12
        sides = [(k, around(k), 12 + around(k), 12 + k) for k in range(12)]
        faces = [*sides, tuple(range(11, -1, -1)), tuple(range(12, 24))]
        all_faces += [tuple(start + k for k in face) for face in faces]
    buttons = scene.add_mesh("Buttons", np.concatenate(all_points), all_faces, smooth=False)
    bound = buttons.modifiers.new("SurfaceDeform", "SURFACE_DEFORM")
    bound.target = shirt
    with bpy.context.temp_override(object=buttons, active_object=buttons):
        bpy.ops.object.surfacedeform_bind(modifier=bound.name)
    if not bound.is_bound:
        raise RuntimeError("the buttons cannot be bound to the shirt")


def add_teeth(rig, joints):
    """Two arcs of boxes behind the lips; the lower one goes with the jaw."""
    lips = 0.5 * (np.array(joints["oris05"][1]) + np.array(joints["oris01"][1]))
    all_points, all_faces = [], []
    angles = np.radians(np.linspace(-75, 75, 13))
    for row, (low, high) in enumerate(((0.0, 0.009), (-0.009, -0.001))):
        start = 52 * row
        for z in (low, high):
            for radius in (0.018, 0.023):
                x, y = radius * np.sin(angles), -radius * np.cos(angles)
                arc = np.stack([x, 1.15 * y, np.full(13, z)], axis=1)
                all_points.append(lips + [0, 0.036, 0] + arc)
        for k in range(12):
            for a, b in ((0, 13), (13, 39), (39, 26), (26, 0)):
                all_faces.append(tuple(start + i for i in (a + k, a + k + 1, b + k + 1, b + k)))
        all_faces += [tuple(start + k + i for i in (0, 13, 39, 26)) for k in (0, 12)]
    teeth = scene.add_mesh("Teeth", np.concatenate(all_points), all_faces)
    upper = np.arange(104) < 52
    scene.set_weights(teeth, {"DEF-spine.006": upper * 1.0, "DEF-jaw": ~upper * 1.0})
    scene.attach(teeth, rig)


def add_eye(rig, side):
    """An eyeball that follows a bone as a whole."""
    bone = rig.data.bones[f"MCH-eye.{side}"]
    bpy.ops.mesh.primitive_uv_sphere_add(segments=24, ring_count=12, radius=human_fit.EYE_M)
    ball = bpy.context.object
    ball.name = ball.data.name = f"Eye.{side}"
    ball.parent, ball.parent_type, ball.parent_bone = rig, "BONE", bone.name
    ball.matrix_world = mathutils.Matrix.Translation(bone.head_local)
