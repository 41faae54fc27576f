"""The tables of a report (results, parts, what was fitted, glossary), and that for a terminal."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from understudy.evaluation.metric_catalogue import (
    byte_scale,
    column_names,
    column_texts,
    digits3,
    metric_of,
    unit_text,
)
from understudy.evaluation.report import plots
from understudy.evaluation.report.html import curves, header_cell, plain, swatch
from understudy.evaluation.result import TUNED_NOTE, CaseResult, ReportData, best_of_case

if TYPE_CHECKING:
    from rich.table import Table

Styles = Mapping[str, plots.Style]
# What matters first, of the figures that a terminal's table has; the others are in the report.
MATTERS = ("e", "mean", "p99", "max", "bytes", "ms_1", "fit_s")
_COLUMNS = 5

_DEFORMER_COLUMNS = {
    "bytes": ("size", "bytes"),
    "multiply_adds": ("multiply-adds", "per pose"),
    "fit_s": ("fit", "s"),
    "nets": ("networks", ""),
    "inputs": ("inputs", "per network"),
}


def results_table(data: ReportData, styles: Styles) -> str:
    """Cases, methods and figures, with mean, p99 and max of each row on one logarithmic scale."""
    rows = [_with_percent(r, data.height) for case in data.cases for r in data.of_case(case)]
    columns = []
    for name in column_names(r.figures for r in rows):
        values = [r.figures.get(name) for r in rows]
        label, unit, texts = column_texts(name, values, data.unit, data.mesh.size_label)
        columns.append((name, label, unit, texts, best_of_case(rows, name)))
    lengths = [x for r in rows for x in _range(r) if math.isfinite(x) and x > 0]
    ends = (min(lengths), max(lengths)) if lengths else (1.0, 1.0)
    span = f"{digits3(ends[0])} to {digits3(ends[1])} {escape(unit_text(data.unit))}, logarithmic"
    head = "".join(header_cell(label, unit) for _, label, unit, _, _ in columns)
    # The plot comes first: a wide table is cut off at the right.
    lines = [
        f'<thead><tr>{header_cell("method", "")}<th class="ranges">mean · p99 · max'
        f'<span class="unit">{span}</span></th>{head}</tr></thead>'
    ]
    before = None
    for k, r in enumerate(rows):
        if r.case != before:
            lines.append("</tbody>" if before is not None else "")
            lines.append(
                f'<tbody><tr><th class="case" colspan="{len(columns) + 2}">{escape(r.case)}</th>'
                "</tr>"
            )
            before = r.case
        cells = ""
        for name, _, _, texts, best in columns:
            is_best = r.case in best and r.figures.get(name) == best[r.case]
            text = escape(texts[k])
            cells += f"<td><b>{text}</b></td>" if is_best else f"<td>{text}</td>"
        mark = plots.range_mark(_range(r), ends, styles[r.method])
        lines.append(
            f"<tr><td>{swatch(styles[r.method])}{escape(r.label)}</td>"
            f'<td class="ranges">{mark}</td>{cells}</tr>'
        )
    note = f'<p class="soft">{escape(TUNED_NOTE)}</p>' if any(r.tuned for r in rows) else ""
    return (
        '<h2>All results</h2>\n<p class="soft">The lowest error of each case is in bold green. '
        '<span class="ranges">Beside each method the dot is the mean, the thick bar ends at p99, '
        "and the ring is the max.</span></p>\n"
        f'<div class="scroll"><table>{"".join(lines)}</tbody></table></div>{note}'
    )


def parts_table(data: ReportData) -> str:
    """The error of each part of the character, over all cases; "" if the mesh has at most one."""
    parts = {name: at for name, at in data.mesh.parts.items() if len(at)}
    if len(parts) < 2:
        return ""
    measured: dict[str, list[CaseResult]] = {}
    for r in data.results:
        if r.per_vertex_mean is not None and r.per_vertex_max is not None:
            measured.setdefault(r.method, []).append(r)
    if not measured:
        return ""
    unit = unit_text(data.unit)
    head = "".join(
        header_cell(f"{method} {figure}", unit) for method in measured for figure in ("mean", "max")
    )
    rows = ""
    for name, vertices in parts.items():
        errors = "".join(
            f"<td>{digits3(number)}</td>"
            for results in measured.values()
            for number in _part_errors(results, vertices)
        )
        rows += f"<tr><td>{escape(name)}</td><td>{len(vertices):,}</td>{errors}</tr>"
    head = f"<thead><tr>{header_cell('part', '')}{header_cell('vertices', '')}{head}</tr></thead>"
    return (
        '<section><h2>Parts</h2>\n<p class="soft">Errors of each part, all cases together.</p>'
        f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div></section>'
    )


def _part_errors(results: Sequence[CaseResult], vertices: np.ndarray) -> tuple[float, float]:
    """Mean and largest error of some vertices over the results of one method."""
    total, frames, largest = 0.0, 0, 0.0
    for r in results:
        assert r.per_vertex_mean is not None  # parts_table selects such results
        assert r.per_vertex_max is not None
        # A case counts by its frames.
        count = 1 if r.per_frame_mean is None else len(r.per_frame_mean)
        total += count * float(r.per_vertex_mean[vertices].mean())
        frames += count
        largest = max(largest, float(r.per_vertex_max[vertices].max()))
    return total / frames, largest


def deformers_table(data: ReportData, styles: Styles) -> str:
    """What was fitted and its cost, with the training curves; "" if nothing is known."""
    text = ""
    if data.deformers:
        known = [k for k in _DEFORMER_COLUMNS if any(d.get(k) is not None for d in data.deformers)]
        columns = [_deformer_column(data, key) for key in known]
        head = "".join(header_cell(label, unit) for label, unit, _ in columns)
        rows = ""
        for k, d in enumerate(data.deformers):
            name = str(d.get("method", ""))
            mark = swatch(styles[name]) if name in styles else ""
            cells = "".join(f"<td>{escape(texts[k])}</td>" for _, _, texts in columns)
            rows += f"<tr><td>{mark}{escape(name)}</td>{cells}</tr>"
        head = f"<thead><tr>{header_cell('method', '')}{head}</tr></thead>"
        text += f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>'
    trained = {m: c for m, c in data.training.items() if m in styles}
    if trained:
        caption = (
            "Training error, relative to the motion that the skin leaves unexplained. If a curve "
            "still falls at its end, more epochs help."
        )
        text += curves(list(trained), styles, [(plots.training(trained, styles), caption)])
    return f"<section><h2>Fitted methods</h2>\n{text}</section>" if text else ""


def _deformer_column(data: ReportData, key: str) -> tuple[str, str, list[str]]:
    """(label, unit, one text per deformer)."""
    label, unit = _DEFORMER_COLUMNS[key]
    values = [d.get(key) for d in data.deformers]
    if key == "bytes":
        numbers = [float(v) if isinstance(v, (int, float)) else math.nan for v in values]
        scale, unit = byte_scale(numbers)
        return label, unit, [digits3(n / scale) for n in numbers]
    return label, unit, [plain(v) for v in values]


def glossary(data: ReportData) -> str:
    """One sentence for each metric of the table."""
    rows = [_with_percent(r, data.height) for r in data.results]
    entries = ""
    for name in column_names(r.figures for r in rows):
        values = [r.figures.get(name) for r in rows]
        label, unit, _ = column_texts(name, values, data.unit, data.mesh.size_label)
        meaning = metric_of(name).meaning
        if meaning:
            entries += (
                f'<dt>{escape(label)} <span class="unit">{escape(unit)}</span></dt>'
                f"<dd>{escape(meaning[0].upper() + meaning[1:])}.</dd>"
            )
    unit = escape(unit_text(data.unit))
    return (
        "<section><h2>How to read this report</h2>\n<p>An error is the distance between a vertex "
        f"of the original and the same vertex of the stand-in, in {unit}. The "
        f"{data.mesh.size_label} of the character is {digits3(data.height)}&nbsp;{unit}. Look at "
        "the max and the close-ups "
        "as well as at the mean: a small mean can hide one broken armpit.</p>\n"
        f"<dl>{entries}</dl></section>"
    )


def _range(result: CaseResult) -> tuple[float, float, float]:
    """mean, p99 and max of a row; NaN for what is missing."""
    mean, p99, largest = (result.figures.get(name, math.nan) for name in ("mean", "p99", "max"))
    return mean, p99, largest


def _with_percent(result: CaseResult, height: float) -> CaseResult:
    """The row with mean_pct and max_pct computed where they are missing."""
    more = {
        f"{n}_pct": 100 * result.figures[n] / height
        for n in ("mean", "max")
        if n in result.figures and f"{n}_pct" not in result.figures
    }
    return replace(result, figures={**result.figures, **more})


def figures_that_matter(results: Sequence[CaseResult]) -> list[str]:
    """The names of the five figures that a user looks at first."""
    present = {name for r in results for name in r.figures}
    return [name for name in MATTERS if name in present][:_COLUMNS]


def figures_table(
    results: Sequence[CaseResult],
    unit: str,
    title: str = "",
    size: str = "height",
    names: Collection[str] | None = None,
) -> Table:
    """Cases, methods and their figures as a table of `rich`, with units in the headers.

    results  rows, case by case
    unit     of the mesh
    size     what percentages refer to, such as `Mesh.size_label`
    names    the figures to show; None: all

    The lowest error of each case is bold.
    """
    from rich.table import Table  # optional dependency
    from rich.text import Text

    table = Table(title=title or None, header_style="bold", title_justify="left")
    # Keep case and method readable, however many columns there are.
    for header, texts in (
        ("case", [r.case for r in results]),
        ("method", [r.label for r in results]),
    ):
        table.add_column(header, overflow="fold", min_width=min(16, max(map(len, texts))))
    columns = []
    for name in column_names(r.figures for r in results):
        if names is not None and name not in names:
            continue
        values = [r.figures.get(name) for r in results]
        label, shown_unit, texts = column_texts(name, values, unit, size)
        header = f"{label}\n{shown_unit}" if shown_unit else label
        table.add_column(Text(header), justify="right", no_wrap=True)
        columns.append((name, texts, best_of_case(results, name)))
    if any(r.tuned for r in results):
        table.caption, table.caption_justify = TUNED_NOTE, "left"
    before = None
    for k, r in enumerate(results):
        if before is not None and r.case != before:
            table.add_section()
        is_best = lambda name, best, r=r: r.case in best and r.figures.get(name) == best[r.case]
        cells = [
            Text(texts[k], style="bold green" if is_best(name, best) else "")
            for name, texts, best in columns
        ]
        table.add_row(Text("" if r.case == before else r.case), Text(r.label), *cells)
        before = r.case
    return table
