"""Error against cost: which methods no other method beats in both."""

from __future__ import annotations

import math
from collections.abc import Mapping

from understudy.evaluation.metric_catalogue import unit_text
from understudy.evaluation.report import plots
from understudy.evaluation.report.html import curves
from understudy.evaluation.result import ReportData, overall

# Figure -> label of its axis, its factor, and the caption.
_COSTS = {
    "ms_1": ("time of one pose on one thread, ms", 1.0, "Mean error against the time of one pose."),
    "bytes": ("size, MB", 1e-6, "Mean error against the size."),
}


def pareto(data: ReportData, styles: Mapping[str, plots.Style]) -> str:
    """A section with one plot for each cost that at least two methods have; "" if there is none."""
    found = []
    for name, (label, factor, caption) in _COSTS.items():
        points = cost_points(data, name, factor)
        if len(points) > 1:
            caption += " The line joins the methods that no other one beats in both."
            unit = unit_text(data.unit)
            found.append((plots.pareto(points, styles, label, unit, key=name), caption))
    if not any("time" in caption for _, caption in found):
        return ""  # sizes alone are in the tables
    return "<section><h2>Error and cost</h2>\n" + curves(data.methods, styles, found) + "</section>"


def cost_points(data: ReportData, name: str, factor: float) -> dict[str, tuple[float, float]]:
    """Method -> (cost, mean error over all cases), of those that have both and above zero."""
    points = {}
    for method in data.methods:
        cost = next(
            (r.figures[name] for r in data.results if r.method == method and name in r.figures),
            math.nan,
        )
        error = overall(data.results, method)["mean"]
        if cost > 0 and error > 0 and math.isfinite(cost) and math.isfinite(error):
            points[method] = (factor * cost, error)
    return points
