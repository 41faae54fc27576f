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
the result is a plain `Deformer`. `fit.py` has the steps in order.

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
"""

from __future__ import annotations

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.methods.base import Traits
from understudy.methods.correctives.facts import PoseFacts, SharingMethod
from understudy.methods.correctives.session import FitSession
from understudy.methods.differential.config import DifferentialConfig
from understudy.methods.differential.fit import fold, train_model
from understudy.rigs.base import Rig
from understudy.system.progress import SILENT, Progress


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

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses` with bones, controls or both; `rig` gives skin and inputs."""
        return self.fit_facts(PoseFacts(poses, progress), rig)

    def fit_facts(self, facts: PoseFacts, rig: Rig | None = None) -> Deformer:
        """Train the networks, and fold the reconstruction into the bases."""
        session = session_of(self.config, facts, rig)
        return fold(session, train_model(session))


def session_of(
    config: DifferentialConfig, facts: PoseFacts, rig: Rig | None
) -> FitSession[DifferentialConfig]:
    """The session of a fit."""
    mirror = config.mirror == "auto"
    return FitSession.of("differential", config, facts, rig, config.skin, mirror=mirror)
