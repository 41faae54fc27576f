"""A plot of the error over the influences per vertex (FDDA Figure 8), for the report of a body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from understudy.evaluation.metric_catalogue import unit_text
from understudy.evaluation.report.plots import INK, Style, blank_plot, inline_svg, method_styles
from understudy.evaluation.result import ReportData

_CAPTION = (
    "Mean error of linear blend skinning (points) over the number of influences per vertex. "
    "Horizontal lines are the mean errors of the methods above."
)


def with_influences(
    data: ReportData, curves: Mapping[str, tuple[np.ndarray, np.ndarray]]
) -> ReportData:
    """The report with a plot for each case; curves: case -> (influences (n,), mean error (n,))."""
    styles, unit = method_styles(data.methods), unit_text(data.unit)
    found = {}
    for case, (k, mean) in curves.items():
        means = {r.method: r.figures["mean"] for r in data.of_case(case) if "mean" in r.figures}
        found[case] = [(over_k(k, mean, means, styles, unit, key=case), _CAPTION)]
    return replace(data, plots=found)


def over_k(
    k: np.ndarray,
    mean: np.ndarray,
    others: Mapping[str, float],
    styles: Mapping[str, Style],
    unit: str,
    key: str = "",
) -> str:
    """Mean error of linear blend skinning over the number of influences (FDDA Figure 8).

    k, mean  (n,) influences per vertex and mean errors
    others   method -> mean error, drawn as a horizontal line
    """
    with blank_plot(height=2.5) as (figure, axes):
        place = np.arange(len(k))
        axes.plot(place, mean, color=INK, linewidth=1.5, marker="o", markersize=4.5)
        for method, value in others.items():
            colour, dash = styles[method]
            axes.axhline(value, color=colour, linestyle=dash, linewidth=1.5)
        axes.set_xticks(place, [f"{int(each)}" for each in k])
        axes.set_ylim(bottom=0)
        axes.set(xlabel="influences per vertex", ylabel=f"mean error, {unit}")
        return inline_svg(figure, "Linear blend skinning over influences per vertex", key)
