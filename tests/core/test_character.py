"""`Character`: evaluation against the skinning reference, and its checks."""

import numpy as np
import pytest

from understudy import BlendShape, Character, CharacterClip, InputError, Mesh, Skeleton, Skin
from understudy.geometry.transforms import apply, compose, inverse

RNG = np.random.default_rng(0)


def rotations(count):
    """Random rigid transforms (count,3,4)."""
    q, _ = np.linalg.qr(RNG.normal(size=(count, 3, 3)))
    q[np.linalg.det(q) < 0, 0] *= -1
    return np.concatenate([q, RNG.normal(size=(count, 3, 1))], axis=2)


def character(blend="linear", frames=5):
    """Six vertices, two bones, two blend shapes, one clip."""
    mesh = Mesh.from_faces(RNG.normal(size=(6, 3)), [[0, 1, 2], [3, 4, 5]])
    weight = RNG.random((6, 2)).astype(np.float32)
    skin = Skin(np.tile([0, 1], (6, 1)), weight / weight.sum(axis=1, keepdims=True), blend)
    shapes = (
        BlendShape("smile", [1, 4], RNG.normal(size=(2, 3))),
        BlendShape("frown", [0, 1, 5], RNG.normal(size=(3, 3))),
    )
    bones = rotations(2 * frames).reshape(frames, 2, 3, 4)
    clip = CharacterClip("walk", bones, RNG.random((frames, 2)), 24.0, start_frame=7)
    return Character(mesh, Skeleton(("a", "b"), [-1, 0], rotations(2)), skin, shapes, (clip,))


def test_evaluation_is_the_equation_written_out():
    made = character(frames=70)  # more than one block
    clip = made.clips[0]
    expected = np.zeros((70, 6, 3))
    for t in range(70):
        points = made.mesh.vertices.astype(np.float64)
        for shape, weight in zip(made.shapes, clip.shape_weights[t]):
            points[shape.vertices] += weight * shape.offsets
        for bone in range(2):
            bind = inverse(made.skeleton.world_from_bone[bone])
            moved = apply(compose(clip.world_from_bone[t, bone], bind), points)
            expected[t] += made.skin.weight[:, bone, None] * moved
    np.testing.assert_allclose(made.evaluate_clip(clip), expected, atol=1e-5)


@pytest.mark.parametrize("blend", ["linear", "dual_quaternion"])
def test_bones_in_the_bind_pose_give_the_rest_shape(blend):
    made = character(blend)
    still = made.evaluate(made.skeleton.world_from_bone[None], np.zeros((1, 2)))
    np.testing.assert_allclose(still[0], made.mesh.vertices, atol=1e-5)


def test_poses_carry_bones_shape_weights_and_frames():
    made = character()
    poses = made.poses()
    assert poses.control_spec.names == ("smile", "frown")
    assert poses.spans[0].start_frame == 7
    assert poses.frame_rate == 24.0
    np.testing.assert_allclose(poses.controls, made.clips[0].shape_weights)
    np.testing.assert_array_equal(poses.vertices, made.evaluate_clip(made.clips[0]))


def test_a_point_cache_replaces_skin_and_shapes():
    made = character()
    clip = made.clips[0]
    cached = CharacterClip(
        "cached", clip.world_from_bone, clip.shape_weights, vertices=RNG.normal(size=(5, 6, 3))
    )
    np.testing.assert_array_equal(made.with_clips([cached]).poses().vertices, cached.vertices)


def test_a_character_without_clips_is_its_rest_pose():
    poses = character().with_clips([]).poses()
    assert poses.pose_count == 1
    np.testing.assert_allclose(poses.vertices[0], poses.mesh.vertices, atol=1e-5)


def test_a_dense_shape_keeps_the_vertices_that_move():
    offsets = np.zeros((4, 3))
    offsets[2, 1] = 0.5
    assert BlendShape.from_dense("jaw", offsets).vertices.tolist() == [2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: Character(c.mesh, c.skeleton), "belong together"),
        (lambda c: BlendShape("x", [2, 1], np.zeros((2, 3))), "increasing"),
        (lambda c: BlendShape("x", [1], np.full((1, 3), np.nan)), "offsets of blend shape 'x'"),
        (lambda c: c.with_clips([c.clips[0], c.clips[0]]), "duplicate name 'walk'"),
        (lambda c: c.with_clips([CharacterClip("x", np.zeros((1, 3, 3, 4)), [[0, 0]])]), "bones"),
        (lambda c: c.clip("run"), "walk"),
        (
            lambda c: Character(c.mesh, shapes=[BlendShape("x", [6], np.zeros((1, 3)))]),
            "blend shape 'x'",
        ),
    ],
)
def test_what_does_not_fit_together_is_named(change, message):
    with pytest.raises(InputError, match=message):
        change(character())
