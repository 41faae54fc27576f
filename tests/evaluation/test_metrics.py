"""Error measures: against their formulas written out, and the streamed summary against the whole
arrays.
"""

import numpy as np
import pytest
from builders import chain_skeleton, grid_mesh, random_motion

from understudy import Skin
from understudy.core.error_summary import ErrorSummary
from understudy.core.poses import Poses
from understudy.core.skin import skin_weights
from understudy.evaluation.measure import Reference, compression_rate
from understudy.geometry.transforms import apply, compose
from understudy.system.errors import InputError
from understudy_benchmarks import metrics


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    true = rng.normal(size=(37, 50, 3))
    return true, true + rng.exponential(size=(37, 50, 1)) ** 3 * rng.normal(size=(37, 50, 3)) * 0.01


@pytest.fixture
def moving():
    skeleton, mesh = chain_skeleton(3), grid_mesh()
    motion = random_motion(skeleton, 9)
    matrix = compose(motion, skeleton.bone_from_world)
    blend = apply(0.7 * matrix[:, :1] + 0.3 * matrix[:, 1:2], mesh.vertices)
    return Poses(mesh, blend, skeleton, motion)


def test_streamed_equals_whole(pair):
    true, approx = pair
    whole = metrics.distances(true, approx)
    summary = ErrorSummary(height=2.5)
    for start in range(0, 37, 8):
        summary.add(true[start : start + 8], approx[start : start + 8])
    assert summary.mean == pytest.approx(metrics.mean_distance(true, approx))
    assert summary.max == metrics.max_distance(true, approx)
    assert summary.rms == pytest.approx(metrics.rms_distance(true, approx))
    for percent in (0, 1, 50, 99, 100):
        assert summary.percentile(percent) == pytest.approx(
            np.percentile(whole, percent, method="lower"), rel=1e-3
        )
    assert (summary.worst_pose, summary.worst_vertex) == np.unravel_index(
        whole.argmax(), whole.shape
    )
    np.testing.assert_allclose(summary.vertex_mean, whole.mean(axis=0))
    np.testing.assert_allclose(summary.vertex_max, whole.max(axis=0))
    np.testing.assert_allclose(summary.pose_mean, whole.mean(axis=1))
    np.testing.assert_allclose(summary.pose_max, whole.max(axis=1))
    assert summary.count == whole.size
    figures = summary.figures()
    assert figures["max_pct"] == pytest.approx(100 * summary.max / 2.5)
    assert figures["p99"] == summary.percentile(99)


def test_no_error_is_zero(pair):
    summary = ErrorSummary()
    summary.add(pair[0], pair[0])
    assert summary.figures() == {"mean": 0.0, "max": 0.0, "p99": 0.0, "rms": 0.0}


def test_differences_are_taken_in_double_precision():
    true = np.full((1, 1, 3), 8192, np.float32)
    assert metrics.max_distance(
        true, true.astype(np.float64) + np.array([1e-6, 0, 0])
    ) == pytest.approx(1e-6, rel=1e-3)


def test_enveloping_error(moving):
    reference = metrics.best_bone_reference(moving)
    assert metrics.enveloping_error(moving.vertices, reference, reference) == pytest.approx(100)
    assert metrics.enveloping_error(moving.vertices, moving.vertices, reference) == 0
    half = (moving.vertices.astype(float) + reference) / 2
    assert metrics.enveloping_error(moving.vertices, half, reference) == pytest.approx(50)
    assert metrics.enveloping_error(reference, reference, reference) == 0
    assert metrics.enveloping_error(reference, half, reference) == np.inf
    summary = ErrorSummary()
    summary.add(moving.vertices, half)
    assert summary.enveloping_error(Reference.of("", moving).best_bone_square) == pytest.approx(
        50, rel=1e-4
    )


def test_the_reference_is_the_best_single_bone(moving):
    reference = metrics.best_bone_reference(moving)
    matrix = compose(moving.world_from_bone, moving.skeleton.bone_from_world)
    candidates = apply(matrix[:, None], moving.mesh.vertices.astype(float)[None, :, None])
    errors = np.sum((candidates - moving.vertices[:, :, None].astype(float)) ** 2, axis=(0, 3))
    np.testing.assert_allclose(
        np.sum(metrics.distances(moving.vertices, reference) ** 2, axis=0),
        errors.min(axis=1),
        rtol=1e-4,
    )
    chosen = metrics.best_bone_reference(moving, np.full(moving.vertex_count, 2))
    np.testing.assert_allclose(chosen, candidates[:, :, 2], atol=1e-5)


def test_seam_by_hand(pair):
    true, approx = pair
    edges = np.array([[0, 1], [1, 2], [2, 3], [10, 40]])
    labels = np.where(np.arange(50) < 2, 5, 7)
    error = approx - true
    jump = [np.linalg.norm(error[:, i] - error[:, j], axis=-1).mean() for i, j in edges]
    result = metrics.seam(true, approx, edges, labels)
    assert result.border == pytest.approx(jump[1])
    assert result.inner == pytest.approx(np.mean([jump[0], jump[2], jump[3]]))
    streamed = ErrorSummary(edges=edges, labels=labels)
    streamed.add(true[:10], approx[:10])
    streamed.add(true[10:], approx[10:])
    assert streamed.seam == pytest.approx(result)
    assert streamed.figures()["seam"] == pytest.approx(result.border)


