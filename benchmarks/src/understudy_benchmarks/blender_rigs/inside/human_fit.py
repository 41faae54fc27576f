"""Rigify's human meta-rig, its joints placed in the body, and the rig that Rigify generates."""

import contextlib
import io

import addon_utils
import bpy
import mathutils
import numpy as np
import scene

EYE_M = 0.0125  # the radius of an eye
FINGERS = ("thumb", "f_index", "f_middle", "f_ring", "f_pinky")


def generate(joints, points):
    """Rigify's human on the body's joints: the generated armature object.

    joints  bone of the body -> its head and tail
    points  (V,3) vertices of the body
    """
    with contextlib.redirect_stdout(io.StringIO()):
        addon_utils.enable("rigify", default_set=True)
        bpy.ops.object.armature_human_metarig_add()
        meta = bpy.context.object
        place(meta, joints, points)
        return scene.generate(meta, "Human_rig")


def place(meta, joints, points):
    """Move the meta-rig's bones to the body, each with the roll that the move gives it."""
    ends = {bone.name: [bone.head_local, bone.tail_local] for bone in meta.data.bones}
    ends = {name: np.array(pair, float) for name, pair in ends.items()}
    placed = left_half(joints, points, ends)
    face = [bone.name for bone in meta.data.bones["face"].children_recursive]
    placed.update(face_of(joints, points, ends, [n for n in face if ".R" not in n]))
    for name in [name for name in placed if ".L" in name]:
        placed[name.replace(".L", ".R")] = placed[name] * [-1, 1, 1]
    bpy.ops.object.mode_set(mode="EDIT")
    bones = meta.data.edit_bones
    rolls = {name: bones[name].z_axis.copy() for name in placed}
    for name, (head, tail) in placed.items():
        bones[name].head, bones[name].tail = head, tail
    for name, axis in rolls.items():
        head, tail = (mathutils.Vector(end) for end in ends[name])
        turn = (tail - head).rotation_difference(bones[name].tail - bones[name].head)
        bones[name].align_roll(turn @ axis)
    bpy.ops.object.mode_set(mode="OBJECT")


def left_half(joints, points, ends):
    """Head and tail of the bones of trunk, left arm and left leg."""
    at = {name: np.array(pair) for name, pair in joints.items()}
    head = lambda name: at[name][0]
    tail = lambda name: at[name][1]
    between = lambda a, b, t: a + t * (b - a)
    trunk = np.array([head(f"spine0{k}") for k in (5, 4, 3, 2, 1)] + [head("neck01")])
    heights = np.interp([0, 0.25, 0.48, 0.74, 1], [0, 1], trunk[[0, -1], 2])
    spine = [np.array([0, np.interp(z, trunk[:, 2], trunk[:, 1]), z]) for z in heights]
    found = {("spine" if k == 0 else f"spine.00{k}"): spine[k : k + 2] for k in range(4)}
    middle = between(head("neck01"), head("head"), 0.5)
    found["spine.004"] = [head("neck01"), middle]
    found["spine.005"] = [middle, head("head")]
    found["spine.006"] = [head("head"), tail("head")]
    found["pelvis.L"] = [spine[0], between(head("upperleg01.L"), spine[1], 0.35)]
    found["pelvis.L"][1] = found["pelvis.L"][1] + [0.045, -0.03, 0.03]
    found["breast.L"] = [tail("breast.L") + [0, 0.11, 0], tail("breast.L")]
    found["shoulder.L"] = [
        head("clavicle.L"),
        between(tail("clavicle.L"), head("upperarm01.L"), 0.5),
    ]
    found["upper_arm.L"] = [head("upperarm01.L"), head("lowerarm01.L")]
    found["forearm.L"] = [head("lowerarm01.L"), head("wrist.L")]
    found["hand.L"] = [head("wrist.L"), between(head("wrist.L"), tail("metacarpal2.L"), 0.7)]
    for k, name in enumerate(FINGERS):
        for part in (1, 2, 3):
            found[f"{name}.0{part}.L"] = at[f"finger{k + 1}-{part}.L"]
        if k:
            hand = at[f"metacarpal{k}.L"]
            found[f"palm.0{k}.L"] = [between(*hand, 0.25), head(f"finger{k + 1}-1.L")]
    hip, knee, ankle = (head(f"{n}.L") for n in ("upperleg01", "lowerleg01", "foot"))
    ball, toe = head("toe2-1.L"), tail("toe2-3.L")
    found["thigh.L"], found["shin.L"] = [hip, knee], [knee, ankle]
    found["foot.L"], found["toe.L"] = [ankle, ball], [ball, toe]
    sole = points[(points[:, 2] < 0.05) & (points[:, 0] > 0)]
    back = sole[:, 1].max()
    heel = sole[sole[:, 1] > back - 0.04]
    found["heel.02.L"] = [
        np.array([heel[:, 0].min(), back - 0.02, 0.0]),
        np.array([heel[:, 0].max(), back - 0.02, 0.0]),
    ]
    return {name: np.array(pair) for name, pair in found.items()}


