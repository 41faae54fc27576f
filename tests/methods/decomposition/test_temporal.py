"""`temporal`: bones and weights without parameters, on generated characters."""

import numpy as np
import pytest

from understudy import FileError, Mesh, Poses
from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.decomposition.bones import classifier
from understudy.methods.decomposition.bones.bone_count import (
    MAX_BONES,
    ErrorCurve,
    find_bone_count,
    most_bones,
    small_enough,
)
from understudy.methods.decomposition.solve.motion import Fit, in_principal_directions, read_motion
from understudy.methods.decomposition.solve.pruning import (
    prune_bones,
    removal_costs,
    without_faint_bones,
)
from understudy.methods.decomposition.solve.solves import solve_transforms
from understudy.methods.decomposition.ssdr import Ssdr, SsdrConfig
from understudy.methods.decomposition.temporal import Temporal, TemporalConfig
from understudy_benchmarks import metrics
from understudy_benchmarks.trajectory_training.generated import generate_character


def play(deformer):
    return np.concatenate([deformer.deform(clip.world_from_bone) for clip in deformer.clips])


def fit(poses, **options):
    return Temporal(TemporalConfig(**options)).fit(poses)


@pytest.fixture(scope="module")
def character():
    return generate_character(1)


@pytest.fixture(scope="module")
def fitted(character):
    return fit(character.poses())


@pytest.mark.slow
def test_it_finds_about_the_true_number_of_bones_and_the_motion(character, fitted):
    assert character.bones / 1.5 <= fitted.skeleton.bone_count <= 1.5 * character.bones
    assert fitted.skin.influences <= 6
    assert metrics.distortion_percentage(character.poses().vertices, play(fitted)) < 0.3


def test_the_stored_errors_are_exact(character, fitted):
    assert fitted.training["erms"] == pytest.approx(
        metrics.erms(character.poses().vertices, play(fitted)), rel=0.05, abs=1e-4
    )
    curve = fitted.provenance["erms_curve"]
    assert all(after <= before * (1 + 1e-9) for before, after in zip(curve[:-1], curve[1:-1]))
    assert fitted.provenance["kind"] in ("animals", "humans")


@pytest.mark.slow
def test_the_whole_sequence_shifted_turned_and_scaled_changes_nothing(character, fitted):
    poses = character.poses()
    turn = rotation_from_axis_angle(np.array([1.1, 0.2, -0.6]))
    moved = Poses(
        poses.mesh.__class__.from_faces(7 * poses.mesh.vertices @ turn.T, [[0, 1, 2]]),
        7 * poses.vertices @ turn.T + [30, 0, -10],
    )
    again = fit(moved)
    assert again.skeleton.bone_count == fitted.skeleton.bone_count
    assert again.provenance["kind"] == fitted.provenance["kind"]


def test_trained_networks_are_read_from_their_folder(character, tmp_path):
    poses = character.poses()
    options = {"kind": "animals", "network": "cnn", "bones": 4}
    with pytest.raises(FileError, match="understudy train temporal"):
        fit(poses, **options, trained=str(tmp_path))
    name = "animals_cnn"
    (tmp_path / f"{name}.safetensors").write_bytes(classifier._file(name, "animals", None))
    again = fit(poses, **options, trained=str(tmp_path))
    assert again.training["erms"] == fit(poses, **options).training["erms"]
    assert str(tmp_path.parent) not in str(again.provenance)


@pytest.mark.slow
def test_more_starts_are_no_worse_than_ssdrs_own(character):
    poses = character.poses()
    bones = 9
    error = lambda deformer: metrics.distortion_percentage(poses.vertices, play(deformer))
    assert error(fit(poses, bones=bones)) <= 1.001 * error(
        Ssdr(SsdrConfig(bones=bones, influences=6)).fit(poses)
    )


def test_a_static_mesh_is_one_bone():
    mesh = generate_character(0).mesh
    still = fit(Poses(mesh, np.repeat(mesh.vertices[None], 5, axis=0)))
    assert still.skeleton.bone_count == 1
    np.testing.assert_allclose(play(still), np.repeat(mesh.vertices[None], 5, axis=0), atol=1e-5)


@pytest.mark.parametrize("frames", [2, 10, 23])
def test_a_static_or_translated_mesh_needs_one_bone(frames):
    mesh = generate_character(0).mesh
    for step in (0.0, 13.7):
        shapes = mesh.vertices[None] + step * np.arange(frames)[:, None, None] * np.array(
            [1.0, 0.4, 0.2]
        )
        motion, normalisation = read_motion(Poses(mesh, shapes))
        assert find_bone_count(motion, 6, normalisation.rounding).bones == 1


def test_a_rigidly_moving_mesh_is_one_bone():
    mesh = generate_character(0).mesh
    turns = rotation_from_axis_angle(np.linspace(0, 2, 9)[:, None] * np.array([0.3, 1.0, 0.2]))
    shapes = np.einsum("fij,vj->fvi", turns, mesh.vertices) + np.linspace(0, 5, 9)[:, None, None]
    whole = fit(Poses(mesh, shapes))
    assert whole.skeleton.bone_count == 1
    np.testing.assert_allclose(play(whole), shapes, atol=1e-4)


