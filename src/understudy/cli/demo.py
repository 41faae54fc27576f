"""The main job end to end on the built-in human: sample, fit `fdda` and `lbs`, measure both on
animation they never saw, write the report.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from understudy.core.progress import SILENT, Progress
from understudy.evaluation.measure import measure_deformers
from understudy.evaluation.report import report_data, write_report
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import ensure_writable
from understudy.methods.fitting import fit_file
from understudy.rigs import animate, load_rig
from understudy.rigs import parallel_sampling as farm
from understudy.rigs.sampling import SamplePlan

# fdda is what the demo shows; lbs, the skinning every engine has, is what it is held against.
OPTIONS: dict[str, dict[str, str]] = {"fdda": {}, "lbs": {}}


def run(
    out: str | Path,
    poses: int = 2000,
    seed: int = 0,
    options: Mapping[str, Mapping[str, str]] = OPTIONS,
    progress: Progress = SILENT,
) -> list[CaseResult]:
    """Everything `understudy demo` does; the files land in `out`. Run again after an interruption,
    it goes on where it stopped.
    """
    out = Path(out)
    ensure_writable(out / "report.html")
    farm.sample_poses("human", SamplePlan(poses, seed=seed), out / "poses.zarr", progress=progress)
    deformers, seconds = {}, {}
    for method, chosen in options.items():
        started = time.perf_counter()
        deformers[method] = fit_file(
            method,
            out / "poses.zarr",
            out / f"{method}.understudy",
            {"seed": str(seed), **chosen},
            progress=progress,
        )
        seconds[method] = time.perf_counter() - started
    rig = load_rig("human")
    cases = {f"human/{name}": partial(animate, rig, name) for name in rig.animation_names}
    figures = {method: {"fit_s": taken} for method, taken in seconds.items()}
    results = measure_deformers(deformers, cases, figures, progress)
    notes = ["Every error is measured on animation that took no part in the fitting."]
    provenance = {"command": f"understudy demo --poses {poses} --seed {seed}", "seed": seed}
    write_report(
        out / "report.html", report_data(rig.name, rig.mesh, deformers, results, provenance, notes)
    )
    return results
