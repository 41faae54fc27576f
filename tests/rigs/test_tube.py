"""The tube: small, exact at rest, rigid at its base, and not expressible by linear skinning."""

import numpy as np
import pytest

from understudy.rigs import Rig, animate, load_rig
from understudy.system.errors import InputError


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


def test_is_a_rig(tube):
    assert isinstance(tube, Rig)
    assert tube.mesh.vertex_count == 104
    assert tube.skeleton.bone_count == 3
    assert tube.mesh.corner_uvs.shape == (4 * 96, 2)


def test_rest_controls_give_rest(tube):
    poses = tube.evaluate(tube.controls.rest[None])
    np.testing.assert_allclose(poses.vertices[0], tube.mesh.vertices, atol=1e-6)
    np.testing.assert_allclose(poses.world_from_bone[0], tube.skeleton.world_from_bone, atol=1e-12)


def test_faces_point_outward(tube):
    corner = tube.mesh.vertices[tube.mesh.polygon_vertices.reshape(-1, 4)]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 3] - corner[:, 0])
    outward = corner.mean(axis=1) * [1, 0, 1]
    assert (np.sum(normal * outward, axis=1) > 0).all()


def test_animations(tube):
    spec = tube.controls
    wave, rate = tube.animation("wave")
    whip, _ = tube.animation("whip")
    assert rate == 30.0
    assert wave.shape == (60, 5)
    assert (wave >= spec.low).all()
    assert (wave <= spec.high).all()
    assert ((whip < spec.low) | (whip > spec.high)).any()
    assert (whip >= spec.limit_low).all()
    assert (whip <= spec.limit_high).all()
    poses = animate(tube, "wave")
    assert poses.frame_rate == 30.0
    assert len(np.unique(poses.vertices.reshape(60, -1), axis=0)) == 60


def test_stretch_lengthens_and_thins(tube):
    values = np.tile(tube.controls.rest, (2, 1))
    values[1, 3] = 1.2
    rest, long = tube.evaluate(values).vertices
    assert long[:, 1].max() - rest[:, 1].max() == pytest.approx(0.2 * 6.5, abs=1e-4)
    assert np.linalg.norm(long[-1, [0, 2]]) == pytest.approx(1.2**-0.5, abs=1e-4)


def test_numeric_control_moves_the_mesh_but_no_bone(tube):
    values = np.tile(tube.controls.rest, (2, 1))
    values[1, 4] = 1.0
    poses = tube.evaluate(values)
    np.testing.assert_array_equal(poses.world_from_bone[0], poses.world_from_bone[1])
    assert np.abs(poses.vertices[1] - poses.vertices[0]).max() > 0.2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.zeros((1, 4)), "expected shape"),
        (np.full((1, 5), np.nan), "NaN"),
        (np.array([[0, 500, 0, 1, 0.0]]), "bend_2"),
    ],
)
def test_wrong_input(tube, wrong, words):
    with pytest.raises(InputError, match=words):
        tube.evaluate(wrong)


def test_unknown_animation(tube):
    with pytest.raises(InputError, match="did you mean 'wave'"):
        tube.animation("wav")
