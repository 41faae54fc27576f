"""An animal on four legs around Rigify's quadruped meta-rig: body, weights by heat, actions.

It faces -Y. A positive turn about X lowers the head and lifts the tail.
"""

import contextlib
import io

import addon_utils
import bpy
import numpy as np
import scene

VOXEL_M = 0.021
SIDES = (("L", 1), ("R", -1))
X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
# Chains of balls (x, y, z, radius); those off the middle have a mirror image.
CHAINS = (
    ((0, 0.40, 0.74, 0.13), (0, 0.25, 0.72, 0.13), (0, 0.05, 0.69, 0.14), (0, -0.12, 0.69, 0.16),
     (0, -0.28, 0.72, 0.16), (0, -0.36, 0.80, 0.11), (0, -0.45, 0.87, 0.09), (0, -0.53, 0.92, 0.09),
     (0, -0.68, 0.91, 0.05), (0, -0.72, 0.90, 0.042)),
    ((0, 0.46, 0.77, 0.07), (0, 0.55, 0.76, 0.045), (0, 0.78, 0.74, 0.036), (0, 1.10, 0.76, 0.028)),
    ((0.05, -0.50, 0.98, 0.03), (0.07, -0.47, 1.06, 0.022)),
    ((0.09, 0.34, 0.68, 0.12), (0.125, 0.271, 0.473, 0.07), (0.111, 0.465, 0.25, 0.04),
     (0.109, 0.414, 0.055, 0.036), (0.109, 0.31, 0.042, 0.04)),
    ((0.08, -0.28, 0.70, 0.11), (0.125, -0.225, 0.442, 0.056), (0.111, -0.215, 0.17, 0.04),
     (0.109, -0.246, 0.05, 0.04), (0.109, -0.345, 0.042, 0.041)),
)  # fmt: skip
TAIL = ("spine.003", "spine.002", "spine.001", "spine")
FEET = tuple(f"{leg}foot_ik.{side}" for leg in ("", "front_") for side in "LR")
HEELS = tuple(name.replace("_ik", "_heel_ik") for name in FEET)
CONTROLS = ("torso", "hips", "chest", "neck", "head", *TAIL, *FEET, *HEELS)
# The poses of the action `keyed`, in order.
POSES = {
    "rest": lambda animal: None,
    "crouch": lambda animal: animal.move("torso", (0, 0, -0.18)),
    "bow": lambda animal: animal.body((0, 0.04, -0.10), 20, front=(0, -0.16, 0)),
    "sit": lambda animal: animal.body((0, 0.06, -0.15), -26, rear=(0, -0.10, 0)),
    "rear_up": lambda animal: animal.body((0, 0.10, 0.14), -42, front=(0, -0.12, 0.60)),
    "leap": lambda animal: animal.body((0, 0, 0.25), -8, (0, -0.22, 0.30), (0, 0.25, 0.18)),
    "paw_lift": lambda animal: animal.move("front_foot_ik.L", (0, -0.14, 0.22)),
    "head_low": lambda animal: animal.look(X, 32),
    "look_left": lambda animal: animal.look(Z, 38),
    "look_up": lambda animal: animal.look(X, -26),
    "tail_up": lambda animal: [animal.turn(bone, X, 28) for bone in TAIL],
    "side_bend": lambda animal: [animal.turn("chest", Z, 26), animal.turn("hips", Z, -22)],
}


class Animal(scene.Poser):
    """The controls of the animal."""

    def body(self, offset, pitch, front=(0, 0, 0), rear=(0, 0, 0)):
        """Move and turn the trunk, then the feet."""
        self.move("torso", offset)
        self.turn("torso", X, pitch)
        for name in FEET:
            self.move(name, front if name.startswith("front") else rear)

    def look(self, axis, degrees):
        """Turn neck and head."""
        self.turn("neck", axis, degrees)
        self.turn("head", axis, degrees)


def build(request, body):
    """Build `quadruped`."""
    with contextlib.redirect_stdout(io.StringIO()):
        addon_utils.enable("rigify", default_set=True)
        bpy.ops.object.armature_basic_quadruped_metarig_add()
        rig = scene.generate(bpy.context.object, "Animal_rig")
    ob = modelled_body()
    add_heat_weights(rig, ob)
    add_correctives(rig, ob)
    smooth = ob.modifiers.new("CorrectiveSmooth", "CORRECTIVE_SMOOTH")
    smooth.factor, smooth.iterations = 0.5, 6
    scene.key_poses(Animal(rig, CONTROLS), POSES, list(POSES), request["step"])
    add_trot(rig)