def test_no_motion_two_vertices_and_an_outlier_give_few_bones():
    character = generate_character(2)
    still = fit(character.poses().take(np.array([7, 7])))
    assert still.skeleton.bone_count <= 4
    two = Poses(
        Mesh.from_faces([[0, 0, 0], [1, 0, 0]], np.zeros((0, 3), int)),
        np.random.default_rng(0).normal(size=(6, 2, 3)),
    )
    assert fit(two).skeleton.bone_count == 1
    poses = character.poses()
    shapes = poses.vertices.copy()
    shapes[:, 11] += np.random.default_rng(1).normal(size=(len(shapes), 3))
    odd = fit(Poses(poses.mesh, shapes))
    assert odd.skeleton.bone_count <= 2 * character.bones
    others = np.arange(poses.vertex_count) != 11
    assert metrics.distortion_percentage(shapes[:, others], play(odd)[:, others]) < 3


def curve(errors):
    return ErrorCurve(errors, dict.fromkeys(errors, 0.0))


def test_the_bone_count_is_where_another_bone_gains_too_little():
    falls = curve({bones: 20 * 0.85**bones for bones in (1, 2, 4, 8, 16)})  # 15 % for each bone
    assert falls.best() == 16
    stalls = curve({1: 50, 2: 20, 4: 1.5, 8: 1.45, 16: 1.4})
    assert stalls.best() == 4
    assert stalls.next() == 3


def test_bones_pay_only_for_what_can_be_seen():
    invisible = curve({1: 50, 2: 20, 4: 2, 8: 0.45, 16: 0.04, 32: 0.001})
    assert invisible.best() == 8
    visible = curve({1: 50, 2: 20, 4: 4.0, 8: 3.9, 16: 2.0, 32: 1.9})
    assert visible.best() == 16
    assert ErrorCurve({1: 50, 2: 1.0, 4: 0.9}, {1: 200, 2: 30, 4: 5}).best() == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_the_bones_of_an_exact_skin_are_counted(seed):
    motion, normalisation = read_motion(generate_character(seed).poses())
    found = find_bone_count(motion, 6, normalisation.rounding)
    assert found.transforms is not None
    assert found.bones == generate_character(seed).bones
    assert found.transforms.shape == (motion.rows, 4 * found.bones)


@pytest.mark.slow
def test_an_exact_skin_loses_bones_while_nothing_can_be_seen():
    motion, normalisation = read_motion(generate_character(2).poses())
    true = generate_character(2).bones
    less = find_bone_count(motion, 6, normalisation.rounding, most=true - 1)
    assert less.transforms is not None
    assert less.bones in (true - 1, true)
    assert less.curve.error[less.bones] <= 0.5
    least = find_bone_count(motion, 6, normalisation.rounding, most=1)
    assert least.bones > 1  # one bone would be visible
    assert least.curve.error[least.bones] <= 0.5


def test_short_sequences_and_small_files_lose_no_bones():
    motion = read_motion(generate_character(4).poses())[0]
    bones = small_enough(motion, 6, 2 * motion.vertex_count)
    assert 1 <= bones <= small_enough(motion, 4, 2 * motion.vertex_count)
    assert small_enough(motion.subset(np.arange(9)), 6, 14) == 1
    few = read_motion(generate_character(4).poses().take(np.arange(20)))[0]
    assert small_enough(few, 6, 2 * few.vertex_count) == MAX_BONES


def test_no_more_bones_than_the_frames_tell_apart():
    poses = generate_character(4).poses().take(np.arange(0, 40, 4))
    motion, normalisation = read_motion(poses)
    found = find_bone_count(motion, 6, normalisation.rounding)
    assert found.bones <= most_bones(motion) == 7
    random = np.random.default_rng(0)
    few = Poses(
        Mesh.from_faces(random.normal(size=(30, 3)), [[0, 1, 2]]), random.normal(size=(20, 30, 3))
    )
    count = find_bone_count(read_motion(few)[0], 6)
    assert count.bones <= max(count.curve.error) == 7


def test_bones_of_faint_weights_are_left_out():
    index = np.array([[0, 1, 2], [2, 1, 0], [0, 2, 1]], np.int32)
    weight = np.array([[0.99, 0.01, 0], [0.5, 0.015, 0.485], [0.6, 0.4, 0]])
    transforms = np.arange(72.0).reshape(6, 12)
    kept = without_faint_bones(Fit(transforms, index, weight, np.zeros(3)))
    np.testing.assert_array_equal(kept, transforms[:, [0, 1, 2, 3, 8, 9, 10, 11]])


def test_pruning_removes_the_bone_that_another_replaces(character):
    motion, _ = in_principal_directions(read_motion(character.poses())[0])
    random = np.random.default_rng(0)
    label = random.integers(0, 5, motion.vertex_count).astype(np.int32)[:, None]
    whole = Fit(np.zeros((motion.rows, 20)), label, np.ones(label.shape), motion.square)
    transforms = solve_transforms(motion, whole)
    transforms = np.column_stack([transforms, transforms[:, :4]])  # the sixth repeats the first
    label[::2][label[::2] == 0] = 5
    twice = Fit(transforms, label, np.ones(label.shape), motion.square)
    cost = removal_costs(motion, twice)
    assert set(np.argsort(cost)[:2]) == {0, 5}
    assert cost[0] == pytest.approx(0, abs=1e-9 * cost.max())
    assert prune_bones(motion, twice, 3, 1).bones == 3
