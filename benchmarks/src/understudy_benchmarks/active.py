"""`bench active`: do poses around failures make up for fewer poses?

A start of n random poses is fitted. `active` adds n poses: half are random, on which the start is
measured; half are drawn around its failures (`methods/failure_sampling.py`). `random` has n, 2 n
and 4 n random poses. Every evaluation of the rig counts, proposals included. The test animations
take no part in looking for failures.

`poses_ratio` is 2 n divided by the number of random poses with the same mean error, interpolated
between the three random fits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.evaluation.measure import Reference, deform_poses, measure
from understudy.evaluation.result import CaseResult
from understudy.methods import config_from_text, method_type
from understudy.methods.failure_sampling import failure_values
from understudy.rigs import load_rig
from understudy.rigs.base import Rig, animate, animation_names
from understudy.rigs.sampling import SamplePlan
from understudy_benchmarks import Outcome, Request

METHODS = ("random", "active")
METHOD = "corrected_skin"
SPREAD = 0.25
_TEST_POSES, _TEST_SEED = 200, 1_000_003
_FRAMES = 60  # of each animation


@dataclass(frozen=True)
class _Size:
    """The work of a run.

    rigs     built-in rigs
    start    n, poses of the first fit
    options  of the method, as for `--set`
    """

    rigs: tuple[str, ...]
    start: int
    options: Mapping[str, str] = field(default_factory=dict)


SIZES = {
    "quick": _Size(("tube",), 60, {"epochs": "20", "hidden": "32,32"}),
    "default": _Size(("human",), 250),
    "full": _Size(("human", "face"), 1000),
}


def run(request: Request, progress: Progress) -> Outcome:
    """Fit random and active samples of the requested rigs."""
    size = SIZES[request.size]
    for name in request.methods:
        checks.one_of(name, "method of bench active", METHODS)
    rigs = request.cases or size.rigs
    for name in rigs:
        checks.one_of(name, "case of bench active", ("tube", "human", "face"))
    results: list[CaseResult] = []
    for name in rigs:
        results += _rows(name, request.poses or size.start, request, size, progress)
    return Outcome(results, "cm", list(_findings(results)))


def _rows(
    name: str, start: int, request: Request, size: _Size, progress: Progress
) -> Iterator[CaseResult]:
    """The rows of one rig."""
    rig = load_rig(name)
    sample = rig.evaluate(SamplePlan(4 * start, request.seed).values(rig))
    tests = [
        Reference.of(f"{name}/{poses.name}", poses.take(np.arange(0, poses.pose_count, step)))
        for poses in (animate(rig, one) for one in animation_names(rig))
        for step in (max(1, poses.pose_count // _FRAMES),)
    ]
    other = rig.evaluate(SamplePlan(_TEST_POSES, _TEST_SEED + request.seed).values(rig))
    tests.append(Reference.of(f"{name}/random", other))

    def fitted(poses: Poses) -> tuple[Deformer, dict[str, CaseResult]]:
        deformer = _fit(poses, rig, request, size, progress)
        rows = {
            test.case: measure(
                "random", deform_poses(deformer), test, {"poses": float(poses.pose_count)}
            )
            for test in tests
        }
        return deformer, rows

    counts = [start, 2 * start, 4 * start]
    first, rows = fitted(sample.take(np.arange(start)))
    random = [rows, *(fitted(sample.take(np.arange(count)))[1] for count in counts[1:])]
    proposals = sample.take(np.arange(start, start + (start + 1) // 2))
    values = failure_values(first, proposals, start - proposals.pose_count, SPREAD, request.seed)
    near = rig.evaluate(values)
    active = fitted(_joined([sample.take(np.arange(start)), proposals, near]))[1]
    for case, row in active.items():
        if "random" in (request.methods or METHODS):
            for count, found in zip(counts, random):
                yield replace(found[case], method=f"random-{count}")
        means = [found[case].figures["mean"] for found in random]
        ratio = 2 * start / equal_count(counts, means, row.figures["mean"])
        if "active" in (request.methods or METHODS):
            yield replace(row, method="active", figures={**row.figures, "poses_ratio": ratio})


def equal_count(counts: list[int], errors: list[float], error: float) -> float:
    """How many random poses have an error, interpolated along straight lines of logarithms.

    >>> round(equal_count([100, 200, 400], [4.0, 2.0, 1.0], 1.5))
    267
    """
    x, y = np.log(counts), np.log(errors)
    # Errors fall with the poses; beyond the ends, the first or last line goes on.
    part = int(np.clip(np.searchsorted(-y, -np.log(error)) - 1, 0, len(x) - 2))
    fall = y[part] - y[part + 1]
    if fall <= 0:
        return float(counts[part + 1])
    share = (y[part] - np.log(error)) / fall
    return float(np.exp(x[part] + share * (x[part + 1] - x[part])))


def _fit(poses: Poses, rig: Rig, request: Request, size: _Size, progress: Progress) -> Deformer:
    kind = method_type(METHOD)
    known = {field.name for field in dataclasses.fields(kind.Config)}
    options = {key: text for key, text in size.options.items() if key in known}
    options |= {"seed": str(request.seed), **request.options}
    return kind(config_from_text(kind.Config, options)).fit(poses, rig=rig, progress=progress)


def _joined(parts: list[Poses]) -> Poses:
    """Samples of one rig as one, in memory, without clips."""
    stacked = lambda arrays: None if arrays[0] is None else np.concatenate(arrays)
    return replace(
        parts[0],
        vertices=np.concatenate([part.read_poses(0, part.pose_count) for part in parts]),
        world_from_bone=stacked([part.world_from_bone for part in parts]),
        controls=stacked([part.controls for part in parts]),
    )


def _findings(results: list[CaseResult]) -> Iterator[str]:
    for row in results:
        if "poses_ratio" in row.figures:
            yield (
                f"{row.case}: {row.figures['poses']:.0f} poses with those around failures do what "
                f"{row.figures['poses'] / row.figures['poses_ratio']:.0f} random ones do: "
                f"{row.figures['poses_ratio']:.2f} x"
            )
