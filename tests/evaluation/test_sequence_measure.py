"""Rows of a sequence, measured block by block, against the measures' own formulas on the whole
arrays.
"""

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import Clip, Deformer, InputError, Poses, Skin
from understudy.evaluation.measure import (
    Reference,
    compression_rate,
    deform_clips,
    deformer_figures,
    measure,
    measure_deformers,
)
from understudy_benchmarks import metrics


@pytest.fixture
def fitted():
    mesh, skeleton = grid_mesh(), chain_skeleton()
    rng = np.random.default_rng(0)
    weight = rng.dirichlet(np.ones(2), mesh.vertex_count)
    skin = Skin(np.tile([0, 2], (mesh.vertex_count, 1)), weight)
    clips = (
        Clip("walk", random_motion(skeleton, 40)),
        Clip("run", random_motion(skeleton, 30, seed=1)),
    )
    deformer = Deformer(mesh, skeleton, skin=skin, clips=clips)
    frames = deform_clips(deformer)
    return deformer, Poses(mesh, frames + 0.01 * rng.normal(size=frames.shape).astype(np.float32))


def test_a_sequence_is_measured_as_the_papers_do(fitted):
    deformer, poses = fitted
    approx = deform_clips(deformer)
    row = measure("test", approx, Reference.of("strip", poses), deformer_figures(deformer)).figures
    true, mesh = poses.vertices, poses.mesh
    assert row["e"] == pytest.approx(metrics.decomposition_error(true, approx, mesh.vertices))
    assert row["erms"] == pytest.approx(metrics.erms(true, approx))
    assert row["disper"] == pytest.approx(metrics.distortion_percentage(true, approx))
    assert row["max_avg_dist"] == pytest.approx(metrics.max_average_distance(true, approx))
    assert row["norm_distort"] == pytest.approx(
        metrics.normal_distortion(true, approx, mesh.triangles)
    )
    assert row["crp"] == pytest.approx(
        compression_rate(70, mesh.vertex_count, 3, 2 * mesh.vertex_count)
    )
    assert (row["bones"], row["influences"]) == (2, 2)


def test_poses_with_bones_keep_their_own_figures(fitted):
    deformer, poses = fitted
    bones = np.concatenate([clip.world_from_bone for clip in deformer.clips])
    moved = Poses(poses.mesh, poses.vertices, deformer.skeleton, bones)
    row = measure("test", deform_clips(deformer), Reference.of("strip", moved)).figures
    assert "ee" in row
    assert "e" not in row


def test_frames_of_another_length_are_refused(fitted):
    deformer, poses = fitted
    with pytest.raises(InputError, match="frames of 'test'"):
        measure("test", deform_clips(deformer)[1:], Reference.of("strip", poses))


def test_a_bare_sequence_is_compared_with_the_clips(fitted):
    deformer, poses = fitted
    row = measure_deformers({"test": deformer}, {"strip": poses})[0]
    assert row.figures["erms"] == pytest.approx(
        metrics.erms(poses.vertices, deform_clips(deformer))
    )
