"""CMU clips on the human: the pieces on made-up motion, the whole on the real file where it is
present.
"""

import numpy as np
import pytest

from understudy.system.errors import FileError, InputError
from understudy_benchmarks.real_data import data_folder
from understudy_characters.human import HumanRig, retarget

DATA = data_folder()
MOTION = DATA / "bodies" / "mocap_cmu_selection.npz"


@pytest.fixture(scope="module")
def human():
    return HumanRig()


def made_up(path, frames=12, **angles):
    """A motion file in the T-pose, with local angles (z, y, x) of some joints ramping up from
    zero.
    """
    left_leg = ("LHipJoint", "LeftUpLeg", "LeftLeg", "LeftFoot", "LeftToeBase")
    left_arm = ("Shoulder", "Arm", "ForeArm", "Hand", "FingerBase", "HandIndex1")
    names = [
        "Hips",
        *left_leg,
        *(name.replace("LHip", "RHip").replace("Left", "Right") for name in left_leg),
    ]
    names += ["LowerBack", "Spine", "Spine1", "Neck", "Neck1", "Head"]
    names += [
        *(f"Left{name}" for name in left_arm),
        "LThumb",
        *(f"Right{name}" for name in left_arm),
        "RThumb",
    ]
    parents = [
        -1,
        0,
        1,
        2,
        3,
        4,
        0,
        6,
        7,
        8,
        9,
        0,
        11,
        12,
        13,
        14,
        15,
        13,
        17,
        18,
        19,
        20,
        21,
        20,
        13,
        24,
        25,
        26,
        27,
        28,
        27,
    ]
    offsets = np.zeros((31, 3))
    left = {
        "LeftUpLeg": [1.6, -1.8, 0.6],
        "LeftLeg": [2.6, -7.1, 0],
        "LeftFoot": [2.5, -6.8, 0],
        "LeftToeBase": [0.2, -0.5, 2.1],
        "LeftArm": [3.5, 0.9, -0.2],
        "LeftForeArm": [4.9, 0, 0],
        "LeftHand": [3.4, 0, 0],
        "LeftHandIndex1": [0.7, 0, 0],
    }
    for name, offset in left.items():
        offsets[names.index(name)] = offset
        offsets[names.index(name.replace("Left", "Right"))] = np.array(offset) * [-1, 1, 1]
    euler = np.zeros((frames, 31, 3))
    for name, angle in angles.items():
        euler[:, names.index(name)] = np.linspace(0, 1, frames)[:, None] * np.array(angle)
    root = np.tile([0, 17.0, 0], (frames, 1))
    np.savez(
        path,
        clips=np.array(["made_up"]),
        joint_names=np.array(names),
        parents=np.array(parents),
        fps=30.0,
        root_00=root,
        euler_zyx_deg_00=euler,
        offsets_00=offsets,
    )
    return path


def directions(rig, values, start, stop):
    """(T,3) unit vectors from the head of one bone to that of another."""
    place = rig.pose_bones(values)[..., 3]
    vector = place[:, rig.skeleton.names.index(stop)] - place[:, rig.skeleton.names.index(start)]
    return vector / np.linalg.norm(vector, axis=1, keepdims=True)


def test_t_pose_straightens_the_arms(human, tmp_path):
    values, rate = retarget.cmu_clip(made_up(tmp_path / "t.npz"), "made_up", human)
    assert rate == 30.0
    for side, x in (("L", 1), ("R", -1)):
        arm = directions(human, values[:1], f"upperarm01.{side}", f"lowerarm01.{side}")[0]
        assert arm[0] * x > 0.98
        fore = directions(human, values[:1], f"lowerarm01.{side}", f"wrist.{side}")[0]
        assert fore[0] * x > 0.9


@pytest.mark.parametrize(
    ("joint", "angle", "start", "stop", "rest", "turned"),
    [
        (
            "LeftArm",
            (-80, 0, 0),
            "upperarm01.L",
            "lowerarm01.L",
            [1, 0, 0],
            [np.cos(np.deg2rad(80)), -np.sin(np.deg2rad(80)), 0],
        ),
        (
            "RightArm",
            (0, 60, 0),
            "upperarm01.R",
            "lowerarm01.R",
            [-1, 0, 0],
            [-0.5, 0, np.sin(np.deg2rad(60))],
        ),
        ("Hips", (0, 90, 0), "upperarm01.L", "lowerarm01.L", [1, 0, 0], [0, 0, -1]),
    ],
)
def test_one_joint_turns_our_segment_the_same_way(
    human, tmp_path, joint, angle, start, stop, rest, turned
):
    values, _ = retarget.cmu_clip(
        made_up(tmp_path / "one.npz", frames=40, **{joint: angle}), "made_up", human
    )
    first, last = directions(human, values[[0, -1]], start, stop)
    assert first @ np.array(rest) > 0.97
    assert last @ np.array(turned) > 0.97


def test_knee_bends_the_knee(human, tmp_path):
    values, _ = retarget.cmu_clip(
        made_up(tmp_path / "knee.npz", LeftLeg=(0, 0, 70)), "made_up", human
    )
    knee = values[:, human.controls.names.index("knee_flex_L")]
    assert knee[-1] - knee[0] == pytest.approx(
        70, abs=12
    )  # about x; the spread leg's own hinge is 20 degrees off x, and a knee has no other
    assert np.abs(np.diff(values[:, human.controls.names.index("knee_flex_R")])).max() < 1


def test_far_turns_stay_inside_the_limits(human, tmp_path):
    values, _ = retarget.cmu_clip(
        made_up(
            tmp_path / "far.npz", LeftLeg=(0, 0, 179), Head=(0, 170, 0), LeftArm=(100, 60, 100)
        ),
        "made_up",
        human,
    )
    human.controls.check(values)
    assert np.isfinite(values).all()


def test_soft_clamp_is_smooth_and_monotone():
    x = np.linspace(-30, 30, 601)[:, None]
    y = retarget._soft_clamp(x, np.array([-10.0]), np.array([10.0]))
    assert (np.diff(y, axis=0) >= 0).all()
    assert np.abs(y).max() <= 10
    np.testing.assert_allclose(y[np.abs(x) < 8], x[np.abs(x) < 8])
    assert np.abs(np.diff(y, 2, axis=0)).max() < 0.01


def test_wrong_files(human, tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        retarget.cmu_clip(tmp_path / "none.npz", "x", human)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(FileError, match="not a CMU motion file"):
        retarget.cmu_clip(tmp_path / "other.npz", "x", human)
    with pytest.raises(InputError, match="unknown clip"):
        retarget.cmu_clip(made_up(tmp_path / "t.npz"), "02_01", human)


@pytest.mark.skipif(not MOTION.is_file(), reason=f"no motion at {MOTION}")
@pytest.mark.parametrize("clip", ["02_01", "10_01"])
def test_real_clips(human, clip):
    assert clip in retarget.clip_names(MOTION)
    values, rate = retarget.cmu_clip(MOTION, clip, human)
    assert rate == 30.0
    assert len(values) > 60
    human.controls.check(values)
    turns = [c for c, unit in enumerate(human.controls.units) if unit == "deg"]
    assert (
        np.abs(np.diff(values[:, turns], axis=0)).max() < 45
    )  # degrees a frame: fast, but no flips
    lowest = human.evaluate(values[::20]).vertices[:, :, 1].min(axis=1)
    assert np.abs(lowest).max() < 15
