"""Mirror images of recorded poses: twins are found where a rig is symmetric, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest
from builders import symmetric_mesh

from understudy import ControlSpec, Mesh, Poses
from understudy.methods.correctives.mirror import find_mirror, mirrored, vertex_twins

NAMES = ("in.L", "in.R", "side", "idle")


def recorded(count=200, seed=0, **options):
    return played(np.random.default_rng(seed).uniform(-1, 1, (count, 4)), **options)


def played(values, strength=1.0, axis=0):
    """A sheet, the same on both sides of the plane across `axis`: each half bent by a control of
    its own, both shifted by a third.

    strength: of the right half's bend
    """
    mesh = symmetric_mesh()
    flat = mesh.vertices
    moved = np.zeros((len(values), mesh.vertex_count, 3))
    for side, column, size in ((-1, 0, 1.0), (1, 1, strength)):
        near = np.exp(-2 * (flat[:, 0] / np.ptp(flat[:, 0]) * 2 - side) ** 2)
        drive = values[:, column, None] + 0.8 * np.sin(
            3 * values[:, column, None] * (1 + side * values[:, 2, None])
        )
        moved[..., 2] += size * drive * near
        moved[..., 0] += 0.2 * size * side * drive**2 * near
    moved[..., 0] += 0.4 * values[:, 2, None]
    order = np.roll(np.arange(3), axis)
    mesh = replace(mesh, vertices=flat[:, order].astype(np.float32))
    return Poses(
        mesh,
        mesh.vertices + moved[..., order],
        control_spec=ControlSpec(NAMES, [-1] * 4, [1] * 4),
        controls=values,
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_twins_of_vertices_and_controls_are_found(axis):
    poses = recorded(axis=axis)
    mirror = find_mirror(poses)
    assert mirror.axis == axis
    assert mirror.control.tolist() == [1, 0, 2, 3]
    assert mirror.sign.tolist() == [1, 1, -1, 1]
    both = mirror.with_images(poses)
    assert both.pose_count == 2 * poses.pose_count
    np.testing.assert_array_equal(both.vertices[:200], poses.vertices)
    again = mirror.with_images(both)
    np.testing.assert_allclose(again.vertices[600:], poses.vertices, atol=1e-5)
    np.testing.assert_allclose(again.controls[600:], poses.controls)


def test_an_image_is_what_the_rig_makes_of_the_mirrored_controls():
    mirror, poses = find_mirror(recorded()), recorded(30, seed=1)
    values = poses.controls[:, [1, 0, 2, 3]] * [1, 1, -1, 1]
    np.testing.assert_allclose(mirror.controls(poses.controls), values)
    np.testing.assert_allclose(
        mirror.with_images(poses).vertices[30:], played(values).vertices, atol=1e-5
    )


class Stored:
    """Vertices that are read when they are asked for."""

    def __init__(self, array):
        self._array, self.shape = array, array.shape

    def read_poses(self, start, stop):
        return self._array[start:stop]

    def read(self, start, stop, vertices):
        return self._array[start:stop, vertices]


def test_poses_on_disk_have_the_same_images():
    poses = recorded()
    stored = replace(poses, vertices=Stored(poses.vertices))
    np.testing.assert_array_equal(
        find_mirror(stored).with_images(stored).vertices,
        find_mirror(poses).with_images(poses).vertices,
    )


@pytest.mark.parametrize("strength", [0.5, -1.0])
def test_a_lopsided_rig_has_no_mirror(strength):
    assert find_mirror(recorded(strength=strength)) is None


def test_a_lopsided_mesh_has_no_mirror():
    poses = recorded()
    points = poses.mesh.vertices.copy()
    points[0] += 0.1
    assert find_mirror(replace(poses, mesh=replace(poses.mesh, vertices=points))) is None


def test_few_poses_still_controls_and_exact_maps_have_no_mirror():
    poses = recorded()
    assert find_mirror(poses.take(np.arange(6))) is None
    assert find_mirror(replace(poses, controls=np.zeros_like(poses.controls))) is None
    mirror = find_mirror(poses)
    shapes = np.random.default_rng(0).normal(size=(4, poses.vertex_count, 3))
    shapes[1:] = mirrored(shapes[:3], 0, mirror.twin)
    shapes[2] = mirrored(shapes[3:], 0, mirror.twin)[0] - shapes[3]  # turns its sign
    shapes[3] = 0
    linear = replace(
        poses,
        vertices=(poses.mesh.vertices + np.tensordot(poses.controls, shapes, 1)).astype(np.float32),
    )
    assert find_mirror(linear) is None  # symmetric, and there is nothing to gain
    bent = replace(linear, vertices=linear.vertices + poses.vertices - poses.mesh.vertices)
    assert find_mirror(bent) is not None


def test_a_mesh_in_the_mirror_itself_has_no_twins():
    flat = Mesh.from_faces([[0, 0, 0], [0, 1, 0], [0, 0, 2]], [[0, 1, 2]])
    assert vertex_twins(flat, 0) is None
