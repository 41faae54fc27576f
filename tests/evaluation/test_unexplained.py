"""Parts that bones and controls do not explain are named, with the cause."""

from dataclasses import replace

import numpy as np
from character_builders import hero

from understudy.evaluation.unexplained import unexplained_parts
from understudy.methods.character_deformer import deformer_of_character


def recorded():
    """A character's poses without controls, and its exact deformer without blend shapes."""
    made = hero()
    clips = [replace(clip, shape_weights=clip.shape_weights[:, :0]) for clip in made.clips]
    made = replace(made, shapes=(), clips=tuple(clips))
    return made.poses(), deformer_of_character(made)


def error_of(poses, deformer):
    shown = deformer.deform(poses.world_from_bone)
    return np.linalg.norm(shown - poses.read_poses(0, poses.pose_count), axis=2).mean(axis=0)


def test_nothing_is_said_of_a_good_stand_in():
    poses, deformer = recorded()
    assert unexplained_parts(poses, deformer, error_of(poses, deformer)) == []


def test_motion_that_no_bone_makes_is_said_to_be_so():
    poses, deformer = recorded()
    name = "eye.L"
    part = poses.mesh.parts[name]
    still = np.tile(poses.skeleton.world_from_bone, (poses.pose_count, 1, 1, 1))
    vertices = np.tile(poses.mesh.vertices, (poses.pose_count, 1, 1))
    vertices[:, part] += np.sin(np.arange(poses.pose_count))[:, None, None]
    poses = replace(poses, vertices=vertices, world_from_bone=still)
    (found,) = unexplained_parts(poses, deformer, error_of(poses, deformer))
    assert (found.part, found.driven) == (name, False)
    assert f"{name!r} is off by" in found.warning("cm", 13)
    assert "cannot be learned" in found.warning("cm", 13)


def test_a_large_error_beside_moving_bones_may_be_too_few_poses():
    poses, deformer = recorded()
    name = "eye.L"
    part = poses.mesh.parts[name]
    error = error_of(poses, deformer)
    error[part] += 10 * np.ptp(poses.read_poses(0, poses.pose_count))
    (found,) = unexplained_parts(poses, deformer, error)
    assert (found.part, found.driven) == (name, True)
    assert "13 poses are too few" in found.warning("cm", 13)


def test_controls_act_where_the_deformer_says():
    made = hero()
    poses, deformer = made.poses(), deformer_of_character(made)
    still = np.tile(poses.skeleton.world_from_bone, (poses.pose_count, 1, 1, 1))
    poses = replace(poses, world_from_bone=still)
    error = np.full(poses.vertex_count, 10 * np.ptp(poses.mesh.vertices))
    moved = np.unique(np.concatenate([basis.vertices for basis in deformer.bases]))
    for found in unexplained_parts(poses, deformer, error):
        assert found.driven == np.isin(moved, poses.mesh.parts[found.part]).any(), found.part
