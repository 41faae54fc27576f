"""What bounds learned deformers: thrown far outside its data, none is much worse than its skin."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.evaluation.measure import measure_deformers
from understudy.methods import config_from_text, method_type
from understudy.rigs import load_rig
from understudy.rigs.sampling import SamplePlan, gaussian
from understudy_benchmarks.outside import LIMIT, bare_skin
from understudy_benchmarks.outside_poses import outside_poses

METHODS = ("corrected_skin", "fdda", "differential", "local", "pca_regression")


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def poses(tube):
    return tube.evaluate(SamplePlan(300).values(tube))


@pytest.fixture(scope="module")
def fitted(tube, poses):
    pytest.importorskip("torch")

    def fit(name, **options):
        kind = method_type(name)
        texts = {**kind.traits.quick, **options}
        return kind(config_from_text(kind.Config, texts)).fit(poses, rig=tube)

    made = {name: fit(name) for name in METHODS}
    return {**made, "unbounded": fit("pca_regression", bounded="false")}


def mean_error(deformer, poses):
    got = deformer.deform(poses.world_from_bone, poses.controls)
    return float(np.linalg.norm(got - poses.vertices, axis=2).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_never_much_worse_than_the_skin(tube, fitted, name):
    deformer = fitted[name]
    for case, poses in outside_poses(tube).items():
        skin = mean_error(bare_skin(deformer), poses)
        assert mean_error(deformer, poses) <= LIMIT * skin, case


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_nothing_changes_inside(tube, fitted, name):
    deformer, poses = fitted[name], tube.evaluate(SamplePlan(200, seed=7).values(tube))
    assert deformer.distance_from_data(poses.world_from_bone, poses.controls).max() < 1
    bounded, free = mean_error(deformer, poses), mean_error(replace(deformer, bounds=None), poses)
    assert bounded == pytest.approx(free, rel=0.01)


@pytest.mark.slow
def test_networks_that_go_wrong_are_bounded(tube, fitted):
    """With weights that explode outside the data, the bounds decide."""
    deformer = fitted["pca_regression"]
    features = replace(
        deformer.features,
        low=np.full(deformer.features.count, -np.inf),
        high=np.full(deformer.features.count, np.inf),
    )
    free = replace(deformer, features=features)
    poses = outside_poses(tube)["rotations"]
    far = poses.world_from_bone.copy()
    far[:, 1:, :, :3] *= 500  # bones that are stretched like none in the data
    moved = np.abs(free.displacements(far, poses.controls) - deformer.mean).max()
    wild = np.abs(
        replace(free, bounds=None).displacements(far, poses.controls) - deformer.mean
    ).max()
    assert moved == 0
    assert wild > deformer.mesh.height


@pytest.mark.slow
def test_rest_and_single_controls_are_inside_a_random_sample_of_many_controls():
    rng = np.random.default_rng(0)
    count = 40
    mesh = Mesh.from_faces(rng.normal(size=(30, 3)), [(0, 1, 2)])
    shapes = rng.normal(size=(count, 30, 3))
    spec = ControlSpec(tuple(f"shape{c}" for c in range(count)), np.zeros(count), np.ones(count))

    def blended(weights):
        moved = mesh.vertices + np.tensordot(weights, shapes, 1)
        return Poses(mesh, moved, control_spec=spec, controls=weights)

    kind = method_type("pca_regression")
    deformer = kind(kind.Config()).fit(blended(gaussian(spec, 300, 0)))
    weights = np.concatenate([np.zeros((1, count)), np.eye(count)])
    alone = blended(weights)
    free = mean_error(replace(deformer, bounds=None), alone)
    assert mean_error(deformer, alone) < 1.01 * free + 1e-6


def test_figures_of_the_range(tube, fitted):
    rows = measure_deformers({"local": fitted["local"]}, outside_poses(tube))
    inside, three, *_ = (row.figures for row in rows)
    assert inside["outside_pct"] == 0
    assert inside["distance"] < 1
    assert three["outside_pct"] > 50
    assert three["distance"] > 1.2
    error = fitted["local"].held_out_error
    assert error.shape == (tube.mesh.vertex_count,)
    assert 0 < error.mean() < 0.1 * tube.mesh.height
    assert fitted["pca_regression"].held_out_error is None
    assert fitted["unbounded"].bounds is None


def test_papers_have_no_bounds():
    for name in ("fdda", "differential", "local"):
        assert method_type(name).Config.presets["paper"]["bounded"] is False
