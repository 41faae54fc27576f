"""The built-in face: what an animator and a method may rely on."""

from copy import copy
from types import SimpleNamespace

import numpy as np
import pytest

from understudy import InputError
from understudy.rigs import animate, load_rig
from understudy.rigs.base import Rig
from understudy.rigs.sampling import gaussian


@pytest.fixture(scope="module")
def face():
    return load_rig("face")


def pose(face, **controls):
    """Control values at rest but for those named; a name without a side sets both."""
    values = face.controls.rest.copy()
    for name, value in controls.items():
        for control in (name,) if name in face.controls.names else (f"{name}_L", f"{name}_R"):
            values[face.controls.names.index(control)] = value
    return values


def vertices(face, **controls):
    return face.evaluate(pose(face, **controls)[None]).vertices[0]


def test_its_size_is_that_of_a_production_face(face):
    assert isinstance(face, Rig)
    assert face.mesh.vertex_count >= 4000
    assert face.controls.numeric.sum() >= 60
    assert face.skeleton.bone_count >= 20
    assert 20 < face.mesh.height < 30
    assert set(face.mesh.parts) == {
        "skin",
        "eye_L",
        "eye_R",
        "teeth_upper",
        "teeth_lower",
        "tongue",
    }
    assert sum(len(part) for part in face.mesh.parts.values()) == face.mesh.vertex_count


def test_rest_controls_give_the_rest_mesh(face):
    np.testing.assert_allclose(vertices(face), face.mesh.vertices, atol=1e-4)


def test_every_control_moves_something_and_every_joint_moves(face):
    values = np.tile(face.controls.rest, (face.controls.count + 1, 1))
    for c in range(face.controls.count):
        values[c + 1, c] = face.controls.high[c]
        if face.controls.names[c].startswith(("sticky", "mouth_close")):
            values[c + 1, face.controls.names.index("jaw_open")] = 5.0  # these act on an open mouth
    posed = face.evaluate(values)
    open_mouth = vertices(face, jaw_open=5.0)
    for c, name in enumerate(face.controls.names):
        start = open_mouth if name.startswith(("sticky", "mouth_close")) else posed.vertices[0]
        assert np.linalg.norm(posed.vertices[c + 1] - start, axis=1).max() > 0.03, name
    moved = np.abs(posed.world_from_bone - posed.world_from_bone[0]).max(axis=(0, 2, 3))
    assert [name for name, size in zip(face.skeleton.names, moved) if size < 1e-3] == ["neck"]


def test_left_and_right_mirror_each_other(face):
    left, right = (
        vertices(
            face,
            **{f"{name}_{side}": 0.8 for name in ("corner_up", "brow_outer", "lid_upper", "sneer")},
        )
        for side in "LR"
    )
    moved = lambda x: np.linalg.norm(x - face.mesh.vertices, axis=1)
    assert abs(moved(left).mean() - moved(right).mean()) < 0.05 * moved(left).mean()


def test_the_head_carries_everything_rigidly(face):
    still, turned = (
        face.evaluate(pose(face, jaw_open=12, corner_up=0.7, eye_up=8, head_turn=turn)[None])
        for turn in (0.0, 20.0)
    )
    skull = face.mesh.parts["teeth_upper"]
    head = face.skeleton.names.index("head")
    local = [
        (p.vertices[0, skull] - p.world_from_bone[0, head, :, 3])
        @ p.world_from_bone[0, head, :, :3]
        for p in (still, turned)
    ]
    np.testing.assert_allclose(local[0], local[1], atol=2e-4)


def test_the_chin_runs_along_an_arc_whose_centre_slides(face):
    opened = face.evaluate(
        np.stack([pose(face, jaw_open=a) for a in (0, 8, 16, 24)])
    ).world_from_bone[:, face.skeleton.names.index("jaw"), :, 3]
    forward = opened[:, 2] - opened[0, 2]
    assert (np.diff(forward) > 0).all()
    assert np.diff(forward)[0] > 1.5 * np.diff(forward)[2]  # most of the way is made early


def test_lids_slide_over_the_ball_instead_of_through_it(face):
    at, centre = face._lids._eyes[0][0][:2]
    edge = at[
        face._weights[at][:, face.skeleton.names.index("lid_upper_L")].toarray().ravel() > 0.9
    ]
    away = lambda x: np.linalg.norm(x[edge] - centre, axis=1)
    ball = np.median(np.linalg.norm(face.mesh.vertices[face.mesh.parts["eye_L"]] - centre, axis=1))
    half, closed = vertices(face, lid_upper=0.5), vertices(face, lid_upper=1.0)
    assert np.linalg.norm(closed[edge] - face.mesh.vertices[edge], axis=1).max() > 0.6
    assert min(away(half).min(), away(closed).min()) > ball + 0.02
    straight = face.mesh.vertices + 0.5 * (closed - face.mesh.vertices)
    assert (away(half) - away(straight)).mean() > 0.01  # the path bends around the ball


