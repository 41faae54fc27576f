"""Results as plain data: `CaseResult`, one method on one test animation, and `ReportData`, all that
a report shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.core import checks
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.evaluation.metric_catalogue import metric_of


@dataclass(frozen=True, eq=False)
class CaseResult:
    """What one method did on one test animation.

    figures                           name -> number, by the names of
                                      `understudy.evaluation.metric_catalogue`; lengths in the
                                      mesh's unit
    per_frame_mean, per_frame_max     (T,) error of each frame
    per_vertex_mean, per_vertex_max   (V,) error of each vertex over the frames
    histogram                         (edges (n+1,), counts (n,)) of all T x V vertex errors
    worst_pose                        the frame pictured, counted from 0. Methods of a case that
                                      share it are shown side by side,
                                      so give all of them the worst frame of the method in question
    worst_true, worst_approx          (V,3) that frame, original and approximated

    Everything but the figures may be None: the row then has no curve or no picture. Errors may be
    NaN (a method that broke down).
    """

    case: str
    method: str
    figures: Mapping[str, float]
    per_frame_mean: np.ndarray | None = None
    per_frame_max: np.ndarray | None = None
    per_vertex_mean: np.ndarray | None = None
    per_vertex_max: np.ndarray | None = None
    histogram: tuple[np.ndarray, np.ndarray] | None = None
    worst_pose: int | None = None
    worst_true: np.ndarray | None = None
    worst_approx: np.ndarray | None = None

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        where = f"{self.case}, {self.method}: "
        for name, shape in (
            ("per_frame_mean", (None,)),
            ("per_frame_max", (None,)),
            ("per_vertex_mean", (None,)),
            ("per_vertex_max", (None,)),
            ("worst_true", (None, 3)),
            ("worst_approx", (None, 3)),
        ):
            if getattr(self, name) is not None:
                put(
                    name,
                    checks.shape_of(
                        np.asarray(getattr(self, name), np.float64), where + name, shape
                    ),
                )
        if self.histogram is not None:
            edges, counts = (np.asarray(part, np.float64) for part in self.histogram)
            checks.shape_of(edges, where + "histogram edges", (len(counts) + 1,))
            put("histogram", (edges, counts))
        together = [self.worst_pose is None, self.worst_true is None, self.worst_approx is None]
        if any(together) != all(together):
            raise InputError(
                f"{where}worst_pose, worst_true and worst_approx come together: one of them is "
                f"missing"
            )

    @property
    def worst_error(self) -> np.ndarray:
        """(V,) distance of each vertex in the pictured frame."""
        return np.linalg.norm(self.worst_approx - self.worst_true, axis=1)


@dataclass(frozen=True, eq=False)
class ReportData:
    """All that a report shows.

    title       what the character is called
    mesh        at rest; its triangles, up axis and handedness draw the pictures
    unit        of every length ("cm"); height: what "% of height" refers to, in that unit
    results     one per case and method
    deformers   one mapping per fitted method: method, bytes, multiply_adds, fit_s, training_error,
                nets, inputs (any may be absent)
    machine     what the times were measured on
    notes       sentences for the reader, shown under the headline
    subject     the method the report is about; "": the one with the lowest mean error
    provenance  version, seed, command, data ...: enough to run it again
    training    method -> (steps (n,), error (n,))
    lbs_over_k  case -> (K (n,), mean error (n,)) of linear blend skinning
    """

    title: str
    mesh: Mesh
    unit: str
    height: float
    results: Sequence[CaseResult]
    deformers: Sequence[Mapping[str, object]] = ()
    machine: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ()
    subject: str = ""
    provenance: Mapping[str, object] = field(default_factory=dict)
    training: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    lbs_over_k: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self):
        if not self.results:
            raise InputError("report: there are no results to report")
        checks.between(self.height, "height", above=0)
        pairs = [(r.case, r.method) for r in self.results]
        if len(set(pairs)) != len(pairs):
            twice = next(pair for pair in pairs if pairs.count(pair) > 1)
            raise InputError(f"report: the result of {twice[1]!r} on {twice[0]!r} stands twice")
        for r in self.results:
            for name in ("per_vertex_mean", "per_vertex_max", "worst_true", "worst_approx"):
                if getattr(r, name) is not None:
                    checks.same_count(
                        len(getattr(r, name)),
                        self.mesh.vertex_count,
                        "vertices",
                        f"{name} of {r.method} on {r.case}",
                        "the mesh",
                    )
        methods = list(dict.fromkeys(r.method for r in self.results))
        if self.subject:
            checks.one_of(self.subject, "subject of the report", methods)
        else:
            object.__setattr__(
                self,
                "subject",
                min(methods, key=lambda m: _or_last(overall(self.results, m)["mean"])),
            )

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(r.case for r in self.results))

    @property
    def methods(self) -> list[str]:
        """Every method once, the subject first."""
        return list(dict.fromkeys([self.subject, *(r.method for r in self.results)]))

    def of_case(self, case: str) -> list[CaseResult]:
        """The case's results in the order of `methods`."""
        return sorted(
            (r for r in self.results if r.case == case), key=lambda r: self.methods.index(r.method)
        )


def overall(results: Sequence[CaseResult], method: str) -> dict[str, float]:
    """A method over all its cases: the frames' mean error, the largest p99 and max of any case; NaN
    where no case has the figure.
    """
    own = [r for r in results if r.method == method]
    worst = lambda name: max((r.figures[name] for r in own if name in r.figures), default=math.nan)
    counted = [
        (r.figures["mean"], 1 if r.per_frame_mean is None else len(r.per_frame_mean))
        for r in own
        if "mean" in r.figures
    ]
    frames = sum(n for _, n in counted)
    return {
        "mean": sum(m * n for m, n in counted) / frames if frames else math.nan,
        "p99": worst("p99"),
        "max": worst("max"),
    }


def best_of_case(results: Sequence[CaseResult], name: str) -> dict[str, float]:
    """case -> the lowest value of figure `name`, for cases where at least two methods have it and
    low is good.
    """
    found: dict[str, list[float]] = {}
    for r in results:
        if metric_of(name).error and math.isfinite(r.figures.get(name, math.nan)):
            found.setdefault(r.case, []).append(r.figures[name])
    return {case: min(values) for case, values in found.items() if len(values) > 1}


def _or_last(number: float) -> float:
    return math.inf if math.isnan(number) else number
