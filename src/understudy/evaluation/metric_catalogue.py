"""The figures of a result by name: label, unit, meaning, and how a number is written. One catalogue
for the report, the terminal and the docs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One named number of a result. `unit` may hold {unit}, the mesh's own; `error`: lower is
    better, and the best of a case stands out.
    """

    label: str
    unit: str
    meaning: str
    error: bool = False


FIGURES = {
    "mean": Figure(
        "mean",
        "{unit}",
        "distance from the original, averaged over every vertex of every frame",
        True,
    ),
    "p99": Figure("p99", "{unit}", "99 of 100 vertices are closer than this", True),
    "max": Figure(
        "max",
        "{unit}",
        "the single worst vertex of the worst frame: even one can spoil a shot",
        True,
    ),
    "mean_pct": Figure(
        "mean",
        "% of height",
        "the mean error as a share of the character's height, to compare characters of different "
        "size",
        True,
    ),
    "max_pct": Figure(
        "max", "% of height", "the largest error as a share of the character's height", True
    ),
    "ee": Figure(
        "EE",
        "%",
        "enveloping error: relative to moving each vertex with its best single bone; 100 is no "
        "better than that",
        True,
    ),
    "seam": Figure(
        "seam",
        "{unit}",
        "mean jump of the error along edges between separately learned regions; large jumps show "
        "as creases",
        True,
    ),
    "seam_inner": Figure(
        "inside",
        "{unit}",
        "the same jump along all other edges: what the seam would be if it were closed",
    ),
    "rms": Figure(
        "rms", "{unit}", "root-mean-square distance over every vertex of every frame", True
    ),
    "e": Figure(
        "E",
        "",
        "root-mean-square error in thousandths of half the rest box's diagonal, as skinning "
        "decompositions report it",
        True,
    ),
    "erms": Figure(
        "ERMS", "", "root-mean-square coordinate error in hundredths of a model unit", True
    ),
    "disper": Figure(
        "DisPer",
        "%",
        "distortion percentage: the error relative to the motion about the average pose",
        True,
    ),
    "max_avg_dist": Figure(
        "MaxAvgDist",
        "{unit}",
        "the largest vertex error of each frame, averaged over the frames",
        True,
    ),
    "norm_distort": Figure(
        "NormDistort", "rad", "how far the face normals turn: what shading shows", True
    ),
    "crp": Figure(
        "CRP", "%", "compression rate: the share of the sequence's numbers that need not be kept"
    ),
    "delta_w": Figure(
        "ΔW", "", "root-mean-square error of the compressed skin weights, in thousandths", True
    ),
    "paper_e": Figure("paper E", "", "the figure the paper prints for E in this place"),
    "paper_erms": Figure("paper ERMS", "", "the figure the paper prints for ERMS in this place"),
    "rival_erms": Figure(
        "rivals' ERMS",
        "",
        "the lowest ERMS that the paper cites for other methods of the same kind",
    ),
    "paper_delta_w": Figure("paper ΔW", "", "the figure the paper prints for ΔW in this place"),
    "mse_differential": Figure(
        "MSE delta",
        "",
        "mean squared error of the predicted differential coordinates, on validation poses",
        True,
    ),
    "mse_anchors": Figure(
        "MSE anchors",
        "",
        "mean squared error of the predicted anchor coordinates, on training poses kept aside",
        True,
    ),
    "anchors": Figure("anchors", "count", "points whose displacement has a net of its own"),
    "components": Figure("components", "count", "principal components of all regions together"),
    "bones": Figure("bones", "count", "bones of the skin"),
    "true_bones": Figure(
        "true bones", "count", "bones that move the character in the rig it came from"
    ),
    "paper_bones": Figure("paper bones", "count", "bones that the paper used in this place"),
    "rounds_to_fesam": Figure(
        "rounds to FESAM",
        "count",
        "rounds on all vertices until the error is below the one that FESAM-WT ends with",
    ),
    "influences": Figure("K", "count", "weights per vertex"),
    "virtual_bones": Figure("virtual bones", "count", "bones of the second skinning layer"),
    "bytes": Figure("size", "bytes", "what has to be shipped and kept in memory to run it"),
    "fit_s": Figure("fit", "s", "time to fit, on the machine named at the end"),
    "time_ratio": Figure(
        "time /peer",
        "",
        "time to fit over the peer's on the same case in the same run; below 1 is faster",
        True,
    ),
    "error_ratio": Figure(
        "E /peer", "", "E over the peer's on the same case in the same run; below 1 is better", True
    ),
    "cg_ms": Figure(
        "CG", "ms", "time to find all transformations for random weights by conjugate gradients"
    ),
    "direct_ms": Figure("direct", "ms", "the same by a direct solver"),
    "peak_mb": Figure("peak memory", "MB", "memory in use while fitting"),
    "ms": Figure("one pose", "ms", "time of one pose with NumPy, the fastest of twenty"),
    "ms_1": Figure("1 thread", "ms", "time of one pose on one thread"),
    "ms_2": Figure("2 threads", "ms", "time of one pose on two threads"),
    "ms_p99_1": Figure("p99 1", "ms", "99 of 100 single poses are faster than this on one thread"),
    "ms_p99_2": Figure("p99 2", "ms", "99 of 100 single poses are faster than this on two threads"),
    "crowd_ms_1": Figure("crowd 1", "ms", "time of one pose in a crowd of 100, on one thread"),
    "crowd_ms_2": Figure("crowd 2", "ms", "time of one pose in a crowd of 100, on two threads"),
    "floor_ms_1": Figure(
        "floor 1",
        "ms",
        "time to read the bytes of one call once, on one thread: nothing can be faster",
    ),
    "floor_ms_2": Figure("floor 2", "ms", "the same on two threads"),
    "floor_p99_1": Figure(
        "f. p99 1", "ms", "99 of 100 such readings are faster than this on one thread"
    ),
    "floor_p99_2": Figure(
        "f. p99 2", "ms", "99 of 100 such readings are faster than this on two threads"
    ),
    "arithmetic_ms_1": Figure(
        "sums 1", "ms", "time of the multiply-adds of one pose alone, on one thread"
    ),
    "arithmetic_ms_2": Figure("sums 2", "ms", "the same on two threads"),
    "arithmetic_p99_1": Figure(
        "s. p99 1", "ms", "99 of 100 such sums are faster than this on one thread"
    ),
    "arithmetic_p99_2": Figure(
        "s. p99 2", "ms", "99 of 100 such sums are faster than this on two threads"
    ),
    "busy_ms_1": Figure(
        "busy 1", "ms", "time of one pose on one thread while a neighbour keeps a processor busy"
    ),
    "busy_ms_2": Figure(
        "busy 2", "ms", "time of one pose on two threads while a neighbour keeps a processor busy"
    ),
}


