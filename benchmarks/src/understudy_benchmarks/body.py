"""`bench body`: Tables 2 to 4 and Figure 8 of the FDDA paper on the built-in human.

The cases are the rig's own walk and kick, and CMU motion capture retargeted to it, of two subjects.
`skeleton` is the protocol of the paper (section 4.1): controls that act other than through bones
stay at rest, in the sample and in the animations, so that methods that read bones alone can follow.
`human` has all controls. The clips of
`UNSEEN_CLIPS` took no part in any choice. Methods are fitted to one random
sample of the rig. Rows that end in `-ontest` are fitted to the animation they are measured on, as
the paper did for its baselines.

`fdda-paper` is the method as published, `fdda-paper-eq8` the same on a sample that follows Equation
8 instead of the text around it. `fdda-adamw` has the optimiser, loss and activation of
`differential`, `local` everything that `differential` has but differential coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import evenly
from understudy.core.skin import Skin
from understudy.evaluation.measure import Reference, measure
from understudy.evaluation.report import report_data, write_report
from understudy.evaluation.result import CaseResult
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_path
from understudy.rigs import animate
from understudy.runtime.timing import pose_times
from understudy.system import checks
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.body_fits import (
    DEFAULT_METHODS,
    METHODS,
    SIZES,
    SUBJECTS,
    BodyFits,
    Size,
    SkeletonRig,
)
from understudy_benchmarks.influence_plot import with_influences
from understudy_benchmarks.pictures import can_draw
from understudy_benchmarks.real_data import data_folder
from understudy_benchmarks.seeds import averaged
from understudy_benchmarks.tuning import marked
from understudy_characters.human import HumanRig
from understudy_characters.human.retarget import clip_names, cmu_clip

QUICK_METHODS = ("fdda", "fdda-noclamp", "linear", "lbs-4")
INFLUENCES = (1, 2, 3, 4, 6, 8, 12, 16)
# Rows with pictures and curves in the report.
_PICTURED = (
    "corrected_skin", "fdda", "fdda-paper", "differential", "lbs-4", "lbs-all",
    "rotational_regression-15",
)  # fmt: skip
_CURVE_POSES = 60

_Curves = Callable[[], tuple[np.ndarray, float]]  # returns control curves (T,C) and frame rate


def run(request: Request, progress: Progress) -> Outcome:
    """Fit and measure the requested methods, and write a report for each subject."""
    size = SIZES[request.size]
    for name in request.methods:
        checks.one_of(name, "method of bench body", METHODS)
    cases, notes = _cases(request, size)
    results: list[CaseResult] = []
    for subject in SUBJECTS:
        mine = {case: curves for case, curves in cases.items() if case.startswith(f"{subject}/")}
        if not mine:
            continue
        methods = request.methods or (
            QUICK_METHODS if request.size == "quick" else DEFAULT_METHODS[subject]
        )
        fits = BodyFits(subject, request, size, methods, progress)
        times = pose_times(fits.deformers, fits.sample, size.seconds) if fits.deformers else {}
        found = [
            replace(row, figures={**row.figures, **times.get(row.method, {})})
            for row in _measured(fits, mine, methods, notes, progress)
        ]
        whole = size.over_k and not request.methods
        over_k = _lbs_over_k(fits, progress) if whole else {}
        if can_draw():
            _write_report(request, fits, found, over_k)
        results += found
    return Outcome(results, "cm", [*notes, *_findings(results)])


def _measured(
    fits: BodyFits,
    cases: dict[str, _Curves],
    methods: Sequence[str],
    notes: list[str],
    progress: Progress,
) -> Iterator[CaseResult]:
    """The rows of a subject."""
    with progress.task(f"measuring {fits.subject}", len(cases) * len(methods)) as bar:
        for case, curves in cases.items():
            values, frame_rate = curves()
            poses = replace(fits.rig.evaluate(values), frame_rate=frame_rate, name=case)
            reference = Reference.of(case, poses, fits.labels)
            pictured = None
            for name in methods:
                rows = fits.rows(name, poses)
                if rows:
                    result = averaged(
                        [measure(name, row, reference, more, pictured) for row, more in rows]
                    )
                    pictured = result.pictured if pictured is None else pictured
                    # The report shows pictures and curves of a few rows, and the figures of all.
                    yield result if name in _PICTURED else CaseResult(case, name, result.figures)
                else:
                    notes.append(f"{case}: no row {name}, the animation has too few frames.")
                bar.advance()


def _cases(request: Request, size: Size) -> tuple[dict[str, _Curves], list[str]]:
    """Case -> function that returns its curves and frame rate; notes on missing data."""
    mocap = data_folder(request.data) / "bodies" / "mocap_cmu_selection.npz"
    notes: list[str] = []
    if not mocap.exists() and size.clips != ():
        notes.append(
            f"There is no motion capture at {mocap}, so the cases */cmu_* are left out; pass "
            f"--data."
        )
    everything: dict[str, _Curves] = {}
    plain: list[str] = []
    for subject, kind in SUBJECTS.items():
        rig = kind()
        own = {f"{subject}/{name}": partial(rig.animation, name) for name in rig.animation_names}
        clips: dict[str, _Curves] = {}
        if mocap.exists():
            clips = {
                f"{subject}/cmu_{clip}": partial(_clip, mocap, clip, rig)
                for clip in clip_names(mocap)
            }
        everything |= own | clips
        few = {f"{subject}/cmu_{clip}" for clip in size.clips or ()}
        wanted = [case for case in clips if size.clips is None or case in few]
        if request.size != "quick" or subject == "human":
            plain += [*own, *wanted]
    chosen = request.cases or tuple(plain)
    return {
        name: everything[checks.one_of(name, "case of bench body", everything)] for name in chosen
    }, notes


def _clip(mocap: Path, clip: str, rig: HumanRig) -> tuple[np.ndarray, float]:
    values, frame_rate = cmu_clip(mocap, clip, rig)
    return (rig.bones_only(values) if isinstance(rig, SkeletonRig) else values), frame_rate


def _lbs_over_k(fits: BodyFits, progress: Progress) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Figure 8: case -> (influences, mean error) of linear blend skinning fitted to the sample."""
    sample, rig = fits.sample, fits.rig
    equations = NormalEquations.of(sample, np.arange(sample.pose_count), progress)
    skins = solve_path(equations, INFLUENCES, progress)
    curves = {}
    for name in rig.animation_names:
        poses = animate(rig, name)
        few = poses.take(evenly(poses.pose_count, _CURVE_POSES))
        true = few.read_poses(0, few.pose_count)
        means = []
        for index, weight in skins:
            deformer = Deformer(sample.mesh, sample.skeleton, skin=Skin(index, weight))
            difference = deformer.deform(few.world_from_bone) - true
            means.append(float(np.linalg.norm(difference, axis=2).mean()))
        curves[f"{fits.subject}/{name}"] = (np.array(INFLUENCES), np.array(means))
    return curves


