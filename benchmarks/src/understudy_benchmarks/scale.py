"""`bench scale`: what a job costs beside other work, and how the cost grows with its size.

`busy/<command>` (`busy_cases.py`) times a command alone and beside a busy loop. `astrid/<poses>`
and `vertices/<vertices>` (`size_cases.py`) have time, memory and disk against size. `ray/50ms`
(`ray_cases.py`) compares one Ray worker with two.

The curves against poses and vertices are written to the output folder (`scale_plot.py`).

With `--full`, a case of a size that was interrupted goes on: steps that are done are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from understudy.evaluation.result import CaseResult
from understudy.system import checks
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.busy_cases import CASES as BUSY
from understudy_benchmarks.busy_cases import SIZES, measure_busy
from understudy_benchmarks.ray_cases import CASE as RAY
from understudy_benchmarks.ray_cases import METHODS as RAY_METHODS
from understudy_benchmarks.ray_cases import available, measure_ray, ray_findings
from understudy_benchmarks.scale_plot import plot_sizes
from understudy_benchmarks.size_cases import (
    METHOD,
    RIGS,
    findings,
    measure_size,
    simulated_farm,
    size_case,
)

METHODS = (METHOD, *RAY_METHODS)
POSES = (16, 32, 250, 500, 1000, 2000, 5000, 10_000, 20_000)
CASES = (
    *BUSY,
    RAY,
    *(f"astrid/{poses}" for poses in POSES),
    *(f"vertices/{vertices}" for vertices in RIGS),
)
# The cases of each size, and the poses of `vertices/...`.
DEFAULT_CASES = {
    "quick": ("busy/sample", "vertices/10005"),
    "default": (
        *BUSY,
        RAY,
        "astrid/250",
        "astrid/500",
        "astrid/1000",
        *(f"vertices/{vertices}" for vertices in RIGS),
    ),
    "full": CASES,
}
VERTEX_POSES = {"quick": 16, "default": 250, "full": 1000}
# The quick size shows that the commands work; its networks are not trained.
SETTINGS = {"quick": ("epochs=1", "hidden=16,16"), "default": (), "full": ()}


def run(request: Request, progress: Progress) -> Outcome:
    """Measure the requested cases; data and files go to `request.out`."""
    for name in request.methods:
        checks.one_of(name, "method of bench scale", METHODS)
    for name in request.cases:
        checks.one_of(name, "case of bench scale", CASES)
    names = request.cases or DEFAULT_CASES[request.size]
    if not request.cases and not available():
        names = tuple(name for name in names if name != RAY)
    results = [row for name in names for row in _measure(name, request, progress)]
    notes = [*_busy_findings(results), *ray_findings(results), *findings(results), *_farm(results)]
    try:
        plot_sizes(results, request.out)
    except Exception as problem:  # the rows took hours
        notes.append(f"The curves could not be drawn: {problem}")
    return Outcome(results, "m", notes)


def _measure(name: str, request: Request, progress: Progress) -> list[CaseResult]:
    out, seed, size = request.out, request.seed, request.size
    if name == RAY:
        return measure_ray(size, out, seed, progress)
    if name in BUSY:
        return [measure_busy(name, SIZES[size], out, seed, progress)]
    case = size_case(name, SETTINGS[size], VERTEX_POSES[size])
    return [measure_size(name, case, out, seed, progress, resume=size == "full")]


def _busy_findings(results: Sequence[CaseResult]) -> Iterator[str]:
    """One sentence for each case."""
    for row in results:
        if row.case in BUSY:
            quiet, busy = row.figures["quiet_s"], row.figures["busy_s"]
            yield f"{row.case}: beside a busy loop on two cores {busy / quiet:.2f} x the time alone"


def _farm(results: Sequence[CaseResult]) -> Iterator[str]:
    """The simulation on paper, from the largest case."""
    sized = [row for row in results if "disk_mb" in row.figures]
    if sized:
        yield simulated_farm(max(sized, key=lambda row: row.figures["disk_mb"]))
