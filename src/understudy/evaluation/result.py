"""Results as plain data: `CaseResult`, one row, and `ReportData`, all that a report shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.noun import OneLine
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.evaluation.metric_catalogue import metric_of
from understudy.system import checks
from understudy.system.errors import InputError

TUNED_MARK = "*"
TUNED_NOTE = "* took part in choosing a constant of its method: notes/tuning.md."


class PicturedFrame(NamedTuple):
    """The frame of a test animation that a report shows.

    pose    its number, from 0. Methods of a case with the same frame are shown side by side
    true    (V,3) the original
    approx  (V,3) the approximation
    """

    pose: int
    true: np.ndarray
    approx: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """(V,) distance of each vertex from the original."""
        return np.linalg.norm(self.approx - self.true, axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class CaseResult(OneLine):
    """The result of one method on one test animation, one row of a table.

    case, method                     what was measured
    figures                          name of a metric -> number; lengths in the unit of the mesh
    per_frame_mean, per_frame_max    (T,) error of each frame
    per_vertex_mean, per_vertex_max  (V,) error of each vertex over the frames
    histogram                        (edges (n+1,), counts (n,)) of all T x V vertex errors
    pictured                         the frame to show in pictures
    tuned                            the case took part in choosing a constant of the method, so the
                                     row is no test; tables mark it
    notes                            what the case asks that training never showed, in sentences

    Everything after the figures may be None; the row then has no curve or no picture. Errors may be
    NaN if a method failed.
    """

    case: str
    method: str
    figures: Mapping[str, float]
    per_frame_mean: np.ndarray | None = None
    per_frame_max: np.ndarray | None = None
    per_vertex_mean: np.ndarray | None = None
    per_vertex_max: np.ndarray | None = None
    histogram: tuple[np.ndarray, np.ndarray] | None = None
    pictured: PicturedFrame | None = None
    tuned: bool = False
    notes: Sequence[str] = ()

    @property
    def label(self) -> str:
        """The name of the method as tables show it: `*` marks a row that is no test."""
        return f"{self.method} {TUNED_MARK}" if self.tuned else self.method

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)
        where = f"{self.case}, {self.method}: "
        for name, shape in (
            ("per_frame_mean", (None,)),
            ("per_frame_max", (None,)),
            ("per_vertex_mean", (None,)),
            ("per_vertex_max", (None,)),
        ):
            value = getattr(self, name)
            if value is not None:
                put(name, checks.shape_of(np.asarray(value, np.float64), where + name, shape))
        if self.histogram is not None:
            edges, counts = (np.asarray(part, np.float64) for part in self.histogram)
            checks.shape_of(edges, where + "histogram edges", (len(counts) + 1,))
            put("histogram", (edges, counts))
        if self.pictured is not None:
            pose, true, approx = self.pictured
            true = checks.shape_of(np.asarray(true, np.float64), where + "original", (None, 3))
            approx = np.asarray(approx, np.float64)
            checks.shape_of(approx, where + "approximation", true.shape)
            put("pictured", PicturedFrame(pose, true, approx))


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything that a report shows.

    title       name of the character
    mesh        at rest; lengths are in its unit, and percentages refer to its height
    results     one per case and method
    deformers   one mapping per fitted method: method, bytes, multiply_adds, fit_s, nets, inputs
    machine     the machine that the times were measured on
    notes       sentences shown under the headline
    subject     the method that the report is about; "": the one with the lowest mean error
    provenance  version, seed, command, data: what is needed to run it again
    training    method -> (epochs (n,), error (n,))
    plots       case -> (svg, caption) of plots to show after its own
    page        address of the page that shows the character, relative to the report; "": none
    skins       method -> skeleton and skin that it found
    true_joints (n,3) joints of the character's own rig that move, at rest; None: unknown
    sheet       some training poses (n,V,3), and some test poses; None: unknown
    """

    title: str
    mesh: Mesh
    results: Sequence[CaseResult]
    deformers: Sequence[Mapping[str, object]] = ()
    machine: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ()
    subject: str = ""
    provenance: Mapping[str, object] = field(default_factory=dict)
    training: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    plots: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    page: str = ""
    skins: Mapping[str, tuple[Skeleton, Skin]] = field(default_factory=dict)
    true_joints: np.ndarray | None = None
    sheet: tuple[np.ndarray, np.ndarray] | None = None

    def __post_init__(self):
        if not self.results:
            raise InputError("report: there are no results to report")
        pairs = [(r.case, r.method) for r in self.results]
        if len(set(pairs)) != len(pairs):
            case, method = next(pair for pair in pairs if pairs.count(pair) > 1)
            raise InputError(f"report: duplicate result of {method!r} on {case!r}")
        for r in self.results:
            pictured = None if r.pictured is None else r.pictured.true
            for name, array in (
                ("per_vertex_mean", r.per_vertex_mean),
                ("per_vertex_max", r.per_vertex_max),
                ("the picture", pictured),
            ):
                if array is not None:
                    who = f"{name} of {r.method} on {r.case}"
                    count = self.mesh.vertex_count
                    checks.same_count(len(array), count, "vertices", who, "the mesh")
        methods = list(dict.fromkeys(r.method for r in self.results))
        if self.subject:
            checks.one_of(self.subject, "subject of the report", methods)
        else:
            means = np.array([overall(self.results, m)["mean"] for m in methods])
            object.__setattr__(self, "subject", methods[np.nan_to_num(means, nan=np.inf).argmin()])

    @property
    def unit(self) -> str:
        """The unit of every length."""
        return self.mesh.unit

    @property
    def height(self) -> float:
        """What percentages refer to."""
        return self.mesh.height

    @property
    def cases(self) -> list[str]:
        """Every case once, in the order of the results."""
        return list(dict.fromkeys(r.case for r in self.results))

    @property
    def methods(self) -> list[str]:
        """Every method once, the subject first."""
        return list(dict.fromkeys([self.subject, *(r.method for r in self.results)]))

    def of_case(self, case: str) -> list[CaseResult]:
        """The results of a case in the order of `methods`."""
        return sorted(
            (r for r in self.results if r.case == case), key=lambda r: self.methods.index(r.method)
        )


def overall(results: Sequence[CaseResult], method: str) -> dict[str, float]:
    """A method over all its cases: mean over the frames, largest p99 and max of any case.

    NaN for a metric that no case has.
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
    """case -> lowest figure of an error metric, for cases that at least two methods have it for."""
    found: dict[str, list[float]] = {}
    for r in results:
        if metric_of(name).error and math.isfinite(r.figures.get(name, math.nan)):
            found.setdefault(r.case, []).append(r.figures[name])
    return {case: min(values) for case, values in found.items() if len(values) > 1}
