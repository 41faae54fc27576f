"""Poses that stretch the mesh are drawn nearer to rest, and the store says so."""

import numpy as np
import pytest

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.io.pose_store import open_poses
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.rigs.stretch import Edges


class Rubber:
    """A strip that its control pulls to 1 + `pull` times its length."""

    name = "rubber"
    skeleton = None

    def __init__(self):
        corners = [[x, y, 0] for x in range(6) for y in range(2)]
        faces = [[2 * k, 2 * k + 2, 2 * k + 3, 2 * k + 1] for k in range(5)]
        self.mesh = Mesh.from_faces(np.array(corners, np.float32), faces, unit="cm")
        self.controls = ControlSpec(("pull", "lift"), [0.0, -1.0], [1.0, 1.0])

    def evaluate(self, values):
        values = self.controls.check(values)
        vertices = np.tile(self.mesh.vertices, (len(values), 1, 1)).astype(float)
        vertices[:, :, 0] *= 1 + values[:, :1]
        vertices[:, :, 2] += values[:, 1:]
        return Poses(self.mesh, vertices, control_spec=self.controls, controls=values)

    animation_names = ("tug",)

    def animation(self, name):
        return np.array([[0.0, 0.0], [0.7, 0.0]]), 24.0


def test_the_share_of_stretched_edges_is_counted():
    rig = Rubber()
    edges = Edges.of(rig.mesh)
    poses = rig.evaluate(np.array([[0.0, 1.0], [0.49, 0.0], [0.51, 0.0]]))
    # 10 edges lie along the strip, 6 across.
    assert edges.stretched(poses.read_poses(0, 3)).tolist() == [0, 0, 10 / 16]
    point = Mesh(np.zeros((1, 3)), np.zeros(0, int), np.zeros(0, int))
    assert Edges.of(point).stretched(np.zeros((2, 1, 3))).tolist() == [0, 0]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_stretched_pose_is_drawn_nearer_to_rest(tmp_path, processes):
    plan = SamplePlan(100, stretch=0.01)
    sample_poses(Rubber, plan, tmp_path / "some.zarr", processes, block=40)
    poses, free = open_poses(tmp_path / "some.zarr"), SamplePlan(100).values(Rubber())
    far = free[:, 0] > 0.5
    assert 20 < far.sum() < 80
    assert poses.notes == (
        f"{far.sum()} of 100 poses stretched more than 1 % of the edges by half, and were drawn "
        "nearer to rest",
    )
    assert poses.controls[:, 0].max() <= 0.5 + 1e-6
    np.testing.assert_allclose(poses.controls[~far], free[~far], atol=1e-6)
    ratio = poses.controls[far] / free[far]
    np.testing.assert_allclose(ratio[:, 0], ratio[:, 1], rtol=1e-5)
    # The stored controls are those of the stored vertices.
    again = Rubber().evaluate(poses.controls).read_poses(0, 100)
    np.testing.assert_allclose(poses.read_poses(0, 100), again, atol=1e-5)


def test_what_the_animations_show_is_kept(tmp_path):
    plan = SamplePlan(60, stretch=0.01, animation_share=0.5)
    poses = sample_poses(Rubber, plan, tmp_path / "some.zarr", 1)
    assert poses.notes == ()
    assert poses.controls[:, 0].max() > 0.7


def test_without_a_limit_every_pose_is_where_it_was_drawn(tmp_path):
    poses = sample_poses(Rubber, SamplePlan(60), tmp_path / "some.zarr", 1)
    np.testing.assert_array_equal(poses.controls, SamplePlan(60).values(Rubber()))
