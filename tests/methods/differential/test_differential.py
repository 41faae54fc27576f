"""`differential`, `local` and `pca_regression`: what each promises beyond the contract suite."""

import numpy as np
import pytest
from builders import linear_sheet, symmetric_mesh

from understudy import ControlSpec, InputError, Mesh, Poses
from understudy.core.networks import NetGroups
from understudy.methods.correctives.facts import PoseFacts
from understudy.methods.correctives.regions import displacement_pivots
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.skins import (
    perturbed_skin,
    perturbed_transforms,
)
from understudy.methods.differential.anchors import even_anchors
from understudy.methods.differential.config import DifferentialConfig
from understudy.methods.differential.differential import Differential, fold, train_model
from understudy.methods.differential.reconstruction import Laplacian, Reconstruction, Weights
from understudy.methods.lbs import Lbs
from understudy.rigs import load_rig
from understudy.rigs.base import PerturbableRig
from understudy.rigs.sampling import gaussian
from understudy.runtime.reference import pose_features
from understudy.system.progress import SILENT, Progress, Task
from understudy_benchmarks.baselines.local import Local, LocalConfig
from understudy_benchmarks.baselines.pca_regression import PcaRegression

SMALL = {
    "epochs": 25,
    "anchor_epochs": 25,
    "hidden": (32, 32),
    "anchor_hidden": (16, 16),
    "regions": 4,
    "batch_size": 64,
    "input_poses": 3,
}


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


@pytest.fixture(scope="module")
def sampled(tube):
    return tube.evaluate(gaussian(tube.controls, 400, seed=0))


@pytest.fixture(scope="module")
def unseen(tube):
    return tube.evaluate(gaussian(tube.controls, 80, seed=1))


def error(deformer, poses):
    return float(
        np.linalg.norm(
            deformer.deform(poses.world_from_bone, poses.controls) - poses.vertices, axis=2
        ).mean()
    )


def symmetric_sheet(count, seed=0):
    """A sheet that is the same left and right: controls that bend a half each, one that turns its
    sign, and one that does nothing.
    """
    mesh = symmetric_mesh()
    x, y = mesh.vertices[:, :2].T / np.ptp(mesh.vertices[:, 0])
    spec = ControlSpec(
        ("left", "right", "low.left", "low.right", "sway", "idle"), [-1] * 6, [1] * 6
    )
    values = np.random.default_rng(seed).uniform(-1, 1, (count, 6))
    moved = np.zeros((count, mesh.vertex_count, 3))
    for side, column in ((-1, 0), (1, 1)):
        own = np.exp(-8 * (x - 0.3 * side) ** 2)
        up, low, sway = (
            values[:, column, None],
            values[:, column + 2, None],
            side * values[:, 4, None],
        )
        moved[..., 2] += own * (up + 0.5 * np.sin(2 * up * low + y))
        moved[..., 0] += side * own * 0.2 * np.abs(low + sway)
        moved[..., 1] += own * 0.4 * low
    moved[..., 0] += 0.3 * values[:, 4, None]
    return Poses(mesh, mesh.vertices + moved, control_spec=spec, controls=values)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"omega": 1.0, "metric": "differential"}])
