"""`PoseFacts`: what is found of some poses once, whichever fits ask for it."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.noun import read_only
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.skinning import float32_weights
from understudy.methods.base import ConfigType, Method
from understudy.methods.correctives.evidence import ENOUGH_POSES, Evidence, all_controls_help
from understudy.methods.correctives.skins import SKIN_POSES, best_bone_skin, perturbed_skin
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_path
from understudy.rigs.base import PerturbableRig, Rig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress


class PoseFacts:
    """Skins of some poses, and what these say about the controls.

    poses  with or without bones; of those without, the controls alone can be asked for
    """

    def __init__(self, poses: Poses, progress: Progress = SILENT):
        self.poses, self.progress = poses, progress
        # Of so many poses: the weights of at most 1, 2, ... bones.
        self._weights: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._skins: dict[tuple[str, int], Skin] = {}
        self._evidence: dict[Skin, Evidence] = {}

    def of_part(self, few: Poses) -> PoseFacts:
        """The facts of some of these poses, which have the skins of all."""
        part = PoseFacts(few, self.progress)
        part._skins = self._skins
        return part

    def weights(self, influences: int, most_poses: int | None) -> tuple[np.ndarray, np.ndarray]:
        """`solve_sparse` of these poses; fewer influences come with more.

        most_poses  evenly spaced poses that are used, at most; None: all
        """
        chosen = evenly(self.poses.pose_count, most_poses)
        checks.between(influences, "influences", 1)
        wanted = min(int(influences), self.poses.need_skeleton("skin weights").bone_count)
        if len(self._weights.get(len(chosen), ())) < wanted:
            equations = NormalEquations.of(self.poses, chosen, self.progress)
            solved = solve_path(equations, range(1, wanted + 1), self.progress)
            self._weights[len(chosen)] = [(read_only(i), read_only(w)) for i, w in solved]
        return self._weights[len(chosen)][wanted - 1]

    def skin(self, kind: str, influences: int, rig: Rig | None = None) -> Skin:
        """The skin of poses with bones.

        kind        perturbed, fitted, blended (best single bone with blended borders), predicted
                    (fitted or blended, whose displacements can be predicted better on held-out
                    poses: those of a single bone often, but not if bones bend or stretch), or auto:
                    perturbed where the rig allows it, else predicted
        influences  upper limit of bones per vertex
        """
        can_perturb = isinstance(rig, PerturbableRig) and self.poses.controls is not None
        if kind == "auto":
            kind = "perturbed" if can_perturb else "predicted"
        if kind == "perturbed":
            if not isinstance(rig, PerturbableRig):
                raise InputError(
                    "skin=perturbed moves the rest vertices of a live rig, and there is no rig "
                    "with `evaluate_offset`; pass one with --rig, or choose skin=fitted"
                )
            return perturbed_skin(self.poses, rig, influences, self.progress)
        if (kind, influences) not in self._skins:
            self._skins[kind, influences] = self._found(kind, influences)
        return self._skins[kind, influences]

    def _found(self, kind: str, influences: int) -> Skin:
        if kind == "fitted":
            index, weight = self.weights(influences, SKIN_POSES)
            return Skin(index, float32_weights(weight / weight.sum(axis=1, keepdims=True)))
        if kind == "blended":
            return best_bone_skin(self.poses, influences=influences)[0]
        fitted = self.skin("fitted", influences)
        if self.poses.pose_count < ENOUGH_POSES:
            return fitted
        both = self.skin("blended", influences), fitted
        return min(both, key=lambda skin: self.evidence(skin).error("all"))

    def evidence(self, skin: Skin) -> Evidence:
        """What held-out poses say with this skin: skin and controls are chosen by the same."""
        if skin not in self._evidence:
            self._evidence[skin] = Evidence.of(self.poses, skin)
        return self._evidence[skin]

    def controls(self, choice: str, skin: Skin | None) -> str:
        """The controls that networks read: numeric, all or none, as in `pose_features`.

        choice  what the user asked for; auto: decide from the poses
        skin    the skin of the deformer; None where there are no bones
        """
        spec = self.poses.control_spec
        if choice != "auto":
            return choice
        if spec is None or self.poses.controls is None or skin is None:
            return "numeric"
        if spec.numeric.all() or self.poses.pose_count < ENOUGH_POSES:
            return "all"
        return "all" if all_controls_help(self.evidence(skin)) else "numeric"


class SharingMethod(Method[ConfigType]):
    """A method whose fits of the same poses share `PoseFacts`; a subclass writes `fit_facts`."""

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses`; `rig` is the live rig, if there is one (`traits.asks_rig`)."""
        return self.fit_facts(PoseFacts(poses, progress), rig)

    @abstractmethod
    def fit_facts(self, facts: PoseFacts, rig: Rig | None = None) -> Deformer:
        """`fit` of poses about which something may be known."""
