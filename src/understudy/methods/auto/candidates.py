"""The candidates of `auto`: plain skins, and networks of several sizes.

A size is fitted with fine components; `shrinking.py` leaves out those that a budget does not need.
`sequences.py` has the candidates of mesh sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from understudy.core.poses import Poses
from understudy.methods.corrected_skin import CorrectedSkinConfig
from understudy.methods.correctives.skins import SKIN_POSES
from understudy.methods.differential.config import DifferentialConfig

SKIN_INFLUENCES = (4, 2, 1)
_MOST_INFLUENCES = 8  # of a skin that is fitted where fewer do not keep the budget
# Regions, networks, hidden width and basis error (in units of the default) of corrected_skin. The
# fourth is its default.
CORRECTED = (
    ((32, 12, 16), 2.4),
    ((64, 24, 32), 1.4),
    ((96, 24, 48), 1.0),
    ((128, 32, 64), 1.0),
    ((192, 64, 128), 0.5),
)
# Regions, hidden width and basis error of differential; the last but one is its default.
DIFFERENTIAL = (
    ((8, 16), 4.0),
    ((12, 24), 2.4),
    ((16, 32), 1.6),
    ((24, 64), 1.0),
    ((24, 128), 0.7),
    ((24, 192), 0.5),
)
_WITH_BONES = (24, 48), 1.0  # where there are bones too
_EPOCHS = 100
# A cheap fit has this share of the poses and of the epochs, but not fewer than these.
_CHEAP_SHARE, _CHEAP_POSES, _CHEAP_EPOCHS = 0.25, 150, 8
_CHEAP_INPUT_POSES = 2

Item = TypeVar("Item")


@dataclass(frozen=True)
class Candidate:
    """A method with options.

    name     for tables
    method   its registered name
    options  of its config
    cheap    options of a cheap fit, which replace some of these; None: the fit itself is cheap
    """

    name: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cheap: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Candidates:
    """What `auto` chooses from.

    skins    quick fits, which are all made, most influences first
    layered  a skin of two layers, for skins that need many influences; None: there are no bones
    levels   costly fits, from small to large
    others   costlier fits, for an error that no level keeps
    wide     a skin of more influences, where those do not keep the budget; None: no more bones
    """

    skins: tuple[Candidate, ...]
    layered: Candidate | None
    levels: tuple[Candidate, ...]
    others: tuple[Candidate, ...] = ()
    wide: Candidate | None = None


def candidates_of(
    poses: Poses, seed: int, epochs: int | None, levels: int | None, usual: bool = False
) -> Candidates:
    """The candidates for poses with bones, or with controls alone.

    epochs  of networks; None: as many as suit
    levels  upper limit of their number; None: all
    usual   the only level is the method that suits the poses with its default options
    """
    maker = Maker(poses, seed, epochs)
    skeleton = poses.skeleton
    if usual:
        found = [maker.usual("differential" if skeleton is None else "corrected_skin")]
    elif skeleton is None:
        found = [maker.differential(f"differential/{n}", *s) for n, s in enumerate(DIFFERENTIAL, 1)]
    else:
        found = [maker.corrected(f"corrected_skin/{n}", *s) for n, s in enumerate(CORRECTED, 1)]
    chosen = few(tuple(found), levels)
    if skeleton is None:
        return Candidates((), None, chosen)
    skins = tuple(maker.skin(k) for k in SKIN_INFLUENCES)
    others = () if usual else (maker.differential("differential/bones", *_WITH_BONES),)
    more = skeleton.bone_count > max(SKIN_INFLUENCES)
    wide = maker.skin(_MOST_INFLUENCES) if more else None
    return Candidates(skins, maker.layered(), chosen, others, wide)


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes candidates for some poses; `epochs` as in `candidates_of`."""

    poses: Poses
    seed: int
    epochs: int | None = None

    def skin(self, influences: int) -> Candidate:
        """Fitted skinning."""
        options = {"seed": self.seed, "influences": influences, "max_poses": SKIN_POSES}
        return Candidate(f"lbs/{influences}", "lbs", options)

    def layered(self) -> Candidate:
        """Fitted skinning by all bones, as two sparse layers."""
        return Candidate("two_layer/4", "two_layer", {"seed": self.seed, "finish": 8})

    def usual(self, method: str) -> Candidate:
        """A method with its default options."""
        return Candidate(method, method, {"seed": self.seed, **_trained(method, self.epochs)})

    def corrected(
        self, name: str, shape: tuple[int, int, int], error: float, **options: Any
    ) -> Candidate:
        """`corrected_skin` of a size.

        shape  regions, networks and hidden width
        error  of the basis, in units of the default
        """
        regions, networks, hidden = shape
        most = max(1, self.poses.vertex_count // 16)
        chosen = {
            "regions": min(regions, most),
            "networks": min(networks, most),
            "hidden": (hidden, hidden),
            "basis_error": error * CorrectedSkinConfig.basis_share * self._height,
            **options,
        }
        cheap = {"guard": False, "input_poses": _CHEAP_INPUT_POSES}
        return self.trained(name, "corrected_skin", chosen, cheap)

    def differential(self, name: str, shape: tuple[int, int], error: float) -> Candidate:
        """`differential` of a size.

        shape  regions and hidden width
        error  of the basis, in units of the default
        """
        regions, hidden = shape
        chosen = {
            "regions": regions,
            "hidden": (hidden, hidden),
            "anchor_hidden": (hidden // 2, hidden // 2),
            "basis_error": error * DifferentialConfig.basis_share * self._height,
        }
        return self.trained(name, "differential", chosen)

    def trained(
        self,
        name: str,
        method: str,
        options: Mapping[str, Any] | None = None,
        cheap: Mapping[str, Any] | None = None,
    ) -> Candidate:
        """A method that trains networks; a cheap fit has fewer epochs."""
        epochs = _EPOCHS if self.epochs is None else self.epochs
        fewer = max(min(_CHEAP_EPOCHS, epochs), round(_CHEAP_SHARE * epochs))
        whole = {"seed": self.seed, **_trained(method, epochs), **(options or {})}
        return Candidate(name, method, whole, {**_trained(method, fewer), **(cheap or {})})

    @property
    def _height(self) -> float:
        return self.poses.mesh.height or 1.0


def _trained(method: str, epochs: int | None) -> dict[str, int]:
    """The options of a method that say how many epochs its networks are trained; None: none."""
    names = ("epochs", "anchor_epochs") if method == "differential" else ("epochs",)
    return {} if epochs is None else dict.fromkeys(names, epochs)


def cheap_pose_count(pose_count: int) -> int:
    """The number of poses of a cheap fit.

    >>> cheap_pose_count(4000), cheap_pose_count(300)
    (1000, 150)
    """
    return min(pose_count, max(_CHEAP_POSES, round(_CHEAP_SHARE * pose_count)))


def few(found: tuple[Item, ...], most: int | None) -> tuple[Item, ...]:
    """At most `most` of some, evenly spaced, with the first and the last; one is in the middle."""
    if most is None or len(found) <= most:
        return found
    if most == 1:
        return found[len(found) // 2 : len(found) // 2 + 1]
    return tuple(found[round(k * (len(found) - 1) / (most - 1))] for k in range(most))
