"""`understudy demo`: the whole job on the built-in human.

It samples the rig, fits `fdda` and `lbs`, measures both on animations that took no part in the fit,
and writes a report.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import Out, Seed
from understudy.cli.output import print_table
from understudy.core.progress import SILENT, Progress
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.measure import measure_deformers
from understudy.evaluation.pictures import need_drawing
from understudy.evaluation.report import report_data, write_report
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import ensure_writable
from understudy.methods.fitting import fit_file
from understudy.rigs.base import animate, animation_names
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.registry import load_rig
from understudy.rigs.sampling import SamplePlan
from understudy.viewer.measured import KeptFrames

# fdda is the stand-in; lbs, the skinning that every engine has, is there for comparison.
OPTIONS: Mapping[str, Mapping[str, str]] = {"fdda": {}, "lbs": {}}


def demo(
    out: Out = Path("out/demo"),
    poses: Annotated[int, typer.Option(min=10, help="Number of training poses.")] = 2000,
    seed: Seed = 0,
) -> None:
    """Learn the built-in human and measure the result.

    Samples the rig, fits fdda and lbs, measures both on a walk and a kick, writes a report. If it
    is interrupted, run the same command again: it resumes.
    """
    results = run(out, poses, seed, progress=TerminalProgress())
    print_table(results, "cm", "human: errors on animations that took no part in the fit")
    print(
        f"\nWritten to {out}: fdda.understudy, lbs.understudy, report.html and page.html (the "
        "character itself). Open the last two in a browser."
    )


def run(
    out: str | Path,
    poses: int = 2000,
    seed: int = 0,
    options: Mapping[str, Mapping[str, str]] = OPTIONS,
    progress: Progress = SILENT,
) -> list[CaseResult]:
    """What `understudy demo` measures; files go to `out`, and an interrupted run is resumed.

    options  method -> its options, as for `--set`
    """
    out = Path(out)
    need_drawing()
    ensure_writable(out / "report.html")
    store = out / "poses.zarr"
    sample_poses("human", SamplePlan(poses, seed=seed), store, progress=progress)
    deformers, figures = {}, {}
    for method, chosen in options.items():
        started = time.perf_counter()
        deformers[method] = fit_file(
            method,
            store,
            out / f"{method}.understudy",
            {"seed": str(seed), **chosen},
            progress=progress,
        )
        figures[method] = {"fit_s": time.perf_counter() - started}
    rig = load_rig("human")
    cases = {f"human/{name}": partial(animate, rig, name) for name in animation_names(rig)}
    kept = KeptFrames(cases)
    results = measure_deformers(deformers, kept.cases, figures, progress)
    notes = ["Every error is measured on animations that took no part in the fit."]
    provenance = {"command": f"understudy demo --poses {poses} --seed {seed}", "seed": seed}
    kept.write_page(deformers, "human", out / "page.html")
    data = report_data("human", rig.mesh, deformers, results, provenance, notes)
    write_report(out / "report.html", replace(data, page="page.html"))
    return results
