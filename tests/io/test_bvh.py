"""BVH: reading, writing, and what is refused."""

import numpy as np
import pytest
from builders import chain_skeleton
from bvh_writer import write_bvh
from mutated_files import read_mutated

from understudy import Clip, Skeleton
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy.io.bvh import read_bvh
from understudy.io.registry import read_poses
from understudy.system.errors import FileError

RNG = np.random.default_rng(0)
FILE = """HIERARCHY
ROOT Hips
{
  OFFSET 0 10 0
  CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
  JOINT Left Leg {
    OFFSET 1 -5 0
    CHANNELS 3 Yrotation Xrotation Zrotation
    End Site
    { OFFSET 0 -5 0 }
  }
  JOINT Spine
  {
    OFFSET 0 3 0
    CHANNELS 2 Zrotation Yrotation
  }
}
MOTION
Frames: 2
Frame Time: .0083333
0 12 0 0 0 0 0 0 0 0 0
1 11 2 90 0 0 90 90 0 0 90
"""


def turn(axis, degrees):
    return rotation_from_axis_angle(np.radians(degrees) * np.eye(3)["xyz".index(axis)])


def motion(skeleton, frames=7):
    """Rotations of every bone about its joint, and a root that moves."""
    local = np.tile(np.eye(3, 4), (frames, skeleton.bone_count, 1, 1))
    local[..., :3] = rotation_from_axis_angle(RNG.normal(size=(frames, skeleton.bone_count, 3)))
    rest = skeleton.world_from_bone
    moved = np.empty_like(local)
    for bone, parent in enumerate(skeleton.parents):
        if parent < 0:
            moved[:, bone] = compose(rest[bone], local[:, bone])
            moved[:, bone, :, 3] += RNG.normal(size=(frames, 3))
        else:
            inner = compose(np.linalg.inv(np.vstack([rest[parent], [0, 0, 0, 1]]))[:3], rest[bone])
            moved[:, bone] = compose(compose(moved[:, parent], inner), local[:, bone])
    return moved


def test_a_file_is_read(tmp_path):
    (tmp_path / "walk.bvh").write_text(FILE)
    made = read_bvh(tmp_path / "walk.bvh")
    skeleton, clip = made.skeleton, made.clips[0]
    assert skeleton.names == ("Hips", "Left Leg", "Spine")
    assert skeleton.parents.tolist() == [-1, 0, 0]
    assert skeleton.world_from_bone[:, :, 3].tolist() == [[0, 10, 0], [1, 5, 0], [0, 13, 0]]
    assert (clip.name, clip.frame_rate, clip.frame_count) == ("walk", 120.0, 2)
    assert clip.world_from_bone[0, :, :, 3].tolist() == [[0, 12, 0], [1, 7, 0], [0, 15, 0]]
    hips, leg, spine = clip.world_from_bone[1]
    np.testing.assert_allclose(hips[:, :3], turn("z", 90), atol=1e-9)
    np.testing.assert_allclose(hips[:, 3], [1, 11, 2])
    want = turn("z", 90) @ turn("y", 90) @ turn("x", 90)
    np.testing.assert_allclose(leg[:, :3], want, atol=1e-9)
    np.testing.assert_allclose(leg[:, 3], hips[:, :3] @ [1, -5, 0] + hips[:, 3], atol=1e-9)
    np.testing.assert_allclose(spine[:, :3], turn("z", 90) @ turn("y", 90), atol=1e-9)


@pytest.mark.parametrize("stretch", [False, True])
def test_round_trip(tmp_path, stretch):
    skeleton = chain_skeleton(5)
    rest = skeleton.world_from_bone.copy()
    rest[..., :3] = rotation_from_axis_angle(RNG.normal(size=(5, 3)))
    skeleton = Skeleton(("a", "b c", "d{", "e", "f"), [-1, 0, 1, 1, 0], rest)
    moved = motion(skeleton)
    if stretch:
        moved[:, 3, :, 3] += 0.1 * RNG.normal(size=(7, 3))
    write_bvh(skeleton, Clip("walk", moved, 30.0), tmp_path / "a.bvh")
    made = read_bvh(tmp_path / "a.bvh")
    found, clip = made.skeleton, made.clips[0]
    assert found.names == ("a", "b c", "d(", "e", "f")
    assert found.parents.tolist() == skeleton.parents.tolist()
    assert clip.frame_rate == 30.0
    np.testing.assert_allclose(
        found.world_from_bone[:, :, 3], skeleton.world_from_bone[:, :, 3], atol=1e-6
    )
    np.testing.assert_allclose(
        compose(clip.world_from_bone, found.bone_from_world),
        compose(moved, skeleton.bone_from_world),
        atol=1e-6,
    )


def test_the_joints_are_points_of_a_character(tmp_path):
    (tmp_path / "walk.bvh").write_text(FILE)
    poses = read_poses(tmp_path / "walk.bvh")
    np.testing.assert_allclose(poses.vertices, poses.world_from_bone[..., 3], atol=1e-6)
    assert poses.frame_rate == 120.0


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("Frames: 2", "Frames: 3", "need 33 numbers, the file has 22"),
        ("Frames: 2", "Frames: 99999999999", "need"),
        (".0083333", "0", "frame time"),
        ("OFFSET 0 10 0", "OFFSET 0 10", "OFFSET has 2 numbers"),
        ("3 Yrotation", "4 Yrotation", "makes no sense"),
        ("Zrotation Yrotation\n", "Zrotation Wrotation\n", "makes no sense"),
        ("JOINT Spine\n", "ROOT Spine\n", "in the wrong place"),
        ("}\nMOTION", "MOTION", "not complete"),
        ("  OFFSET 0 10 0\n", "", "no OFFSET"),
        ("1 11 2 90", "1 nan 2 90", "NaN"),
        ("1 11 2 90", "1 x 2 90", "expected numbers"),
        ("HIERARCHY\nROOT", "HIERARCHY\nBRANCH", "unexpected text"),
        ("MOTION", "MOVE", "unexpected text"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, old, new, says):
    assert FILE.count(old) == 1
    (tmp_path / "a.bvh").write_text(FILE.replace(old, new))
    with pytest.raises(FileError, match=says):
        read_bvh(tmp_path / "a.bvh")


@pytest.mark.slow
def test_a_thousand_mutated_files(tmp_path):
    (tmp_path / "a.bvh").write_text(FILE)
    folder = tmp_path / "mutated"
    folder.mkdir()
    read = lambda path: read_bvh(path).clips[0].world_from_bone
    assert read_mutated(tmp_path / "a.bvh", folder, read, 1000, seed=15) > 300


def test_deep_hierarchies_are_no_problem(tmp_path):
    depth = 1000
    joints = "".join(f"JOINT j{i} {{ OFFSET 0 1 0\nCHANNELS 1 Zrotation\n" for i in range(depth))
    text = f"ROOT r {{ OFFSET 0 0 0\nCHANNELS 1 Zrotation\n{joints}{'}' * (depth + 1)}\nMOTION\n"
    text += f"Frames: 1\nFrame Time: 0.04\n{' '.join(['0'] * (depth + 1))}\n"
    (tmp_path / "a.bvh").write_text(text)
    skeleton = read_bvh(tmp_path / "a.bvh").skeleton
    assert skeleton.bone_count == depth + 1
