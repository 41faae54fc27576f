"""From animator controls to the 163 bones: bone frames, control table and forward kinematics.

Bone frames. The y axis of a bone runs from head to tail. Its x axis is the anatomical hinge, so a
positive rotation about x is flexion: elbow, fingers and thumb take it from their bend at rest, legs
and spine from the side axis of the body. z = x cross y. Frames of the right side mirror the left,
R_right = S R_left S with S = diag(-1,1,1), so a mirrored pose has the same rotation about x and the
opposite rotation about y and z.

Controls. Each joint control adds a share of its angle to one local axis of one or more bones (the
table of `_joint_rows`). This spreads twist over upperarm01/02, bending over the spine and curl over
the phalanges:

    angles[t] = D @ values[t]                       (B,3) local x, y, z angles
    local     = Rz(angle_z) Rx(angle_x) Ry(angle_y) twist first, then flexion, then sideways
    X_b       = X_parent rest_local_b local_b       rotations only
    t_b       = t_parent + X_parent diag(1, s_parent, 1) offset_b
    world_from_bone = [X_b diag(1, s_b, 1) | t_b]

Stretch s lengthens a bone along its own y. It moves the children but they do not inherit it, so no
shear accumulates along a chain.

Letters: T poses, B bones, C controls.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.skeleton import Skeleton
from understudy_characters.human.anatomy import Anatomy

MIRROR = np.array([-1.0, 1.0, 1.0])
EXPRESSIONS = (
    "smile",
    "frown",
    "pucker",
    "mouth_wide",
    "brow_raise",
    "brow_furrow",
    "squint",
    "snarl",
    "cheek_puff",
)
STRETCHED = {
    "arm_stretch": ("upperarm01", "upperarm02", "lowerarm01", "lowerarm02"),
    "leg_stretch": ("upperleg01", "upperleg02", "lowerleg01", "lowerleg02"),
    "spine_stretch": ("spine05", "spine04", "spine03", "spine02", "spine01"),
    "neck_stretch": ("neck01", "neck02", "neck03"),
}


BoneAxis = tuple[str, int, float]  # bone, axis 0 to 2, share of the angle
# name, low, high, limit_low, limit_high, axes
JointRow = tuple[str, float, float, float, float, list[BoneAxis]]


@dataclass
class _Control:
    """One control.

    low, high              training range
    limit_low, limit_high  what the rig accepts
    axes                   bone axes that it rotates
    """

    name: str
    low: float
    high: float
    limit_low: float
    limit_high: float
    rest: float = 0.0
    unit: str = "deg"
    numeric: bool = False
    axes: list[BoneAxis] = field(default_factory=list)


def _joint_rows() -> list[_Control]:
    """All controls. Positive is flexion, raising, forward or outward, and turning to the left."""
    rows = [
        _Control("root_turn_x", -25, 25, -180, 180, axes=[("root", 0, 1)]),
        _Control("root_turn_y", -60, 60, -1080, 1080, axes=[("root", 1, 1)]),
        _Control("root_turn_z", -20, 20, -180, 180, axes=[("root", 2, 1)]),
        _Control("root_move_x", -30, 30, -1e5, 1e5, unit="cm"),
        _Control("root_move_y", -20, 20, -1e5, 1e5, unit="cm"),
        _Control("root_move_z", -30, 30, -1e5, 1e5, unit="cm"),
    ]
    centre: list[JointRow] = [
        (
            "waist_bend",
            -25,
            45,
            -45,
            75,
            [("spine05", 0, 0.3), ("spine04", 0, 0.4), ("spine03", 0, 0.3)],
        ),
        (
            "waist_side",
            -25,
            25,
            -45,
            45,
            [("spine05", 2, 0.3), ("spine04", 2, 0.4), ("spine03", 2, 0.3)],
        ),
        (
            "waist_twist",
            -30,
            30,
            -55,
            55,
            [("spine05", 1, 0.3), ("spine04", 1, 0.4), ("spine03", 1, 0.3)],
        ),
        ("chest_bend", -20, 30, -35, 50, [("spine02", 0, 0.6), ("spine01", 0, 0.4)]),
        ("chest_side", -18, 18, -35, 35, [("spine02", 2, 0.6), ("spine01", 2, 0.4)]),
        ("chest_twist", -25, 25, -45, 45, [("spine02", 1, 0.6), ("spine01", 1, 0.4)]),
        (
            "neck_bend",
            -25,
            30,
            -45,
            50,
            [("neck01", 0, 0.3), ("neck02", 0, 0.4), ("neck03", 0, 0.3)],
        ),
        (
            "neck_side",
            -22,
            22,
            -40,
            40,
            [("neck01", 2, 0.3), ("neck02", 2, 0.4), ("neck03", 2, 0.3)],
        ),
        (
            "neck_twist",
            -40,
            40,
            -65,
            65,
            [("neck01", 1, 0.3), ("neck02", 1, 0.4), ("neck03", 1, 0.3)],
        ),
        ("head_nod", -20, 25, -35, 40, [("head", 0, 1)]),
        ("head_tilt", -15, 15, -30, 30, [("head", 2, 1)]),
        ("head_turn", -25, 25, -45, 45, [("head", 1, 1)]),
        ("jaw_open", 0, 24, -2, 34, [("jaw", 0, 1)]),
        ("jaw_side", -6, 6, -12, 12, [("jaw", 2, 1)]),
    ]
    rows += [_Control(name, low, high, a, b, axes=axes) for name, low, high, a, b, axes in centre]
    side: list[JointRow] = [
        ("clavicle_raise", -12, 30, -22, 45, [("clavicle", 2, 1)]),
        ("clavicle_forward", -18, 22, -32, 36, [("clavicle", 0, 1)]),
        ("shoulder_raise", -45, 70, -65, 115, [("shoulder01", 2, 0.2), ("upperarm01", 2, 0.8)]),
        ("shoulder_swing", -50, 80, -80, 130, [("shoulder01", 0, 0.15), ("upperarm01", 0, 0.85)]),
        ("shoulder_twist", -60, 60, -95, 95, [("upperarm01", 1, 0.4), ("upperarm02", 1, 0.6)]),
        ("elbow_flex", -42, 88, -46, 105, [("lowerarm01", 0, 1)]),
        ("forearm_twist", -80, 70, -110, 100, [("lowerarm01", 1, 0.35), ("lowerarm02", 1, 0.65)]),
        ("wrist_flex", -55, 55, -80, 80, [("wrist", 0, 1)]),
        ("wrist_side", -25, 20, -40, 35, [("wrist", 2, 1)]),
        (
            "thumb_curl",
            -15,
            50,
            -30,
            75,
            [("finger1-1", 0, 0.35), ("finger1-2", 0, 0.8), ("finger1-3", 0, 0.9)],
        ),
        ("thumb_spread", -20, 30, -35, 45, [("finger1-1", 2, 1)]),
        *(
            (
                f"{finger}_curl",
                -18,
                78,
                -32,
                100,
                [
                    (f"finger{n}-1", 0, 0.9),
                    (f"finger{n}-2", 0, 1.0),
                    (f"finger{n}-3", 0, 0.65),
                    (f"metacarpal{n - 1}", 0, cup),
                ],
            )
            for n, finger, cup in (
                (2, "index", 0.0),
                (3, "middle", 0.02),
                (4, "ring", 0.06),
                (5, "pinky", 0.12),
            )
        ),
        (
            "finger_spread",
            -10,
            18,
            -18,
            28,
            [
                ("finger2-1", 2, 1.0),
                ("finger3-1", 2, 0.2),
                ("finger4-1", 2, -0.5),
                ("finger5-1", 2, -1.1),
            ],
        ),
        ("hip_flex", -35, 85, -55, 135, [("upperleg01", 0, -1)]),
        ("hip_abduct", -22, 45, -35, 80, [("upperleg01", 2, -1)]),
        ("hip_twist", -35, 35, -60, 60, [("upperleg01", 1, 0.5), ("upperleg02", 1, 0.5)]),
        ("knee_flex", -4, 115, -12, 150, [("lowerleg01", 0, 1)]),
        ("ankle_flex", -40, 25, -60, 40, [("foot", 0, -1)]),
        ("ankle_roll", -20, 20, -35, 35, [("foot", 2, 1)]),
        (
            "toe_bend",
            -40,
            40,
            -60,
            60,
            [
                (f"toe{n}-{k}", 0, -share)
                for n in range(1, 6)
                for k, share in ((1, 0.8), (2, 0.3), (3, 0.2))
                if not (n == 1 and k == 3)
            ],
        ),
        (
            "toe_spread",
            -6,
            10,
            -10,
            16,
            [
                (f"toe{n}-1", 2, share)
                for n, share in ((1, 0.8), (2, 0.3), (3, 0.0), (4, -0.5), (5, -1.0))
            ],
        ),
    ]
    for suffix in ("L", "R"):
        for name, low, high, a, b, axes in side:
            sign = (1.0, -1.0, -1.0) if suffix == "R" else (1.0, 1.0, 1.0)
            spread = [
                (f"{bone}.{suffix}", axis, share * sign[axis])
                for bone, axis, share in axes
                if share
            ]
            rows.append(_Control(f"{name}_{suffix}", low, high, a, b, axes=spread))
    for name, width in (("arm_stretch", 0.14), ("leg_stretch", 0.14)):
        rows += [
            _Control(
                f"{name}_{suffix}",
                1 - 0.7 * width,
                1 + width,
                1 - 2 * width,
                1 + 3 * width,
                1.0,
                "ratio",
            )
            for suffix in ("L", "R")
        ]
    rows.append(_Control("spine_stretch", 0.93, 1.08, 0.85, 1.2, 1.0, "ratio"))
    rows.append(_Control("neck_stretch", 0.9, 1.15, 0.75, 1.4, 1.0, "ratio"))
    rows += [
        _Control(name, 0, 1, -0.25, 1.4, unit="", numeric=True)
        for name in ("breath", "flex", *EXPRESSIONS)
    ]
    return rows


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def _hinge(name: str, base: dict[str, np.ndarray], y: np.ndarray) -> np.ndarray:
    """(3,) the flexion axis of a left or middle bone, before it is made square to y."""
    along = lambda bone: base[bone]
    if name.startswith(("upperarm", "lowerarm", "shoulder")):
        return np.cross(along("upperarm02.L"), along("lowerarm01.L"))
    if name.startswith("finger1"):
        return np.cross(along("finger1-1.L"), along("finger1-3.L"))
    if name.startswith(("finger", "metacarpal", "wrist")):
        return base["palm"]  # from the knuckle of the index to that of the little finger
    if name.startswith("clavicle"):
        return np.array([0.0, -1.0, 0.0])  # flexion moves the shoulder forward
    if abs(y[0]) > 0.9:
        return np.array([0.0, 0.0, 1.0])
    return np.array([1.0, 0.0, 0.0])


def bone_frames(anatomy: Anatomy) -> np.ndarray:
    """(B,3,3) rest rotations with columns x, y, z; the right side mirrors the left."""
    axes = _unit(anatomy.bone_tails - anatomy.bone_heads)
    base = {name: axes[b] for b, name in enumerate(anatomy.bone_names)}
    base["palm"] = (
        anatomy.bone_heads[anatomy.bone("finger5-1.L")]
        - anatomy.bone_heads[anatomy.bone("finger2-1.L")]
    )
    frames = np.empty((len(axes), 3, 3))
    for b, name in enumerate(anatomy.bone_names):
        if name.endswith(".R"):
            continue
        x = _hinge(name, base, axes[b])
        x = _unit(x - axes[b] * (x @ axes[b]))
        frames[b] = np.stack([x, axes[b], np.cross(x, axes[b])], axis=1)
    for b, name in enumerate(anatomy.bone_names):
        if name.endswith(".R"):
            frames[b] = MIRROR[:, None] * frames[anatomy.mirror_bone[b]] * MIRROR
    return frames


class SkeletonSystem:
    """Skeleton and controls of the human; `pose` maps control values to bones."""

    def __init__(self, anatomy: Anatomy):
        rows = _joint_rows()
        frames = bone_frames(anatomy)
        self.skeleton = Skeleton(
            anatomy.bone_names,
            anatomy.bone_parents,
            np.concatenate([frames, anatomy.bone_heads[:, :, None]], axis=2),
        )
        column = lambda key: np.array([getattr(row, key) for row in rows], dtype=np.float64)
        self.controls = ControlSpec(
            names=tuple(row.name for row in rows),
            low=column("low"), high=column("high"), rest=column("rest"),
            limit_low=column("limit_low"), limit_high=column("limit_high"),
            units=tuple(row.unit for row in rows),
            numeric=np.array([row.numeric for row in rows]),
        )  # fmt: skip
        bones, names = len(frames), self.controls.names
        self._spread = np.zeros((3 * bones, len(rows)))
        for c, row in enumerate(rows):
            for bone, axis, share in row.axes:
                self._spread[3 * anatomy.bone(bone) + axis, c] += share
        self._stretch_control = np.full(bones, -1)
        for stretch, group in STRETCHED.items():
            for b, name in enumerate(anatomy.bone_names):
                if name.split(".")[0] in group:
                    side = name[-2:].replace(".", "_") if name[-2:] in (".L", ".R") else ""
                    self._stretch_control[b] = names.index(stretch + side)
        self._move = [names.index(f"root_move_{axis}") for axis in "xyz"]
        parent = np.maximum(self.skeleton.parents, 0)
        self._rest_local = np.swapaxes(frames[parent], 1, 2) @ frames
        self._rest_local[0] = frames[0]
        self._offset = np.einsum(
            "bji,bj->bi", frames[parent], anatomy.bone_heads - anatomy.bone_heads[parent]
        )
        self._root_head = anatomy.bone_heads[0]

    def pose(self, values: np.ndarray) -> np.ndarray:
        """world_from_bone (T,B,3,4) float64 at control values (T,C)."""
        count, bones = len(values), len(self._offset)
        angles = np.deg2rad(values @ self._spread.T).reshape(count, bones, 3)
        local = self._rest_local @ _rotation_zxy(angles)
        stretch = np.ones((count, bones))
        has = np.flatnonzero(self._stretch_control >= 0)
        stretch[:, has] = values[:, self._stretch_control[has]]
        rotation = np.empty((count, bones, 3, 3))
        place = np.empty((count, bones, 3))
        # The root rotates about the axes of the body, not of its tilted bone, so that its three
        # angles mean lean, turn and roll.
        frame = self.skeleton.world_from_bone[0, :, :3]
        rotation[:, 0] = _rotation_zxy(angles[:, 0]) @ frame
        place[:, 0] = self._root_head + values[:, self._move]
        offset = np.broadcast_to(self._offset, place.shape).copy()
        parents = self.skeleton.parents
        offset[:, 1:, 1] *= stretch[:, parents[1:]]
        for b in range(1, bones):
            p = parents[b]
            rotation[:, b] = rotation[:, p] @ local[:, b]
            place[:, b] = place[:, p] + np.einsum("tij,tj->ti", rotation[:, p], offset[:, b])
        rotation[..., 1] *= stretch[..., None]
        return np.concatenate([rotation, place[..., None]], axis=-1)


def _rotation_zxy(angles: np.ndarray) -> np.ndarray:
    """Rz(z) Rx(x) Ry(y) of angles (...,3) in radians: (...,3,3)."""
    cx, cy, cz = np.moveaxis(np.cos(angles), -1, 0)
    sx, sy, sz = np.moveaxis(np.sin(angles), -1, 0)
    rows = [
        cz * cy - sz * sx * sy, -sz * cx, cz * sy + sz * sx * cy,
        sz * cy + cz * sx * sy, cz * cx, sz * sy - cz * sx * cy,
        -cx * sy, sx, cx * cy,
    ]  # fmt: skip
    return np.stack(rows, axis=-1).reshape(*angles.shape[:-1], 3, 3)
