"""Mirror images of recorded clips of a body."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import Mesh, Poses, Skeleton
from understudy.core.poses import ClipSpan
from understudy.geometry.transforms import compose, inverse, rotation_from_axis_angle
from understudy.methods import config_from_text, method_type
from understudy.methods.body_mirror import find_body_mirror, held_out_errors, symmetry_of
from understudy.methods.corrected_skin.guard import clips_aside

FRAMES = 30


def body(asymmetric: bool = False, swap: bool = False):
    """A plate with a left and a right arm, whose muscles follow the arms, in four clips.

    asymmetric  the two arms have muscles of opposite sign
    swap        two of the clips move the left arm only, the others the right
    """
    side = np.linspace(-2, 2, 33)
    x, y = (part.reshape(-1) for part in np.meshgrid(side, np.linspace(-0.3, 0.3, 5)))
    corners = np.concatenate([np.arange(32) + 33 * row for row in range(4)])
    faces = np.stack([corners, corners + 1, corners + 34, corners + 33], axis=1)
    mesh = Mesh.from_faces(np.stack([x, y, 0 * x], axis=1), faces)
    heads = np.array([[0.0, 0, 0], [-1, 0, 0], [1, 0, 0]])
    # Axes of the two arms that are no mirror images of each other.
    turns = rotation_from_axis_angle(np.array([[0.0, 0, 0], [0.3, 0.2, 0.1], [0, 1.0, 0]]))
    rest = np.concatenate([turns, heads[:, :, None]], axis=2)
    skeleton = Skeleton(("root", "arm_R", "arm_L"), np.array([-1, 0, 0]), rest)
    random = np.random.default_rng(0)
    bends = np.cumsum(random.normal(size=(4 * FRAMES, 2)), axis=0) * 0.15
    bends = np.sin(bends + np.repeat(random.normal(size=(4, 2)), FRAMES, axis=0))
    if swap:
        clip = np.arange(4 * FRAMES) // FRAMES
        bends[clip % 2 == 0, 0] = 0
        bends[clip % 2 == 1, 1] = 0
    moved = np.tile(np.eye(3, 4), (len(bends), 3, 1, 1))
    # About y: a bend of one arm is the mirror image of the opposite bend of the other.
    for bone, bend in ((1, bends[:, 0]), (2, -bends[:, 1])):
        turn = rotation_from_axis_angle(bend[:, None] * np.array([0.0, 1, 0]))
        moved[:, bone, :, :3] = turn
        moved[:, bone, :, 3] = heads[bone] - turn @ heads[bone]
    weight = np.stack(
        [np.clip(1.5 - np.abs(x), 0, 1), np.clip(-x - 0.5, 0, 1), np.clip(x - 0.5, 0, 1)], axis=1
    )
    weight /= weight.sum(axis=1, keepdims=True)
    bulge = np.exp(-np.square((np.abs(x) - 1.2) / 0.2))
    sign = -1.0 if asymmetric else 1.0
    muscle = np.where(x < 0, bends[:, :1], sign * bends[:, 1:]) ** 2 * np.sign(
        np.where(x < 0, 1, sign)
    )
    shaped = np.repeat(mesh.vertices[None].astype(float), len(bends), axis=0)
    shaped[..., 2] += 0.3 * muscle * bulge
    skinned = np.einsum("vb,tbij,tvj->tvi", weight, moved[..., :3], shaped)
    skinned += np.einsum("vb,tbi->tvi", weight, moved[..., 3])
    spans = tuple(ClipSpan(f"clip_{k}", FRAMES, 30.0) for k in range(4))
    return Poses(
        mesh, skinned.astype(np.float32), skeleton, compose(moved, rest), spans=spans, name="body"
    )


def test_images_are_poses_of_the_same_body():
    """The image of an image is the pose; an image is what the mirrored bones show."""
    poses = body()
    mirror = symmetry_of(poses)
    assert mirror.axis == 0
    assert mirror.bone.tolist() == [0, 2, 1]
    image = mirror.image(poses)
    again = mirror.image(image)
    np.testing.assert_allclose(again.vertices, poses.vertices, atol=1e-6)
    np.testing.assert_allclose(again.world_from_bone, poses.world_from_bone, atol=1e-9)
    # Rigid parts of the right arm follow the right arm's bone in the image too.
    hand = np.flatnonzero(poses.mesh.vertices[:, 0] < -1.9)
    moved = compose(image.world_from_bone, inverse(poses.skeleton.world_from_bone))[:, 1]
    expected = poses.mesh.vertices[hand] @ np.swapaxes(moved[..., :3], 1, 2) + moved[:, None, :, 3]
    np.testing.assert_allclose(image.vertices[:, hand], expected, atol=1e-4)
    assert np.linalg.det(image.world_from_bone[..., :3]) == pytest.approx(1)


def test_a_clip_and_its_image_are_kept_aside_together():
    poses = body()
    both = symmetry_of(poses).with_images(poses)
    assert both.pose_count == 2 * poses.pose_count
    assert [span.frame_count for span in both.spans] == [2 * FRAMES] * 4
    np.testing.assert_array_equal(both.vertices[:FRAMES], poses.vertices[:FRAMES])
    aside = clips_aside(both, 0.1)
    assert aside.tolist() == list(range(6 * FRAMES, 8 * FRAMES))


def test_held_out_clips_decide():
    """Images help where clips show one side only, and not where the two sides differ."""
    poses = body(swap=True)
    alone, images = held_out_errors(symmetry_of(poses), poses)
    assert images < 0.5 * alone
    assert find_body_mirror(poses) is not None
    assert find_body_mirror(body(asymmetric=True)) is None


def test_no_images_without_clips_or_symmetry():
    poses = body(swap=True)
    assert symmetry_of(replace(poses, spans=())) is None
    moved = poses.mesh.vertices.copy()
    moved[3, 1] += 0.05
    mesh = replace(poses.mesh, vertices=moved)
    assert symmetry_of(replace(poses, mesh=mesh)) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["corrected_skin", "local"])
def test_an_arm_learns_from_the_other(name):
    pytest.importorskip("torch")
    poses = body(swap=True)
    first, test = poses.between(0, 3 * FRAMES), poses.between(3 * FRAMES, 4 * FRAMES)
    # Of the three clips, two move one arm and one the other.
    kind = method_type(name)
    errors = {}
    for mirror in ("bodies", "auto", "none"):
        config = config_from_text(kind.Config, {**kind.traits.quick, "mirror": mirror})
        deformer = kind(config).fit(first)
        got = deformer.deform(test.world_from_bone)
        errors[mirror] = float(np.linalg.norm(got - test.vertices, axis=2).mean())
        assert deformer.training["mirror_images"] == (3 * FRAMES if mirror == "bodies" else 0)
    assert errors["bodies"] < errors["none"] == errors["auto"]
