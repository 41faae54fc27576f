"""The human's actions: a walk, and the poses of `keyed`.

The human faces -Y and has its left on +X. A positive turn about X bends forward; a positive turn
about Z is to its left; about Y, to its left side.
"""

import mathutils
import numpy as np
import scene
from human_shapes import hinge

SIDES = (("L", 1), ("R", -1))
X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
LIMBS = tuple(
    (f"{limb}_parent.{side}", "IK_FK") for limb in ("upper_arm", "thigh") for side in "LR"
)
FINGERS = ("f_index", "f_middle", "f_ring", "f_pinky", "thumb")
TRUNK = ("torso", "hips", "chest", "neck", "head")
both = lambda *names: tuple(f"{name}.{side}" for name in names for side in "LR")
FEET = both("foot_ik", "foot_heel_ik")
WALK_CONTROLS = (*TRUNK, *FEET, *both("hand_ik", "shoulder"))
LIFTED = tuple(f"{name}.00{k}" for name in both("brow.T", "lid.T") for k in (1, 2, 3))
KEYED_CONTROLS = (
    *TRUNK,
    *FEET,
    *both("shoulder", "upper_arm_fk", "forearm_fk", "hand_fk"),
    *both(*(f"{name}.01_master" for name in FINGERS)),
    *("jaw_master", "lips.L", "lips.R", *LIFTED),
)
ARM, LEG = ("upper_arm", "forearm", "hand"), ("thigh", "shin", "foot")


class Human(scene.Poser):
    """The human's controls, with its limbs as chains."""

    def joints(self, side, bones):
        """Where the bones of a limb begin at rest."""
        return [np.array(self.rig.data.bones[f"ORG-{n}.{side}"].head_local) for n in bones]

    def chain(self, side, bones, first, bend):
        """Where the end of a limb of three bones is, and its turn, as quaternions of the armature.

        first  turn of the limb about its first joint; bend: degrees of the hinge
        """
        start, joint, end = self.joints(side, bones)
        axis, _ = hinge(start, joint, end)
        second = first @ mathutils.Quaternion(axis, np.radians(bend))
        reached = first @ mathutils.Vector(joint - start) + second @ mathutils.Vector(end - joint)
        return np.array(reached) + start - end, second

    def reach(self, control, offset, turn):
        """Put a control of IK at an offset from rest with a turn in axes of the armature."""
        self.move(control, offset)
        axis, angle = turn.to_axis_angle()
        self.turn(control, axis, np.degrees(angle))

    def bend(self, side, degrees):
        """Turn the forearm about the elbow's hinge."""
        axis, _ = hinge(*self.joints(side, ARM))
        self.turn(f"forearm_fk.{side}", axis, degrees)

    def rest_bend(self, bones):
        """Degrees by which a limb is bent at rest."""
        a, b, c = self.joints("L", bones)
        u, f = (b - a) / np.linalg.norm(b - a), (c - b) / np.linalg.norm(c - b)
        return np.degrees(np.arccos(u @ f))

    def fk(self, value):
        """Switch the arms to FK (1) or IK (0)."""
        for side in "LR":
            self.rig.pose.bones[f"upper_arm_parent.{side}"]["IK_FK"] = float(value)


def turns(*pairs):
    """The product of turns (axis, degrees), the first one first."""
    total = mathutils.Quaternion()
    for axis, degrees in pairs:
        total = mathutils.Quaternion(axis, np.radians(degrees)) @ total
    return total


def add_walk(rig, first=1, stride=32, strides=2, step=4):
    """Two strides on the spot with IK hands and feet; the head looks around once."""
    scene.new_action(rig, "walk")
    human = Human(rig, WALK_CONTROLS, LIMBS)
    for frame in range(0, strides * stride + 1, step):
        human.rest()
        human.fk(0)
        p, look = frame / stride, frame / (stride * strides)
        swing, once = np.cos(2 * np.pi * p), np.sin(2 * np.pi * look)
        sway = 0.022 * np.cos(2 * np.pi * (p - 0.3))
        down = np.array([sway, 0.0, -0.035 - 0.014 * np.cos(4 * np.pi * p)])
        human.move("torso", down)
        human.turn("torso", X, 3)
        human.turn("hips", Z, -6 * swing)
        human.turn("hips", Y, 3 * np.cos(2 * np.pi * (p - 0.3)))
        human.turn("chest", Z, 9 * swing)
        human.turn("head", Z, -4 * swing + 18 * once)
        human.turn("head", X, -3 + 5 * once)
        for side, sign in SIDES:
            phase = (p + (0 if sign > 0 else 0.5)) % 1
            step_foot(human, side, sign, phase)
            forward = -np.cos(2 * np.pi * phase)
            turn = turns((Y, 37 * sign), (X, -22 * forward - 3), (Z, 9 * swing))
            offset, hand = human.chain(side, ARM, turn, -22 + 14 * forward)
            human.turn(f"shoulder.{side}", Z, -5 * sign * forward)
            human.reach(f"hand_ik.{side}", offset + down, hand)
        human.key(first + frame)


