"""`bench auto`: ten budgets for each source; the choice of `auto` beside a full sweep.

The sweep (`auto_sweep.py`) fits every point of a grid: methods, skins, influences, layers, regions,
networks, hidden widths and components, in 16 bits where that does not change the error. Figures of
a row: the `cost` of the choice and that of the best point of the sweep (`best_cost`; bytes, or the
error where the budget does not bound it), the time of the choice relative to that of the sweep
(`time_share`), and whether the choice keeps the budget on poses that took no part in anything
(`kept`, 1 or 0; a budget that no point of the sweep keeps is kept if the choice misses it by no
more than the best point does).

Times are processor times, so that other programs do not change them. What all fits share, the skins
and the choice of inputs, counts once for the sweep and once for every choice. A fit depends on the
candidate and the seed alone: each is made once, and its time counts for every budget that asks for
it. Budgets are spread over what the sweep reaches, so every source has easy and hard ones. A mesh
sequence is measured on itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.evaluation.result import CaseResult
from understudy.io.registry import read_sequence
from understudy.methods.auto.budget import Budget, Measured
from understudy.methods.auto.candidates import Candidate, candidates_of
from understudy.methods.auto.fits import Lesson, MeasuredFits
from understudy.methods.auto.sequences import sequence_candidates, walk_sequence
from understudy.methods.auto.walk import Walk, walk
from understudy.methods.correctives.guard import mean_error
from understudy.methods.fit_arguments import is_sequence
from understudy.rigs.base import Rig
from understudy.rigs.sampling import SamplePlan, gaussian
from understudy.rigs.tube import TubeRig
from understudy.runtime.timing import pose_ms
from understudy.system import checks
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.auto_sweep import sweep_of
from understudy_benchmarks.face_data import blenrig_subject
from understudy_benchmarks.real_data import data_folder
from understudy_benchmarks.samples import sampled_in_memory
from understudy_characters.face import FaceRig
from understudy_characters.human import HumanRig

METHODS = ("auto",)
_UNSEEN_POSES = 200
_UNSEEN_SEED = 10**6  # added to the seed of the sample
_FRAMES = 60  # of a sequence, at most
_LARGE, _LARGE_SHARE = 10_000, 2 / 3  # rigs with so many vertices have a share of the poses
# Budgets of each kind, between the ends of what the sweep reaches.
_ERRORS, _BYTES, _MS, _BOTH = 5, 2, 1, 2
_TIMING_ROOM = 1.1  # two measurements of the same time differ by less
# Imported before the first fit, so that it does not take longer than the others.
_NOT_TIMED = (
    "torch._dynamo",
    "understudy.methods.corrected_skin",
    "understudy.methods.differential.differential",
    "understudy.methods.fdda",
    "understudy.training.trainer",
)


@dataclass(frozen=True)
class Size:
    """The work of a run.

    sources  names in `SOURCES`
    poses    of a sample
    levels   of networks or numbers of bones; None: all
    epochs   of networks
    """

    sources: tuple[str, ...]
    poses: int
    levels: int | None
    epochs: int


SIZES = {
    "quick": Size(("tube",), 150, 3, 10),
    "default": Size(("human", "face", "blenrig_face", "samba"), 300, None, 20),
    "full": Size(("human", "face", "blenrig_face", "samba"), 3000, None, 100),
}


@dataclass(frozen=True, eq=False)
class Source:
    """Poses to fit, the rig where there is one, and poses that take no part in anything."""

    poses: Poses
    rig: Rig | None
    unseen: Poses | None


def _of_rig(kind: Callable[[], Rig], request: Request, size: Size, progress: Progress) -> Source:
    rig = kind()
    share = _LARGE_SHARE if rig.mesh.vertex_count > _LARGE else 1.0
    plan = SamplePlan(request.poses or round(share * size.poses), seed=request.seed)
    values = gaussian(rig.controls, _UNSEEN_POSES, request.seed + _UNSEEN_SEED)
    return Source(sampled_in_memory(kind, plan, progress), rig, rig.evaluate(values))


def _blenrig(request: Request, size: Size, progress: Progress) -> Source:
    path = data_folder(request.data) / "faces" / "rig_blenrig_face.npz"
    subject = blenrig_subject(path, request.seed)
    count = request.poses or size.poses
    return Source(
        subject.sample.take(evenly(subject.sample.pose_count, count)),
        None,
        subject.tests["blenrig"](),
    )


def _samba(request: Request, size: Size, progress: Progress) -> Source:
    sequence = read_sequence(data_folder(request.data) / "sequences" / "samba.npz")
    return Source(sequence.between(0, min(_FRAMES, sequence.pose_count)), None, None)


SOURCES: dict[str, Callable[[Request, Size, Progress], Source]] = {
    "human": partial(_of_rig, HumanRig),
    "face": partial(_of_rig, FaceRig),
    "tube": partial(_of_rig, TubeRig),
    "blenrig_face": _blenrig,
    "samba": _samba,
}


class _Asked:
    """The fits of a source; remembers the time of those that a walk asked for."""

    out_of_time = False

    def __init__(self, fits: MeasuredFits):
        self._fits = fits
        self.seconds: dict[tuple[str, str], float] = {}

    def whole(self, candidate: Candidate) -> Measured:
        """The whole fit of a candidate."""
        found = self._fits.whole(candidate)
        self.seconds[candidate.name, "whole"] = found.seconds
        return found

    def cheap(self, candidate: Candidate) -> Measured:
        """The cheap fit of a candidate."""
        found = self._fits.cheap(candidate)
        self.seconds[candidate.name, "cheap"] = found.seconds
        return found

    def shrunk(self, candidate: Candidate, budget: Budget) -> Measured:
        """The whole fit of a candidate without some components."""
        found = self._fits.shrunk(candidate, budget)
        self.seconds[found.name, "shrunk"] = found.seconds
        return found


def _walked(budget: Budget, poses: Poses, asked: _Asked, request: Request, size: Size) -> Measured:
    """The choice of `auto`."""
    if is_sequence(poses):
        candidates = sequence_candidates(poses, request.seed, size.levels)
        return budget.best(walk_sequence(Walk(budget, asked), candidates, poses))
    levels = candidates_of(poses, request.seed, size.epochs, size.levels)
    return budget.best(walk(Walk(budget, asked), levels))


def run(request: Request, progress: Progress) -> Outcome:
    """Sweep the candidates of every source, and walk them with ten budgets each."""
    size = SIZES[request.size]
    for module in _NOT_TIMED:
        importlib.import_module(module)
    for name in request.methods:
        checks.one_of(name, "method of bench auto", METHODS)
    for name in request.cases:
        checks.one_of(name.partition("/")[0], "source of bench auto", SOURCES)
    wanted = tuple(dict.fromkeys(name.partition("/")[0] for name in request.cases))
    results: list[CaseResult] = []
    notes: list[str] = []
    for name in wanted or size.sources:
        rows, sweep = _source_rows(name, request, size, progress)
        results += [row for row in rows if not request.cases or _asked_for(row.case, request.cases)]
        notes += sweep
    return Outcome(results, "model units", [*notes, *_findings(results)])


def _asked_for(case: str, cases: tuple[str, ...]) -> bool:
    return case in cases or case.partition("/")[0] in cases


def _source_rows(
    name: str, request: Request, size: Size, progress: Progress
) -> tuple[list[CaseResult], list[str]]:
    """The rows of a source, and a sentence for each point of its sweep."""
    source = SOURCES[name](request, size, progress)
    poses = source.poses
    lesson = Lesson.of(poses, request.seed)
    fits = MeasuredFits(lesson, source.rig, progress, device=request.device)
    shared_s = fits.prepare()
    swept = [fits.whole(one) for one in sweep_of(poses, request.seed, size.epochs, size.levels)]
    sweep_s = shared_s + sum(one.seconds for one in swept)
    rows = []
    for label, budget in budgets(swept):
        asked = _Asked(fits)
        choice = _walked(budget, poses, asked, request, size)
        best = budget.best(swept)
        truth = _on_unseen(fits.deformer(choice.name), choice, source)
        possible = budget.keeps(best)
        kept = (
            _keeps(budget, truth)
            if possible
            else budget.excess(choice) <= _TIMING_ROOM * budget.excess(best)
        )
        figures = {
            "cost": budget.cost(choice),
            "best_cost": budget.cost(best),
            "cost_ratio": budget.cost(choice) / budget.cost(best),
            "time_share": (shared_s + sum(asked.seconds.values())) / sweep_s,
            "kept": float(kept),
            "mean": truth.error,
            "bytes": truth.bytes,
            "ms_1": truth.ms,
        }
        rows.append(CaseResult(f"{name}/{label}", "auto", figures))
        progress.say(
            f"{name}/{label}: {choice.name}, cost {figures['cost_ratio']:.2f} x the best "
            f"({best.name}), time {figures['time_share']:.2f}, kept {kept}: "
            + ", ".join(f"{key} {seconds:.1f} s" for (key, _), seconds in asked.seconds.items())
        )
    notes = [
        f"{name}: {one.name}: error {one.error:.4g}, {one.bytes / 1e6:.2f} MB, {one.ms:.3f} ms, "
        f"{one.seconds:.1f} s"
        for one in swept
    ]
    notes.insert(0, f"{name}: a sweep of {len(swept)} points in {sweep_s:.0f} s of processor time")
    return rows, notes


def _on_unseen(deformer: Deformer, found: Measured, source: Source) -> Measured:
    """The figures of a deformer on poses that took no part in anything."""
    if source.unseen is None:
        return Measured(found.name, found.error, found.bytes, pose_ms(deformer, source.poses))
    return Measured(
        found.name,
        mean_error(deformer, source.unseen),
        found.bytes,
        pose_ms(deformer, source.unseen),
    )


def _keeps(budget: Budget, truth: Measured) -> bool:
    """Whether a deformer keeps the limits themselves, without a margin for the error."""
    return (
        (budget.max_error is None or truth.error <= budget.max_error)
        and (budget.max_ms is None or truth.ms <= _TIMING_ROOM * budget.max_ms)
        and (budget.max_bytes is None or truth.bytes <= budget.max_bytes)
    )


def budgets(swept: list[Measured]) -> Iterator[tuple[str, Budget]]:
    """Yield (name, budget): ten, spread over what a sweep reaches."""
    errors = [one.error for one in swept]
    sizes = [one.bytes for one in swept]
    times = [one.ms for one in swept]
    error_at = partial(_between, min(errors), max(errors))
    bytes_at = partial(_between, min(sizes), max(sizes))
    for share in np.linspace(0.08, 0.85, _ERRORS):
        limit = error_at(float(share))
        yield f"error-{limit:.3g}", Budget(max_error=limit)
    for share in np.linspace(0.4, 0.8, _BYTES):
        size = bytes_at(float(share))
        yield f"bytes-{size / 1e6:.3g}MB", Budget(max_bytes=size)
    for share in np.linspace(0.6, 0.6, _MS):
        ms = _between(min(times), max(times), float(share))
        yield f"ms-{ms:.3g}", Budget(max_ms=ms)
    for share in np.linspace(0.3, 0.6, _BOTH):
        limit, size = error_at(float(share)), bytes_at(0.9)
        yield f"error-{limit:.3g}-bytes-{size / 1e6:.3g}MB", Budget(limit, None, size)


def _between(low: float, high: float, share: float) -> float:
    """A number between two, at equal steps of its logarithm."""
    return float(np.exp(np.log(low) + share * (np.log(high) - np.log(low))))


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """A sentence for each source."""
    for source in dict.fromkeys(r.case.partition("/")[0] for r in results):
        rows = [r.figures for r in results if r.case.startswith(f"{source}/")]
        ratios = sorted(row["cost_ratio"] for row in rows)
        kept = sum(row["kept"] for row in rows)
        yield (
            f"{source}: {kept:.0f} of {len(rows)} budgets kept, cost at "
            f"most {ratios[-1]:.2f} x (median {ratios[len(ratios) // 2]:.2f} x) the best of the "
            f"sweep, time {np.mean([row['time_share'] for row in rows]):.2f} x the sweep's"
        )
