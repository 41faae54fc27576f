"""`differential`: networks for the differential coordinates of the displacement and for anchors.

Follows Song, Shi and Reed, "Accurate Face Rig Approximation with Deep Differential Subspace
Reconstruction", SIGGRAPH 2020. With T_i the skinning transform of vertex i, d the displacement
before skinning, L_s the uniform Laplacian, D its vertex degrees, P the rows of the n anchors:

    x      = 12 numbers per joint and the controls, standardised        Eq. 9      features.py
    y_i    = T_i (rest_i + d_i)                                         Eq. 10-14  skins.py
    delta  = D^-1 L_s d ~ U c,   c = net(x), L1 loss                    3.2.3      subspace.py
    a      = P d,  one small network per anchor, L2 loss                3.2.4      anchors.py
    d      = S^-1 (L_s D delta + P^T omega^2 a),                        Eq. 15, 16 reconstruction.py
    S      = L_s^T L_s + P^T omega^2 P

S is constant, so S^-1 is folded into the bases (`folding.py`) and nothing is solved at run time:
the result is a plain `Deformer`. `Differential.fit_facts` has the steps in order.

The preset `paper` is the method as published, except that anchors are selected automatically (the
paper leaves them to an artist) and that the root joint is not an input; it needs a GPU.
`paper-early` adds early stopping. The default options have small networks and generalise better
from few poses. They depart from the paper:
- The network is divided into regions of differential coordinates; each reads only the inputs that
  move its region. No seam opens, because the reconstruction joins the regions.
- Anchors are selected automatically, by QR with column pivoting. Their networks are half as wide.
- Every equation of the reconstruction is weighted by its error on validation poses, and every
  vertex is weakly constrained to an offset that its region's network predicts.
- Components minimise the error of the reconstructed vertices, not of delta. The error they leave
  determines their number.
- A ridge regression precedes every network, which learns the residual with Adam.
- The loss is L1 plus L2. Its mean error is that of L1, and its largest errors are smaller.
- Recorded poses of a symmetric mesh are augmented with their mirror images.
- Features are clamped to their training range, widened by `clamp_margin`, and coefficients are
  bounded by theirs (`bounded`, see `core/bounds.py`).
- The folded bases are truncated to the rank that matters (`fold_error`).

`notes/differential.md` has the measurements behind these choices.

Letters: T poses, V vertices, n anchors, P components of coordinates, Q components of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.deformer import Deformer
from understudy.methods.base import Traits
from understudy.methods.correctives.facts import PoseFacts, SharingMethod
from understudy.methods.correctives.features import FeatureTable
from understudy.methods.correctives.networks import NetTasks, TrainedNets, train_networks
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.stages import feature_table, make_deformer, select_inputs
from understudy.methods.differential.anchors import add_anchors_by_errors
from understudy.methods.differential.config import DifferentialConfig
from understudy.methods.differential.folding import fold_anchors, fold_regions
from understudy.methods.differential.reconstruction import Reconstruction
from understudy.methods.differential.subspace import (
    AnchorTargets,
    Subspace,
    find_subspace,
    project_poses,
)
from understudy.methods.differential.validation import (
    Predictions,
    predict_coordinates,
    weigh_equations,
)
from understudy.rigs.base import Rig


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Everything that is learned, before the reconstruction is folded into the bases.

    coefficients  (T,P+Q) true coefficients of each region
    figures       for the header of the file
    """

    table: FeatureTable
    subspace: Subspace
    coefficients: list[np.ndarray]
    coordinate_nets: TrainedNets
    anchors: AnchorTargets
    anchor_nets: TrainedNets
    reconstruction: Reconstruction
    figures: dict[str, float]


class Differential(SharingMethod[DifferentialConfig]):
    """Networks for differential coordinates and anchors; made for faces."""

    name = "differential"
    traits = Traits(
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        quick={
            "epochs": "20",
            "hidden": "32,32",
            "batch_size": "64",
            "regions": "4",
            "input_poses": "3",
            "anchor_epochs": "20",
            "anchor_hidden": "16,16",
        },
    )
    Config = DifferentialConfig

    def fit_facts(self, facts: PoseFacts, rig: Rig | None = None) -> Deformer:
        """Train the networks, and fold the reconstruction into the bases."""
        session = FitSession.of(self.name, self.config, facts, rig)
        return fold(session, train_model(session))


