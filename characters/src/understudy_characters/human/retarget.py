"""Retargeting of CMU motion capture to the controls of the human.

The clips have a skeleton of 31 joints, as in BVH files. Every joint rotates by R = Rz Ry Rx (angles
stored in that order, in degrees) in the frame of its parent; in the rest pose, a T-pose with
slightly spread legs, all frames are parallel to the world. Our human rests with lowered arms and
bent elbows. A constant rotation A_b per bone takes our rest pose to their T-pose. It is found along
each limb as the smallest rotation that aligns our segment, as rotated so far, with theirs. Since
our rest, the bone should then rotate by

    W_b(t) = G_joint(t) A_b                with G the world rotation of the joint in the clip.

Between two neighbouring mapped bones there is a chain of ours with one to three controls (shoulder:
raise, swing, twist). Gauss-Newton finds the controls of all chains together. It minimises the
rotation vector of  W_end^T W_base F_base^T F_end,  with F our forward kinematics. The relative
rotation of a chain depends on its own controls only, so three extra evaluations give the Jacobians
of all chains. What a chain cannot do (an elbow does not bend sideways) remains as a least-squares
residual. The last iterations pull each frame towards its neighbours. A soft clamp then keeps the
values within the limits of the rig; it is smooth, so a clamped joint slows down before it stops.

Letters: T frames, J joints of the clip, B bones, C controls.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter1d

from understudy.system import checks
from understudy.system.errors import FileError
from understudy_characters.human.rig import HumanRig

# Near a gimbal pole two controls have the same effect; a pull keeps them from drifting apart.
PULL_TO_REST = 0.02
PULL_TO_NEIGHBOURS = 0.15
RELAXED = {
    "index_curl": 16.0,
    "middle_curl": 20.0,
    "ring_curl": 24.0,
    "pinky_curl": 28.0,
    "thumb_curl": 12.0,
}

# Base bone, end bone, the joints of the clip for both, the controls between them. {0} stands for L
# or R, {1} for Left or Right.
Chain = tuple[str, str, str, str, tuple[str, ...]]
_TRUNK: list[Chain] = [
    ("root", "spine03", "Hips", "Spine", ("waist_bend", "waist_side", "waist_twist")),
    ("spine03", "spine01", "Spine", "Spine1", ("chest_bend", "chest_side", "chest_twist")),
    ("spine01", "neck03", "Spine1", "Neck1", ("neck_bend", "neck_side", "neck_twist")),
    ("neck03", "head", "Neck1", "Head", ("head_nod", "head_tilt", "head_turn")),
]
_LIMB: list[Chain] = [
    (
        "spine01",
        "upperarm02.{0}",
        "Spine1",
        "{1}Arm",
        ("shoulder_raise_{0}", "shoulder_swing_{0}", "shoulder_twist_{0}"),
    ),
    (
        "upperarm02.{0}",
        "lowerarm02.{0}",
        "{1}Arm",
        "{1}ForeArm",
        ("elbow_flex_{0}", "forearm_twist_{0}"),
    ),
    ("lowerarm02.{0}", "wrist.{0}", "{1}ForeArm", "{1}Hand", ("wrist_flex_{0}", "wrist_side_{0}")),
    (
        "root",
        "upperleg02.{0}",
        "Hips",
        "{1}UpLeg",
        ("hip_flex_{0}", "hip_abduct_{0}", "hip_twist_{0}"),
    ),
    ("upperleg02.{0}", "lowerleg02.{0}", "{1}UpLeg", "{1}Leg", ("knee_flex_{0}",)),
    ("lowerleg02.{0}", "foot.{0}", "{1}Leg", "{1}Foot", ("ankle_flex_{0}", "ankle_roll_{0}")),
    ("foot.{0}", "toe2-1.{0}", "{1}Foot", "{1}ToeBase", ("toe_bend_{0}",)),
]
# A joint of the clip; our segment, from the head of one bone to the head of another; and the joint
# whose offset is the same segment in the T-pose.
_SEGMENTS = [
    ("{1}Arm", "upperarm01.{0}", "lowerarm01.{0}", "{1}ForeArm"),
    ("{1}ForeArm", "lowerarm01.{0}", "wrist.{0}", "{1}Hand"),
    ("{1}Hand", "wrist.{0}", "finger3-1.{0}", "{1}HandIndex1"),
    ("{1}UpLeg", "upperleg01.{0}", "lowerleg01.{0}", "{1}Leg"),
    ("{1}Leg", "lowerleg01.{0}", "foot.{0}", "{1}Foot"),
    ("{1}Foot", "foot.{0}", "toe2-1.{0}", "{1}ToeBase"),
]


def clip_names(path: str | Path) -> tuple[str, ...]:
    """The names of the clips in a motion file."""
    return tuple(str(name) for name in _load(path)["clips"])


def cmu_clip(path: str | Path, clip: str, rig: HumanRig) -> tuple[np.ndarray, float]:
    """Control values (T,C) of one CMU clip, within the limits of the rig, and its frame rate.

    path  a motion file (.npz) with the arrays clips, joint_names, parents, fps and, per clip, root,
          euler_zyx_deg and offsets
    """
    data = _load(path)
    names = [str(name) for name in data["clips"]]
    checks.one_of(clip, "clip", names)
    number = names.index(clip)
    joints = {str(name): j for j, name in enumerate(data["joint_names"])}
    rotation = _joint_rotations(
        data[f"euler_zyx_deg_{number:02d}"].astype(np.float64), data["parents"]
    )
    offsets = data[f"offsets_{number:02d}"].astype(np.float64)
    wanted = _wanted_rotations(rig, rotation, offsets, joints)
    values = _solve(rig, wanted)
    _set(
        rig,
        values,
        _root(rig, rotation, data[f"root_{number:02d}"].astype(np.float64), offsets, joints),
    )
    for name, curl in RELAXED.items():
        _set(rig, values, {f"{name}_{side}": np.full(len(values), curl) for side in "LR"})
    # The clips have no breath and no tension.
    seconds = np.arange(len(values)) / float(data["fps"])
    _set(
        rig,
        values,
        {
            "breath": 0.4 - 0.3 * np.cos(2 * np.pi * seconds / 3.3),
            "flex": 0.3 + 0.1 * np.sin(0.8 * seconds),
        },
    )
    values = gaussian_filter1d(values, 0.7, axis=0, mode="nearest")
    values = _soft_clamp(values, rig.controls.limit_low, rig.controls.limit_high)
    _ground(rig, values)
    return values, float(data["fps"])


def _load(path: str | Path):
    try:
        data = np.load(path, allow_pickle=False)
    except (OSError, ValueError, zipfile.BadZipFile) as problem:
        raise FileError(f"{path}: cannot be read as a motion file (.npz): {problem}") from problem
    missing = [key for key in ("clips", "joint_names", "parents", "fps") if key not in data]
    if missing:
        raise FileError(f"{path}: not a CMU motion file, it has no {missing[0]!r}")
    return data


def _set(rig: HumanRig, values: np.ndarray, curves: dict[str, np.ndarray]) -> None:
    for name, curve in curves.items():
        values[:, rig.controls.names.index(name)] = curve


def _joint_rotations(euler: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """World rotations (T,J,3,3) of the joints from their local angles (T,J,3) z, y, x."""
    c, s = np.cos(np.deg2rad(euler)), np.sin(np.deg2rad(euler))
    (cz, cy, cx), (sz, sy, sx) = np.moveaxis(c, -1, 0), np.moveaxis(s, -1, 0)
    rows = [
        cz * cy,
        cz * sy * sx - sz * cx,
        cz * sy * cx + sz * sx,
        sz * cy,
        sz * sy * sx + cz * cx,
        sz * sy * cx - cz * sx,
        -sy,
        cy * sx,
        cy * cx,
    ]
    local = np.stack(rows, axis=-1).reshape(*euler.shape, 3)
    for j, p in enumerate(parents):
        if p >= 0:
            local[:, j] = local[:, p] @ local[:, j]
    return local


def _wanted_rotations(
    rig: HumanRig, rotation: np.ndarray, offsets: np.ndarray, joints: dict[str, int]
) -> dict[str, np.ndarray]:
    """joint of the clip -> W (T,3,3), the rotation of our bone since our rest."""
    into_t_pose = {name: np.eye(3) for name in joints}
    heads = {
        name: rig.skeleton.world_from_bone[b, :, 3] for b, name in enumerate(rig.skeleton.names)
    }
    for side, long in (("L", "Left"), ("R", "Right")):
        before = np.eye(3)
        for joint, start, stop, child in _SEGMENTS:
            joint, start, stop, child = (
                text.format(side, long) for text in (joint, start, stop, child)
            )
            if joint.endswith(("Arm", "UpLeg")) and not joint.endswith("ForeArm"):
                before = np.eye(3)  # a new limb
            before = (
                _smallest_rotation(before @ (heads[stop] - heads[start]), offsets[joints[child]])
                @ before
            )
            into_t_pose[joint] = before
        into_t_pose[f"{long}ToeBase"] = before
    return {name: rotation[:, j] @ into_t_pose[name] for name, j in joints.items()}


def _smallest_rotation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(3,3): the smallest rotation that takes the direction of a to that of b."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    v, c = np.cross(a, b), float(a @ b)
    k = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + k + k @ k / (1.0 + c)


def _chains() -> list[Chain]:
    chains = list(_TRUNK)
    for side, long in (("L", "Left"), ("R", "Right")):
        for base, end, a, b, controls in _LIMB:
            base, end, a, b = (text.format(side, long) for text in (base, end, a, b))
            chains.append((base, end, a, b, tuple(name.format(side, long) for name in controls)))
    return chains


def _solve(rig: HumanRig, wanted: dict[str, np.ndarray], rounds: int = 8) -> np.ndarray:
    """Control values (T,C) by Gauss-Newton over all chains at once.

    wanted  joint of the clip -> (T,3,3)
    """
    chains = _chains()
    bones, names = rig.skeleton.names, rig.controls.names
    base, end = ([bones.index(chain[k]) for chain in chains] for k in (0, 1))
    frames = rig.skeleton.world_from_bone[:, :, :3]
    target = np.stack(
        [np.swapaxes(wanted[a], 1, 2) @ wanted[b] for _, _, a, b, _ in chains], axis=1
    )  # (T,n,3,3)
    index = [[names.index(name) for name in controls] for *_, controls in chains]
    spec = rig.controls
    values = np.tile(spec.rest, (len(target), 1))

    def residual(at: np.ndarray) -> np.ndarray:
        """(T,n,3) rotation vectors in degrees from the wanted to the current rotation."""
        since_rest = rig.pose_bones(at)[..., :3] @ np.swapaxes(frames, 1, 2)
        relative = np.swapaxes(since_rest[:, base], 2, 3) @ since_rest[:, end]
        return _rotation_vector(np.swapaxes(target, 2, 3) @ relative)

    anchor, pull = np.broadcast_to(spec.rest, values.shape), PULL_TO_REST
    for step_number in range(rounds):
        # Frames are solved one by one; at the end, pull each one towards its neighbours, so that
        # none stays in another branch.
        if step_number == rounds - 3:
            anchor = gaussian_filter1d(values, 3.0, axis=0, mode="nearest")
            pull = PULL_TO_NEIGHBOURS
            values = anchor.copy()
        now = residual(values)
        jacobian = np.zeros((*now.shape, 3))
        for k in range(3):
            moved = values.copy()
            for controls in index:
                if k < len(controls):
                    moved[:, controls[k]] += 0.5
            jacobian[..., k] = (residual(moved) - now) / 0.5
        for n, controls in enumerate(index):
            j = jacobian[:, n, :, : len(controls)]
            away = values[:, controls] - anchor[:, controls]
            square = np.swapaxes(j, 1, 2) @ j + pull * np.eye(len(controls))
            step = np.linalg.solve(
                square, (np.einsum("tij,ti->tj", j, now[:, n]) + pull * away)[..., None]
            )[..., 0]
            values[:, controls] -= np.clip(step, -40.0, 40.0)
            values[:, controls] = np.clip(
                values[:, controls],
                spec.limit_low[controls] - 20,
                spec.limit_high[controls] + 20,
            )
    return values


def _rotation_vector(m: np.ndarray) -> np.ndarray:
    """Rotation vectors (...,3) in degrees of matrices (...,3,3).

    Near half a turn the axis is only approximate, which is good enough for a solver.
    """
    vector = 0.5 * np.stack(
        [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]],
        axis=-1,
    )
    sine = np.linalg.norm(vector, axis=-1)
    angle = np.arctan2(sine, 0.5 * (np.trace(m, axis1=-2, axis2=-1) - 1.0))
    return np.rad2deg(
        vector * np.where(sine > 1e-6, angle / np.maximum(sine, 1e-6), 1.0)[..., None]
    )


def _root(
    rig: HumanRig,
    rotation: np.ndarray,
    place: np.ndarray,
    offsets: np.ndarray,
    joints: dict[str, int],
) -> dict[str, np.ndarray]:
    """root control -> (T,): the hips follow those of the clip, scaled by the length of the legs."""
    hips = rotation[:, joints["Hips"]]
    y = np.rad2deg(np.unwrap(np.arctan2(-hips[:, 2, 0], hips[:, 2, 2])))
    y -= 360.0 * np.round(y.mean() / 360.0)
    heads = {
        name: rig.skeleton.world_from_bone[b, :, 3] for b, name in enumerate(rig.skeleton.names)
    }
    ours = heads["upperleg01.L"][1] - heads["foot.L"][1]
    theirs = sum(np.linalg.norm(offsets[joints[name]]) for name in ("LeftLeg", "LeftFoot"))
    middle = 0.5 * (offsets[joints["LeftUpLeg"]] + offsets[joints["RightUpLeg"]])
    hip_place = (place + hips @ middle) * (ours / theirs)
    hip_rest = 0.5 * (heads["upperleg01.L"] + heads["upperleg01.R"])
    move = hip_place - hips @ (hip_rest - heads["root"]) - heads["root"]
    move[:, [0, 2]] -= move[0, [0, 2]]
    return {
        "root_turn_x": np.rad2deg(np.arcsin(np.clip(hips[:, 2, 1], -1, 1))),
        "root_turn_y": y,
        "root_turn_z": np.rad2deg(np.arctan2(-hips[:, 0, 1], hips[:, 1, 1])),
        **{f"root_move_{axis}": move[:, k] for k, axis in enumerate("xyz")},
    }


def _soft_clamp(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The values, eased to the limits (tanh) within a tenth of the range from them."""
    margin = 0.1 * (high - low)
    over = np.maximum(values - (high - margin), 0.0)
    under = np.maximum((low + margin) - values, 0.0)
    core = np.clip(values, low + margin, high - margin)
    return core + margin * np.tanh(over / margin) - margin * np.tanh(under / margin)


def _ground(rig: HumanRig, values: np.ndarray) -> None:
    """Shift the whole clip, in place, so that the lowest foot of most frames is on the ground.

    The legs of the rig and of the captured person have different proportions.
    """
    feet = [
        b
        for b, name in enumerate(rig.skeleton.names)
        if name.startswith(("foot", "toe1-2", "toe3-3"))
    ]
    height = rig.pose_bones(values)[:, feet, 1, 3] - rig.skeleton.world_from_bone[feet, 1, 3]
    values[:, rig.controls.names.index("root_move_y")] -= np.quantile(height.min(axis=1), 0.2)