def test_folded_is_solved_on_the_face(options):
    face = load_rig("face")
    poses = face.evaluate(gaussian(face.controls, 90, seed=0))
    config = DifferentialConfig(
        **{
            **SMALL,
            "epochs": 3,
            "anchor_epochs": 3,
            "input_poses": 1,
            "clamp_margin": None,
            "bounded": False,
            "fold_error": 1e-7,
        },
        **options,
    )
    session = FitSession.of("differential", config, PoseFacts(poses), face)
    model = train_model(session)
    deformer = fold(session, model)
    unseen = face.evaluate(gaussian(face.controls, 6, seed=1))
    features = pose_features(deformer, unseen.world_from_bone, unseen.controls)
    trained = (*model.coordinate_nets.nets, *model.anchor_nets.nets)
    predicted = NetGroups(
        trained, deformer.features.count, 1 + max(int(net.outputs.max()) for net in trained)
    )(features)
    delta, offsets = (np.zeros((6, face.mesh.vertex_count, 3)) for _ in range(2))
    for region, numbers in zip(model.subspace.regions, model.coordinate_nets.outputs):
        own, other = predicted[:, numbers[: region.split]], predicted[:, numbers[region.split :]]
        basis = region.components.basis
        delta[:, region.vertices] = (own @ basis.T).reshape(6, -1, 3)
        offsets[:, region.vertices] = (other @ region.offsets.T).reshape(6, -1, 3)
    anchors = np.zeros((6, len(model.anchors.vertices), 3))
    outputs = np.concatenate(model.anchor_nets.outputs)
    anchors[:, model.anchors.moving] = predicted[:, outputs].reshape(6, -1, 3)
    solved = model.reconstruction.solve(delta, anchors, offsets) + deformer.mean
    apart = np.linalg.norm(
        deformer.displacements(unseen.world_from_bone, unseen.controls) - solved, axis=2
    )
    assert np.linalg.norm(solved, axis=2).max() > 0.5
    assert apart.max() < 1e-5 * face.mesh.height


def test_it_learns_what_skinning_cannot(sampled, unseen, tube):
    ours = Differential(DifferentialConfig(**SMALL)).fit(sampled, rig=tube)
    assert error(ours, unseen) < 0.4 * error(Lbs().fit(sampled), unseen)
    assert ours.training["mse_differential"] > 0
    assert ours.training["anchors"] == len(ours.provenance["anchors"])


def test_the_papers_preset_has_the_numbers_of_the_text():
    paper = DifferentialConfig.of_preset("paper")
    assert paper.hidden == (2048,) * 5
    assert paper.anchor_hidden == (64,) * 3
    assert paper.epochs == paper.anchor_epochs == 10000
    assert (paper.optimizer, paper.learning_rate, paper.batch_size) == ("sgd", 0.1, 128)
    assert (paper.loss, paper.anchor_loss, paper.loss_space) == ("l1", "l2", "vertices")
    assert (paper.components, paper.anchors, paper.regions) == (0.05, 0.02, 1)
    assert paper.clamp_margin is None
    assert paper.basis_poses is None
    assert paper.mirror == "none"
    assert not paper.holds_vertices
    assert not paper.linear
    early = DifferentialConfig.of_preset("paper-early")
    assert early.patience
    assert early.validation_fraction
    local = LocalConfig.of_preset("paper")
    assert (local.hidden, local.epochs, local.loss_space) == (paper.hidden, 10000, "vertices")


def test_local_has_everything_that_differential_has_but_the_coordinates():
    ours, plain = vars(DifferentialConfig()), vars(LocalConfig())
    assert {name: ours[name] for name in plain} == plain


def test_options_that_exclude_each_other_are_refused():
    with pytest.raises(InputError, match="regions is 24"):
        LocalConfig(loss_space="vertices")
    with pytest.raises(InputError, match="validation_fraction is 0"):
        LocalConfig(patience=3, validation_fraction=0)
    with pytest.raises(InputError, match="metric=differential"):
        DifferentialConfig(loss_space="vertices", regions=1)


def test_a_larger_omega_brings_its_anchor_nearer_to_what_its_network_predicts():
    sheet = Mesh.from_faces(np.random.default_rng(0).normal(size=(4, 3)), [[0, 1, 2], [1, 2, 3]])
    laplacian, target = Laplacian.of(sheet), np.ones((1, 2, 3))
    wrong = np.zeros((1, 4, 3))
    wrong[0, 1] = 5.0  # coordinates that contradict the anchors
    missed = []
    for omega in ((1.0, 1.0), (1.0, 30.0)):
        weights = Weights(np.array(omega))
        solved = Reconstruction(laplacian, np.array([0, 3]), weights).solve(wrong, target)
        missed.append(np.abs(solved[0, [0, 3]] - 1).max(axis=1))
    assert missed[1][1] < 0.1 * missed[0][1]
    assert missed[1][1] < 0.1 * missed[1][0]


