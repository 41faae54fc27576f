from dataclasses import replace

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import Deformer, Skin
from understudy.geometry.skinning import linear_blend
from understudy.geometry.transforms import apply, bounded_inverse, compose, damped_inverse, inverse
from understudy.methods import method_type
from understudy.methods.base import config_from_text
from understudy.methods.lbs import LbsConfig
from understudy.methods.skin_fitting.displacements import displace, rest_displacements
from understudy.rigs.tube import TubeRig


@pytest.mark.parametrize("influences", [1, 2])
def test_skinning_the_displaced_rest_gives_the_targets_back(influences):
    mesh, skeleton = grid_mesh(), chain_skeleton()
    rng = np.random.default_rng(0)
    weight = rng.random((mesh.vertex_count, influences)) + 0.1
    skin = Skin(rng.integers(0, 3, weight.shape), weight / weight.sum(1, keepdims=True))
    world = random_motion(skeleton, 6)
    world[..., 3] += [1e4, 0, 0]  # far away, nothing is lost
    targets = (
        Deformer(mesh, skeleton, skin=skin).deform(world)
        + rng.normal(size=(6, mesh.vertex_count, 3)).astype(np.float32) * 0.1
    )
    chosen = np.array([3, 0, 17, 20])
    d = rest_displacements(world, skeleton, skin, mesh.vertices, chosen, targets[:, chosen])
    full = Deformer(mesh, skeleton, skin=skin)
    for t in range(6):
        moved = mesh.vertices.copy()
        moved[chosen] += d[t]
        again = Deformer(
            type(mesh)(moved, mesh.polygon_sizes, mesh.polygon_vertices), skeleton, skin=full.skin
        ).deform(world[t])
        np.testing.assert_allclose(
            again[chosen], targets[t, chosen], atol=2e-3
        )  # float32 at 1e4 has steps of 1e-3


def bent(scales):
    """Poses of the tube under random controls; the world's z axis is scaled, pose by pose."""
    rig = TubeRig()
    spec = rig.controls
    drawn = np.random.default_rng(0).random((len(scales), spec.count))
    poses = rig.evaluate(spec.low + drawn * (spec.high - spec.low))
    scale = np.ones((len(scales), 3, 1))
    scale[:, 2, 0] = scales
    return replace(
        poses,
        world_from_bone=poses.world_from_bone * scale[:, None],
        vertices=(poses.vertices * scale[:, None, :, 0]).astype(np.float32),
    )


def relative_error(deformer, poses):
    wrong = deformer.deform_reference(poses.world_from_bone, poses.controls) - poses.vertices
    size = poses.vertices - np.asarray(poses.vertices).mean(axis=0)
    return np.linalg.norm(wrong) / np.linalg.norm(size)


@pytest.mark.parametrize("scale", [0.0, 1e-4, 1e-3, 4e-3, 1e-2])
@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("influences", [1, 4])
def test_what_flattened_bones_cannot_move_is_not_displaced(scale, share, influences):
    scales = np.where(np.arange(30) < 30 * share, scale, 1.0)
    poses, solid = bent(scales), bent(np.ones(30))
    skin = method_type("lbs")(LbsConfig(influences=influences)).fit(solid).skin
    d, full = displace(poses, skin), displace(solid, skin)
    assert np.abs(d).max() < 1.5 * np.abs(full).max()
    matrices = compose(poses.world_from_bone, poses.skeleton.bone_from_world)
    again = linear_blend(matrices, skin.bone_index, skin.weight, poses.mesh.vertices + d)
    height = np.ptp(poses.mesh.vertices[:, 1])
    assert np.abs(again - poses.vertices).max() < 2e-3 * height


@pytest.mark.parametrize("name", ["fdda", "local", "differential", "pca_regression"])
def test_networks_on_a_flat_puppet_are_no_worse_than_its_skin(name):
    """A third of the poses is not flat, so the axis that is lost is not always the same."""
    poses = bent(np.where(np.arange(90) % 3, 0.0, 1.0))
    skin = relative_error(method_type("lbs")().fit(poses), poses)
    method = method_type(name)
    config = config_from_text(method.Config, method.traits.quick)
    assert relative_error(method(config).fit(poses), poses) < skin


def test_an_inverse_is_exact_but_for_axes_that_are_lost():
    rng = np.random.default_rng(0)
    solid = rng.normal(size=(200, 3, 4))
    solid[:, :, :3] += 3 * np.eye(3)
    points = rng.normal(size=(200, 3))
    back, lost = damped_inverse(solid)
    assert lost is None
    np.testing.assert_array_equal(back, inverse(solid))
    for scale in (1e-2, 1e-3, 1e-6, 0.0):
        flat = solid.copy()
        flat[:, :, 2] *= scale
        back, lost = damped_inverse(flat)
        assert np.abs(back).max() < 1e4
        again = apply(back, apply(flat, points))
        np.testing.assert_allclose(again, points - np.einsum("tij,tj->ti", lost, points), atol=1e-8)
        assert np.linalg.norm(lost, axis=(1, 2)).max() < 1 + 1e-9


def test_a_flattened_bone_keeps_displacements_finite():
    flat = np.eye(3, 4)[None].copy()
    flat[0, 2, 2] = 0.0
    inverse = bounded_inverse(flat)
    assert np.isfinite(inverse).all()
    assert np.abs(inverse).max() <= 1001
    np.testing.assert_allclose(bounded_inverse(np.eye(3, 4)[None]), np.eye(3, 4)[None])
