"""`make_character`: the form engines play, and its stated errors, for every kind of deformer."""

from dataclasses import replace

import numpy as np
import pytest
from builders import full_deformer, random_motion
from character_builders import hero
from sequence_builders import fitted

from understudy import InputError
from understudy.core.skin import skin_weights
from understudy.export import (
    ExportSettings,
    SourceClip,
    animation_clip,
    make_character,
    own_clips,
)
from understudy.export.clips import poses_clips
from understudy.methods.character_deformer import deformer_of_character


def played(character, number=0):
    """The clip as an engine computes it: local translation, rotation and scale of every joint,
    then blend shapes, then a linear skin. Nothing of the package is used.
    """
    clip, mesh = character.clips[number], character.mesh
    points = np.tile(mesh.vertices.astype(float), (clip.frame_count, 1, 1))
    for shape, weight in zip(character.shapes, clip.shape_weights.T):
        points[:, shape.vertices] += weight[:, None, None] * shape.offsets
    if character.skeleton is None:
        return points
    square = lambda a: np.concatenate(
        [a, np.broadcast_to([[[0.0, 0, 0, 1]]], (*a.shape[:-2], 1, 4))], axis=-2
    )
    rest, posed = square(character.skeleton.world_from_bone), square(clip.world_from_bone)
    world = np.zeros_like(posed)
    for joint, parent in enumerate(character.skeleton.parents):
        above = np.eye(4) if parent < 0 else posed[:, parent]
        local = np.linalg.inv(above) @ posed[:, joint]
        scale = np.linalg.norm(local[:, :3, :3], axis=1)
        scale[:, 2] *= np.sign(np.linalg.det(local[:, :3, :3]))
        rotation = local[:, :3, :3] / scale[:, None]
        u, _, vt = np.linalg.svd(rotation)  # a quaternion holds a rotation and nothing else
        local[:, :3, :3] = (u @ vt) * scale[:, None]
        world[:, joint] = local if parent < 0 else world[:, parent] @ local
    moved = np.zeros_like(points)
    for place in range(character.skin.influences):
        bone, weight = character.skin.bone_index[:, place], character.skin.weight[:, place]
        matrix = (world @ np.linalg.inv(rest))[:, bone]
        moved += weight[:, None] * (
            np.einsum("fvij,fvj->fvi", matrix[..., :3, :3], points) + matrix[..., :3, 3]
        )
    return moved


def assert_playable(character, influences=4):
    """Few convex influences, one root, weights of blend shapes between 0 and 1."""
    if character.skin is not None:
        assert character.skin.influences <= influences
        assert character.skin.blend == "linear"
        assert (character.skin.weight >= 0).all()
        assert len(character.skeleton.roots) == 1
    for clip in character.clips:
        assert ((clip.shape_weights >= 0) & (clip.shape_weights <= 1)).all()


def assert_stated(character, errors, deformer, clips):
    """An engine shows the deformer within the stated error."""
    for number, clip in enumerate(clips):
        expected = deformer.deform(clip.world_from_bone, clip.controls)
        distance = np.linalg.norm(played(character, number) - expected, axis=2)
        row = errors.of("export", "deformer", clip.name)
        slack = 2e-5 * character.mesh.height
        assert distance.max() <= row.max + slack
        assert abs(distance.mean() - row.mean) <= slack


def test_a_rig_with_correctives(tube, tube_rig, range_poses):
    clips = [animation_clip(tube, tube_rig, name) for name in ("wave", "whip")]
    made, errors = make_character(tube, clips, range_poses=range_poses, name="tube")
    assert_playable(made)
    assert_stated(made, errors, tube, clips)
    assert [clip.name for clip in made.clips] == ["wave", "whip"]
    skin, whole = errors.of("skin", "original", "wave"), errors.of("export", "original", "wave")
    assert whole.mean < 0.35 * skin.mean
    assert errors.of("export", "deformer", "wave").mean < 1e-4 * tube.mesh.height
    # The middle bone is stretched, so the tip is given to the base.
    assert made.skeleton.parents[made.skeleton.names.index("tip")] == 0
    assert made.mesh is tube.mesh


