"""fdda beyond the contract: accuracy, its options, what the paper promises and where we go past
it.
"""

from dataclasses import replace

import numpy as np
import pytest

from understudy import ControlSpec, InputError, Mesh, Poses
from understudy.evaluation.measure import Reference, deform_poses, measure
from understudy.methods.correctives.features import FeatureTable
from understudy.methods.fdda import Fdda, FddaConfig
from understudy.methods.lbs import Lbs
from understudy.rigs import animate, load_rig
from understudy.rigs.sampling import gaussian
from understudy.system import memory

QUICK = {"epochs": 80, "hidden": (32, 32), "batch_size": 64}


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def sampled(tube):
    return tube.evaluate(gaussian(tube.controls, 500, seed=0))


@pytest.fixture(scope="module")
def fitted(tube, sampled):
    return Fdda(FddaConfig(**QUICK)).fit(sampled, rig=tube)


def figures(deformer, tube, animation):
    return measure(
        "fdda", deform_poses(deformer), Reference.of(animation, animate(tube, animation))
    ).figures


def test_it_learns_the_rig(fitted, tube):
    assert figures(fitted, tube, "wave")["ee"] < 10


def test_the_paper_form_is_one_rigid_bone_one_net_and_one_basis_per_set(tube, sampled):
    paper = Fdda(FddaConfig(**QUICK, skin_rings=0, seam_rings=0, controls="none")).fit(
        sampled, rig=tube
    )
    assert paper.skin.influences == 1
    assert len(paper.nets) == len(paper.bases) == len(np.unique(paper.skin.bone_index))
    covered = np.concatenate([basis.vertices for basis in paper.bases])
    assert len(covered) == len(np.unique(covered))
    bones = 12 * sampled.skeleton.bone_count
    assert (paper.features.columns >= 12).all()  # the root is no input
    assert (paper.features.columns < bones).all()
    for basis in paper.bases:
        np.testing.assert_allclose(
            basis.matrix.T @ basis.matrix, np.eye(basis.matrix.shape[1]), atol=1e-4
        )


def test_numeric_controls_join_and_matter(fitted, tube, sampled):
    flex = 12 * sampled.skeleton.bone_count + tube.controls.names.index("flex")
    assert flex in fitted.features.columns
    blind = Fdda(FddaConfig(**QUICK, controls="none")).fit(sampled, rig=tube)
    assert figures(fitted, tube, "wave")["mean"] < 0.3 * figures(blind, tube, "wave")["mean"]


def test_every_network_reads_only_what_moves_it(tube, sampled, fitted):
    count = lambda deformer: sum(len(net.inputs) for net in deformer.nets)
    everything = Fdda(FddaConfig(**QUICK, inputs="all")).fit(sampled, rig=tube)
    strong = Fdda(FddaConfig(**QUICK, input_error=0.35)).fit(
        sampled, rig=tube
    )  # only what moves a vertex by more than 0.35 cm
    assert count(strong) < count(fitted) <= count(everything)
    learned = Fdda(FddaConfig(**QUICK, inputs="data")).fit(sampled)
    assert figures(learned, tube, "wave")["ee"] < 15


def test_more_error_allowed_means_fewer_components(tube, sampled, fitted):
    coarse = Fdda(FddaConfig(**QUICK, basis_error=0.05)).fit(sampled, rig=tube)
    assert coarse.coefficient_count < fitted.coefficient_count


def test_a_larger_tau_means_fewer_networks(tube, sampled, fitted):
    merged = Fdda(FddaConfig(**QUICK, tau=50.0)).fit(sampled, rig=tube)
    assert len(merged.nets) < len(fitted.nets)


def test_features_are_held_near_the_range_seen_and_not_without_a_clamp(tube, sampled, fitted):
    flex = tube.controls.names.index("flex")
    ends = tube.controls.low[flex], tube.controls.high[flex]  # of the range-of-motion poses
    raw = np.append(sampled.controls[:, flex], ends)
    at = fitted.features.columns.tolist().index(12 * 3 + flex)
    width = raw.max() - raw.min()
    assert fitted.features.high[at] == pytest.approx(raw.max() + 0.5 * width, rel=1e-5)
    free = Fdda(FddaConfig(**QUICK, clamp_margin=None)).fit(sampled, rig=tube)
    assert np.isinf(free.features.high).all()
    tight = Fdda(FddaConfig(**QUICK, clamp_margin=0.0)).fit(sampled, rig=tube)
    assert tight.features.high[at] == pytest.approx(raw.max())


