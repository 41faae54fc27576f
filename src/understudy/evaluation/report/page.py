"""The HTML page of a report. Every section is a function from the data to text.

Every name that comes from outside passes through `html.escape`.
"""

from __future__ import annotations

from html import escape
from importlib import resources

from understudy.evaluation.report import plots
from understudy.evaluation.report.bones_section import bones_section
from understudy.evaluation.report.case_section import case_section
from understudy.evaluation.report.error_map import error_map
from understudy.evaluation.report.headline import headline
from understudy.evaluation.report.pareto import pareto
from understudy.evaluation.report.tables import (
    deformers_table,
    glossary,
    parts_table,
    results_table,
)
from understudy.evaluation.result import ReportData


def page(data: ReportData) -> str:
    """The whole page. A section without anything to show is left out."""
    sheet = resources.files("understudy.evaluation.report").joinpath("report.css")
    styles = plots.method_styles(data.methods)
    sections = [
        headline(data),
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
