"""The comparisons of the papers, each a module: `understudy bench NAME`.

All methods of a benchmark run on the same data in the same run. A benchmark is a function
`run(request, progress) -> Outcome`; the command line prints the outcome as a table and writes it as
JSON.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from understudy.evaluation import machine
from understudy.evaluation.result import CaseResult
from understudy.system import checks
from understudy.system.progress import SILENT, Progress
from understudy_benchmarks import catalogue  # noqa: F401  # adds its metrics
from understudy_benchmarks.tuning import marked

_BENCHMARKS = {
    "body": "body",
    "face": "face",
    "decompose": "decompose",
    "two-layer": "two_layer",
    "temporal": "temporal",
    "runtime": "runtime",
    "web": "web",
    "blender": "blender",
    "scale": "scale",
    "recorded": "recorded",
    "outside": "outside",
    "auto": "auto",
}
NAMES = tuple(_BENCHMARKS)


@dataclass(frozen=True)
class Request:
    """What to run.

    size       "quick" (60 s on two cores), "default" (20 minutes) or "full"
    data       folder of real data; None: see `real_data.data_folder`
    methods    rows to measure; empty: all of that size
    cases      cases to measure on; empty: all of that size
    out        folder for samples, fitted files, pictures and reports
    ablations  also the variants of a method that its paper compares, if the benchmark has them
    seeds      body and face: methods that train networks are fitted with this many seeds, from
               `seed` on; their figures are averages, beside standard deviations (`mean_sd`, ...)
    poses      body and face: number of sampled poses; None: that of the size
    device     body and face: device that networks are trained on, as option of the methods
    jobs       body and face: fits at a time, in threads of this process
    options    body and face: options of the methods that train networks, as for `--set`
    """

    size: str = "default"
    data: Path | None = None
    methods: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    out: Path = Path("out/bench")
    seed: int = 0
    ablations: bool = False
    seeds: int = 1
    poses: int | None = None
    device: str = "auto"
    jobs: int = 1
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """Rows, the unit of their lengths, and sentences to print below the table."""

    results: Sequence[CaseResult]
    unit: str
    notes: Sequence[str] = ()

    def as_json(self, name: str) -> dict:
        """The content of the benchmark's JSON file: rows with case, method and figures by name."""
        rows = [
            {
                "case": r.case,
                "method": r.method,
                **({"tuned": True} if r.tuned else {}),
                **{k: float(v) for k, v in r.figures.items()},
            }
            for r in self.results
        ]
        return {"benchmark": name, "unit": self.unit, "rows": rows, "machine": machine.describe()}


def run(name: str, request: Request, progress: Progress = SILENT) -> Outcome:
    """Run a benchmark by name. Its module is imported only now: most need optional packages."""
    checks.one_of(name, "benchmark", _BENCHMARKS)
    module = importlib.import_module(f"understudy_benchmarks.{_BENCHMARKS[name]}")
    outcome = module.run(request, progress)
    return replace(outcome, results=marked(name, outcome.results))
