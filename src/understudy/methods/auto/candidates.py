"""The candidates of `auto`: plain skins, and networks of several sizes.

A size is fitted with fine components; `shrinking.py` leaves out those that a budget does not need.
`sequences.py` has the candidates of mesh sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
_CHEAP_INPUT_POSES = "2"


@dataclass(frozen=True)
class Candidate:
    """A method with options.

    name     for tables
    method   its registered name
    options  as for `--set`
    cheap    options of a cheap fit, which replace some of these; None: the fit itself is cheap
    """

    name: str
    method: str
    options: Mapping[str, str] = field(default_factory=dict)
    cheap: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Candidates:
    """What `auto` chooses from.

    skins    quick fits, which are all made, most influences first
    wide     a skin of more influences, where those do not keep the budget; None: no more bones
    layered  a skin of two layers, for skins that need many influences; None: there are no bones
    levels   costly fits, from small to large
    others   costlier fits, for an error that no level keeps
    """

    skins: tuple[Candidate, ...]
    layered: Candidate | None
    levels: tuple[Candidate, ...]
    others: tuple[Candidate, ...] = ()
    wide: Candidate | None = None


def candidates_of(poses: Poses, seed: int, epochs: int | None, levels: int | None) -> Candidates:
    """The candidates for poses with bones, or with controls alone.

    epochs  of networks; None: as many as suit
    levels  upper limit of their number; None: all
    """
    maker = Maker(poses, seed, epochs)
    if poses.skeleton is None:
        found = [
            maker.differential(f"differential/{number}", *size)
            for number, size in enumerate(DIFFERENTIAL, 1)
        ]
        return Candidates((), None, _few(tuple(found), levels))
    found = [
        maker.corrected(f"corrected_skin/{number}", *size)
        for number, size in enumerate(CORRECTED, 1)
    ]
    skins = tuple(maker.skin(k) for k in SKIN_INFLUENCES)
    others = (maker.differential("differential/bones", *_WITH_BONES),)
    return Candidates(skins, maker.layered(), _few(tuple(found), levels), others, maker.wide())


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes candidates for some poses; `epochs` as in `candidates_of`."""

    poses: Poses
    seed: int
    epochs: int | None = None

    def default_candidates(self) -> Candidates:
        """Skins, and the method that suits the poses with its default options."""
        method = "differential" if self.poses.skeleton is None else "corrected_skin"
        options = {"seed": str(self.seed)}
        if self.epochs is not None:
            options["epochs"] = str(self.epochs)
            if method == "differential":
                options["anchor_epochs"] = options["epochs"]
        level = Candidate(method, method, options)
        if self.poses.skeleton is None:
            return Candidates((), None, (level,))
        skins = tuple(self.skin(k) for k in SKIN_INFLUENCES)
        return Candidates(skins, self.layered(), (level,), wide=self.wide())

    def skin(self, influences: int) -> Candidate:
        """Fitted skinning."""
        options = {"influences": str(influences), "max_poses": str(SKIN_POSES)}
        return Candidate(f"lbs/{influences}", "lbs", {"seed": str(self.seed), **options})

    def wide(self) -> Candidate | None:
        """Fitted skinning by more influences; None where no more bones are there."""
        skeleton = self.poses.skeleton
        if skeleton is None or skeleton.bone_count <= max(SKIN_INFLUENCES):
            return None
        return self.skin(_MOST_INFLUENCES)

    def layered(self) -> Candidate:
        """Fitted skinning by all bones, as two sparse layers."""
        return Candidate("two_layer/4", "two_layer", {"seed": str(self.seed), "finish": "8"})

    def corrected(
        self, name: str, shape: tuple[int, int, int], error: float, **options: str
    ) -> Candidate:
        """`corrected_skin` of a size.

        shape  regions, networks and hidden width
        error  of the basis, in units of the default
        """
        regions, networks, hidden = shape
        most = max(1, self.poses.vertex_count // 16)
        chosen = {
            **self._base(),
            "regions": str(min(regions, most)),
            "networks": str(min(networks, most)),
            "hidden": f"{hidden},{hidden}",
            "basis_error": f"{error * CorrectedSkinConfig.basis_share * self._height:.6g}",
            **options,
        }
        cheap = {"guard": "false", "input_poses": _CHEAP_INPUT_POSES}
        return Candidate(name, "corrected_skin", chosen, {**self._cheap_epochs(), **cheap})

    def differential(
        self, name: str, shape: tuple[int, int], error: float, **options: str
    ) -> Candidate:
        """`differential` of a size.

        shape  regions and hidden width
        error  of the basis, in units of the default
        """
        regions, hidden = shape
        base, cheap = self._base(), self._cheap_epochs()
        base["anchor_epochs"], cheap["anchor_epochs"] = base["epochs"], cheap["epochs"]
        chosen = {
            **base,
            "regions": str(regions),
            "hidden": f"{hidden},{hidden}",
            "anchor_hidden": f"{hidden // 2},{hidden // 2}",
            "basis_error": f"{error * DifferentialConfig.basis_share * self._height:.6g}",
            **options,
        }
        return Candidate(name, "differential", chosen, cheap)

    def plain(self, name: str, method: str, **options: str) -> Candidate:
        """Another method that trains networks, with its default size."""
        return Candidate(name, method, {**self._base(), **options}, self._cheap_epochs())

    @property
    def _height(self) -> float:
        return self.poses.mesh.height or 1.0

    def _base(self) -> dict[str, str]:
        return {"seed": str(self.seed), "epochs": str(self._epochs)}

    @property
    def _epochs(self) -> int:
        return _EPOCHS if self.epochs is None else self.epochs

    def _cheap_epochs(self) -> dict[str, str]:
        least = min(_CHEAP_EPOCHS, self._epochs)
        return {"epochs": str(max(least, round(_CHEAP_SHARE * self._epochs)))}


def cheap_pose_count(pose_count: int) -> int:
    """The number of poses of a cheap fit.

    >>> cheap_pose_count(4000), cheap_pose_count(300)
    (1000, 150)
    """
    return min(pose_count, max(_CHEAP_POSES, round(_CHEAP_SHARE * pose_count)))


def _few(found: tuple[Candidate, ...], most: int | None) -> tuple[Candidate, ...]:
    """At most `most` candidates, evenly spaced, with the first and the last."""
    if most is None or len(found) <= most:
        return found
    if most == 1:
        return found[len(found) // 2 : len(found) // 2 + 1]
    return tuple(found[round(k * (len(found) - 1) / (most - 1))] for k in range(most))
