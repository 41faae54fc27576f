"""The options of `two_layer`, with the values of the paper as a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from understudy.methods.base import Config
from understudy.system import checks

_SMOOTHNESS, _FEW = 31.0, 351  # smoothness for so many virtual bones; falls with their square
_WEIGHTS_SMOOTHNESS = 1.0  # at most, where the weights alone are approximated


@dataclass(frozen=True)
class TwoLayerConfig(Config):
    """Options of two_layer.

    bones_per_vertex   blending operations per vertex of both layers together; sets the number of
                       virtual bones
    virtual_bones      number of virtual bones; none: from bones_per_vertex
    error              stop adding virtual bones at this error in thousandths: Delta_E with example
                       poses, which is the error E above that of the dense skin, Delta_W without;
                       none: no threshold
    per_vertex         virtual bones per vertex, 1 to 4; none: 3, or 2 if bones_per_vertex is 3 or
                       less; without example poses 3 or 2, what approximates the weights better
    bones_per_virtual  largest number of bones per virtual bone, c; none: from bones_counted
    bones_counted      needed: c is what nearly all vertices need; all: one more than the largest
                       number of bones of a vertex
    kappa              largest number of virtual bones added before a joint optimisation, as a
                       fraction of their present number; none: no limit
    rounds             joint optimisations after each addition
    finish             largest number of joint optimisations after the last addition
    dictionary         exact: solve each virtual bone for the error; weights: as if the dense
                       weights were to be approximated (Eq. 5)
    pruning            bones that a virtual bone keeps: cost (those that cost most to remove) or
                       largest (those with the largest weights)
    reach              vertices around a vertex whose virtual bones it tries; 0: only those that the
                       search of the paper offers
    relocate           move the least useful virtual bones to the vertices with the largest error
    undo               undo joint optimisations that raise the error
    order              order in which vertices are visited: spatial or index
    every_shell        offer new virtual bones to every connected component
    max_coefficient    largest coefficient of a vertex; none: no limit
    smoothness         weight of the differences between the errors of neighbours: less error in the
                       normals for more in the positions; none: by the number of virtual bones,
                       without example poses at most 1
    detail             exponent with which vertices count more where edges are shorter
    examples           fit the example poses, if there are any; false: fit the weights alone
    bones              number of bones to find by ssdr, if the poses have none; none: as many as
                       bone_error needs
    bone_error         error E that the dense skin of those bones should reach; none: bones decides
    individual         option of ssdr for those bones; none: by their number
    transforms         of those bones: affine (with scale and shear) or rigid
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "per_vertex": 2,  # section 3.1, Eq. 1b
            "bones_counted": "all",  # section 3.1: c = max card(w_i) + 1
            "kappa": None,  # Eq. 3 without a threshold: all Sigma - m atoms before the optimisation
            "rounds": 3,  # section 3.2: "typically converged within 3 iterations"
            "finish": 0,  # Algorithm 1 ends when m = Sigma
            "dictionary": "weights",  # Eq. 5, with W* where there are example poses (section 3.5)
            "pruning": "largest",  # section 3.3: "keeping the c largest elements"
            "reach": 0,  # section 3.4: Algorithm 2 alone
            "relocate": False,  # not in the paper
            "undo": False,  # section 3.5: the update does not guarantee convergence
            "order": "index",  # Algorithm 1, line 11
            "every_shell": False,  # Algorithm 1, line 7: from vertex p
            "max_coefficient": None,  # section 3.4: affine coefficients without other limits
            "smoothness": 0.0,  # not in the paper
            "detail": 0.0,  # not in the paper
            "individual": 3e-3,  # section 4: E of the dense skins of samba (Table 3)
        }
    }

    bones_per_vertex: float = 4.0
    virtual_bones: int | None = None
    error: float | None = None
    per_vertex: int | None = None
    bones_per_virtual: int | None = None
    bones_counted: Literal["needed", "all"] = "needed"
    kappa: float | None = 1.0
    rounds: int = 3
    finish: int = 40
    dictionary: Literal["exact", "weights"] = "exact"
    pruning: Literal["cost", "largest"] = "cost"
    reach: int = 20
    relocate: bool = True
    undo: bool = True
    order: Literal["spatial", "index"] = "spatial"
    every_shell: bool = True
    max_coefficient: float | None = 1.5
    smoothness: float | None = None
    detail: float = 0.5
    examples: bool = True
    bones: int | None = 20
    bone_error: float | None = None
    individual: float | None = None
    transforms: Literal["affine", "rigid"] = "affine"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between(self.virtual_per_vertex, "per_vertex", 1, 4)
        if self.virtual_bones is None and self.error is None:
            checks.between(self.bones_per_vertex, "bones_per_vertex", above=self.virtual_per_vertex)
        for name in ("rounds", "finish", "reach", "smoothness", "individual"):
            if getattr(self, name) is not None:
                checks.between(getattr(self, name), name, 0)
        checks.between(self.detail, "detail", 0, 1)
        for name in ("virtual_bones", "bones", "bones_per_virtual", "max_coefficient"):
            if getattr(self, name) is not None:
                checks.between(getattr(self, name), name, 1)
        for name in ("error", "bone_error", "kappa"):
            if getattr(self, name) is not None:
                checks.between(getattr(self, name), name, above=0)

    @property
    def virtual_per_vertex(self) -> int:
        """Virtual bones per vertex."""
        if self.per_vertex is not None:
            return self.per_vertex
        return 3 if self.bones_per_vertex > 3 else 2

    def without_examples(self) -> tuple[TwoLayerConfig, ...]:
        """What to try where the weights alone are approximated; the best is kept."""
        free = self.per_vertex is None and self.virtual_bones is None and self.error is None
        counts = (3, 2) if free and self.virtual_per_vertex == 3 else (self.virtual_per_vertex,)
        return tuple(replace(self, per_vertex=count) for count in counts)

    def fairness(self, atoms: int, by_examples: bool = True) -> float:
        """The smoothness for so many virtual bones."""
        if self.smoothness is not None:
            return self.smoothness
        smoothness = _SMOOTHNESS * (_FEW / max(atoms, 0.8 * _FEW)) ** 2
        return smoothness if by_examples else min(smoothness, _WEIGHTS_SMOOTHNESS)