def test_more_blend_shapes_lower_the_error(tube, tube_rig, range_poses):
    clip = animation_clip(tube, tube_rig, "whip")
    means = []
    for morphs in (0, 2, 16):
        settings = ExportSettings(morphs=morphs)
        made, errors = make_character(tube, [clip], settings, range_poses=range_poses)
        assert len(made.shapes) <= morphs
        means.append(errors.of("export", "deformer").mean)
    assert means[0] > 2 * means[1] > 4 * means[2]
    assert means[0] == errors.of("skin", "deformer").mean


def test_the_skin_and_the_shapes_of_a_character_stay_as_they_are():
    source = hero(influences=4)
    deformer = deformer_of_character(source)
    made, errors = make_character(deformer, poses_clips(deformer, source.poses(), "hero"))
    assert [shape.name for shape in made.shapes] == [shape.name for shape in source.shapes]
    for own, other in zip(source.shapes, made.shapes):
        np.testing.assert_array_equal(own.offsets, other.offsets)
    assert errors.of("export", "original").max < 1e-6
    ours, theirs = skin_weights(source.skin, 6).toarray(), skin_weights(made.skin, 7).toarray()
    order = [made.skeleton.names.index(name) for name in source.skeleton.names]
    np.testing.assert_allclose(theirs[:, order], ours, atol=1e-6)
    still, notes = make_character(deformer)
    assert len(still.shapes) == 3
    assert not notes.notes
    # More influences or shapes than are asked for: both are fitted again.
    fewer, _ = make_character(
        deformer,
        poses_clips(deformer, source.poses(), "hero"),
        ExportSettings(influences=2),
    )
    assert_playable(fewer, 2)
    assert fewer.shapes[0].name.startswith("corrective")


def test_more_influences_lower_the_error(tube, tube_rig, range_poses):
    clip = animation_clip(tube, tube_rig, "whip")
    means = []
    for influences in (1, 2, 0):
        settings = ExportSettings(influences, morphs=0)
        made, errors = make_character(tube, [clip], settings, range_poses=range_poses)
        assert_playable(made, influences or 3)
        means.append(errors.of("skin", "deformer").mean)
    assert means[0] > means[1] >= 0.99 * means[2]


@pytest.mark.parametrize("name", ["affine", "two_layer"])
def test_a_compressed_sequence_keeps_its_frames(name, request):
    deformer = request.getfixturevalue(name)
    clips = own_clips(deformer)
    made, errors = make_character(deformer, clips)
    assert_playable(made)
    assert_stated(made, errors, deformer, clips)
    assert errors.of("export", "deformer").max < 5e-4
    assert any("pairs of joints" in note for note in errors.notes)
    assert made.clips[0].frame_rate == 24.0


@pytest.mark.parametrize("per_vertex", [2, 3])
def test_weights_of_both_signs_become_convex(strip, per_vertex):
    """The virtual bones move outwards until every vertex lies between four of them."""
    deformer = fitted(strip, "two_layer", bones=4, bones_per_vertex=4, per_vertex=per_vertex)
    assert (deformer.skin.weight < 0).any()
    clips = own_clips(deformer)
    made, errors = make_character(deformer, clips, ExportSettings(morphs=0))
    assert_playable(made)
    assert_stated(made, errors, deformer, clips)
    assert not made.shapes
    assert errors.of("export", "deformer").mean < 1e-5
    assert errors.of("export", "deformer").max < 1e-3


def test_pairs_of_joints_are_exact(affine):
    made, errors = make_character(affine, own_clips(affine), ExportSettings(morphs=0))
    assert not made.shapes
    assert errors.of("export", "deformer").max < 1e-6
    assert np.abs(played(made) - affine.deform_clip()).max() < 1e-5


