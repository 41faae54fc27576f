"""Motion from other files: bones matched by name, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion
from bvh_writer import write_bvh

from understudy import Clip, Deformer, InputError, Mesh, Skeleton, Skin
from understudy.export.clips import (
    distinct_clips,
    matched_bones,
    motion_clips,
    own_clips,
    poses_clips,
)
from understudy.geometry.transforms import compose


def shuffled(skeleton, order):
    """The same bones without parents, in another order."""
    names = tuple(skeleton.names[b] for b in order)
    return Skeleton(names, np.full(len(order), -1), skeleton.world_from_bone[order])


def test_bones_are_matched_by_name():
    own = chain_skeleton(4)
    motion = random_motion(own, 5)
    order = [2, 0, 3, 1]
    found = matched_bones(own, shuffled(own, order), motion[:, order], "walk.npz")
    np.testing.assert_allclose(found, motion)


def test_a_missing_bone_keeps_its_place_in_its_parent():
    own = chain_skeleton(3)
    motion = random_motion(own, 5)
    found = matched_bones(own, shuffled(own, [0, 1]), motion[:, :2], "walk.npz")
    np.testing.assert_allclose(found[:, :2], motion[:, :2])
    since_rest = compose(found, own.bone_from_world)
    np.testing.assert_allclose(since_rest[:, 2], since_rest[:, 1], atol=1e-12)


def test_other_bone_axes_at_the_same_joints_are_carried_over():
    own = chain_skeleton(3)
    motion = random_motion(own, 5)
    turn = np.concatenate([np.diag([1.0, -1, -1]), np.zeros((3, 1))], axis=1)
    other = Skeleton(own.names, own.parents, compose(own.world_from_bone, turn))
    found = matched_bones(own, other, compose(motion, turn), "walk.npz")
    np.testing.assert_allclose(found, motion, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: Skeleton(("x", "y", "z"), s.parents, s.world_from_bone), "no bone of this"),
        (lambda s: Skeleton(("x", "bone1", "bone2"), s.parents, s.world_from_bone), "root bone"),
        (lambda s: Skeleton(s.names, s.parents, 2 * s.world_from_bone), "'bone2' is 2 away"),
    ],
)
def test_motion_of_another_character_is_refused(change, message):
    own = chain_skeleton(3)
    with pytest.raises(InputError, match=message):
        matched_bones(own, change(own), random_motion(own, 2), "walk.npz")


def test_controls_that_a_file_lacks_stay_at_rest(tube, range_poses):
    bare = replace(range_poses, control_spec=None, controls=None)
    clip = poses_clips(tube, bare, "walk.npz")[0]
    np.testing.assert_array_equal(clip.controls, np.tile(tube.control_spec.rest, (60, 1)))
    assert poses_clips(tube, range_poses, "walk.npz")[0].controls.std() > 0


def test_motion_capture_drives_a_character(tmp_path):
    own = chain_skeleton(3)
    rest = own.world_from_bone.copy()
    rest[:, :, :3] = np.eye(3)  # as the joints of a .bvh are at rest
    own = Skeleton(own.names, own.parents, rest)
    motion = random_motion(own, 10, stretch=0.0)
    write_bvh(own, Clip("walk", motion, 25.0), tmp_path / "walk.bvh")
    mesh = grid_mesh()
    deformer = Deformer(mesh, own, skin=Skin.rigid(np.zeros(mesh.vertex_count, int)))
    (clip,) = motion_clips(deformer, tmp_path / "walk.bvh")
    np.testing.assert_allclose(clip.world_from_bone, motion, atol=1e-6)
    assert clip.frame_rate == pytest.approx(25.0)
    assert clip.original is None


def test_poses_of_another_mesh_are_no_original(tube, range_poses):
    turned = range_poses.mesh.polygon_vertices.reshape(-1, 4)[:, ::-1]
    other = replace(range_poses, mesh=Mesh.from_faces(range_poses.mesh.vertices, turned))
    assert poses_clips(tube, range_poses, "walk.npz")[0].original is not None
    assert poses_clips(tube, other, "walk.npz")[0].original is None


def test_poses_without_bones_are_refused(tube, strip):
    with pytest.raises(InputError, match=r"walk\.npz has no bones"):
        poses_clips(tube, strip, "walk.npz")


def test_clips_of_the_same_name_are_numbered(affine):
    twice = distinct_clips([*own_clips(affine), *own_clips(affine)])
    assert [clip.name for clip in twice] == ["strip", "strip_2"]