def figure_of(name: str) -> Figure:
    """The catalogue's entry, or one that shows an unknown figure under its own name."""
    return FIGURES.get(name, Figure(name, "", ""))


def column_names(rows: Iterable[Iterable[str]]) -> list[str]:
    """Every figure that any row has: the catalogue's in its order, then the others as they came.

    >>> column_names([["ms_9", "max"], ["mean"]])
    ['mean', 'max', 'ms_9']
    """
    present = dict.fromkeys(name for row in rows for name in row)
    return [name for name in FIGURES if name in present] + [
        name for name in present if name not in FIGURES
    ]


def digits3(number: float) -> str:
    """Three significant digits, without an exponent where that stays readable; "-" where there is
    no number.

    >>> [digits3(x) for x in (0.12, 12345.6, 0.99996, 0, 2.5e-7, float("nan"))]
    ['0.120', '12,300', '1.00', '0', '2.50e-7', '-']
    """
    number = float(number)
    if number == 0:
        return "0"
    if not math.isfinite(number):
        return "-" if math.isnan(number) else ("∞" if number > 0 else "-∞")
    mantissa, exponent = f"{number:.2e}".split("e")
    power = int(exponent)
    if not -5 < power < 9:
        return f"{mantissa}e{power}"
    return f"{round(number, 2 - power):,.{max(0, 2 - power)}f}"


def size_text(count: float) -> str:
    """A number of bytes with its unit.

    >>> size_text(2_345_678)
    '2.35 MB'
    """
    scale, unit = byte_scale([count])
    return f"{digits3(count / scale)} {unit}"


def byte_scale(counts: Sequence[float]) -> tuple[float, str]:
    """The unit that suits a whole column of sizes: (bytes in it, its name)."""
    largest = max((c for c in counts if math.isfinite(c)), default=0.0)
    return next(
        ((s, name) for s, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if largest >= s),
        (1.0, "bytes"),
    )


def column_texts(
    name: str, values: Sequence[float | None], unit: str
) -> tuple[str, str, list[str]]:
    """(label, unit, one text per value) of a column; counts stay whole, sizes share one unit, a
    missing value is "-".
    """
    figure = figure_of(name)
    shown_unit = figure.unit.format(unit=unit_text(unit))
    numbers = [math.nan if value is None else float(value) for value in values]
    if shown_unit == "bytes":
        scale, shown_unit = byte_scale(numbers)
        numbers = [n / scale for n in numbers]
    if shown_unit == "count":
        return figure.label, "", [f"{n:,.0f}" if math.isfinite(n) else "-" for n in numbers]
    return figure.label, shown_unit, [digits3(n) for n in numbers]


def unit_text(unit: str) -> str:
    """The mesh's unit as a reader sees it beside a number."""
    return "units" if unit in ("", "unitless") else unit