def modelled_body():
    """A closed body of quads: balls along the chains, remeshed and smoothed."""
    balls = []
    for chain in CHAINS:
        for flip in (1, -1) if chain[0][0] else (1,):
            for a, b in zip(np.array(chain), np.array(chain)[1:]):
                count = int(np.ceil(np.linalg.norm(b[:3] - a[:3]) / (0.25 * min(a[3], b[3])))) + 1
                balls += [(a + t * (b - a)) * [flip, 1, 1, 1] for t in np.linspace(0, 1, count)]
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=3, radius=1)
    unit = bpy.context.object
    points, faces = scene.points_of(unit), [tuple(p.vertices) for p in unit.data.polygons]
    bpy.data.objects.remove(unit)
    all_points = np.concatenate([ball[:3] + ball[3] * points for ball in balls])
    all_faces = [
        tuple(k + n * len(points) for k in face) for n in range(len(balls)) for face in faces
    ]
    points, faces = scene.remeshed(all_points, all_faces, VOXEL_M, 4)
    points[:, 2] -= points[:, 2].min()
    return scene.add_mesh("Body", points, faces)


def add_heat_weights(rig, ob):
    """Blender's automatic weights, with its Armature modifier."""
    bpy.ops.object.select_all(action="DESELECT")
    ob.select_set(True)
    rig.select_set(True)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.parent_set(type="ARMATURE_AUTO")


def add_correctives(rig, ob):
    """Bulges at the shoulders and hips as the legs swing forward and back."""
    points, normals = scene.points_of(ob), scene.normals_of(ob)
    flip = np.array([-1, 1, 1])
    ahead, back = np.array([-1, 0, 0]), np.array([1, 0, 0])
    for name, bone, axis, offset, amount in (
        ("hip_ahead", "ORG-thigh", ahead, (0.03, 0.08, 0.03), 0.016),
        ("hip_back", "ORG-thigh", back, (0.02, -0.08, -0.02), 0.014),
        ("shoulder_ahead", "ORG-front_thigh", ahead, (0.0, 0.09, 0.0), 0.012),
        ("shoulder_back", "ORG-front_thigh", back, (0.0, -0.07, 0.0), 0.014),
    ):
        at = np.array(rig.data.bones[f"{bone}.L"].head_local) + offset
        for side, sign in SIDES:
            near = np.exp(-(((points * (flip if sign < 0 else 1) - at) ** 2).sum(axis=1)) / 0.08**2)
            key = scene.add_shape(ob, f"{name}.{side}", amount * near[:, None] * normals)
            scene.drive_by_turn(rig, key, f"{bone}.{side}", axis, 5, 50)


def add_trot(rig, cycle=24, cycles=2, step=3):
    """Diagonal legs move together; the trunk bobs twice for each stride."""
    scene.new_action(rig, "trot")
    animal = Animal(rig, CONTROLS)
    for frame in range(0, cycle * cycles + 1, step):
        animal.rest()
        p = frame / cycle
        bob, swing = np.cos(4 * np.pi * p), np.sin(2 * np.pi * p)
        animal.body((0.012 * swing, 0, -0.035 + 0.022 * bob), 2 * np.sin(4 * np.pi * p + 0.6))
        animal.turn("chest", Z, 5 * swing)
        animal.turn("hips", Z, -5 * swing)
        animal.turn("neck", X, -6 - 5 * bob)
        animal.turn("head", X, 5 * bob)
        for number, bone in enumerate(TAIL):
            animal.turn(bone, Z, 9 * np.sin(2 * np.pi * p - 0.7 * number))
            animal.turn(bone, X, 8 + 3 * bob)
        for name in FEET:
            front, left = name.startswith("front"), name.endswith("L")
            phase = (p + (0.0 if front == left else 0.5)) % 1
            at = lambda *values, t=phase: float(np.interp(t, [0, 0.25, 0.5, 0.75, 1], values))
            animal.move(name, (0, at(-0.17, 0, 0.17, 0.0, -0.17), at(0, 0, 0.01, 0.13, 0)))
            animal.turn(name, X, at(-8, 0, 12, 35, -8))
        animal.key(1 + frame)
    scene.show_action(animal, cycle * cycles)
