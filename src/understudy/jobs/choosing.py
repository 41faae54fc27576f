"""Which of several stand-ins `learn` keeps: the one that was learned, unless a skin does better.

The skins are what every engine has: fitted weights with four and with eight influences, and the
weights that the file has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.evaluation.metric_catalogue import digits3
from understudy.evaluation.result import CaseResult, overall
from understudy.evaluation.unexplained import Unexplained, unexplained_parts
from understudy.jobs.measuring import Measured, Trial
from understudy.methods.character_deformer import EXACT, OWN_SKIN
from understudy.viewer.subjects import Subject

WIDE = "lbs-8"  # the file of linear blend skinning with 8 influences
FIGURES = ("mean", "p99")  # a skin that is better in one of them is kept instead
_PLAIN = {
    "lbs": "linear blend skinning",
    WIDE: "linear blend skinning with 8 influences",
    OWN_SKIN: "the file's own skin",
}


@dataclass(frozen=True)
class Contender:
    """A stand-in that was measured.

    name    of its file
    label   of its rows
    mean, p99, max  over all cases; `overall`
    missed  how many parts it does not follow
    """

    name: str
    label: str
    mean: float
    p99: float
    max: float
    missed: int = 0

    def loss(self, best: Mapping[str, float]) -> float:
        """By which factor it is worse than the best figures; 1: nothing is better."""
        return max(_ratio(getattr(self, key), best[key]) for key in FIGURES)


def choose(learned: Contender, skins: Sequence[Contender]) -> Contender:
    """Return `learned`, or the best skin where one follows more parts or is better in a figure.

    >>> ours = Contender("auto", "auto", mean=1.0, p99=5.0, max=9.0)
    >>> choose(ours, [Contender("lbs", "lbs", mean=2.0, p99=6.0, max=7.0)]).name
    'auto'
    >>> choose(ours, [Contender("lbs", "lbs", mean=2.0, p99=4.0, max=7.0)]).name
    'lbs'
    """
    if not skins:
        return learned
    best = {key: float(np.nanmin([getattr(skin, key) for skin in skins])) for key in FIGURES}
    skin = min(skins, key=lambda one: (one.missed, one.loss(best)))
    if skin.missed != learned.missed:
        return min(skin, learned, key=lambda one: one.missed)
    return learned if learned.loss(best) <= 1 else skin


def comparison(learned: Contender, skins: Sequence[Contender]) -> str:
    """Return the sentence that sets what was learned beside the skins."""
    parts = [
        f"{share(learned.mean, skin.mean)} of that of {_PLAIN.get(skin.name, skin.name)}"
        for skin in skins
    ]
    return f"The mean error of {learned.label} is {', '.join(parts)}."


def verdict(kept: Contender, learned: Contender) -> str:
    """Return why a skin is kept instead of what was learned."""
    if kept.missed < learned.missed:
        why = "it follows parts that the other does not"
    else:
        lower = [k for k in FIGURES if not getattr(kept, k) >= getattr(learned, k)]
        why = f"its {' and '.join(lower) or 'largest'} error is smaller"
    if kept.name in (OWN_SKIN, "character"):
        what = "The skin and the blend shapes that the file has are kept"
    else:
        what = f"So {kept.name} is kept"
    return f"{what}: {why}. More poses, or poses nearer to the tests, help {learned.label}."


def exactness(kept: Contender, deformer: Deformer, mesh: Mesh) -> str:
    """Return what to say of the file's own skin, exact in training, on what was held out."""
    assert deformer.skin is not None
    count = deformer.skin.influences
    if kept.max <= EXACT * mesh.height:
        return (
            f"The rig is a linear skin of up to {count} influences, and the weights of its file "
            "are exact: no network is needed."
        )
    return (
        "Warning: the weights of the file gave every training pose exactly, and miss the test "
        f"poses by up to {digits3(kept.max)} {mesh.unit}: something acts there that no training "
        "pose showed. Sample around such poses."
    )


def share(value: float, of: float) -> str:
    """One figure relative to another, in percent."""
    return f"{digits3(100 * value / of)} %" if of else "more than 100 %" if value else "100 %"


def missed_parts(
    trial: Trial, skinned: Deformer, results: Sequence[CaseResult]
) -> list[Unexplained]:
    """Return the parts that a stand-in does not follow, each where it is worst.

    skinned  whose skin says which bones carry a part
    results  of the stand-in
    """
    worst: dict[str, Unexplained] = {}
    for result in results:
        poses = trial.cases.get(result.case)
        # The animations of a rig are evaluated when they are measured, and not again.
        if not isinstance(poses, Poses) or result.per_vertex_mean is None:
            continue
        for found in unexplained_parts(poses, skinned, result.per_vertex_mean):
            if found.part not in worst or found.error > worst[found.part].error:
                worst[found.part] = found
    return list(worst.values())


def _ratio(value: float, best: float) -> float:
    if not np.isfinite(value):
        return float("inf")
    return value / best if best > 0 else (1.0 if value <= 0 else float("inf"))


def contender(name: str, subject: Subject, measured: Measured) -> Contender:
    """A stand-in with what was measured of it."""
    figures, floor = overall(measured.rows, subject.label), EXACT * measured.trial.mesh.height
    # Nobody sees which of two errors is smaller where both are none.
    mean, p99 = (max(figures[key], 0.1 * floor) for key in FIGURES)
    return Contender(name, subject.label, mean, p99, figures["max"])
