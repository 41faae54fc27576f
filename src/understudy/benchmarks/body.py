"""`bench body`: Tables 2 to 4 and Figure 8 of the FDDA paper on the built-in human.

The cases are the rig's own walk and kick, and CMU motion capture retargeted to it. Methods are
fitted to one random sample of the rig. Rows that end in `-ontest` are fitted to the animation they
are measured on, as the paper did for its baselines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from understudy.benchmarks import Outcome, Request
from understudy.benchmarks.baselines import rotational_regression, wpsd
from understudy.benchmarks.real_data import data_folder
from understudy.benchmarks.tuning import marked
from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.progress import Progress
from understudy.core.skin import Skin
from understudy.evaluation import machine
from understudy.evaluation.measure import (
    Approximation,
    Reference,
    deform_poses,
    deformer_figures,
    measure,
)
from understudy.evaluation.report import report_data, write_report
from understudy.evaluation.result import CaseResult
from understudy.methods.fdda.fdda import FddaConfig
from understudy.methods.fdda.groups import assign_bones
from understudy.methods.fitting import fit_file
from understudy.methods.lbs import Lbs, LbsConfig
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_path
from understudy.rigs import animate
from understudy.rigs.human import HumanRig
from understudy.rigs.human.retarget import clip_names, cmu_clip
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan

METHODS = (
    "fdda", "fdda-noclamp", "fdda-tight", "fdda-open", "linear", "lbs-4", "lbs-all",
    "lbs-4-ontest", "lbs-all-ontest", "differential",
    "rotational_regression-2", "rotational_regression-15", "rotational_regression-2-ontest",
    "rotational_regression-15-ontest",
    "wpsd-10", "wpsd-50", "wpsd-100", "wpsd-10-ontest", "wpsd-50-ontest", "wpsd-100-ontest",
)  # fmt: skip
QUICK_METHODS = ("fdda", "fdda-noclamp", "linear", "lbs-4")
INFLUENCES = (1, 2, 3, 4, 6, 8, 12, 16)
_PICTURED = ("fdda", "lbs-4", "lbs-all")  # rows with pictures and curves in the report
_CURVE_POSES = 60

_Curves = Callable[[], tuple[np.ndarray, float]]  # returns control curves (T,C) and frame rate


@dataclass(frozen=True)
class _Size:
    """The work of a `--quick`, a plain and a `--full` run.

    poses         of the sample
    fdda          options of fdda
    clips         CMU clips to measure on; None: all
    lbs_poses     poses that linear blend skinning and the baselines are fitted to
    over_k        whether the curve over the number of influences is measured
    differential  options of differential
    """

    poses: int
    fdda: dict[str, str]
    clips: tuple[str, ...] | None
    lbs_poses: int
    over_k: bool
    differential: dict[str, str] = field(default_factory=dict)


# A body has more parts that move independently than a face, and its rig takes ten times as long to
# evaluate. Its largest errors are at poses outside the sampled range (a stretched, lifted leg);
# less weight decay and more epochs reduce them.
_BODY_NETS = {
    "regions": "64", "anchors": "0.01", "input_poses": "8", "basis_error": "0.01",
    "max_components": "120", "batch_size": "256",
    "weight_decay": "0.3", "epochs": "100", "anchor_epochs": "100",
}  # fmt: skip
SIZES = {
    "quick": _Size(
        400,
        {"epochs": "40"},
        (),
        200,
        False,
        {**_BODY_NETS, "epochs": "4", "anchor_epochs": "4", "input_poses": "1"},
    ),
    "default": _Size(5000, {}, ("02_01", "10_01", "13_29"), 1000, True, _BODY_NETS),
    "full": _Size(
        10000,
        {"epochs": "300"},
        None,
        2000,
        True,
        {**_BODY_NETS, "epochs": "150", "anchor_epochs": "150"},
    ),
}


def run(request: Request, progress: Progress) -> Outcome:
    """Fit and measure the requested methods, and write a report beside the fitted files."""
    size = SIZES[request.size]
    rig = HumanRig()
    available = QUICK_METHODS if request.size == "quick" and not request.methods else METHODS
    for name in request.methods:
        checks.one_of(name, "method of bench body", METHODS)
    methods = request.methods or available
    cases, notes = _cases(rig, request, size)
    sample = sample_poses(
        "human",
        SamplePlan(size.poses, seed=request.seed),
        request.out / "poses.zarr",
        progress=progress,
    )
    fitted = _Fitted(request, size, sample, progress)
    for name in methods:
        fitted.prepare(name)
    results: list[CaseResult] = []
    with progress.task("measuring", len(cases) * len(methods)) as bar:
        for case, values, frame_rate in cases:
            poses = replace(rig.evaluate(values), frame_rate=frame_rate, name=case)
            reference = Reference.of(case, poses, fitted.labels)
            pictured = None
            for name in methods:
                approximation, figures = fitted.get(name, reference)
                result = measure(name, approximation, reference, figures, pictured)
                pictured = result.worst_pose if pictured is None else pictured
                # The report shows pictures and curves of a few rows, and the figures of all.
                results.append(
                    result if name in _PICTURED else CaseResult(case, name, result.figures)
                )
                bar.advance()
    over_k = _lbs_over_k(rig, size, sample, progress) if size.over_k and not request.methods else {}
    _write_report(rig, request, fitted, results, over_k)
    return Outcome(results, rig.mesh.unit, [*notes, *_findings(results)])


def _cases(
    rig: HumanRig, request: Request, size: _Size
) -> tuple[list[tuple[str, np.ndarray, float]], list[str]]:
    """Name, control curves (T,C) and frame rate of each test animation; notes on missing data."""
    own: dict[str, _Curves] = {
        f"human/{name}": partial(rig.animation, name) for name in rig.animation_names
    }
    mocap = data_folder(request.data) / "bodies" / "mocap_cmu_selection.npz"
    notes: list[str] = []
    clips: dict[str, _Curves] = {}
    if mocap.exists():
        clips = {
            f"human/cmu_{clip}": partial(cmu_clip, mocap, clip, rig) for clip in clip_names(mocap)
        }
    elif size.clips != ():
        notes.append(
            f"There is no motion capture at {mocap}, so the human/cmu_* cases are left out; pass "
            f"--data."
        )
    everything = {**own, **clips}
    if request.cases:
        chosen = [checks.one_of(name, "case of bench body", everything) for name in request.cases]
    else:
        wanted = (
            clips
            if size.clips is None
            else [f"human/cmu_{clip}" for clip in size.clips if f"human/cmu_{clip}" in clips]
        )
        chosen = [*own, *wanted]
    return [(name, *everything[name]()) for name in chosen], notes


class _Fitted:
    """The approximations of all methods; `-ontest` rows are fitted again on each case."""

    def __init__(self, request: Request, size: _Size, sample: Poses, progress: Progress):
        self.request, self.size, self.sample, self.progress = request, size, sample, progress
        self.deformers: dict[str, Deformer] = {}
        self.figures: dict[str, dict[str, float]] = {}
        # The seam is measured along the same borders for every method: those of fdda's groups.
        self.labels = assign_bones(sample, FddaConfig.tau)
        self._kept: dict[str, tuple[Approximation, dict[str, float]]] = {}

    def prepare(self, name: str) -> None:
        """Fit a method to the sample, unless that is done or it is fitted on each case."""
        if name not in self._kept and not name.endswith("-ontest"):
            ours = name.startswith(("fdda", "differential", "linear", "lbs"))
            self._kept[name] = (
                self._deformer(name)
                if ours
                else self._baseline(name, self._few(self.size.lbs_poses))
            )

    def get(self, name: str, reference: Reference) -> tuple[Approximation, dict[str, float]]:
        """The approximation to measure on a case, and the figures that belong to it."""
        if name.endswith("-ontest"):
            return self._baseline(name.removesuffix("-ontest"), reference.poses)
        return self._kept[name]

    def _deformer(self, name: str) -> tuple[Approximation, dict[str, float]]:
        figures: dict[str, float] = {}
        if name == "linear":
            bones = best_bone(rigid_errors(self.sample, evenly(self.sample.pose_count, 1000)))
            deformer = Deformer(
                self.sample.mesh,
                self.sample.skeleton,
                self.sample.control_spec,
                Skin.rigid(bones),
                method=name,
            )
        elif name in ("fdda-noclamp", "fdda-tight"):
            self.prepare("fdda")
            fdda, figures = self.deformers["fdda"], self.figures["fdda"]
            deformer = fdda.without_clamp() if name == "fdda-noclamp" else _tight(fdda)
        else:
            method, options = {
                "fdda": ("fdda", self.size.fdda),
                "differential": ("differential", self.size.differential),
                "fdda-open": ("fdda", {**self.size.fdda, "skin_rings": "0", "seam_rings": "0"}),
                "lbs-4": ("lbs", {"influences": "4", "max_poses": str(self.size.lbs_poses)}),
                "lbs-all": ("lbs", {"influences": "none", "max_poses": str(self.size.lbs_poses)}),
            }[name]
            file = self.request.out / f"{name}.understudy"
            took = machine.isolated(
                _fit,
                method,
                self.request.out / "poses.zarr",
                file,
                {"seed": str(self.request.seed), **options},
                self.progress,
            )
            deformer = Deformer.load(file)
            figures = {"fit_s": took.seconds, "peak_mb": took.peak_mb}
        self.deformers[name], self.figures[name] = deformer, figures
        return deform_poses(deformer), {**deformer_figures(deformer), **figures}

    def _baseline(self, name: str, poses: Poses) -> tuple[Approximation, dict[str, float]]:
        """A baseline fitted to `poses` in this process."""
        kind, _, number = name.rpartition("-")
        started = time.perf_counter()
        if kind == "lbs":
            deformer = Lbs(
                LbsConfig(influences=None if number == "all" else int(number), max_poses=None)
            ).fit(poses)
            return deform_poses(deformer), {
                **deformer_figures(deformer),
                "fit_s": time.perf_counter() - started,
            }
        deform: Approximation
        if kind == "rotational_regression":
            deform = rotational_regression.fit(poses, bones=int(number)).deform
        else:
            deform = wpsd.fit(poses, examples=int(number)).deform
        return deform, {"fit_s": time.perf_counter() - started}

    def _few(self, most: int) -> Poses:
        """At most `most` poses of the sample."""
        return self.sample.take(evenly(self.sample.pose_count, most))


def _fit(method: str, poses: Path, out: Path, options: dict[str, str], progress: Progress) -> None:
    """Fit a method and write its file; runs in its own process, to measure its peak memory."""
    fit_file(method, poses, out, options, progress=progress)


def _tight(deformer: Deformer) -> Deformer:
    """fdda with its features clamped to the exact training range."""
    margin = deformer.provenance["config"]["clamp_margin"]
    inside = margin / (1 + 2 * margin) * (deformer.features.high - deformer.features.low)
    return replace(
        deformer,
        features=replace(
            deformer.features,
            low=deformer.features.low + inside,
            high=deformer.features.high - inside,
        ),
    )


def _lbs_over_k(
    rig: HumanRig, size: _Size, sample: Poses, progress: Progress
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Figure 8: case -> (influences, mean error) of linear blend skinning fitted to the sample."""
    equations = NormalEquations.of(sample, evenly(sample.pose_count, size.lbs_poses), progress)
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
        curves[f"human/{name}"] = (np.array(INFLUENCES), np.array(means))
    return curves


def _write_report(
    rig: HumanRig,
    request: Request,
    fitted: _Fitted,
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
        rig.name, rig.mesh, fitted.deformers, marked("body", results), command, notes
    )
    write_report(request.out / "report.html", replace(data, subject=subject, lbs_over_k=over_k))


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """Sentences that compare the rows of each case."""
    row = {(r.case, r.method): r.figures for r in results}
    for case in dict.fromkeys(r.case for r in results):
        ours, lbs, free, tight, opened = (
            row.get((case, m)) for m in ("fdda", "lbs-4", "fdda-noclamp", "fdda-tight", "fdda-open")
        )
        other = row.get((case, "differential"))
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
