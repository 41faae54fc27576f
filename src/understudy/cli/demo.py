"""The main job end to end on the built-in human: sample, fit `fdda` and `lbs`, measure both on animation they never saw, write the report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.core.deformer import Deformer
from understudy.core.progress import SILENT, Progress
from understudy.core.version import __version__
from understudy.evaluation import machine
from understudy.evaluation.measure import Reference, deform_poses, deformer_figures, measure, seam_sets
from understudy.evaluation.report import CaseResult, ReportData, write_report
from understudy.io.understudy_file import ensure_writable
from understudy.methods.fitting import fit_file
from understudy.rigs import Rig, animate, load_rig
from understudy.rigs import parallel_sampling as farm
from understudy.rigs.sampling import SamplePlan

# fdda is what the demo shows; lbs, the skinning every engine has, is what it is held against.
OPTIONS: dict[str, dict[str, str]] = {"fdda": {}, "lbs": {}}


def run(
    out: str | Path, poses: int = 2000, seed: int = 0, options: Mapping[str, Mapping[str, str]] = OPTIONS, progress: Progress = SILENT
) -> list[CaseResult]:
    """Everything `understudy demo` does; the files land in `out`. Run again after an interruption, it goes on where it stopped."""
    out = Path(out)
    ensure_writable(out / "report.html")
    farm.sample_poses("human", SamplePlan(poses, seed=seed), out / "poses.zarr", progress=progress)
    deformers, seconds = {}, {}
    for method, chosen in options.items():
        started = time.perf_counter()
        deformers[method] = fit_file(method, out / "poses.zarr", out / f"{method}.understudy", {"seed": str(seed), **chosen}, progress=progress)
        seconds[method] = time.perf_counter() - started
    rig = load_rig("human")
    results = []
    with progress.task("measuring on unseen animation", len(rig.animation_names)) as bar:
        for name in rig.animation_names:
            reference = Reference.of(f"human/{name}", animate(rig, name), seam_sets(deformers.values()))
            pictured = None
            for method, deformer in deformers.items():
                figures = {**deformer_figures(deformer), "fit_s": seconds[method]}
                results.append(measure(method, deform_poses(deformer), reference, figures, pictured))
                pictured = results[-1].worst_pose if pictured is None else pictured
            bar.advance()
    notes = ["Every error is measured on animation that took no part in the fitting."]
    provenance = {"command": f"understudy demo --poses {poses} --seed {seed}", "seed": seed}
    write_report(out / "report.html", report_data(rig, deformers, seconds, results, notes, provenance))
    return results


def report_data(
    rig: Rig,
    deformers: Mapping[str, Deformer],
    seconds: Mapping[str, float],
    results: Sequence[CaseResult],
    notes: Sequence[str],
    provenance: Mapping[str, object],
) -> ReportData:
    """The report of some fitted deformers on a rig's animations."""
    summaries = []
    curves = {}
    for method, deformer in deformers.items():
        cost = deformer.cost()
        summaries.append({
            "method": method, "bytes": cost["bytes"], "multiply_adds": cost["multiply_adds"], "fit_s": seconds.get(method),
            "nets": len(deformer.nets), "inputs": sum(len(net.inputs) for net in deformer.nets) / max(1, len(deformer.nets)),
        })  # fmt: skip
        if deformer.provenance.get("training_curve"):
            curve = [value**0.5 for value in deformer.provenance["training_curve"]]
            curves[method] = (list(range(1, len(curve) + 1)), curve)
    return ReportData(
        title=rig.name,
        mesh=rig.mesh,
        unit=rig.mesh.unit,
        height=rig.mesh.height,
        results=results,
        deformers=summaries,
        machine=machine.describe(),
        notes=notes,
        subject="fdda" if "fdda" in deformers else "",
        provenance={"understudy": __version__, **provenance},
        training=curves,
    )
