"""`corrected_skin`: a skin chosen by the poses, corrected region by region.

No paper: it joins what `fdda` and `differential` do well, at half the cost of either. With T_i the
skinning transform of vertex i, and d the displacement before skinning:

    y_i  = T_i (rest_i + d_i)                                   skin: see `skin`
    d    = mean + sum over regions r of  U_r c_r                principal components of a region
    c_r  = (W_n x + b_n + net_n(x))_r                           n: the network of region r

Many small regions have few components each, so that the bases are small. A network predicts the
coefficients of all regions around it, so that its layers are read once for all of them. Regions
overlap over `seam_rings` rings of edges, with shares that sum to one, so that no seam opens.

The skin decides how many components are needed. Weights fitted by least squares leave the smallest
displacements, but they differ from vertex to vertex, and so does what they leave: on a body with
correctives three times as many components are needed as with one bone per vertex and blended
borders. On a rig that is nearly a skin the fitted weights are better. Held-out poses decide
(`skin_fitting/evidence.py`).

Correctives must earn their place (`guard.py`): a region whose correctives do not beat fitted linear
blend skinning on poses kept aside gets the fitted weights instead, and no correctives. Recorded
clips are kept aside whole, because neighbouring frames are alike; the networks are then trained
once more with all clips.

`notes/corrected_skin.md` has the measurements behind these choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from understudy.core.deformer import STORAGES, Deformer
from understudy.core.poses import Poses
from understudy.methods.base import AT_LEAST_ONE, Limit, Method, Traits
from understudy.methods.correctives.config import SubspaceConfig
from understudy.rigs.base import Rig
from understudy.system.progress import SILENT, Progress
from understudy.training.schedule import need_torch


@dataclass(frozen=True)
class CorrectedSkinConfig(SubspaceConfig):
    """Options of corrected_skin, beside those of a deformation subspace.

    regions              number of regions, each with its own principal components; at most one per
                         16 vertices
    networks             number of networks; each predicts the coefficients of several regions
    learning_rate        initial learning rate of Adam, which decays to zero along a cosine
    weight_decay         decoupled weight decay of Adam
    loss                 of the coefficients: l1, l2 or mixed (their sum)
    loss_space           coefficients; the networks have no other loss
    components           unused; basis_error determines the number of components
    basis_error          mean distance per vertex that the components of a region may leave, in
                         model units; none: 0.006 % of the height
    seam_rings           rings of edges over which neighbouring regions are blended; 0: none
    features             independent (constant and redundant numbers of a joint are left out) or all
    skin                 fitted (least squares), blended (best single bone with blended borders),
                         perturbed (the rig's own transforms), or auto: fitted or blended, what
                         predicts held-out poses better
    guard                compare every region with fitted linear blend skinning on poses kept aside,
                         and use that where it is better; false: keep all correctives
    storage              of networks and bases: float32, float16, or auto: 16 bits if that changes
                         the error on poses kept aside by less than 1 %
    validation_fraction  fraction of the poses that are kept aside; of recorded clips whole ones
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SubspaceConfig.choices,
        "loss_space": ("coefficients",),
        "storage": ("auto", *STORAGES),
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        **SubspaceConfig.limits,
        "networks": AT_LEAST_ONE,
        "seam_rings": Limit(low=0, high=20),
    }

    regions: int = 128
    networks: int = 32
    hidden: tuple[int, ...] = (64, 64)
    linear: bool = False
    epochs: int = 100
    batch_size: int = 256
    weight_decay: float = 0.3
    max_components: int = 60
    input_poses: int = 8
    seam_rings: int = 2
    guard: bool = True
    storage: str = "auto"


class CorrectedSkin(Method[CorrectedSkinConfig]):
    """A skin chosen by the poses, corrected region by region: small and fast."""

    name = "corrected_skin"
    traits = Traits(
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        quick={
            "epochs": "40",
            "hidden": "32,32",
            "batch_size": "64",
            "regions": "6",
            "networks": "3",
            "input_poses": "3",
        },
    )
    Config = CorrectedSkinConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses` with bones, controls or both; `rig` selects the inputs."""
        need_torch(self.name)
        # Needs torch, an optional dependency.
        from understudy.methods.corrected_skin.fit import fit_corrected_skin

        return fit_corrected_skin(self.config, poses, rig, progress)
