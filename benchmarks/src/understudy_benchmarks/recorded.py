"""`bench recorded`: default options on a few hundred recorded frames, without a rig to ask.

Each case is a clip that is left out; the methods learn the other clips (`recorded_cases.py`).
`lbs-4` is fitted skinning, which no method may be worse than.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from understudy.core.poses import Poses
from understudy.evaluation.measure import Reference, deform_poses, deformer_figures, measure
from understudy.evaluation.result import CaseResult
from understudy.methods import config_from_text, method_type
from understudy.system import checks
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.real_data import data_folder
from understudy_benchmarks.recorded_cases import load_recording

METHODS = ("lbs-4", "corrected_skin", "fdda", "differential", "auto")
_FIGURES = ("mean", "p99", "max")


@dataclass(frozen=True)
class _Size:
    """The work of a run.

    clips    how many clips are left out in turn
    options  of the methods that train networks, as for `--set`
    """

    clips: int
    options: Mapping[str, str] = field(default_factory=dict)


SIZES = {
    "quick": _Size(1, {"epochs": "2", "hidden": "16,16"}),
    "default": _Size(6),
    "full": _Size(6),
}


def run(request: Request, progress: Progress) -> Outcome:
    """Fit and measure the requested methods on the requested clips."""
    for name in request.methods:
        checks.one_of(name, "method of bench recorded", METHODS)
    recording = load_recording(data_folder(request.data))
    for name in request.cases:
        checks.one_of(name, "case of bench recorded", recording.clips)
    size = SIZES[request.size]
    results: list[CaseResult] = []
    for clip in request.cases or recording.clips[: size.clips]:
        training, test = recording.split(clip)
        reference = Reference.of(clip, test)
        for name in request.methods or METHODS:
            results.append(_row(name, training, reference, request, size, progress))
    return Outcome(results, recording.poses.mesh.unit, list(_findings(results)))


def _row(
    name: str,
    training: Poses,
    reference: Reference,
    request: Request,
    size: _Size,
    progress: Progress,
) -> CaseResult:
    kind = method_type(name.partition("-")[0])
    options = {"seed": str(request.seed)}
    if kind.traits.needs_torch:
        known = {field.name for field in dataclasses.fields(kind.Config)}
        options |= {key: value for key, value in size.options.items() if key in known}
    started = time.perf_counter()
    deformer = kind(config_from_text(kind.Config, options)).fit(training, progress=progress)
    figures = {**deformer_figures(deformer), "fit_s": time.perf_counter() - started}
    return measure(name, deform_poses(deformer), reference, figures)


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """Sentences that compare the methods with fitted skinning."""
    skins = {r.case: r.figures for r in results if r.method == "lbs-4"}
    for r in results:
        if r.method != "lbs-4" and r.case in skins:
            ratios = (f"{name} {r.figures[name] / skins[r.case][name]:.2f}" for name in _FIGURES)
            yield f"{r.case}: {r.method} / lbs-4: {', '.join(ratios)}"
