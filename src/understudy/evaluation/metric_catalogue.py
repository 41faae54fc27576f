"""The catalogue of metrics: label, unit and meaning of each, and how its figures are written.

A metric is a named measure, such as `mean` or `fit_s`. Its value in a row of results is a figure.
Report, terminal and documentation read this one catalogue; the benchmarks add theirs to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One named measure.

    label    header of its column
    unit     may contain {unit}, the unit of the mesh, and {size}, what percentages refer to
    meaning  one sentence without a full stop, for the glossary of a report
    error    whether lower is better; the lowest figure of a case is then highlighted
    """

    label: str
    unit: str
    meaning: str
    error: bool = False

    def unit_of(self, mesh_unit: str, size: str = "height") -> str:
        """The unit as shown to a reader, for a mesh in `mesh_unit`."""
        return self.unit.format(unit=unit_text(mesh_unit), size=size)


METRICS = {
    "mean": Metric(
        "mean", "{unit}", "distance from the original, averaged over all vertices and frames", True
    ),
    "p99": Metric("p99", "{unit}", "99 % of all vertex errors are smaller than this", True),
    "max": Metric(
        "max", "{unit}", "distance of the worst vertex in the worst frame from the original", True
    ),
    "mean_pct": Metric(
        "mean",
        "% of {size}",
        "the mean error relative to the size of the character, to compare characters",
        True,
    ),
    "max_pct": Metric(
        "max", "% of {size}", "the largest error relative to the size of the character", True
    ),
    "ee": Metric(
        "EE",
        "%",
        "enveloping error: the root-mean-square error relative to moving each vertex with its "
        "best single bone",
        True,
    ),
    "seam": Metric(
        "seam",
        "{unit}",
        "mean jump of the error along edges between regions that were learned separately; large "
        "jumps show as creases",
        True,
    ),
    "seam_inner": Metric("inside", "{unit}", "the same jump along all other edges, for comparison"),
    "rms": Metric("rms", "{unit}", "root-mean-square distance over all vertices and frames", True),
    "e": Metric(
        "E",
        "",
        "root-mean-square error of a coordinate in thousandths of half the bounding box diagonal, "
        "as skinning decompositions report it",
        True,
    ),
    "erms": Metric(
        "ERMS", "", "root-mean-square error of a coordinate, in hundredths of a model unit", True
    ),
    "disper": Metric(
        "DisPer",
        "%",
        "distortion percentage: the error relative to the motion about the average pose",
        True,
    ),
    "max_avg_dist": Metric(
        "MaxAvgDist", "{unit}", "largest error of each frame, averaged over the frames", True
    ),
    "norm_distort": Metric(
        "NormDistort",
        "rad",
        "average angle between the face normals of the original and the stand-in",
        True,
    ),
    "distance": Metric(
        "distance",
        "",
        "how far the farthest pose lies from the training poses; these lie within 1, and "
        "correctives fade beyond",
    ),
    "outside_pct": Metric(
        "outside", "%", "share of the poses that lie farther from the training poses than 1"
    ),
    "crp": Metric("CRP", "%", "compression rate: the share of the numbers that is saved"),
    "bones": Metric("bones", "count", "bones of the skin"),
    "influences": Metric("K", "count", "largest number of influences of a vertex"),
    "virtual_bones": Metric("virtual bones", "count", "bones of the second skinning layer"),
    "bytes": Metric("size", "bytes", "size of the stand-in"),
    "bytes_read": Metric("read", "bytes", "bytes that the runtime reads for one pose"),
    "fit_s": Metric("fit", "s", "time to fit on the machine named below"),
    "ms_1": Metric("1 thread", "ms", "time of one pose on one thread"),
    "ms_2": Metric("2 threads", "ms", "time of one pose on two threads"),
}


def metric_of(name: str) -> Metric:
    """The catalogue's entry of that name; a metric labelled with its name if there is none."""
    return METRICS.get(name, Metric(name, "", ""))


def column_names(rows: Iterable[Iterable[str]]) -> list[str]:
    """Names of all metrics that any row has: catalogue order first, then the others as they came.

    >>> column_names([["ms_9", "max"], ["mean"]])
    ['mean', 'max', 'ms_9']
    """
    present = dict.fromkeys(name for row in rows for name in row)
    return [name for name in METRICS if name in present] + [
        name for name in present if name not in METRICS
    ]


def digits3(number: float) -> str:
    """The number to three significant digits, with an exponent only if it is very small or large.

    NaN gives "-".

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
    """The unit that suits a column of sizes: (bytes per unit, name of the unit)."""
    largest = max((c for c in counts if math.isfinite(c)), default=0.0)
    return next(
        ((s, name) for s, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if largest >= s),
        (1.0, "bytes"),
    )


def column_texts(
    name: str, values: Sequence[float | None], unit: str, size: str = "height"
) -> tuple[str, str, list[str]]:
    """(label, unit, one text per value) of a column of figures.

    name    of the metric
    values  one per row; None shows as "-"
    unit    of the mesh
    size    what percentages refer to: "height", or "size" if the up axis is unknown

    Counts are whole numbers, and sizes in bytes share one unit.
    """
    metric = metric_of(name)
    shown_unit = metric.unit_of(unit, size)
    numbers = [math.nan if value is None else float(value) for value in values]
    if shown_unit == "bytes":
        scale, shown_unit = byte_scale(numbers)
        numbers = [n / scale for n in numbers]
    if shown_unit == "count":
        return metric.label, "", [f"{n:,.0f}" if math.isfinite(n) else "-" for n in numbers]
    return metric.label, shown_unit, [digits3(n) for n in numbers]


def unit_text(unit: str) -> str:
    """The mesh's unit as shown beside a number: "units" if the mesh does not state one."""
    return "units" if unit in ("", "unitless") else unit
