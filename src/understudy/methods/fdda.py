"""`fdda`: rigid skinning plus one small network per bone for the residual.

Follows Bailey, Otte, DiLorenzo and O'Brien, "Fast and Deep Deformation Approximations", SIGGRAPH
2018. With y_tv the position of vertex v in pose t, M_tb = world_from_bone bone_from_rest the motion
of bone b, and X0 the rest transform of that bone:

    b_v    = argmin_b sum_t |M_tb (rest_v, 1) - y_tv|^2       the best single bone (section 3.1.1)
    y_tv   = M_tb (rest_v + d_tv, 1),   d = X0 f              d in rest space, f of Eq. 2 in the
                                                              frame of the bone
    d_t    = mean + U_g c_tg   on the vertices of group g     principal components (section 3.3.2,
                                                              the frozen last layer)
    c_tg   = net_g(x_t)                                       tanh, 2 x 128 (section 3.2)
    x_t    = bones of pose t in their parents' frames,        those that move the group (section
             without the root                                 3.3.1)

A bone whose vertices follow another bone nearly as well is removed, smallest first, while the total
error is at most tau times that of all bones (section 3.3.3). U_g is orthonormal, so the squared
error of the coefficients is the vertex error of Eq. 5, and all networks train in coefficient space
as grouped matrix products.

Where it departs, and why:
- Features are clamped to their training range, widened by `clamp_margin`. The paper's largest
  error, 19 cm, is a leg stretched beyond the training poses. Clamping to the exact range increases
  the error just outside it. Coefficients are bounded too (`bounded`, see `core/bounds.py`).
- Seams are closed. The paper assigns each vertex to one bone and one network, so the surface tears
  where two networks have different errors. Here the skin blends over `skin_rings` rings of edges at
  the borders of its bones, and the networks overlap over `seam_rings` rings with weights that sum
  to one. With both at 0 the method is the paper's.
- Controls that act other than through bones are inputs too, which the paper lists as a limitation
  (section 5.1).
- Constant features are left out, the others are standardised.
- The learning rate starts at 0.005, not at 0.01, and decays to zero along a cosine. At 0.01 the
  loss is unstable with many poses.
- Components come from 2,000 poses, not from all of them; a twentieth of the poses are kept out of
  training to measure the error.

`--preset paper` undoes all of these, but standardises: tanh saturates with translations in cm. The
paper does not state the number of epochs, the batch size or whether features are scaled;
coefficients are scaled to unit size for training, and the preset ends before the constant learning
rate makes networks diverge.

`notes/fdda.md` has the measurements behind these choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.core.deformer import Deformer
from understudy.methods.base import Limit, Traits
from understudy.methods.correctives.components import find_groups
from understudy.methods.correctives.config import SEAM_RINGS, CorrectivesConfig
from understudy.methods.correctives.facts import PoseFacts, SharingMethod
from understudy.methods.correctives.networks import NetTasks, train_networks
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.skins import RINGS, TAU, best_bone_skin
from understudy.methods.correctives.stages import feature_table, make_deformer, select_inputs
from understudy.rigs.base import Rig


@dataclass(frozen=True)
class FddaConfig(CorrectivesConfig):
    """Options of fdda, beside those of all methods with correctives.

    tau                  factor by which removing bones may increase the rigid assignment error;
                         the paper uses 1.1 to 1.5
    features             varying (without the numbers of a bone that are constant) or all (12
                         numbers per bone, as in the paper)
    skin_rings           rings of edges over which the rigid skin blends at the borders of its
                         bones; 0: no blending, as in the paper
    seam_rings           rings of edges over which neighbouring networks are blended; 0: no
                         blending, as in the paper
    """

    # Bailey et al. 2018, by section. Where the text is silent, the option keeps its default.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "hidden": (128, 128),  # 3.3 and 4: two layers of 128 nodes
            "learning_rate": 0.01,  # 3.2: alpha of Adam
            "epochs": 60,  # not stated; at a constant 0.01, networks diverge after about 100
            "decay": "none",  # 3.2: none is mentioned
            "weight_decay": 0.0,  # none is mentioned
            "loss": "l2",  # Eq. 5
            "activation": "tanh",  # 3.2
            "tau": 1.2,  # 3.3.3: 1.1 to 1.5
            "basis_poses": None,  # 3.3.2: all poses of the training set
            "max_components": 300,  # 3.3.2: the error alone decides, and needs far fewer
            "features": "all",  # 3.2: 12 inputs per bone, the root is not one
            "controls": "none",  # 5.1: deformations are a function of the skeleton
            "skin_rings": 0,  # 3.1.1: each vertex has a single bone
            "seam_rings": 0,  # 3.1.2: disjoint sets of vertices
            "clamp_margin": None,  # none is mentioned
            "bounded": False,  # none is mentioned
            "rom_share": 0.0,  # none is mentioned
            "validation_fraction": 0.0,  # none is mentioned
        }
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **CorrectivesConfig.choices,
        "features": ("varying", "all"),
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        **CorrectivesConfig.limits,
        "tau": Limit(low=1),
        "skin_rings": SEAM_RINGS,
        "seam_rings": SEAM_RINGS,
    }
    basis_share: ClassVar[float] = 1.6e-4
    input_share: ClassVar[float | None] = None
    input_gain: ClassVar[float] = 0.01
    most_inputs: ClassVar[int] = 20

    epochs: int = 150
    batch_size: int = 256
    learning_rate: float = 0.005
    weight_decay: float = 0.3
    loss: str = "l2"
    linear: bool = False
    activation: str = "tanh"
    tau: float = TAU
    features: str = "varying"
    input_poses: int = 5
    skin_rings: int = RINGS
    seam_rings: int = 3

    @property
    def scaling(self) -> str:
        """How features are brought to a common size, as in `FeatureTable.of`."""
        return "own"


class Fdda(SharingMethod[FddaConfig]):
    """Rigid skinning plus one small network per bone for the residual."""

    name = "fdda"
    traits = Traits(
        needs_bones=True,
        asks_rig=True,
        needs_torch=True,
        quick={"epochs": "40", "hidden": "32,32", "batch_size": "64"},
    )
    Config = FddaConfig

    def fit_facts(self, facts: PoseFacts, rig: Rig | None = None) -> Deformer:
        """Skin, a region per bone, components, inputs, a network per region."""
        config, poses = self.config, facts.poses
        poses.need_skeleton(self.name)
        with facts.progress.task("finding each vertex's best bone", 1) as task:
            skin, bones = best_bone_skin(poses, config.tau, config.skin_rings)
            task.advance()
        session = FitSession.of(self.name, config, facts, rig, skin)
        labels = np.unique(bones, return_inverse=True)[1].reshape(-1)
        found = find_groups(session, labels, config.seam_rings)
        targets = found.targets
        table = feature_table(session, targets)
        inputs = select_inputs(session, table, found.cores, targets, every_vertex=True)
        trained = train_networks(session, table, NetTasks(inputs, targets, found.project))
        # A loss is the fraction of the squared motion that is left.
        curves = {"loss": trained.training_curve, "loss_unseen": trained.validation_curve}
        figures = {"networks": len(trained.nets), "basis_error": session.basis_error} | {
            name: float(curve[-1])
            for name, curve in curves.items()
            if len(curve) and np.isfinite(curve[-1])
        }
        return make_deformer(
            session, table, trained.nets, found.bases, found.mean, trained, figures
        )