@pytest.mark.parametrize("preset", ["paper", "paper-early"])
def test_the_papers_preset_trains_and_folds(sampled, tube, preset):
    small = {**SMALL, "epochs": 4, "anchor_epochs": 4, "regions": 1}
    config = DifferentialConfig.of_preset(preset, **small)
    deformer = Differential(config).fit(sampled.take(np.arange(80)), rig=tube)
    assert deformer.training["components"] == 5  # 5 % of 104
    assert deformer.training["anchors"] == 2
    assert np.isfinite(deformer.deform(sampled.world_from_bone[:2], sampled.controls[:2])).all()


def test_a_users_anchors_are_used_and_checked(sampled):
    deformer = Differential(DifferentialConfig(**SMALL, anchor_list=(5, 50, 90))).fit(
        sampled.take(np.arange(60))
    )
    assert deformer.provenance["anchors"] == [5, 50, 90]
    with pytest.raises(InputError, match="index 104 is outside"):
        Differential(DifferentialConfig(**SMALL, anchor_list=(5, 104))).fit(
            sampled.take(np.arange(60))
        )
    with pytest.raises(InputError, match="duplicate vertex 5"):
        Differential(DifferentialConfig(**SMALL, anchor_list=(5, 6, 5))).fit(
            sampled.take(np.arange(60))
        )


@pytest.mark.parametrize("method", [Differential(DifferentialConfig(**SMALL)), PcaRegression()])
def test_a_control_that_is_never_sampled_is_named_and_does_no_harm(method):
    poses, _ = linear_sheet()
    still = poses.controls.copy()
    still[:, 2] = 0.25
    moved = Poses(poses.mesh, poses.vertices, control_spec=poses.control_spec, controls=still)
    deformer = method.fit(moved)
    assert deformer.provenance["controls_never_seen"] == ["c"]
    far = still[:2].copy()
    far[:, 2] = 1.0
    np.testing.assert_array_equal(deformer.deform(None, far), deformer.deform(None, still[:2]))


def test_a_mesh_that_moves_without_any_bone_or_control_is_refused():
    poses, _ = linear_sheet()
    frozen = Poses(
        poses.mesh,
        poses.vertices,
        control_spec=poses.control_spec,
        controls=np.zeros_like(poses.controls),
    )
    with pytest.raises(InputError, match="no bone or control does"):
        Differential(DifferentialConfig(**SMALL)).fit(frozen)


def test_linear_rigs_are_learned_to_nothing():
    poses, shapes = linear_sheet()
    fresh = np.random.default_rng(9).uniform(-1, 1, size=(20, 3))
    true = poses.mesh.vertices + np.tensordot(fresh, shapes, 1)
    for method, allowed in (
        (PcaRegression(), 2e-4),
        (Differential(DifferentialConfig(**SMALL)), 3e-3),
        (Local(LocalConfig(epochs=25, hidden=(16,))), 3e-3),
    ):
        missed = np.linalg.norm(method.fit(poses).deform(None, fresh) - true, axis=2).mean()
        assert missed < allowed * poses.mesh.height, method.name


class Stopping(Progress):
    """A progress that stops the work after some epochs of the second group of nets."""

    def __init__(self, epochs):
        self.epochs = epochs

    def task(self, name, total):
        progress = self

        class Bar(Task):
            def __enter__(self):
                return self

            def __exit__(self, *problem):
                return False

            def advance(self, count=1):
                if name.startswith("training"):
                    progress.epochs -= count
                    if progress.epochs <= 0:
                        raise KeyboardInterrupt

            def note(self, text):
                pass

        return Bar()