def test_lips_stick_at_the_corners_and_let_go_in_the_middle(face):
    free, stuck = (
        face._lips.gaps(vertices(face, jaw_open=9, lip_lower_drop=0.3, sticky=s)[:, :, None])[:, 0]
        for s in (0.0, 1.0)
    )
    side = np.abs(face.mesh.vertices[face._lips._upper, 0])
    open_pairs = free > 0.3
    assert open_pairs.mean() > 0.5
    corner, middle = open_pairs & (side > 0.7 * side.max()), side < 0.3 * side.max()
    assert (stuck <= free + 1e-3)[open_pairs].all()
    assert (stuck[corner] / free[corner]).mean() < 0.8
    assert (stuck[middle] / free[middle]).mean() > (stuck[corner] / free[corner]).mean() + 0.1


def test_the_lower_lip_does_not_pass_through_the_upper_one(face):
    pressed = vertices(face, shrug_lower=1.0, lip_lower_drop=-1.0, lip_upper_raise=-1.0)
    gap = pressed[face._lips._upper, 1] - pressed[face._lips._lower, 1]
    rest = face.mesh.vertices[face._lips._upper, 1] - face.mesh.vertices[face._lips._lower, 1]
    assert (gap - rest).min() > -0.35


def test_detail_never_flips(face):
    """Delta mush follows the pose at a bounded rate where lids and lips fold onto themselves.

    Detail rotated with tangents of the surface jumps there.
    """
    added = []
    delta_mush = face._delta_mush.apply
    plain = copy(face)
    plain._delta_mush = SimpleNamespace(
        apply=lambda shaped, skinned, rotation: (
            added.append(delta_mush(shaped, skinned, rotation) - skinned) or skinned
        )
    )
    here, there = (gaussian(face.controls, 60, seed=seed) for seed in (1, 2))
    small = 1e-3
    plain.evaluate(np.concatenate([here, here + small * (there - here)]))
    before, after = np.split(np.concatenate(added, axis=2), 2, axis=2)
    # cm on the whole way from one random pose to another; with tangents it is 13.
    assert np.linalg.norm(after - before, axis=1).max() / small < 3


def test_it_is_far_from_linear(face):
    values = gaussian(face.controls, 150, seed=3)
    moved = face.evaluate(values).vertices - face.mesh.vertices
    half = face.evaluate(0.5 * values).vertices - face.mesh.vertices
    departure = np.linalg.norm(moved - 2 * half, axis=2)
    assert departure.max() > 0.5
    assert np.percentile(departure, 99) > 0.2


def test_combinations_are_not_the_sum_of_their_parts(face):
    both = vertices(face, corner_up=0.9, pucker=0.9)
    summed = vertices(face, corner_up=0.9) + vertices(face, pucker=0.9) - face.mesh.vertices
    assert np.linalg.norm(both - summed, axis=1).max() > 0.2


def test_an_offset_of_the_rest_vertices_finds_the_skinning_of_the_rig(face):
    values = pose(face, jaw_open=15, head_turn=10)[None]
    plain = face.evaluate(values)
    shifted = face.evaluate_offset(values, np.tile([0.01, 0.0, 0.0], (face.mesh.vertex_count, 1)))
    moved = (shifted.vertices[0] - plain.vertices[0]) / 0.01
    jaw = face.mesh.parts["teeth_lower"]
    turn = plain.world_from_bone[0, face.skeleton.names.index("jaw"), :, 0]
    np.testing.assert_allclose(moved[jaw], np.tile(turn, (len(jaw), 1)), atol=0.02)
    with pytest.raises(InputError, match="rest_offset"):
        face.evaluate_offset(values, np.zeros((3, 3)))


@pytest.mark.parametrize("name", ["speech", "expressions"])
def test_animations_are_inside_the_training_ranges_and_smooth(face, name):
    values, rate = face.animation(name)
    assert rate == 30
    assert len(values) >= 300
    assert (values >= face.controls.low - 1e-9).all()
    assert (values <= face.controls.high + 1e-9).all()
    posed = animate(face, name)
    assert np.isfinite(posed.vertices).all()
    assert (
        np.linalg.norm(np.diff(posed.vertices, axis=0), axis=2).max() < 1.6
    )  # cm a frame: a blink, not a jump
    assert np.linalg.norm(posed.vertices - face.mesh.vertices, axis=2).max() > 2


def test_poses_do_not_depend_on_their_batch(face):
    values = gaussian(face.controls, 20, seed=5)
    together = face.evaluate(values).vertices
    np.testing.assert_allclose(face.evaluate(values[17:18]).vertices[0], together[17], atol=1e-4)


def test_values_outside_the_limits_are_named(face):
    with pytest.raises(InputError, match="'jaw_open' is 90"):
        face.evaluate(pose(face, jaw_open=90.0)[None])