def train_model(session: FitSession[DifferentialConfig]) -> TrainedModel:
    """Find the subspace, train the networks of regions and anchors, and weigh the equations."""
    subspace = find_subspace(session)
    coefficients, anchors, beyond = project_poses(session, subspace)
    table = feature_table(session, [*coefficients, anchors.displacements])
    by_errors, regions = session.config.anchors_by_errors, subspace.regions
    groups, rows = [region.vertices for region in regions], [*coefficients]
    if not by_errors:
        session.displacements.release()
        groups, rows = groups + anchors.groups, rows + anchors.targets
    # All are selected together. Anchors that are selected after training get their inputs then.
    single = session.config.regions == 1
    inputs = [] if single and by_errors else select_inputs(session, table, groups, rows)
    anchor_inputs = inputs[len(regions) :]
    # The loss of the paper is that of delta itself, not of its coefficients.
    first = regions[0].components
    whole = beyond is not None and first.count > 0
    learned = NetTasks(
        [table.all_inputs()] if single else inputs[: len(regions)],
        coefficients,
        subspace.project,
        loss_map=first.basis.astype(np.float32) if whole else None,
        beyond=beyond if whole else None,
    )
    nets = train_networks(session, table, learned)
    predictions = predict_coordinates(session, table, subspace, coefficients, nets)
    if by_errors and predictions is not None:
        anchors = select_anchors_by_errors(session, subspace, predictions)
        anchor_inputs = select_inputs(session, table, anchors.groups, anchors.targets)
        session.displacements.release()
    anchor_nets = train_anchor_networks(session, table, anchors, anchor_inputs, subspace)
    weighed = weigh_equations(session, table, subspace, predictions, anchors, anchor_nets)
    return TrainedModel(table, subspace, coefficients, nets, anchors, anchor_nets, *weighed)


def select_anchors_by_errors(
    session: FitSession[DifferentialConfig], subspace: Subspace, predictions: Predictions
) -> AnchorTargets:
    """The first half of the even anchors, then those at the largest errors, in all poses."""
    count = len(subspace.anchors)
    half = subspace.anchors[: max(count // 2, subspace.laplacian.shell_count)]
    start = Reconstruction(subspace.laplacian, half, subspace.weights)
    omega = session.config.omega or 1.0
    chosen = add_anchors_by_errors(
        start, omega, predictions.delta, predictions.true, count, session.progress
    )
    blocks = session.displacements.blocks()
    read = [block[:, chosen] - subspace.mean[chosen] for _, block in blocks]
    return AnchorTargets.of(chosen, np.concatenate(read), session.height)


def train_anchor_networks(
    session: FitSession[DifferentialConfig],
    table: FeatureTable,
    anchors: AnchorTargets,
    inputs: list[np.ndarray],
    subspace: Subspace,
) -> TrainedNets:
    """One network per anchor that moves, or a single one for all of them (`anchor_nets`).

    inputs    (k,) the features that each network reads
    subspace  of the regions, whose coefficients come first
    """
    config, targets = session.config, anchors.targets
    single = config.anchor_nets == "single" and bool(targets)
    if single:
        inputs, targets = [table.all_inputs()], [np.concatenate(targets, axis=1)]

    def project(displacements: np.ndarray) -> list[np.ndarray]:
        found = (displacements - subspace.mean)[:, anchors.vertices[anchors.moving]]
        return [found.reshape(len(found), -1)] if single else list(np.moveaxis(found, 1, 0))

    schedule = session.schedule(
        hidden=config.anchor_hidden, epochs=config.anchor_epochs, loss=config.anchor_loss
    )
    tasks = NetTasks(inputs, targets, project, subspace.coefficient_count)
    return train_networks(session, table, tasks, schedule, "-anchors")


def fold(session: FitSession[DifferentialConfig], model: TrainedModel) -> Deformer:
    """The deformer: the reconstruction folded into the bases, and the bases truncated."""
    given = session.config.fold_error
    tolerance = session.basis_error if given is None else given
    reconstruction, regions = model.reconstruction, model.subspace.regions
    nets, bases = fold_regions(
        reconstruction, regions, model.coefficients, model.coordinate_nets, tolerance
    )
    first = sum(basis.matrix.shape[1] for basis in bases)
    anchor_nets, anchor_bases = fold_anchors(
        reconstruction, regions, model.anchors, model.anchor_nets, first, tolerance
    )
    figures = {
        "anchors": len(model.anchors.vertices),
        "components": sum(region.components.count for region in regions),
        **model.figures,
    }
    return make_deformer(
        session,
        model.table,
        [*nets, *anchor_nets],
        [*bases, *anchor_bases],
        model.subspace.mean,
        model.coordinate_nets,
        figures,
        anchors=model.anchors.vertices.tolist(),
    )
