"""From fitted deformers and their results to the HTML page of a report.

Every section is a function from the data to text. Every name that comes from outside
passes through `html.escape`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.evaluation import machine
from understudy.evaluation.report import plots
from understudy.evaluation.report.headline import headline
from understudy.evaluation.report.sections import (
    bones_section,
    case_section,
    contact_sheet,
    error_map,
    pareto,
)
from understudy.evaluation.report.tables import (
    deformers_table,
    glossary,
    parts_table,
    results_table,
)
from understudy.evaluation.result import CaseResult, ReportData
from understudy.io.atomic_write import atomic_write


def page(data: ReportData) -> str:
    """The whole page. A section without anything to show is left out."""
    sheet = resources.files("understudy.evaluation.report").joinpath("report.css")
    styles = plots.method_styles(data.methods)
    sections = [
        headline(data),
        contact_sheet(data),
        results_table(data, styles),
        pareto(data, styles),
        *(case_section(data, case, styles) for case in data.cases),
        parts_table(data),
        error_map(data),
        bones_section(data),
        deformers_table(data, styles),
        glossary(data),
        _provenance(data),
    ]
    body = "\n".join(section for section in sections if section)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(data.title)} - Understudy report</title>
<style>
{sheet.read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _provenance(data: ReportData) -> str:
    """What is needed to run it again, the machine and the mesh."""
    mesh = f"{data.mesh.vertex_count:,} vertices, {len(data.mesh.polygon_sizes):,} polygons, " + (
        "up axis unknown" if data.mesh.up_axis == "unknown" else f"{data.mesh.up_axis} up"
    )
    pairs = [*data.provenance.items(), *data.machine.items(), ("mesh", mesh)]
    code = lambda key, value: (
        f"<code>{escape(str(value))}</code>" if key == "command" else escape(str(value))
    )
    return (
        "<section><h2>Provenance</h2>\n<dl>"
        + "".join(f"<dt>{escape(str(k))}</dt><dd>{code(k, v)}</dd>" for k, v in pairs)
        + "</dl></section>"
    )


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
        nets = deformer.nets
        summary = {
            "method": method,
            "bytes": figures.get("bytes", cost["bytes"]),
            "multiply_adds": cost["multiply_adds"],
            "fit_s": figures.get("fit_s"),
            "nets": len(nets),
            "inputs": sum(len(net.inputs) for net in nets) / max(1, len(nets)),
        }
        summaries.append(summary)
        if deformer.provenance.get("training_curve"):
            curve = np.sqrt(deformer.provenance["training_curve"])
            curves[method] = (np.arange(1, len(curve) + 1), curve)
    return ReportData(
        title=title,
        mesh=mesh,
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
