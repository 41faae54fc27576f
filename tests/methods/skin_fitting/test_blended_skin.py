from dataclasses import replace

import numpy as np
from builders import chain_skeleton, grid_mesh

from understudy import Poses
from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.skin_fitting.blended_skin import blended_skin, soft_membership


def test_shares_sum_to_one_and_fade_from_ring_to_ring():
    mesh = grid_mesh(20, 3)
    labels = np.repeat([0, 1], 30)
    shares = soft_membership(mesh, labels, rings=2).toarray()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares >= 0).all()
    along = shares.reshape(20, 3, 2)[:, 1, 0]
    assert (along[:7] == 1).all()
    assert (along[13:] == 0).all()
    assert (np.diff(along) <= 1e-12).all()
    assert np.abs(np.diff(along)).max() < 0.5  # no jump from one group to the other


def test_no_rings_gives_the_labels_back_and_unlearned_vertices_stay_out():
    mesh = grid_mesh(4, 2)
    labels = np.array([0, 0, 1, 1, -1, -1, 1, 1])
    hard = soft_membership(mesh, labels, rings=0).toarray()
    assert hard.argmax(axis=1)[labels >= 0].tolist() == labels[labels >= 0].tolist()
    soft = soft_membership(mesh, labels, rings=3).toarray()
    assert (soft[labels < 0] == 0).all()
    np.testing.assert_allclose(soft[labels >= 0].sum(axis=1), 1)


def test_a_blended_skin_is_convex_rigid_far_from_borders_and_never_collapses():
    mesh, skeleton = grid_mesh(20, 3), chain_skeleton(2)
    bones = np.repeat([0, 1], 30)
    world = np.tile(skeleton.world_from_bone, (4, 1, 1, 1))
    poses = Poses(mesh, np.tile(mesh.vertices, (4, 1, 1)), skeleton, world)
    skin = blended_skin(poses, bones, rings=3)
    np.testing.assert_allclose(skin.weight.sum(axis=1), 1, atol=1e-6)
    assert (skin.weight >= 0).all()
    assert (skin.weight[:12, 0] == 1).all()
    assert skin.bone_index[:12, 0].tolist() == [0] * 12
    assert (skin.weight[27:33, 0] < 1).all()
    folded = world.copy()
    folded[2, 1, :, :3] = (
        rotation_from_axis_angle(np.array([0.0, 0.0, np.pi])) @ folded[2, 1, :, :3]
    )
    rigid = blended_skin(replace(poses, world_from_bone=folded), bones, rings=3)
    nearly_even = skin.weight[:, 0] < 0.7
    assert nearly_even.any()
    assert (
        rigid.weight[nearly_even, 0] == 1
    ).all()  # half of a half turn has no inverse: those vertices keep their bone
    assert (rigid.bone_index[nearly_even, 0] == bones[nearly_even]).all()
    assert blended_skin(poses, bones, rings=0).influences == 1
