"""What the scene that Blender writes is told about bones."""

import numpy as np

from understudy.core.character import Character
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.io.blender.scene import _bone_lengths


def test_bones_reach_their_children_and_ends_stay_inside_the_mesh():
    """A bar from y = 0 to 4: the first bone reaches the second, which ends among its vertices."""
    heights = np.linspace(0, 4, 9)
    vertices = np.array([[x, y, 0] for y in heights for x in (0.0, 0.1)])
    mesh = Mesh.from_faces(vertices, [[i, i + 1, i + 2] for i in range(16)])
    bones = np.tile(np.eye(3, 4), (2, 1, 1))
    bones[1, 1, 3] = 3.0
    upper = (vertices[:, 1] >= 3.0).astype(np.int32)[:, None]
    skin = Skin(upper, np.ones((18, 1)))
    made = Character(mesh, Skeleton(("root", "tip"), np.array([-1, 0]), bones), skin)
    np.testing.assert_allclose(_bone_lengths(made), [3.0, 0.5])
    turned = bones.copy()
    turned[1, :, :3] = np.diag([1.0, -1, -1])  # the tip points away from its vertices
    away = Character(mesh, Skeleton(("root", "tip"), np.array([-1, 0]), turned), skin)
    np.testing.assert_allclose(_bone_lengths(away), [3.0, 0.2])