def face_of(joints, points, ends, names):
    """Head and tail of the bones of the face: the meta-rig's, bent by landmarks onto the skin."""
    at = {name: np.array(pair) for name, pair in joints.items()}
    from_here, to_there = landmarks(at, points, ends)
    bend = thin_plate(from_here, to_there)
    found = {name: bend(ends[name]) for name in names}
    centre = np.array([0, at["head"][0][1], at["eye.L"][0][2]])
    skin = points[points[:, 2] > at["jaw"][1][2] - 0.03] - centre
    reach = np.linalg.norm(skin, axis=1)
    for name in names:
        if name.startswith(("eye", "teeth", "tongue", "ear")) or name == "jaw":
            continue
        for end in found[name]:
            # Onto the outermost skin in the direction of the joint, seen from inside the head.
            way = (end - centre) / np.linalg.norm(end - centre)
            near = np.flatnonzero(skin @ way > reach * np.cos(np.radians(3)))
            if len(near):
                end[:] = centre + way * (skin[near[reach[near].argmax()]] @ way + 0.001)
    for name in names:  # what begins or ends in the plane of symmetry
        for end, was in zip(found[name], ends[name]):
            end[0] = 0.0 if abs(was[0]) < 1e-6 else end[0]
    found["face"] = np.array([at["head"][0], at["head"][0] + [0, 0, 0.09]])
    forward = np.array([0, -0.024, 0])
    found["eye.L"] = np.array([to_there[0], to_there[0] + forward])
    return found


def landmarks(at, points, ends):
    """Points of the meta-rig's face and the same points of this face, (N,3) each."""
    head, tail = (lambda name: at[name][0]), (lambda name: at[name][1])
    middle = points[np.abs(points[:, 0]) < 0.004]
    front = lambda low, high: min(
        (p for p in middle if low < p[2] < high), key=lambda p: p[1], default=None
    )
    eye = 0.5 * (head("lids.L") + tail("lids.L")) + [0, EYE_M + 0.003, 0]
    bridge = front(eye[2] + 0.005, eye[2] + 0.012)
    nose = front(tail("oris05")[2] + 0.01, eye[2] - 0.01)
    near = points[(points[:, 2] > tail("oris01")[2]) & (points[:, 2] < eye[2] + 0.03)]
    ear = near[np.argmax(near[:, 0])]
    jaw = tail("jaw")
    half = np.array([jaw[0] + 0.052, head("jaw")[1] + 0.005, tail("oris01")[2] - 0.005])
    pairs = [
        (ends["eye.L"][0], eye),
        (ends["lid.T.L.001"][1], head("lids.L")),
        (ends["lid.B.L.001"][1], tail("lids.L")),
        (ends["lid.B.L"][0], head("canthi.L")),
        (ends["lid.T.L"][0], tail("canthi.L")),
        (ends["lip.T.L"][0], tail("oris05")),
        (ends["lip.B.L"][0], tail("oris01")),
        (ends["lip.T.L.001"][1], tail("levator05.L")),
        (ends["jaw"][1], jaw),
        (ends["nose"][0], bridge),
        (ends["nose.001"][1], nose),
        (ends["ear.L.001"][1], ear),
        (ends["brow.B.L"][0], head("oculi02.L")),
        (ends["brow.B.L.001"][1], head("oculi01.L")),
        (ends["brow.B.L.003"][1], tail("oculi01.L")),
        (ends["jaw.L"][1], half),
        (ends["spine.006"][1], tail("head")),
        (ends["spine.006"][0], head("head")),
    ]
    here = np.array([pair[0] for pair in pairs])
    there = np.array([pair[1] for pair in pairs])
    side = here[:, 0] > 1e-4
    flip = [-1, 1, 1]
    return np.r_[here, here[side] * flip], np.r_[there, there[side] * flip]


def thin_plate(here, there):
    """The smoothest map of space that takes points (N,3) to others."""
    kernel = lambda a: np.linalg.norm(a[:, None] - here, axis=2)
    affine = lambda a: np.c_[np.ones(len(a)), a]
    count = len(here)
    system = np.zeros((count + 4, count + 4))
    system[:count, :count] = kernel(here)
    system[:count, count:] = affine(here)
    system[count:, :count] = affine(here).T
    solved = np.linalg.solve(system, np.r_[there, np.zeros((4, 3))])
    return lambda a: np.c_[kernel(a), affine(a)] @ solved
