"""The catalogue of metrics: label, unit and meaning of each, and how its figures are written.

A metric is a named measure, such as `mean` or `fit_s`. Its value in a row of results is a figure.
Report, terminal and documentation read this one catalogue.
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
    "e_sphere": Metric(
        "E sphere",
        "",
        "E with the rest pose in a unit sphere in place of half the bounding box diagonal",
        True,
    ),
    "delta_e": Metric(
        "ΔE", "", "E above that of the dense skin: the square root of E² less its E²", True
    ),
    "memory_pct": Metric(
        "memory", "%", "memory of the virtual bones' transforms beside that of a plain skin"
    ),
    "erms": Metric(
        "ERMS",
        "",
        "root-mean-square error of a coordinate, in hundredths of a model unit",
        True,
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
    "skin_mean": Metric("skin", "{unit}", "the mean error of its skin alone, without correctives"),
    "skin_ratio": Metric(
        "/ skin", "", "the mean error divided by that of its skin alone, without correctives", True
    ),
    "crp": Metric("CRP", "%", "compression rate: the share of the numbers that is saved"),
    "delta_w": Metric(
        "ΔW", "", "root-mean-square error of the compressed skin weights, in thousandths", True
    ),
    "paper_e": Metric("paper E", "", "E as published in the paper of the method"),
    "paper_erms": Metric("paper ERMS", "", "ERMS as published in the paper of the method"),
    "rival_erms": Metric(
        "rivals' ERMS", "", "lowest ERMS that the paper reports for other methods of the same kind"
    ),
    "erms_low": Metric("lowest ERMS", "", "lowest ERMS of several training seeds"),
    "erms_high": Metric("highest ERMS", "", "highest ERMS of several training seeds"),
    "paper_delta_w": Metric("paper ΔW", "", "ΔW as published in the paper of the method"),
    "mse_differential": Metric(
        "MSE delta",
        "",
        "mean squared error of the predicted differential coordinates on validation poses",
        True,
    ),
    "mse_anchors": Metric(
        "MSE anchors",
        "",
        "mean squared error of the predicted anchor positions on validation poses",
        True,
    ),
    "anchors": Metric("anchors", "count", "vertices whose displacement has its own network"),
    "components": Metric("components", "count", "principal components of all regions"),
    "bones": Metric("bones", "count", "bones of the skin"),
    "true_bones": Metric("true bones", "count", "bones that move apart in the character's own rig"),
    "joints_outside": Metric(
        "joints outside", "count", "joints outside the mesh, by more than 2 % of its size"
    ),
    "joint_outermost": Metric(
        "outermost joint", "%", "largest distance of a joint outside the mesh, of its size"
    ),
    "joints_found": Metric(
        "joints found", "share", "true joints with a joint within 5 % of the size"
    ),
    "paper_bones": Metric("paper bones", "count", "bones used in the paper of the method"),
    "rounds_to_fesam": Metric(
        "rounds to FESAM", "count", "iterations until the error is below the final one of FESAM-WT"
    ),
    "influences": Metric("K", "count", "largest number of influences of a vertex"),
    "virtual_bones": Metric("virtual bones", "count", "bones of the second skinning layer"),
    "bytes": Metric("size", "bytes", "size of the stand-in"),
    "bytes_read": Metric("read", "bytes", "bytes that the runtime reads for one pose"),
    "fit_s": Metric("fit", "s", "time to fit on the machine named below"),
    "time_ratio": Metric(
        "time /peer",
        "",
        "time to fit relative to the peer in the same run; below 1 is faster",
        True,
    ),
    "error_ratio": Metric(
        "E /peer", "", "E relative to the peer in the same run; below 1 is better", True
    ),
    "cg_ms": Metric(
        "CG", "ms", "time to solve for all transforms by conjugate gradients, random weights"
    ),
    "direct_ms": Metric("direct", "ms", "the same with a direct solver"),
    "peak_mb": Metric("peak memory", "MB", "largest memory use of the fit, or of all steps"),
    "ms": Metric("one pose", "ms", "time of one pose, the fastest of twenty calls"),
    "ms_1": Metric("1 thread", "ms", "time of one pose on one thread"),
    "speedup_2": Metric("2 workers", "x", "speed of two worker processes relative to one"),
    "ms_2": Metric("2 threads", "ms", "time of one pose on two threads"),
    "ms_p99_1": Metric("p99 1", "ms", "99 % of single poses are faster than this on one thread"),
    "ms_p99_2": Metric("p99 2", "ms", "99 % of single poses are faster than this on two threads"),
    "crowd_ms_1": Metric("crowd 1", "ms", "time per pose in a call with 100 poses, one thread"),
    "crowd_ms_2": Metric("crowd 2", "ms", "time per pose in a call with 100 poses, two threads"),
    "floor_ms_1": Metric(
        "floor 1", "ms", "memory floor: time to read the bytes of one call once, on one thread"
    ),
    "floor_ms_2": Metric("floor 2", "ms", "memory floor on two threads"),
    "floor_p99_1": Metric(
        "f. p99 1", "ms", "99 % of these reads are faster than this on one thread"
    ),
    "floor_p99_2": Metric(
        "f. p99 2", "ms", "99 % of these reads are faster than this on two threads"
    ),
    "arithmetic_ms_1": Metric(
        "arith. 1", "ms", "time of the multiply-adds of one pose on data in registers, one thread"
    ),
    "arithmetic_ms_2": Metric("arith. 2", "ms", "the same on two threads"),
    "arithmetic_p99_1": Metric(
        "a. p99 1", "ms", "99 % of these runs are faster than this on one thread"
    ),
    "arithmetic_p99_2": Metric(
        "a. p99 2", "ms", "99 % of these runs are faster than this on two threads"
    ),
    "busy_ms_1": Metric(
        "busy 1", "ms", "time of one pose on one thread while another process occupies a core"
    ),
    "busy_ms_2": Metric(
        "busy 2", "ms", "time of one pose on two threads while another process occupies a core"
    ),
    "cost": Metric("cost", "", "bytes of the choice, or its error where the budget has none"),
    "best_cost": Metric("best cost", "", "the same of the best candidate of a full sweep"),
    "cost_ratio": Metric("cost /best", "", "cost relative to the best candidate of the sweep"),
    "time_share": Metric("time share", "", "time of the fits relative to those of the sweep"),
    "kept": Metric("kept", "", "1 if unseen poses keep the budget, else 0"),
    "quiet_s": Metric("alone", "s", "time of a command on two cores, alone"),
    "busy_s": Metric("busy", "s", "time of a command while another process occupies a core"),
    "quiet_cpu_s": Metric("CPU alone", "s", "processor time of a command on two cores, alone"),
    "busy_cpu_s": Metric(
        "CPU busy", "s", "processor time of a command while another process occupies a core"
    ),
    "poses": Metric("poses", "", "poses that are sampled, fitted and measured"),
    "vertices": Metric("vertices", "", "vertices of the mesh"),
    "sample_s": Metric("sample", "s", "time of sampling"),
    "sample_cpu_s": Metric("CPU sample", "s", "processor time of sampling"),
    "sample_peak_mb": Metric("memory sample", "MB", "largest memory of sampling"),
    "fit_cpu_s": Metric("CPU fit", "s", "processor time of the fit"),
    "fit_peak_mb": Metric("memory fit", "MB", "largest memory of the fit"),
    "evaluate_s": Metric("evaluate", "s", "time of measuring"),
    "evaluate_cpu_s": Metric("CPU evaluate", "s", "processor time of measuring"),
    "evaluate_peak_mb": Metric("memory evaluate", "MB", "largest memory of measuring"),
    "disk_mb": Metric("disk", "MB", "size of the pose store"),
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
