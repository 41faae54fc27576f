import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import Deformer, Skin
from understudy.geometry.transforms import bounded_inverse
from understudy.methods.skin_fitting.displacements import rest_displacements


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


def test_a_flattened_bone_keeps_displacements_finite():
    flat = np.eye(3, 4)[None].copy()
    flat[0, 2, 2] = 0.0
    inverse = bounded_inverse(flat)
    assert np.isfinite(inverse).all()
    assert np.abs(inverse).max() <= 1001
    np.testing.assert_allclose(bounded_inverse(np.eye(3, 4)[None]), np.eye(3, 4)[None])