@pytest.mark.parametrize("epochs", [7, 33])
def test_an_interrupted_fit_goes_on_and_ends_with_the_same_bytes(sampled, tube, tmp_path, epochs):
    few = sampled.take(np.arange(80))
    whole = Differential(DifferentialConfig(**SMALL)).fit(few, rig=tube)
    config = DifferentialConfig(**SMALL, checkpoint=str(tmp_path / "state"))
    with pytest.raises(KeyboardInterrupt):
        Differential(config).fit(few, rig=tube, progress=Stopping(epochs))
    assert (tmp_path / "state").exists()
    Differential(config).fit(few, rig=tube).save(tmp_path / "resumed")
    whole.save(tmp_path / "whole")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_perturbing_the_rig_finds_its_skinning():
    face = load_rig("face")
    poses = face.evaluate(gaussian(face.controls, 60, seed=0))
    assert isinstance(face, PerturbableRig)
    assert not isinstance(load_rig("tube"), PerturbableRig)
    skin = perturbed_skin(poses, face, 4, SILENT)
    own = face._weights.toarray()
    for part, joint in (("teeth_lower", "jaw"), ("eye_L", "eye_L"), ("teeth_upper", "head")):
        main = skin.bone_index[face.mesh.parts[part], 0]
        assert (np.array(face.skeleton.names)[main] == joint).mean() > 0.9, part
    assert own.shape == (face.mesh.vertex_count, 23)
    # A lid pressed flat against its ball hardly follows a bone of the mouth, however well that
    # would flatten it (fitted to T_i itself: 0.2).
    named = lambda part: np.array([part in name for name in face.skeleton.names])
    lids, tongue = own[:, named("lid_")].sum(axis=1) > 0.3, named("tongue")[skin.bone_index]
    assert lids.sum() > 50
    assert (skin.weight * tongue)[lids].sum(axis=1).max() < 0.1
    transforms = perturbed_transforms(face, poses.controls[:2], 0.02)
    assert transforms.shape == (2, face.mesh.vertex_count, 3, 3)


def test_options_are_checked():
    for wrong in (
        {"anchors": 0},
        {"anchors": 1.5},
        {"components": 0},
        {"epochs": 0},
        {"metric": "cotangent"},
        {"omega": -1},
        {"device": "tpu"},
    ):
        with pytest.raises(InputError):
            DifferentialConfig(**wrong)


def test_one_net_for_all_anchors_is_possible(sampled):
    deformer = Differential(DifferentialConfig(**SMALL, anchor_nets="single")).fit(
        sampled.take(np.arange(80))
    )
    assert np.isfinite(deformer.deform(sampled.world_from_bone[:2], sampled.controls[:2])).all()


def test_anchors_choose_themselves_by_what_holds_the_mesh(sampled):
    few = sampled.take(np.arange(60))
    anchors = lambda **options: (
        Differential(DifferentialConfig(**SMALL, **options)).fit(few).provenance["anchors"]
    )
    sample = FitSession.of("differential", DifferentialConfig(**SMALL), PoseFacts(few), None)
    moved, laplacian = sample.basis_sample()[1], Laplacian.of(few.mesh)
    held, alone = anchors(), anchors(omega=1.0)
    pivots = displacement_pivots(few.mesh, moved, len(held), laplacian.shell, 300)
    assert held == pivots.tolist()
    even = even_anchors(
        laplacian.symmetric, np.linalg.norm(moved, axis=(0, 2)), laplacian.shell, len(held)
    )
    half = len(held) // 2
    assert alone[:half] == even[:half].tolist()
    assert len(set(alone)) == len(alone) == len(held)
    assert alone != even.tolist()


def test_mirror_images_of_recorded_poses_are_learned_too():
    recorded, aside = symmetric_sheet(150), symmetric_sheet(100, seed=1)
    fit = lambda **options: Differential(DifferentialConfig(**SMALL, **options)).fit(recorded)
    mirrored, plain = fit(), fit(mirror="none")
    assert mirrored.training["mirror_images"] == 150
    assert plain.training["mirror_images"] == 0
    assert mirrored.training["poses"] == plain.training["poses"] == 150
    assert error(mirrored, aside) < 0.9 * error(plain, aside)


def test_a_rig_that_can_be_asked_is_not_mirrored(tube, sampled):
    assert (
        not Differential(DifferentialConfig(**SMALL))
        .fit(sampled.take(np.arange(60)), rig=tube)
        .training["mirror_images"]
    )
