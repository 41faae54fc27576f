"""The report: one self-contained HTML file that tells a character TD whether the stand-in can be
trusted, and where it cannot.

Input is plain data (`ReportData`), output is a page without scripts and without anything to fetch:
pictures are PNG data URIs, curves inline SVG. It follows the evaluation of the FDDA paper: mean and
max (Tables 2-4), side by side with a heat map (Figs. 1, 4), the distribution of vertex errors
(Figs. 6, 7) and linear blend skinning over K (Fig. 8), plus what an artist asks next: which frame,
where on the body, how near.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.core.deformer import Deformer
from understudy.core.version import __version__
from understudy.evaluation import machine
from understudy.evaluation.metric_catalogue import column_names, column_texts
from understudy.evaluation.report_page import page
from understudy.evaluation.result import CaseResult, ReportData, best_of_case
from understudy.io.atomic_write import atomic_write
from understudy.rigs import Rig


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
            "method": method, "bytes": cost["bytes"], "multiply_adds": cost["multiply_adds"],
            "fit_s": seconds.get(method),
            "nets": len(deformer.nets),
            "inputs": sum(len(net.inputs) for net in deformer.nets) / max(1, len(deformer.nets)),
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


def figures_table(results: Sequence[CaseResult], unit: str, title: str = ""):
    """The table of cases and methods for a terminal (a `rich.table.Table`); the best error of each
    case in bold, units in the headers.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, header_style="bold", title_justify="left")
    # However many figures there are, a row must say what it is.
    table.add_column("case", overflow="fold", min_width=min(16, max(len(r.case) for r in results)))
    table.add_column(
        "method", overflow="fold", min_width=min(16, max(len(r.method) for r in results))
    )
    columns = []
    for name in column_names(r.figures for r in results):
        label, shown_unit, texts = column_texts(name, [r.figures.get(name) for r in results], unit)
        table.add_column(
            Text(f"{label}\n{shown_unit}" if shown_unit else label), justify="right", no_wrap=True
        )
        columns.append((name, texts, best_of_case(results, name)))
    before = None
    for k, r in enumerate(results):
        if before is not None and r.case != before:
            table.add_section()
        is_best = lambda name, best, r=r: r.case in best and r.figures.get(name) == best[r.case]
        cells = [
            Text(texts[k], style="bold green" if is_best(name, best) else "")
            for name, texts, best in columns
        ]
        table.add_row(Text("" if r.case == before else r.case), Text(r.method), *cells)
        before = r.case
    return table


def write_report(path: str | Path, data: ReportData) -> Path:
    """Write the page to `path`, whole or not at all; `FileError` where that fails."""
    with atomic_write(
        path
    ) as part:  # opened first: a path that cannot be written fails before the pictures are drawn
        part.write_text(page(data), encoding="utf-8")
    return Path(path)