def test_mixing_at_the_borders_closes_the_seam(tube, sampled):
    # Borders of the sets as fitted, not of the animation's own best bones; few epochs, so that
    # networks do disagree.
    short = {**QUICK, "epochs": 12}
    opened = Fdda(FddaConfig(**short, skin_rings=0, seam_rings=0)).fit(sampled, rig=tube)
    closed = Fdda(FddaConfig(**short)).fit(sampled, rig=tube)
    reference = Reference.of("wave", animate(tube, "wave"), opened.skin.bone_index[:, 0])
    seams = [measure("fdda", deform_poses(d), reference).figures["seam"] for d in (opened, closed)]
    assert seams[1] < 0.8 * seams[0]


def test_a_mesh_of_many_shells_is_no_obstacle(tube, sampled):
    quads = sampled.mesh.polygon_vertices.reshape(-1, 4)
    loose = Mesh.from_faces(sampled.mesh.vertices, quads[::3], unit="cm")
    deformer = Fdda(FddaConfig(**QUICK)).fit(replace(sampled, mesh=loose), rig=None)
    assert np.isfinite(deformer.deform(sampled.world_from_bone[:2], sampled.controls[:2])).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": "rigs"}, "unknown inputs 'rigs'; did you mean 'rig'"),
        ({"tau": 0.5}, "tau: expected a number at least 1"),
        ({"epochs": 0}, "epochs"),
        ({"basis_error": 0.0}, "basis_error"),
        ({"seam_rings": -1}, "seam_rings"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        FddaConfig(**options)


def test_asking_a_rig_that_is_not_there(sampled):
    with pytest.raises(InputError, match="needs the live rig"):
        Fdda(FddaConfig(**QUICK, inputs="rig")).fit(sampled)


def test_the_papers_preset_has_the_numbers_of_the_text():
    paper = FddaConfig.of_preset("paper")
    assert (paper.hidden, paper.learning_rate, paper.decay) == ((128, 128), 0.01, "none")
    assert (paper.skin_rings, paper.seam_rings, paper.controls) == (0, 0, "none")
    assert paper.clamp_margin is None
    assert paper.basis_poses is None
    assert 1.1 <= paper.tau <= 1.5


def test_the_papers_preset_reads_twelve_numbers_of_every_bone_and_learns(tube):
    poses = tube.evaluate(gaussian(tube.controls, 300, seed=0))
    unseen = tube.evaluate(gaussian(tube.controls, 60, seed=1))
    config = FddaConfig.of_preset("paper", epochs=60, batch_size=64)
    deformer = Fdda(config).fit(poses, rig=tube)
    assert all(len(net.inputs) % 12 == 0 for net in deformer.nets)
    assert np.isinf(deformer.features.low).all()
    wrong = deformer.deform(unseen.world_from_bone, unseen.controls) - unseen.vertices
    linear = Lbs().fit(poses).deform(unseen.world_from_bone, unseen.controls) - unseen.vertices
    assert np.linalg.norm(wrong, axis=2).mean() < 0.6 * np.linalg.norm(linear, axis=2).mean()


def test_rounding_errors_of_a_constant_number_are_not_scaled_up():
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(size=50), 40 + 1e-6 * rng.normal(size=50)], axis=1)
    mesh, spec = Mesh.from_faces(np.eye(3), [[0, 1, 2]]), ControlSpec(("a", "b"), [-9, 0], [9, 50])
    poses = Poses(mesh, np.zeros((50, 3, 3)), control_spec=spec, controls=values)
    scaled = FeatureTable.of(poses, "all", "all", "own").standard
    assert scaled[:, 0].std() > 0.9
    assert np.abs(scaled[:, 1]).max() < 1e-4


def test_the_memory_changes_no_byte(tube, sampled, tmp_path):
    files = []
    for size in (1 << 16, 8 << 30):  # of 500 poses, a vertex has 6 kB
        with memory.using(size):
            made = Fdda(FddaConfig(**{**QUICK, "epochs": 2})).fit(sampled, rig=tube)
        made.save(tmp_path / "fdda.understudy")
        files.append((tmp_path / "fdda.understudy").read_bytes())
    assert files[0] == files[1]
