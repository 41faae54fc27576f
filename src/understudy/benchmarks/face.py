"""`bench face`: the tables of the differential paper (sections 4.3 and 4.4) on three faces.

The faces are the built-in rig, a sampled production rig and a linear capture (`face_data.py`). All
methods are fitted to the same poses and measured on the same others. `kpsa` reads the true
positions of its key points, so it is an oracle. Where a face has no bones, `lbs-4` is the rest
mesh. `differential-paper` needs a GPU; without one it runs only if it is requested.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.benchmarks import Outcome, Request
from understudy.benchmarks.baselines import kpsa
from understudy.benchmarks.face_ablations import ablations
from understudy.benchmarks.face_data import (
    CASES,
    Subject,
    blenrig_subject,
    face_subject,
    facecap_subject,
)
from understudy.benchmarks.face_rows import deformer_row, fit_deformer
from understudy.benchmarks.real_data import data_folder
from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.core.skin import Skin
from understudy.evaluation.camera import Camera
from understudy.evaluation.measure import (
    Approximation,
    Reference,
    deform_poses,
    measure,
)
from understudy.evaluation.pictures import save_png
from understudy.evaluation.render import HeatMap, render
from understudy.evaluation.result import CaseResult
from understudy.methods.differential.skins import make_skin

METHODS = ("differential", "differential-paper", "local", "pca_regression", "lbs-4", "kpsa")


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
        name for name in METHODS if name != "differential-paper" or _has_gpu()
    )
    notes = (
        []
        if request.methods or _has_gpu()
        else [
            "differential-paper is left out, since it takes hours without a GPU; request it with "
            "--methods."
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
        subject = face_subject(size.poses, request.seed, request.out / "face.zarr", progress)
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
    fitted = {name: fit_row(name, subject, request, size, progress) for name in methods}
    results = []
    for case, test in subject.tests.items():
        reference = Reference.of(case, test())
        for name, (approximation, figures) in fitted.items():
            result = measure(name, approximation, reference, figures)
            if name == "differential":
                _heat_map(
                    request.out / f"{case.replace('/', '_')}_worst.png", result, reference.poses
                )
            results.append(result)
    return results


def fit_row(
    name: str, subject: Subject, request: Request, size: _Size, progress: Progress
) -> tuple[Approximation, dict[str, float]]:
    """Fit one row to the sample of a subject: the approximation to measure, and its figures."""
    sample = subject.sample
    started = time.perf_counter()
    if name == "kpsa":
        fitted = kpsa.fit(sample, _skin(subject, progress))
        return fitted.deform, {"fit_s": time.perf_counter() - started}
    if name == "lbs-4" and sample.skeleton is None:
        deformer = Deformer(sample.mesh, control_spec=sample.control_spec, method="lbs")
    else:
        method, _, variant = name.partition("-")
        options = {"seed": str(request.seed)}
        if variant == "paper":
            options["preset"] = "paper"
        elif method in ("differential", "local"):
            options |= size.options
            if method == "differential":
                options |= size.anchor_options
        deformer = fit_deformer(method, subject, options, progress)
    took = time.perf_counter() - started
    return deform_poses(deformer), {**deformer_row(deformer, sample), "fit_s": took}


def _skin(subject: Subject, progress: Progress) -> Skin | None:
    """The skin of `differential` with four influences; None without bones."""
    if subject.sample.skeleton is None:
        return None
    return make_skin("auto", subject.sample, subject.rig, 4, progress)


def _has_gpu() -> bool:
    try:
        import torch  # optional dependency
    except ImportError:
        return False
    return torch.cuda.is_available()


def _heat_map(path: Path, result: CaseResult, poses: Poses) -> None:
    """Write a picture of the worst pose: original, stand-in, and a heat map of the errors."""
    frame = result.pictured
    if frame is None:
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
