"""`differential`: differential coordinates of the displacement and a few anchors, learned apart and
joined by a reconstruction that is folded away.

Follows Song, Shi and Reed, "Accurate Face Rig Approximation with Deep Differential Subspace
Reconstruction", SIGGRAPH 2020.

    features     joints 12 numbers each, controls each on its own scale                    Eq. 9
                 differential/features.py
    d            displacement before skinning, T_i that of the deformer                    Eq. 10-14
                 differential/skins.py, labels.py
    delta        D^-1 L_s d, uniform Laplacian; PCA output, L1 loss                        3.2.3
                 differential/laplacian.py, components.py
    a            anchors' d: one small net each, on the controls that move it, L2 loss     3.2.4
                 differential/anchors.py
    d'           S^-1 (L_s D delta + P^T omega^2 a), folded into the bases                 Eq. 15,
                 16  differential/reconstruction.py

The result is a plain `Deformer`: nothing is solved at run time.

Two presets. `paper`: one net of 5 x 2048 rectifiers, PCs 5 % of the vertices, anchors 2 %, SGD at
0.1; made for a GPU. `default`: small, and better with few poses; it departs from the paper in this:
- Anchors choose themselves (QR with pivoting on the deformation), and each weighs what its net has
  earned on poses kept aside. Their nets are half as wide as the paper's 3 x 64, a third of the
  bytes: on the face they err alike.
- The wide net is cut into regions of differential coordinates, each reading only what moves it; no
  seam opens, since the reconstruction joins them.
- Components are chosen by what they do to the face, their number by the error they leave; 5 % of V
  can be far too few (or many).
- A ridge regression goes before every net, and Adam with a falling rate trains what it leaves.
- The loss counts small errors as l1 does and large ones as l2 does: on average it is as good as l1,
  and the largest errors are smaller.
- Recorded poses of a symmetric rig are learned with their mirror images.
- Features are clamped to the range seen, widened; the folded bases are cut to the rank that counts
  (`fold_error`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from understudy.core.deformer import Deformer
from understudy.core.errors import InputError, MissingDependencyError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.methods.base import Method, Traits
from understudy.methods.differential.config import DEFAULT_NETS, LOSSES, PAPER_NETS, SubspaceConfig
from understudy.rigs.base import Rig


@dataclass(frozen=True)
class DifferentialConfig(SubspaceConfig):
    """Options of differential. Those that default to none are set by the preset.

    preset          default: small enough to ship; paper: the paper's sizes, for a GPU
    hidden          widths of the hidden layers of every region's net
    activation      tanh, relu or gelu
    epochs          passes over the training poses
    batch           poses per training step
    rate            first learning rate
    optimizer       adam or sgd
    weight_decay    how fast unused weights shrink (Adam: decoupled)
    loss            l1 (the paper's), l2 or mixed (their sum), of the differential nets
    regions         nets the differential coordinates are shared among; 1: one for all, as in the
                    paper
    linear          begin every net with a ridge regression
    components      their number as a share of the vertices; none in the default preset: by
                    basis_error
    basis_error     mean distance per vertex the components may leave, in model units; none: 0.01 %
                    of the height
    fold_error      what the folded bases may leave out of the reconstruction to be smaller: rms of
                    the worst vertex; none: basis_error
    most_components upper limit of components per region
    metric          what the components explain most of: reconstruction (the face) or differential
                    (delta, as in the paper)
    anchors         their number as a share of the vertices
    anchor_list     the anchors themselves, as vertex numbers; empty: chosen automatically
    anchor_choice   pivot (QR with pivoting), even (few edges from every vertex), errors (half of
                    them even, the others where the differential nets err; where anchors alone hold
                    the mesh), random, or auto: errors where they alone hold it, else pivot
    anchor_hidden   widths of the hidden layers of every anchor's net
    anchor_epochs   passes over the training poses for the anchors' nets
    anchor_loss     l1, l2 (the paper's) or mixed, of the anchors' nets
    anchor_nets     split: one net per anchor; single: one for all of them (for comparison)
    weighing        of the equations of the reconstruction: earned (each by its error on the poses
                    kept aside) or paper (omega for every anchor)
    omega           the anchors' weight against the differential coordinates, where weighing is
                    paper; none: 1
    mirror          auto: poses that were recorded from controls alone, of a symmetric rig and up to
                    512 MB, are learned with their mirror images;
                    or none
    skin            perturbed (Eq. 12), fitted, blended (best bone, soft borders), or auto:
                    perturbed where the rig can be, else blended
    influences      most bones a vertex may follow
    inputs          where each net's inputs come from: rig (perturb it live), data, all, or auto
                    (rig if there is one)
    input_poses     poses at which the rig is perturbed
    input_error     a perturbation that moves no vertex by this much (model units) is no input;
                    none: 0.02 % of the height
    controls        numeric: controls that act other than through bones join the inputs; all; none
    clamp_margin    features are held to the range seen, widened by this share of its width on each
                    side; none: not at all
    validation      share of the poses kept aside, to measure and to weigh the anchors
    device          auto, cpu or cuda
    checkpoint      file to keep the state of training in, to go on after an interruption
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {
            **DEFAULT_NETS,
            "metric": "reconstruction",
            "weighing": "earned",
            "anchors": 0.02,
            "anchor_hidden": (32, 32, 32),
            "anchor_epochs": DEFAULT_NETS["epochs"],
            "anchor_loss": DEFAULT_NETS["loss"],
        },
        "paper": {
            **PAPER_NETS,
            "metric": "differential",
            "weighing": "paper",
            "anchors": 0.02,
            "anchor_hidden": (64, 64, 64),
            "anchor_epochs": 4500,
            "anchor_loss": "l2",
            "fold_error": 1e-6,
        },
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SubspaceConfig.choices,
        "metric": ("reconstruction", "differential"),
        "weighing": ("earned", "paper"),
        "anchor_loss": LOSSES,
        "anchor_choice": ("auto", "pivot", "even", "errors", "random"),
        "anchor_nets": ("split", "single"),
        "mirror": ("auto", "none"),
    }
    counts: ClassVar[tuple[str, ...]] = (*SubspaceConfig.counts, "anchor_hidden", "anchor_epochs")
    positive: ClassVar[tuple[str, ...]] = (
        *SubspaceConfig.positive,
        "anchors",
        "omega",
        "fold_error",
    )
    shares: ClassVar[tuple[str, ...]] = ("components", "anchors")

    metric: str | None = None
    anchors: float | None = None
    anchor_list: tuple[int, ...] = ()
    anchor_choice: str = "auto"
    anchor_hidden: tuple[int, ...] | None = None
    anchor_epochs: int | None = None
    anchor_loss: str | None = None
    anchor_nets: str = "split"
    weighing: str | None = None
    omega: float | None = None
    fold_error: float | None = None
    mirror: str = "auto"

    def __post_init__(self):
        super().__post_init__()
        if self.anchor_choice == "errors" and self.holding and not self.anchor_list:
            raise InputError(
                "anchor_choice=errors is for a mesh that its anchors alone hold; set "
                "weighing=paper, or leave the choice to auto"
            )

    @property
    def holding(self) -> bool:
        """Whether every vertex is held to an offset, each equation weighing what it has earned."""
        return self.filled().weighing == "earned" and self.omega is None


class Differential(Method[DifferentialConfig]):
    """Networks for differential coordinates and anchors; made for faces."""

    name = "differential"
    traits = Traits(
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        quick={
            "epochs": "20",
            "hidden": "32,32",
            "batch": "64",
            "regions": "4",
            "input_poses": "3",
            "anchor_epochs": "20",
            "anchor_hidden": "16,16",
        },
    )
    Config = DifferentialConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Learn `poses`, driven by bones, controls, or both."""
        try:
            from understudy.methods.differential.fit import DifferentialFit
        except ImportError as problem:
            raise MissingDependencyError(
                "differential trains networks and needs torch: pip install 'understudy[fit]'"
            ) from problem
        return DifferentialFit(self.name, self.config, poses, rig, progress).deformer()
