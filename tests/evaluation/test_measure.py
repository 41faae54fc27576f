import numpy as np
import pytest
from builders import chain_skeleton, full_deformer, grid_mesh, random_motion

from understudy import Deformer, Poses, Skin
from understudy.evaluation.measure import (
    Reference,
    deform_poses,
    deformer_figures,
    measure,
    measure_deformers,
    seam_labels,
)
from understudy_benchmarks.metrics import best_bone_reference, enveloping_error, log_histogram


@pytest.fixture
def poses():
    mesh, skeleton = grid_mesh(unit="cm"), chain_skeleton()
    world = random_motion(skeleton, 70)
    rigid = Deformer(mesh, skeleton, skin=Skin.rigid(np.arange(mesh.vertex_count) // 8))
    noise = np.random.default_rng(0).normal(size=(70, mesh.vertex_count, 3)).astype(np.float32)
    return Poses(mesh, rigid.deform(world) + 0.1 * noise, skeleton, world, name="noisy")


def test_a_row_is_what_the_plain_formulas_give(poses):
    stand_in = Deformer(
        poses.mesh, poses.skeleton, skin=Skin.rigid(np.zeros(poses.vertex_count, int))
    )
    row = measure(
        "zero",
        deform_poses(stand_in),
        Reference.of("noisy", poses, np.arange(poses.vertex_count) // 8),
        deformer_figures(stand_in),
    )
    approximated = stand_in.deform(poses.world_from_bone)
    distance = np.linalg.norm(approximated - poses.vertices, axis=2)
    assert row.figures["mean"] == pytest.approx(distance.mean())
    assert row.figures["max"] == pytest.approx(distance.max())
    assert row.figures["ee"] == pytest.approx(
        enveloping_error(poses.vertices, approximated, best_bone_reference(poses)), rel=1e-5
    )
    assert row.figures["influences"] == 1
    assert row.pictured.pose == distance.max(axis=1).argmax()
    np.testing.assert_allclose(row.per_vertex_max, distance.max(axis=0), rtol=1e-5)
    edges, counts = row.histogram
    exact_edges, exact_counts = log_histogram(distance)
    np.testing.assert_allclose(edges, exact_edges, rtol=1e-5)
    assert counts.sum() == distance.size
    assert (
        np.abs(counts - exact_counts).sum() < 0.02 * distance.size
    )  # a distance within 0.1 % of an edge may fall on its other side


def test_a_method_that_breaks_down_gets_a_row_that_says_so(poses):
    broken = lambda block: np.full((block.pose_count, block.vertex_count, 3), np.nan)
    row = measure("broken", broken, Reference.of("noisy", poses))
    assert np.isinf(row.figures["mean"])
    assert np.isinf(row.figures["max"])
    assert row.histogram[1].sum() == 0


def test_the_seam_runs_between_sets_that_were_learned_apart():
    full = full_deformer()
    plain = Deformer(full.mesh, full.skeleton, skin=full.skin)
    assert seam_labels([plain]) is None
    expected = full.skin.bone_index[
        np.arange(full.mesh.vertex_count), full.skin.weight.argmax(axis=1)
    ]
    np.testing.assert_array_equal(seam_labels([plain, full]), expected)


def test_deformers_are_measured_case_by_case(poses):
    """One row for each case and deformer; all rows of a case picture the same frame."""
    labels = np.arange(poses.vertex_count) // 8
    near = Deformer(poses.mesh, poses.skeleton, skin=Skin.rigid(labels))
    far = Deformer(poses.mesh, poses.skeleton, skin=Skin.rigid(np.zeros_like(labels)))
    few = poses.take(np.arange(10))
    rows = measure_deformers(
        {"near": near, "far": far},
        {"all": poses, "few": lambda: few},
        {"far": {"fit_s": 2.0}},
    )
    assert [(r.case, r.method) for r in rows] == [
        ("all", "near"), ("all", "far"), ("few", "near"), ("few", "far"),
    ]  # fmt: skip
    assert rows[0].pictured.pose == rows[1].pictured.pose == rows[0].per_frame_max.argmax()
    assert rows[1].figures["fit_s"] == 2.0
    assert "fit_s" not in rows[0].figures
    assert "bytes" in rows[0].figures
    assert rows[0].figures["mean"] < rows[1].figures["mean"]
