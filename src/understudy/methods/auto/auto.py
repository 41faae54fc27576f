"""`auto`: the cheapest deformer that keeps a budget on poses that it has not seen.

No paper. Candidates are plain skins, skins of two layers and networks of several sizes
(`candidates.py`, `sequences.py`); a walk decides which of them are fitted (`walk.py`), and
components that the budget does not need are left out (`shrinking.py`). A tenth of the poses, whole
clips of a recording, takes no part in any fit and measures all of them. The result is one of the
deformers that were measured; it is not fitted again.

Without a budget the result has no visible error, or else is what the method that suits the poses
makes of all of them with its default options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.methods.auto.budget import Budget, Measured, bytes_of, seconds_of
from understudy.methods.auto.candidates import candidates_of
from understudy.methods.auto.fits import Lesson, MeasuredFits
from understudy.methods.auto.sequences import sequence_candidates, walk_sequence
from understudy.methods.auto.walk import Walk, walk
from understudy.methods.base import (
    AT_LEAST_ONE,
    POSITIVE,
    Config,
    Limit,
    Method,
    Traits,
    check_device,
)
from understudy.methods.character_deformer import deformer_of_skin, is_exact
from understudy.methods.fit_arguments import is_sequence
from understudy.rigs.base import Rig
from understudy.system.progress import SILENT, Progress


@dataclass(frozen=True)
class AutoConfig(Config):
    """Options of auto.

    max_error   largest mean error on held-out poses: a length (0.5mm), a share of the height
                (0.02%), or a number in model units; none: no limit. Without any limit the result is
                a plain skin if that misses by less than 0.002 % of the height, which nobody sees,
                else the default size of the method that suits the poses
    max_ms      largest time of one pose on one thread, in milliseconds; none: no limit
    max_bytes   largest size, such as 5MB; none: no limit
    time        no further fit begins after this, such as 10min; none: no limit
    levels      upper limit of levels of correctives to choose from; none: all
    epochs      passes over the poses when networks are trained; none: 100, without a budget those
                of the method
    storage     of networks and bases: float32, or auto: 16 bits where that does not change the
                error
    device      auto (a GPU where torch finds one), cpu, cuda or cuda:N
    checkpoint  start of the names of files that keep finished fits, so that an interrupted run can
                continue
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"storage": ("auto", "float32")}
    limits: ClassVar[Mapping[str, Limit]] = {
        "max_ms": POSITIVE,
        "levels": AT_LEAST_ONE,
        "epochs": AT_LEAST_ONE,
    }

    max_error: str | None = None
    max_ms: float | None = None
    max_bytes: str | None = None
    time: str | None = None
    levels: int | None = None
    epochs: int | None = None
    storage: str = "auto"
    device: str = "auto"
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_device(self.device)
        if self.max_bytes is not None:
            bytes_of(self.max_bytes)
        if self.time is not None:
            seconds_of(self.time)


class Auto(Method[AutoConfig]):
    """The cheapest deformer that keeps a budget of error, time and bytes on unseen poses."""

    name = "auto"
    traits = Traits(
        takes_sequences=True,
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        quick={"levels": "1", "epochs": "20"},
    )
    Config = AutoConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses`: with bones, controls, both, or a mesh sequence."""
        config = self.config
        given = Budget.of(poses.mesh, config.max_error, config.max_ms, config.max_bytes)
        budget = Budget.unseen(poses.mesh) if given is None else given
        whole = given is None and not is_sequence(poses)
        lesson = Lesson.of_all(poses, config.seed) if whole else Lesson.of(poses, config.seed)
        fits = MeasuredFits(
            lesson,
            rig,
            progress,
            seconds=None if config.time is None else seconds_of(config.time),
            kept=config.checkpoint,
            device=config.device,
            storage=config.storage,
        )
        unit = poses.mesh.unit

        def show(found: list[Measured]) -> None:
            progress.say(frontier_line(found[-1], budget, unit))

        skin = deformer_of_skin(poses)
        own = None if skin is None else fits.given(skin)
        if own is not None and skin is not None and is_exact(skin, poses):
            progress.say("The weights of the file are exact, so nothing is fitted.")
            return with_budget(skin, budget, [own], own)
        fits.prepare()
        run = Walk(budget, fits, show, own)
        if is_sequence(poses):
            sequences = sequence_candidates(poses, config.seed, config.levels)
            found = walk_sequence(run, sequences, poses)
        elif whole and run.kept:  # by the weights of the source
            found = run.found
        else:
            found = walk(
                run, candidates_of(poses, config.seed, config.epochs, config.levels, whole)
            )
        visible = whole and not any(budget.keeps(one) for one in found)
        best = min(found, key=lambda one: one.error) if visible else budget.best(found)
        progress.say(default_verdict(best, budget) if whole else verdict(best, budget, unit))
        return with_budget(fits.deformer(best.name), budget, found, best)


def with_budget(
    deformer: Deformer, budget: Budget, found: list[Measured], best: Measured
) -> Deformer:
    """`deformer` with what `auto` asked for and tried in its header, without times."""
    return replace(
        deformer,
        training={**deformer.training, "held_out_mean": best.error},
        provenance={
            **deformer.provenance,
            "auto": {
                "max_error": budget.max_error,
                "max_ms": budget.max_ms,
                "max_bytes": budget.max_bytes,
                "chosen": best.name,
                "frontier": [
                    {"name": one.name, "error": one.error, "bytes": one.bytes} for one in found
                ],
            },
        },
    )


def frontier_line(found: Measured, budget: Budget, unit: str) -> str:
    """What one candidate costs, in a line."""
    unit = "units" if unit == "unitless" else unit
    mark = "within" if budget.keeps(found) else "outside"
    return (
        f"  {found.name:<24} error {found.error:.3g} {unit}, {found.bytes / 1e6:.2f} MB, "
        f"{found.ms:.3f} ms: {mark} the budget"
    )


def verdict(best: Measured, budget: Budget, unit: str) -> str:
    """Which candidate was chosen, and whether it keeps the budget."""
    if budget.keeps(best):
        return f"{best.name} is the cheapest that keeps the budget ({budget.text(unit)})."
    return (
        f"No candidate keeps the budget ({budget.text(unit)}) on poses held out; the nearest is "
        f"{best.name}, {budget.excess(best):.2f} x over. More poses or a wider budget help."
    )


def default_verdict(best: Measured, budget: Budget) -> str:
    """Which candidate was chosen where there is no budget."""
    if budget.keeps(best):
        return f"{best.name} has no visible error."
    return f"{best.name} is kept: it has the smallest error."