def step_foot(human, side, sign, phase):
    """A foot at a phase of its stride, which begins where the heel touches the ground."""
    at = lambda *values: float(np.interp(phase, [0, 0.12, 0.4, 0.6, 0.8, 1], values))
    ahead = at(0.26, 0.17, -0.06, -0.26, 0.02, 0.26)
    human.move(f"foot_ik.{side}", (-0.085 * sign, -ahead, at(0.02, 0, 0, 0.03, 0.12, 0.02)))
    human.turn(f"foot_ik.{side}", X, at(-18, 0, 0, 14, 22, -18))
    human.turn(f"foot_heel_ik.{side}", X, at(0, 0, 8, 30, 5, 0))


def add_keyed(rig, names, step):
    """The poses `names`, one every `step` frames from frame 1 on, with FK arms."""
    human = Human(rig, KEYED_CONTROLS, LIMBS)
    human.fk(1)
    scene.key_poses(human, POSES, names, step)
    human.fk(0)


def arms(human, raised=0, forward=0, straight=0, shoulder=0):
    """Both arms: raised to the side, then turned forward, and straightened, in degrees."""
    for side, sign in SIDES:
        human.turn(f"shoulder.{side}", Y, -shoulder * sign)
        human.turn(f"upper_arm_fk.{side}", Y, -raised * sign)
        human.turn(f"upper_arm_fk.{side}", Z, -forward * sign)
        human.bend(side, -straight)


def squat(human):
    human.move("torso", (0, 0.14, -0.40))
    human.turn("torso", X, 28)
    human.turn("head", X, -24)
    arms(human, 35, 75, 40)


def lunge(human):
    human.move("torso", (0, -0.06, -0.24))
    human.turn("torso", X, 6)
    human.move("foot_ik.L", (-0.08, -0.48, 0))
    human.move("foot_ik.R", (0.08, 0.46, 0.02))
    human.turn("foot_ik.R", X, 18)
    human.turn("foot_heel_ik.R", X, 30)


def arms_crossed(human):
    arms(human, -12, 30, -40)
    for side, sign in SIDES:
        human.turn(f"upper_arm_fk.{side}", X, -12 - 7 * sign)
        human.turn(f"forearm_fk.{side}", Z, -42 * sign)


def elbows_bent(human):
    arms(human, straight=human.rest_bend(ARM) - 120)


def knees_bent(human):
    for side, _ in SIDES:
        bend = 110 - human.rest_bend(LEG)
        offset, foot = human.chain(side, LEG, turns((X, 0)), bend)
        human.reach(f"foot_ik.{side}", offset, foot)


def twist(human):
    human.turn("hips", Z, -12)
    human.turn("chest", Z, 40)
    human.turn("head", Z, 15)


def bend_forward(human):
    human.move("torso", (0, 0.10, -0.03))
    human.turn("torso", X, 40)
    human.turn("chest", X, 28)
    arms(human, -10)


def bend_back(human):
    human.turn("chest", X, -30)
    human.turn("hips", X, 10)
    human.turn("head", X, -15)


def side_bend(human):
    human.turn("chest", Y, 32)
    human.turn("hips", Y, -8)


def head_turn(human):
    human.turn("head", Z, 55)
    human.turn("neck", Z, 12)


def head_nod(human):
    human.turn("head", X, 28)
    human.turn("neck", X, 10)


def jaw_open(human):
    human.turn("jaw_master", X, 18)


def smile(human):
    for side, sign in SIDES:
        human.move(f"lips.{side}", (0.008 * sign, 0.006, 0.010))
        for k in (1, 2, 3):
            human.move(f"brow.T.{side}.00{k}", (0, 0, 0.008))
            human.move(f"lid.T.{side}.00{k}", (0, -0.001, -0.007))


def fists(human):
    for side, _ in SIDES:
        for name in FINGERS:
            human.scale(f"{name}.01_master.{side}", (1, 0.75 if name == "thumb" else 0.55, 1))


POSES = {
    "rest": lambda human: None,
    "squat": squat,
    "lunge": lunge,
    "arms_up": lambda human: arms(human, 105, 0, 40, shoulder=20),
    "arms_forward": lambda human: arms(human, 41, 82, 45),
    "arms_crossed": arms_crossed,
    "t_pose": lambda human: arms(human, 41, 0, 50),
    "elbows_bent": elbows_bent,
    "knees_bent": knees_bent,
    "twist": twist,
    "bend_forward": bend_forward,
    "bend_back": bend_back,
    "side_bend": side_bend,
    "head_turn": head_turn,
    "head_nod": head_nod,
    "jaw_open": jaw_open,
    "smile": smile,
    "fists": fists,
}
