"""`temporal_paper`: temporal deep skinning as published, on a generated character."""

import numpy as np
import pytest
import scipy.optimize

from understudy import FileError
from understudy.methods.decomposition.bones.classifier import highest_labels
from understudy.methods.decomposition.solve.motion import (
    Fit,
    in_principal_directions,
    predict,
    read_motion,
)
from understudy.methods.decomposition.solve.solves import solve_transforms
from understudy_benchmarks import metrics
from understudy_benchmarks.baselines import temporal_paper
from understudy_benchmarks.baselines.temporal_paper import (
    CONVEXITY,
    TemporalPaper,
    TemporalPaperConfig,
    fit_as_published,
    published_weights,
    solve_by_conjugate_gradients,
)
from understudy_benchmarks.trajectory_training.generated import generate_character


@pytest.fixture(scope="module")
def character():
    return generate_character(1)


@pytest.mark.parametrize("preset", ["default", "normalised"])
def test_it_makes_five_iterations_on_the_networks_bones(character, preset):
    poses = character.poses()
    done = TemporalPaper(TemporalPaperConfig.of_preset(preset, kind="animals")).fit(poses)
    curve = done.provenance["erms_curve"]
    assert len(curve) == 6
    assert curve[-1] < 0.7 * curve[0]
    assert done.skin.influences <= 6
    assert (done.skin.weight >= 0).all()
    shown = np.concatenate([done.deform(clip.world_from_bone) for clip in done.clips])
    assert metrics.erms(poses.vertices, shown) == pytest.approx(curve[-1], rel=0.01)


def test_the_bones_of_a_vertex_never_change(character):
    motion, _ = in_principal_directions(read_motion(character.poses())[0])
    random = np.random.default_rng(0)
    index, weight = highest_labels(random.random((motion.vertex_count, 12)), 6)
    assert index.max() + 1 <= 12
    np.testing.assert_allclose(weight.sum(axis=1), 1)
    fits = {
        solver: fit_as_published(motion, index, weight, solver=solver)
        for solver in ("direct", "conjugate_gradients")
    }
    for fitted, errors in fits.values():
        np.testing.assert_array_equal(fitted.index, index)
        np.testing.assert_allclose(fitted.weight.sum(axis=1), 1)
        assert errors[-1] < errors[0]
    assert fits["direct"][1][-1] == pytest.approx(fits["conjugate_gradients"][1][-1], rel=0.1)


def test_weights_solve_the_soft_equations(character):
    motion, _ = in_principal_directions(read_motion(character.poses())[0])
    random = np.random.default_rng(0)
    index, weight = highest_labels(random.random((motion.vertex_count, 9)), 4)
    start = fit_as_published(motion, index, weight, iterations=1)[0]
    found = published_weights(motion, start)
    by_bone = start.transforms.reshape(motion.rows, 9, 4)
    for vertex in (0, 7, 33):
        columns = np.einsum("rki,i->rk", by_bone[:, index[vertex]], motion.rest[vertex])
        system = np.vstack([columns, np.sqrt(CONVEXITY) * np.ones(4)])
        right = np.append(motion.targets[vertex], np.sqrt(CONVEXITY))
        exact, _ = scipy.optimize.nnls(system, right)
        error, lowest = (
            np.linalg.norm(columns @ weights - motion.targets[vertex])
            for weights in (found[vertex], exact / exact.sum())
        )
        assert error <= 1.1 * lowest + 1e-6


def test_conjugate_gradients_find_what_the_direct_solver_finds(character):
    motion, _ = read_motion(character.poses())
    random = np.random.default_rng(0)
    index = np.argsort(random.random((motion.vertex_count, 8)), axis=1)[:, :3].astype(np.int32)
    weight = random.dirichlet(np.ones(3), motion.vertex_count)
    start = Fit(np.zeros((motion.rows, 32)), index, weight, motion.square)
    errors = []
    for solve in (solve_transforms, solve_by_conjugate_gradients):
        predicted = predict(motion, Fit(solve(motion, start), index, weight, motion.square))
        errors.append(float(((predicted - motion.targets) ** 2).sum()))
    assert errors[1] == pytest.approx(errors[0], rel=1e-6)


def test_trained_networks_are_read_from_their_folder(character, tmp_path):
    poses = character.poses()
    options = {"kind": "animals", "network": "cnn"}
    run = lambda **more: TemporalPaper(TemporalPaperConfig(**options, **more)).fit(poses)
    with pytest.raises(FileError, match="understudy train temporal --paper"):
        run(trained=str(tmp_path))
    packaged = temporal_paper.resources.files(temporal_paper.__package__) / "trained"
    name = "published_animals_cnn.safetensors"
    (tmp_path / name).write_bytes((packaged / name).read_bytes())
    again = run(trained=str(tmp_path))
    assert again.training["erms"] == run().training["erms"]
    assert str(tmp_path.parent) not in str(again.provenance)
    assert run(seed=1).training["erms"] != again.training["erms"]
