"""`bench outside`: poses far outside the training range, where no stand-in may be much worse than
its own skin.

Each case is a built-in rig and a way to leave its range (`outside_poses.py`). A method is fitted to
a random sample, with default options. Its error is compared with that of its skin alone, without
any corrective.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.evaluation.measure import Reference, deform_poses, deformer_figures, measure
from understudy.evaluation.result import CaseResult
from understudy.methods import config_from_text, method_type
from understudy.rigs import load_rig
from understudy.rigs.base import Rig
from understudy.rigs.sampling import SamplePlan
from understudy.system import checks
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.outside_poses import COUNT, KINDS, outside_poses

METHODS = ("corrected_skin", "fdda", "differential")
RIGS = ("tube", "human", "face")
LIMIT = 1.2  # times the error of the skin


@dataclass(frozen=True)
class _Size:
    """The work of a run.

    rigs     built-in rigs
    poses    of each sample
    options  of the methods, as for `--set`
    """

    rigs: tuple[str, ...]
    poses: int
    options: Mapping[str, str] = field(default_factory=dict)


SIZES = {
    "quick": _Size(("tube",), 300, {"epochs": "20", "hidden": "32,32"}),
    "default": _Size(RIGS, 700),
    "full": _Size(RIGS, 5000),
}


def run(request: Request, progress: Progress) -> Outcome:
    """Fit the requested methods to the requested rigs, and measure them outside their range."""
    size = SIZES[request.size]
    every = [f"{rig}/{kind}" for rig in RIGS for kind in KINDS]
    for name in request.methods:
        checks.one_of(name, "method of bench outside", METHODS)
    for case in request.cases:
        checks.one_of(case, "case of bench outside", every)
    wanted = request.cases or [case for case in every if case.partition("/")[0] in size.rigs]
    results: list[CaseResult] = []
    for name in dict.fromkeys(case.partition("/")[0] for case in wanted):
        rig = load_rig(name)
        sample = rig.evaluate(SamplePlan(request.poses or size.poses, request.seed).values(rig))
        kinds = {
            f"{name}/{kind}": poses
            for kind, poses in outside_poses(rig, COUNT).items()
            if f"{name}/{kind}" in wanted
        }
        for method in request.methods or METHODS:
            results += _rows(method, sample, rig, kinds, request, size, progress)
    return Outcome(results, "cm", list(_findings(results)))


def _rows(
    name: str,
    sample: Poses,
    rig: Rig,
    cases: Mapping[str, Poses],
    request: Request,
    size: _Size,
    progress: Progress,
) -> Iterator[CaseResult]:
    """The rows of a method on the cases of one rig."""
    kind = method_type(name)
    known = {field.name for field in dataclasses.fields(kind.Config)}
    options = {key: text for key, text in size.options.items() if key in known}
    options |= {"seed": str(request.seed), **request.options}
    started = time.perf_counter()
    deformer = kind(config_from_text(kind.Config, options)).fit(sample, rig=rig, progress=progress)
    seconds = time.perf_counter() - started
    bare = bare_skin(deformer)
    for case, poses in cases.items():
        reference = Reference.of(case, poses)
        skin = measure("skin", deform_poses(bare), reference, {}).figures["mean"]
        figures = {**deformer_figures(deformer), "fit_s": seconds, "skin_mean": skin}
        row = measure(name, deform_poses(deformer), reference, figures)
        ratio = row.figures["mean"] / max(skin, 1e-12)
        yield replace(row, figures={**row.figures, "skin_ratio": ratio})


def bare_skin(deformer: Deformer) -> Deformer:
    """The skin of a deformer without any corrective, not even their mean."""
    return replace(deformer.skin_alone(), mean=None)


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """The largest ratio of each method, and each that is above the limit."""
    for method in dict.fromkeys(row.method for row in results):
        worst = max(
            (row for row in results if row.method == method),
            key=lambda row: row.figures["skin_ratio"],
        )
        yield f"{method}: at most {worst.figures['skin_ratio']:.2f} x its skin ({worst.case})"
    for row in results:
        if row.figures["skin_ratio"] > LIMIT:
            yield f"{row.case}: {row.method} is above {LIMIT} x its skin"
