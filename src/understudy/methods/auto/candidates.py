"""The candidates of `auto`: plain skins, and levels of correctives from small to large.

Letters: T poses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from understudy.core.poses import Poses

SKIN_INFLUENCES = (1, 2, 4)
# Of the height: what the components of a region may leave.
_BASIS_ERROR = 6e-5
# Regions, networks, hidden width and basis error (in units of the default) of corrected_skin.
_CORRECTED = (
    (32, 12, 16, 6.0),
    (48, 16, 24, 4.0),
    (64, 24, 32, 2.8),
    (96, 24, 48, 2.0),
    (128, 32, 48, 1.4),
    (128, 32, 64, 1.0),
    (160, 48, 96, 0.7),
    (192, 64, 128, 0.5),
)
# Regions, hidden width and basis error of differential.
_DIFFERENTIAL = (
    (8, 16, 8.0),
    (12, 24, 5.0),
    (16, 32, 3.0),
    (24, 48, 2.0),
    (24, 64, 1.4),
    (24, 96, 1.0),
    (24, 128, 0.7),
    (24, 192, 0.5),
)
_DIFFERENTIAL_ERROR = 1e-4
# Bones and influences of a mesh sequence.
_SEQUENCE = ((4, 2), (8, 2), (8, 4), (12, 4), (16, 4), (20, 4), (28, 4), (40, 4), (56, 4), (80, 6))
_EPOCHS = 100
# A cheap fit has this share of the poses and of the epochs, but not fewer than these.
_CHEAP_SHARE, _CHEAP_POSES, _CHEAP_EPOCHS = 0.25, 200, 8
_CHEAP_ITERATIONS = 8


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

    skins   quick fits, which are all made
    levels  costly fits, from small to large
    """

    skins: tuple[Candidate, ...]
    levels: tuple[Candidate, ...]


def candidates_of(poses: Poses, seed: int, epochs: int | None, levels: int | None) -> Candidates:
    """The candidates for poses with bones, with controls alone, or with neither.

    epochs  of networks; None: as many as suit
    levels  upper limit of their number; None: all
    """
    base = {"seed": str(seed)}
    if poses.skeleton is None and poses.controls is None:
        found = tuple(_sequence(bones, influences, base) for bones, influences in _SEQUENCE)
        return Candidates((), _few(found, levels))
    epochs = _EPOCHS if epochs is None else epochs
    base["epochs"] = str(epochs)
    cheap = {"epochs": str(max(min(_CHEAP_EPOCHS, epochs), round(_CHEAP_SHARE * epochs)))}
    height = poses.mesh.height or 1.0
    if poses.skeleton is None:
        base["anchor_epochs"], cheap["anchor_epochs"] = base["epochs"], cheap["epochs"]
        found = tuple(
            Candidate(
                f"differential/{number}",
                "differential",
                {
                    **base,
                    "regions": str(regions),
                    "hidden": f"{hidden},{hidden}",
                    "anchor_hidden": f"{hidden // 2},{hidden // 2}",
                    "basis_error": f"{error * _DIFFERENTIAL_ERROR * height:.6g}",
                },
                cheap,
            )
            for number, (regions, hidden, error) in enumerate(_DIFFERENTIAL, 1)
        )
        return Candidates((), _few(found, levels))
    most = max(1, poses.vertex_count // 16)
    found = tuple(
        Candidate(
            f"corrected_skin/{number}",
            "corrected_skin",
            {
                **base,
                "regions": str(min(regions, most)),
                "networks": str(min(networks, most)),
                "hidden": f"{hidden},{hidden}",
                "basis_error": f"{error * _BASIS_ERROR * height:.6g}",
            },
            {**cheap, "guard": "false"},
        )
        for number, (regions, networks, hidden, error) in enumerate(_CORRECTED, 1)
    )
    skins = tuple(
        Candidate(f"lbs/{k}", "lbs", {"seed": str(seed), "influences": str(k)})
        for k in SKIN_INFLUENCES
    )
    return Candidates(skins, _few(found, levels))


def cheap_pose_count(pose_count: int) -> int:
    """The number of poses of a cheap fit.

    >>> cheap_pose_count(4000), cheap_pose_count(300)
    (1000, 200)
    """
    return min(pose_count, max(_CHEAP_POSES, round(_CHEAP_SHARE * pose_count)))


def _sequence(bones: int, influences: int, base: Mapping[str, str]) -> Candidate:
    return Candidate(
        f"ssdr/{bones}x{influences}",
        "ssdr",
        {**base, "bones": str(bones), "influences": str(influences)},
        {"iterations": str(_CHEAP_ITERATIONS)},
    )


def _few(found: tuple[Candidate, ...], most: int | None) -> tuple[Candidate, ...]:
    """At most `most` candidates, evenly spaced, with the first and the last."""
    if most is None or len(found) <= most:
        return found
    if most == 1:
        return found[len(found) // 2 : len(found) // 2 + 1]
    return tuple(found[round(k * (len(found) - 1) / (most - 1))] for k in range(most))