def _write_report(
    request: Request,
    fits: BodyFits,
    results: list[CaseResult],
    over_k: dict[str, tuple[np.ndarray, np.ndarray]],
) -> None:
    subject = "fdda" if any(r.method == "fdda" for r in results) else ""
    notes = [
        "Rows that end in -ontest were fitted to the animation they are measured on, all others to "
        "a random sample of the rig."
    ]
    command = {"command": f"understudy bench body ({request.size})", "seed": request.seed}
    data = report_data(
        fits.subject, fits.rig.mesh, fits.deformers, marked("body", results), command, notes
    )
    name = "report.html" if fits.subject == "human" else f"{fits.subject}-report.html"
    write_report(request.out / name, with_influences(replace(data, subject=subject), over_k))


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """Sentences that compare the rows of each case."""
    row = {(r.case, r.method): r.figures for r in results}
    for case in dict.fromkeys(r.case for r in results):
        ours, lbs, free, tight, opened = (
            row.get((case, m)) for m in ("fdda", "lbs-4", "fdda-noclamp", "fdda-tight", "fdda-open")
        )
        other, default = row.get((case, "differential")), row.get((case, "corrected_skin"))
        if ours and default:
            ratios = ", ".join(
                f"{name} {default[name] / ours[name]:.2f}"
                for name in ("mean", "p99", "max", "bytes", "ms_1")
                if ours.get(name) and name in default
            )
            yield f"{case}: corrected_skin / fdda: {ratios}"
        if ours and other:
            yield (
                f"{case}: differential / fdda: mean {other['mean'] / ours['mean']:.2f}, max "
                f"{other['max'] / ours['max']:.2f}"
            )
        if ours and lbs:
            yield f"{case}: fdda's EE is {ours['ee'] / lbs['ee']:.2f} x that of lbs-4"
        if ours and free and tight:
            yield (
                f"{case}: fdda's max is {ours['max']:.3g}; without a clamp {free['max']:.3g}, "
                f"clamped to the exact training range {tight['max']:.3g}"
            )
        if ours and opened:
            seam = (
                f"from {opened['seam']:.3g} to {ours['seam']:.3g} (along other edges: "
                f"{ours['seam_inner']:.3g})"
            )
            yield f"{case}: blending skin and networks at the borders changes the seam {seam}"
