"""The picture of a learning curve: measured errors, the laws, and the error asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.evaluation.learning_curve import FARTHEST, LearningCurve
from understudy.evaluation.pictures import need_drawing
from understudy.io.atomic_write import atomic_write

_COLOUR = "#2f7de1"


def write_picture(path: Path, curve: LearningCurve, unit: str, error: float | None) -> None:
    """Write the curve as a PNG; `error` is the one asked for, in model units."""
    need_drawing()
    from matplotlib.figure import Figure  # optional dependency

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    end = curve.counts[-1] * 2
    if error is not None and curve.laws:
        middle = curve.needed(error).middle
        end = min(FARTHEST * curve.counts[-1], max(end, 2 * middle))
    if curve.laws:
        counts = np.geomspace(curve.counts[0], end, 100)
        low, middle, high = curve.band(counts)
        axes.fill_between(counts, low, high, color=_COLOUR, alpha=0.18, linewidth=0)
        axes.plot(counts, middle, color=_COLOUR, linewidth=1.2)
        axes.axvspan(curve.counts[-1], end, color="black", alpha=0.04, linewidth=0)
    axes.plot(curve.counts, curve.means, "o", color=_COLOUR, label="measured")
    if error is not None:
        axes.axhline(error, color="black", linewidth=1, linestyle=(0, (5, 2)))
        axes.annotate(f"{error:.3g} {unit}", (curve.counts[0], error), va="bottom", fontsize=9)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(lambda value, _: f"{value:g}" if _leads(value) else "")
    axes.grid(alpha=0.15)
    axes.set_xlabel("training poses (grey: beyond what was measured)")
    axes.set_ylabel(f"mean error on held-out poses, {unit}")
    with atomic_write(path) as draft:
        figure.savefig(draft, format="png", dpi=150)


def _leads(value: float) -> bool:
    """Whether a number is 2 or 5 of its decade, which minor ticks show."""
    return round(value / 10 ** np.floor(np.log10(value))) in (2, 5)