def test_an_error_that_is_the_same_everywhere_has_no_seam(pair):
    true = pair[0]
    assert metrics.seam(
        true, true + 0.3, np.array([[0, 1]]), np.arange(50)
    ).border == pytest.approx(0, abs=1e-12)
    assert metrics.seam(true, true + 0.3, np.array([[0, 1]]), np.zeros(50, int)) == (
        0.0,
        pytest.approx(0, abs=1e-12),
    )


def test_histogram_counts_everything(pair):
    distance = metrics.distances(*pair)
    edges, counts = metrics.log_histogram(distance, 20)
    assert counts.sum() == distance.size
    assert edges[0] == 0
    assert edges[-1] == distance.max()
    assert metrics.log_histogram(np.zeros(3), 4)[1].tolist() == [3, 0, 0, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.distances(np.zeros((1, 2, 3)), np.zeros((1, 3, 3))), "poses to compare"),
        (lambda: metrics.distances(np.zeros((1, 2)), np.zeros((1, 2))), "poses to compare"),
        (lambda: ErrorSummary(edges=np.zeros((0, 2), int)), "belong together"),
        (lambda: ErrorSummary(height=0), "height"),
        (lambda: ErrorSummary().mean, "call add first"),
        (lambda: ErrorSummary().seam, "edges and labels"),
        (lambda: ErrorSummary(edges=np.array([[0, 9]]), labels=np.zeros(3, int)), "edges"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_blocks_must_belong_together(pair):
    summary = ErrorSummary()
    summary.add(*pair)
    with pytest.raises(InputError, match="this block"):
        summary.add(pair[0][:, :3], pair[1][:, :3])


def turned_pair():
    """Two poses of a right triangle: still and moved up by one; approximated with one vertex 0.3,
    0.4 off in the second.
    """
    rest = np.array([[0, 0, 0], [2, 0, 0], [0, 2, 1]], np.float64)
    true = np.stack([rest, rest + [0, 0, 1]])
    approx = true.copy()
    approx[1, 0] += [0.3, 0.4, 0]
    return rest, true, approx


def test_the_measures_of_the_decomposition_papers_by_hand():
    rest, true, approx = turned_pair()
    # |A - A'|_F = 0.5, sqrt(3 N P) = sqrt(18), the box is 2 x 2 x 1: its diagonal is 3.
    assert metrics.decomposition_error(true, approx, rest) == pytest.approx(
        1000 * 0.5 / np.sqrt(18) * 2 / 3
    )
    assert metrics.erms(true, approx) == pytest.approx(100 * 0.5 / np.sqrt(18))
    # About its average each of 3 vertices is half a unit off in both poses: |A - A_avg|_F = sqrt(6
    # / 4).
    assert metrics.distortion_percentage(true, approx) == pytest.approx(100 * 0.5 / np.sqrt(1.5))
    assert metrics.max_average_distance(true, approx) == pytest.approx((0 + 0.5) / 2)
    # Normals: (0,-2,4)/sqrt(20) before; (1.7,-0.4,0) x (-0.3,1.6,1) = (-0.4,-1.7,2.6) after.
    before, after = np.array([0, -2, 4]) / np.sqrt(20), np.array([-0.4, -1.7, 2.6])
    sine = np.linalg.norm(np.cross(before, after / np.linalg.norm(after)))
    triangles = np.array([[0, 1, 2]])
    assert metrics.normal_distortion(true, approx, triangles) == pytest.approx(np.arcsin(sine / 2))
    assert metrics.distortion_percentage(true[:1], true[:1]) == 0
    assert metrics.distortion_percentage(true[:1], approx[1:]) == np.inf


def test_faces_without_area_do_not_turn():
    flat = np.array([[[0, 0, 0], [1, 0, 0], [2, 0, 0]]])
    assert metrics.normal_distortion(flat, flat + 1, np.array([[0, 1, 2]])) == 0
    assert metrics.normal_distortion(flat, flat, np.zeros((0, 3), int)) == 0


def test_compression_rate_gives_the_papers_figures():
    # Temporal deep skinning, Table 2: bones and CRP of horse-gallop (8,431 x 48) and samba (9,971 x
    # 175) with six weights.
    assert round(compression_rate(48, 8431, 26, 6 * 8431), 1) == 92.5
    assert round(compression_rate(175, 9971, 17, 6 * 9971), 1) == 97.6
    assert round(compression_rate(175, 9971, 22, 6 * 9971), 1) == 97.4


def test_weight_error_of_a_two_layer_skin():
    skin = Skin(
        [[0, 1]],
        [[0.5, 0.5]],
        virtual_index=[[0, 1], [1, 2]],
        virtual_weight=[[0.5, 0.5], [1.5, -0.5]],
    )
    product = skin_weights(skin, 3)
    np.testing.assert_allclose(product.toarray(), [[0.25, 1.0, -0.25]])
    assert metrics.weight_error(np.array([[0, 1, 0]]), product.toarray()) == pytest.approx(
        np.sqrt((2 * 0.25**2) / 3)
    )
    assert metrics.weight_error(product, product) == 0
    with pytest.raises(InputError, match="weights to compare"):
        metrics.weight_error(np.zeros((2, 3)), np.zeros((3, 2)))


def test_a_point_has_no_size():
    with pytest.raises(InputError, match="extent"):
        metrics.decomposition_error(np.zeros((1, 2, 3)), np.zeros((1, 2, 3)), np.zeros((2, 3)))
