"""From fitted deformers and their results to a report file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.evaluation import machine
from understudy.evaluation.report.page import page
from understudy.evaluation.result import CaseResult, ReportData
from understudy.io.atomic_write import atomic_write


def report_data(
    title: str,
    mesh: Mesh,
    deformers: Mapping[str, Deformer],
    results: Sequence[CaseResult],
    provenance: Mapping[str, object],
    notes: Sequence[str] = (),
) -> ReportData:
    """The report of some deformers on test animations.

    title       name of the character
    mesh        of the original, at rest
    deformers   method -> deformer; the report is about the first one, the others are compared
    results     what `measure_deformers` returned
    provenance  command, seed, data: what is needed to run it again; the version is added
    notes       sentences shown under the headline
    """
    measured = {r.method for r in results}
    summaries = []
    curves = {}
    for method, deformer in deformers.items():
        cost = deformer.cost()
        figures = next((r.figures for r in results if r.method == method), {})
        summaries.append(
            {
                "method": method,
                "bytes": figures.get("bytes", cost["bytes"]),
                "multiply_adds": cost["multiply_adds"],
                "fit_s": figures.get("fit_s"),
                "nets": len(deformer.nets),
                "inputs": sum(len(net.inputs) for net in deformer.nets)
                / max(1, len(deformer.nets)),
            }
        )
        if deformer.provenance.get("training_curve"):
            curve = np.sqrt(deformer.provenance["training_curve"])
            curves[method] = (np.arange(1, len(curve) + 1), curve)
    return ReportData(
        title=title,
        mesh=mesh,
        unit=mesh.unit,
        height=mesh.height,
        results=results,
        deformers=summaries,
        machine=machine.describe(),
        notes=notes,
        subject=next((method for method in deformers if method in measured), ""),
        provenance={"understudy": __version__, **provenance},
        training=curves,
        skins=found_skins(deformers),
    )


def found_skins(deformers: Mapping[str, Deformer]) -> dict[str, tuple[Skeleton, Skin]]:
    """Method -> skeleton and skin of the deformers that were fitted to sequences."""
    return {
        method: deformer.need_skin()
        for method, deformer in deformers.items()
        if deformer.clips and deformer.skin is not None and deformer.skeleton is not None
    }


def write_report(path: str | Path, data: ReportData) -> Path:
    """Write the page to `path`; the file appears only when it is complete."""
    # The file is opened first: a path that cannot be written fails before the pictures are drawn.
    with atomic_write(path) as part:
        part.write_text(page(data), encoding="utf-8")
    return Path(path)
