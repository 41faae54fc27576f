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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.methods.base import AT_LEAST_ONE, FRACTION, POSITIVE, Limit, Method, Traits
from understudy.methods.correctives.config import EARLY_STOPPING, PAPER, SubspaceConfig
from understudy.rigs.base import Rig
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress
from understudy.training.schedule import need_torch

_PAPER: Mapping[str, Any] = {
    **PAPER,
    "metric": "differential",  # 3.2.3: PCA of the differential coordinates
    "weighing": "paper",  # Eq. 4: omega for the anchors, nothing else
    "omega": (1.0,),  # Eq. 4; the values are not given
    "anchors": 0.02,  # 4.2: 2 % of the vertices
    "fewest_anchors": 1,
    "anchor_hidden": (64, 64, 64),  # 3.2.4: 3 fully connected layers with 64 units
    "anchor_epochs": 10000,  # 3.3: for both networks
    "anchor_loss": "l2",  # 3.2.4
    "anchor_nets": "split",  # 3.2.4: one network per anchor
    "fold_error": 1e-6,  # the paper solves at run time; folding loses nothing
}


@dataclass(frozen=True)
class DifferentialConfig(SubspaceConfig):
    """Options of differential, beside those of a deformation subspace.

    loss                 loss of the differential networks: l1 (as in the paper), l2, or mixed
                         (their sum)
    loss_space           what that loss compares: coefficients, or vertices (the true differential
                         coordinates of every vertex, as in the paper; needs regions=1, and has
                         no range-of-motion poses)
    regions              number of regions, each with its own network of differential coordinates;
                         1: one network for the mesh, as in the paper
    fold_error           largest root-mean-square error per vertex from compressing the folded
                         bases, in model units; none: basis_error
    metric               what the components explain most of: reconstruction (the reconstructed
                         vertices) or differential (the differential coordinates, as in the paper)
    anchors              number of anchors as a fraction of the vertices
    fewest_anchors       lower limit of that number
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
    omega                weight of the anchors relative to the differential coordinates: one number,
                         or one for each entry of anchor_list; setting it implies weighing=paper;
                         empty: 1
    validation_fraction  fraction of the poses that are kept out of training, to measure errors and
                         to weight the anchors
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": _PAPER,
        "paper-early": {**_PAPER, **EARLY_STOPPING},
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SubspaceConfig.choices,
        "metric": ("reconstruction", "differential"),
        "weighing": ("validation", "paper"),
        "anchor_loss": SubspaceConfig.choices["loss"],
        "anchor_choice": ("auto", "pivot", "even", "errors", "random"),
        "anchor_nets": ("split", "single"),
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        **SubspaceConfig.limits,
        "anchors": FRACTION,
        "fewest_anchors": AT_LEAST_ONE,
        "anchor_hidden": AT_LEAST_ONE,
        "anchor_epochs": AT_LEAST_ONE,
        "omega": POSITIVE,
        "fold_error": POSITIVE,
    }

    metric: str = "reconstruction"
    anchors: float = 0.02
    fewest_anchors: int = 64  # a fraction of a small mesh is too few to fix its position
    anchor_list: tuple[int, ...] = ()
    anchor_choice: str = "auto"
    anchor_hidden: tuple[int, ...] = (32, 32, 32)
    anchor_epochs: int = 60
    anchor_loss: str = "mixed"
    anchor_nets: str = "split"
    weighing: str = "validation"
    omega: tuple[float, ...] = ()
    fold_error: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.anchor_choice == "errors" and self.holds_vertices and not self.anchor_list:
            raise InputError(
                "anchor_choice=errors selects anchors for the reconstruction of the paper; set "
                "weighing=paper, or leave anchor_choice at auto"
            )
        if len(self.omega) > 1 and len(self.omega) != len(self.anchor_list):
            raise InputError(
                f"omega: expected one number, or one for each of the {len(self.anchor_list)} "
                f"entries of anchor_list, got {len(self.omega)}"
            )
        if self.loss_space == "vertices" and self.metric != "differential":
            raise InputError("loss_space=vertices needs metric=differential, as in the paper")

    @property
    def holds_vertices(self) -> bool:
        """Whether the reconstruction weakly constrains every vertex to a predicted offset."""
        return self.weighing == "validation" and not self.omega

    @property
    def anchor_weight(self) -> np.ndarray | float:
        """omega where the weights of the equations are those of the paper: a number, or (n,)."""
        if len(self.omega) > 1:
            return np.asarray(self.omega, np.float64)
        return self.omega[0] if self.omega else 1.0

    @property
    def anchors_by_errors(self) -> bool:
        """Whether half of the anchors are selected after the differential networks are trained."""
        if self.anchor_list:
            return False
        automatic = self.anchor_choice == "auto" and not self.holds_vertices
        return self.anchor_choice == "errors" or automatic

    @property
    def anchors_evenly_spaced(self) -> bool:
        """Whether the first anchors are evenly spaced along the edges."""
        even = not self.anchor_list and self.anchor_choice == "even"
        return even or self.anchors_by_errors


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
        """The deformer of `poses` with bones, controls or both; `rig` gives skin and inputs."""
        need_torch(self.name)
        # Needs torch, an optional dependency.
        from understudy.methods.differential.fit import fit_differential

        return fit_differential(self.config, poses, rig, progress)
