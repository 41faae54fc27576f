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
    """Options of differential. The preset sets the options whose default is none.

    preset               default (small networks, for production) or paper (the sizes of the paper,
                         for a GPU)
    hidden               widths of the hidden layers of every region's network
    activation           tanh, relu or gelu
    epochs               passes over the training poses
    batch_size           poses per training step
    learning_rate        initial learning rate; Adam's decays to zero along a cosine, SGD's as
                         1 / (1 + 1e-6 steps)
    optimizer            adam or sgd
    weight_decay         weight decay (decoupled for Adam)
    loss                 loss of the differential networks: l1 (as in the paper), l2, or mixed
                         (their sum)
    regions              number of regions, each with its own network of differential coordinates;
                         1: one network for the mesh, as in the paper
    linear               fit a ridge regression first; the networks learn its residual
    components           number of principal components as a fraction of the vertices; none:
                         basis_error determines it (default preset)
    basis_error          mean distance per vertex that the principal components may leave, in model
                         units; none: 0.01 % of the height
    fold_error           largest root-mean-square error per vertex from compressing the folded
                         bases, in model units; none: basis_error
    max_components       upper limit of principal components per region
    metric               what the components explain most of: reconstruction (the reconstructed
                         vertices) or differential (the differential coordinates, as in the paper)
    anchors              number of anchors as a fraction of the vertices
    anchor_list          indices of the anchor vertices; empty: they are selected automatically
    anchor_choice        pivot (QR with column pivoting), even (evenly spaced along the edges),
                         errors (half evenly spaced, half where the differential networks have the
                         largest error; needs weighing=paper), random, or auto (pivot where
                         weighing=validation, else errors)
    anchor_hidden        widths of the hidden layers of every anchor network
    anchor_epochs        passes over the training poses for the anchor networks
    anchor_loss          loss of the anchor networks: l1, l2 (as in the paper) or mixed
    anchor_nets          split (one network per anchor) or single (one for all anchors, for
                         comparison)
    weighing             weights of the equations of the reconstruction: validation (from the errors
                         on validation poses) or paper (omega for every anchor)
    omega                weight of the anchors relative to the differential coordinates; setting it
                         implies weighing=paper; none: 1
    mirror               auto: recorded poses of a symmetric mesh driven by controls alone are
                         augmented with their mirror images, up to 512 MB; none: no augmentation
    skin                 perturbed (Eq. 12), fitted (least squares), blended (best single bone with
                         blended borders), or auto (perturbed where the rig allows it, else
                         blended)
    influences           upper limit of bones per vertex
    inputs               how the inputs of each network are selected: rig (perturb the live rig),
                         data (from the poses), all, or auto (rig where there is one, else data)
    input_poses          number of poses at which the rig is perturbed to select inputs
    input_error          a bone or control is an input if it moves a vertex of the region by more
                         than this, in model units; none: 0.02 % of the height
    controls             controls that are inputs beside the bones: numeric (those that act other
                         than through bones), all, or none
    clamp_margin         features are clamped to their training range, widened on each side by this
                         fraction of its width; none: no clamping
    validation_fraction  fraction of the poses that are kept out of training, to measure errors and
                         to weight the anchors
    device               auto (a GPU where torch finds one), cpu, cuda or cuda:N
    checkpoint           file that stores the state of training, so that an interrupted fit can
                         continue
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {
            **DEFAULT_NETS,
            "metric": "reconstruction",
            "weighing": "validation",
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
        "weighing": ("validation", "paper"),
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
        return self.filled().weighing == "validation" and self.omega is None


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
            "batch_size": "64",
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
