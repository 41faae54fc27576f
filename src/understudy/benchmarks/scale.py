"""`bench scale`: what a job costs beside other work (`busy/<command>`, `busy_cases.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from understudy.benchmarks import Outcome, Request
from understudy.benchmarks.busy_cases import CASES, SIZES, measure_busy
from understudy.core import checks
from understudy.core.progress import Progress
from understudy.evaluation.result import CaseResult

METHODS = ("understudy",)


def run(request: Request, progress: Progress) -> Outcome:
    """Measure the requested cases; data and files go to `request.out`."""
    for name in request.methods:
        checks.one_of(name, "method of bench scale", METHODS)
    for name in request.cases:
        checks.one_of(name, "case of bench scale", CASES)
    size = SIZES[request.size]
    results = [
        measure_busy(name, size, request.out, request.seed, progress)
        for name in request.cases or CASES
    ]
    return Outcome(results, "m", list(_findings(results)))


def _findings(results: Sequence[CaseResult]) -> Iterator[str]:
    """One sentence for each case."""
    for row in results:
        quiet, busy = row.figures["quiet_s"], row.figures["busy_s"]
        yield f"{row.case}: beside a busy loop on two cores {busy / quiet:.2f} x the time alone"