def test_rigid_bones_are_joined_and_their_cost_is_stated(strip):
    deformer = fitted(strip, "two_layer", bones=2)
    clips = own_clips(deformer)
    made, errors = make_character(deformer, clips, ExportSettings(bones="rigid"))
    assert_playable(made)
    assert_stated(made, errors, deformer, clips)
    linear = made.clips[0].world_from_bone[..., :3]
    np.testing.assert_allclose(
        np.swapaxes(linear, -1, -2) @ linear,
        np.tile(np.eye(3), (*linear.shape[:2], 1, 1)),
        atol=1e-8,
    )
    assert errors.of("skin", "deformer").mean > errors.of("export", "deformer").mean


@pytest.mark.parametrize("blend", ["linear", "dual_quaternion"])
@pytest.mark.parametrize("virtual", [False, True])
def test_blends_and_bones_that_no_engine_has(blend, virtual):
    deformer = full_deformer(blend, virtual)
    bones = random_motion(deformer.skeleton, 40, stretch=0.1)
    controls = np.random.default_rng(1).uniform([0, -90], [1, 90], (40, 2))
    clips = [SourceClip("shake", bones, controls, 25.0, 101)]
    made, errors = make_character(deformer, clips)
    assert_playable(made)
    assert_stated(made, errors, deformer, clips)
    assert errors.of("export", "deformer").mean < 0.02 * errors.of("skin", "deformer").mean
    assert (made.clips[0].frame_rate, made.clips[0].start_frame) == (25.0, 101)
    assert list(made.mesh.parts) == ["start", "rest"]


def test_controls_alone_become_blend_shapes(face):
    controls = np.random.default_rng(0).random((30, 2))
    clips = [SourceClip("talk", None, controls)]
    made, errors = make_character(face, clips)
    assert made.skeleton is None
    assert_stated(made, errors, face, clips)
    assert errors.of("export", "deformer").max < 1e-3 * face.mesh.height


def test_far_from_the_origin_nothing_changes(tube, tube_rig, range_poses):
    near = animation_clip(tube, tube_rig, "wave")
    bones = near.world_from_bone.copy()
    bones[..., 3] += [2e6, -1e6, 5e5]
    far = replace(near, world_from_bone=bones, original=None)
    (made_near, a), (made_far, b) = (
        make_character(tube, [clip], range_poses=range_poses) for clip in (near, far)
    )
    for part in ("skin", "export"):
        one, other = a.of(part, "deformer"), b.of(part, "deformer")
        assert abs(one.mean - other.mean) < 1e-6
        assert abs(one.max - other.max) < 1e-5
    np.testing.assert_allclose(
        made_near.clips[0].shape_weights, made_far.clips[0].shape_weights, atol=1e-4
    )


def test_without_a_clip_there_is_a_skin_and_no_shape(tube, range_poses):
    made, errors = make_character(tube, range_poses=range_poses)
    assert_playable(made)
    assert made.clips == made.shapes == ()
    assert any("bind pose" in note for note in errors.notes)


def test_the_original_can_be_the_target(tube, tube_rig, range_poses):
    clip = animation_clip(tube, tube_rig, "whip")
    settings = ExportSettings(target="original")
    _, errors = make_character(tube, [clip], settings, range_poses=range_poses)
    whole, learned = errors.of("export", "original"), errors.of("deformer", "original")
    assert whole.mean < 0.1 * learned.mean


def test_a_skin_that_engines_play_is_kept(tube_rig, range_poses):
    lbs = fitted(range_poses, "lbs")
    clip = animation_clip(lbs, tube_rig, "wave")
    made, errors = make_character(lbs, [clip])
    assert errors.of("export", "deformer").max < 1e-4
    assert not made.shapes


def test_without_poses_there_is_nothing_to_fit_to():
    with pytest.raises(InputError, match="name a clip"):
        make_character(full_deformer("dual_quaternion"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"morphs": 129}, "morphs"), ({"bones": "soft"}, "bones"), ({"influences": -1}, "influences")],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InputError, match=message):
        ExportSettings(**settings)
