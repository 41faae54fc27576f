"""The table of results for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from understudy.evaluation.metric_catalogue import column_names, column_texts
from understudy.evaluation.result import TUNED_NOTE, CaseResult, best_of_case

if TYPE_CHECKING:
    from rich.table import Table


# What matters first, of the figures that a table has; the others are in the report.
MATTERS = ("e", "mean", "p99", "max", "bytes", "ms_1", "fit_s")
_COLUMNS = 5


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
