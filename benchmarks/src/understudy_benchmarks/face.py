"""`bench face`: the tables of the differential paper (sections 4.3 and 4.4) on three faces.

The faces are the built-in rig, a sampled production rig and a linear capture (`face_data.py`). All
methods are fitted to the same poses and measured on the same others. `kpsa` reads the true
positions of its key points, so it is an oracle. A face without bones has no row `lbs-4`.

`differential-paper` and `local-paper` are the methods as published, `-paper-early` stop by
validation poses. They need a GPU; without one they run only if they are requested.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.evaluation.camera import Camera
from understudy.evaluation.measure import (
    Approximation,
    Reference,
    deform_poses,
    measure,
)
from understudy.evaluation.render import HeatMap, render
from understudy.evaluation.result import CaseResult
from understudy.methods.correctives.facts import PoseFacts
from understudy.system import checks
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.baselines import kpsa
from understudy_benchmarks.face_ablations import ablations
from understudy_benchmarks.face_data import (
    CASES,
    Subject,
    blenrig_subject,
    face_subject,
    facecap_subject,
)
from understudy_benchmarks.face_rows import deformer_row, fit_deformer
from understudy_benchmarks.pictures import can_draw, save_png
from understudy_benchmarks.real_data import data_folder
from understudy_benchmarks.seeds import at_once, averaged

METHODS = (
    "differential", "local", "differential-paper", "local-paper", "differential-paper-early",
    "local-paper-early", "pca_regression", "lbs-4", "kpsa",
)  # fmt: skip
TRAINED = tuple(name for name in METHODS if name.startswith(("differential", "local")))
_FOR_GPU = tuple(name for name in METHODS if "-paper" in name)


@dataclass(frozen=True)
class _Size:
    """The work of a run.

    poses             of the sample of the built-in face
    facecap_poses     of the sample of the linear capture
    blenrig_fraction  of the training rows of the production rig
    options           of differential and local
    anchor_options    of differential, beside these
    """

    poses: int
    facecap_poses: int
    blenrig_fraction: float
    options: dict[str, str]
    anchor_options: dict[str, str]


SIZES = {
    "quick": _Size(
        300,
        200,
        0.2,
        {"epochs": "6", "hidden": "64,64", "regions": "8", "input_poses": "3"},
        {"anchor_epochs": "6"},
    ),
    "default": _Size(5000, 2000, 1.0, {}, {}),
    "full": _Size(10000, 5000, 1.0, {"epochs": "200"}, {"anchor_epochs": "200"}),
}


def run(request: Request, progress: Progress) -> Outcome:
    """Fit and measure the requested methods; pictures of the worst poses go to `request.out`."""
    size = SIZES[request.size]
    for name in request.methods:
        checks.one_of(name, "method of bench face", METHODS)
    for name in request.cases:
        checks.one_of(name, "case of bench face", CASES)
    methods = request.methods or tuple(
        name for name in METHODS if name not in _FOR_GPU or _has_gpu()
    )
    notes = (
        []
        if request.methods or _has_gpu()
        else [
            f"{', '.join(_FOR_GPU)} are left out, since they take hours without a GPU; request "
            "them with --methods."
        ]
    )
    results: list[CaseResult] = []
    for subject in _subjects(request, size, progress, notes):
        results += _rows(subject, methods, request, size, progress)
    if request.ablations:
        results += ablations(request, progress)
    return Outcome(
        results,
        "cm",
        [*notes, "blenrig is measured in m, facecap in its own unit.", *_findings(results)],
    )


def _subjects(
    request: Request, size: _Size, progress: Progress, notes: list[str]
) -> Iterator[Subject]:
    """The subjects of the requested cases, one at a time, so that one sample is in memory."""
    wanted = request.cases or CASES
    if any(case.startswith("face/") for case in wanted):
        subject = face_subject(
            request.poses or size.poses, request.seed, request.out / "face.zarr", progress
        )
        yield Subject(
            subject.name,
            subject.sample,
            subject.rig,
            {case: test for case, test in subject.tests.items() if case in wanted},
        )
    faces = data_folder(request.data) / "faces"
    for case, file, make in (
        (
            "blenrig",
            "rig_blenrig_face.npz",
            lambda path: blenrig_subject(path, request.seed, size.blenrig_fraction),
        ),
        (
            "facecap",
            "face_facecap_arkit52.npz",
            lambda path: facecap_subject(path, size.facecap_poses, request.seed),
        ),
    ):
        if case not in wanted:
            continue
        if (faces / file).exists():
            yield make(faces / file)
        else:
            notes.append(
                f"There is no {faces / file}, so the case {case} is left out; pass --data."
            )


def _rows(
    subject: Subject, methods: tuple[str, ...], request: Request, size: _Size, progress: Progress
) -> list[CaseResult]:
    runs = [
        (name, request.seed + k)
        for name in methods
        if name != "lbs-4" or subject.sample.skeleton is not None
        for k in range(request.seeds if name in TRAINED else 1)
    ]
    references = [Reference.of(case, test()) for case, test in subject.tests.items()]
    measured = at_once(
        [
            partial(_measured, name, seed, subject, references, request, size, progress)
            for name, seed in runs
        ],
        request.jobs,
    )
    by_row: dict[tuple[str, str], list[CaseResult]] = {}
    for results in measured:
        for result in results:
            by_row.setdefault((result.case, result.method), []).append(result)
    order = [(reference.case, name) for reference in references for name in methods]
    return [averaged(by_row[row]) for row in order if row in by_row]


def _measured(
    name: str,
    seed: int,
    subject: Subject,
    references: Sequence[Reference],
    request: Request,
    size: _Size,
    progress: Progress,
) -> list[CaseResult]:
    """Fit one row with one seed and measure it on all cases; its figures are also written apart."""
    approximation, figures = fit_row(name, seed, subject, request, size, progress)
    results = []
    for reference in references:
        result = measure(name, approximation, reference, figures)
        if name in TRAINED and seed == request.seed:
            picture = request.out / f"{reference.case.replace('/', '_')}_{name}_worst.png"
            _heat_map(picture, result, reference.poses)
        results.append(result)
    if request.seeds > 1 or request.jobs > 1:
        rows = [{"case": r.case, "method": name, "seed": seed, **r.figures} for r in results]
        request.out.mkdir(parents=True, exist_ok=True)
        path = request.out / f"{subject.name}-{name}-seed{seed}.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
    return results


def fit_row(
    name: str, seed: int, subject: Subject, request: Request, size: _Size, progress: Progress
) -> tuple[Approximation, dict[str, float]]:
    """Fit one row to the sample of a subject: the approximation to measure, and its figures."""
    sample = subject.sample
    started = time.perf_counter()
    if name == "kpsa":
        fitted = kpsa.fit(sample, _skin(subject, progress))
        return fitted.deform, {"fit_s": time.perf_counter() - started}
    method, _, preset = name.partition("-")
    options = {"seed": str(seed)}
    if name in TRAINED:
        options["device"] = request.device
        if preset:
            options["preset"] = preset
        else:
            options |= size.options | (size.anchor_options if method == "differential" else {})
        # `local` has no anchors.
        options |= {
            option: value
            for option, value in request.options.items()
            if method == "differential" or not option.startswith("anchor")
        }
    deformer = fit_deformer(method, subject, options, progress)
    took = time.perf_counter() - started
    epochs = {"epochs": float(len(deformer.provenance.get("training_curve", ())))}
    return deform_poses(deformer), {
        **deformer_row(deformer, sample),
        **(epochs if name in TRAINED else {}),
        "fit_s": took,
    }


def _skin(subject: Subject, progress: Progress) -> Skin | None:
    """The skin of `differential` with four influences; None without bones."""
    if subject.sample.skeleton is None:
        return None
    return PoseFacts(subject.sample, progress).skin("auto", 4, subject.rig)


def _has_gpu() -> bool:
    try:
        import torch  # optional dependency
    except ImportError:
        return False
    return torch.cuda.is_available()


def _heat_map(path: Path, result: CaseResult, poses: Poses) -> None:
    """Write a picture of the worst pose: original, stand-in, and a heat map of the errors."""
    frame = result.pictured
    if frame is None or not can_draw():
        return
    mesh = poses.mesh
    camera = Camera(view=(15.0, 0.0), size=(420, 520), fit_to=frame.true, up_axis=mesh.up)
    heat = HeatMap(frame.error, 0.0, float(frame.error.max()) or 1.0)
    pictures = [
        render(frame.true, mesh.triangles, camera),
        render(frame.approx, mesh.triangles, camera),
        render(frame.approx, mesh.triangles, camera, heat=heat),
    ]
    save_png(path, np.concatenate(pictures, axis=1))


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """Sentences that compare the rows of each case."""
    row = {(r.case, r.method): r.figures for r in results}
    for case in dict.fromkeys(r.case for r in results):
        ours = row.get((case, "differential"))
        for rival in METHODS[1:]:
            other = row.get((case, rival))
            if ours and other and other["mean"] > 0 and other["max"] > 0:
                oracle = " (an oracle)" if rival == "kpsa" else ""
                yield (
                    f"{case}: differential / {rival}{oracle}: mean "
                    f"{ours['mean'] / other['mean']:.2f}, max {ours['max'] / other['max']:.2f}"
                )
