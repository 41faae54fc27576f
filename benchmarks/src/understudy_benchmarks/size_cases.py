"""The cases `astrid/<poses>` and `vertices/<vertices>` of `bench scale`: cost against size.

The rig of `astrid_rig.py` is sampled, fitted with `fdda` and measured on poses of the same store,
by the commands a user would run, with their defaults and 4 GB of memory. Of each step the row has
the seconds, the processor time and the peak of the memory; of the store, the bytes on disk.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from understudy.core.version import __version__
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import atomic_write
from understudy.system.progress import Progress
from understudy_benchmarks.process_cost import Cost, bytes_on_disk, run_command

METHOD = "one"  # machine
RIGS = {10_005: "Limbs10k", 42_195: "Limbs42k", 168_635: "Limbs169k"}
ASTRID = 168_635
STEPS = ("sample", "fit", "evaluate")
MEMORY = "4GB"
TARGET = 20_000  # poses


@dataclass(frozen=True)
class SizeCase:
    """One size: poses and vertices, and options of the fit."""

    poses: int
    vertices: int
    settings: tuple[str, ...] = ()


def size_case(name: str, settings: Sequence[str], poses: int) -> SizeCase:
    """The size that a case's name gives; `poses` is that of the cases `vertices/...`."""
    kind, _, number = name.partition("/")
    if kind == "astrid":
        return SizeCase(int(number), ASTRID, tuple(settings))
    return SizeCase(poses, int(number), tuple(settings))


def measure_size(
    name: str, case: SizeCase, out: Path, seed: int, progress: Progress, resume: bool = False
) -> CaseResult:
    """The row of one case; its store and file go to the folder `out`, the store is removed.

    resume  keep the steps that an earlier run has finished; a command that was interrupted goes on,
            and its row counts the last part alone (`interrupted` is then 1)
    """
    folder = out / name
    log = _StepLog(folder / "steps.json", [asdict(case), seed, __version__])
    if not (resume and log.read()):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    rig = f"understudy_benchmarks.astrid_rig:{RIGS[case.vertices]}"
    store, file = folder / "poses.zarr", folder / "fdda.understudy"
    settings = [word for text in case.settings for word in ("--set", text)]
    count = ("--count", str(case.poses), "--seed", str(seed))
    commands: Mapping[str, Sequence[str]] = {
        "sample": ("sample", rig, "-o", str(store), *count),
        "fit": ("fit", "fdda", str(store), "-o", str(file), *settings),
        "evaluate": ("evaluate", str(file), "--poses", str(store)),
    }
    with progress.task(f"measuring {name}", len(STEPS)) as task:
        for step in STEPS:
            if f"{step}_s" not in log.figures:
                log.begin(step)
                cost = run_command((*commands[step], "--memory", MEMORY))
                log.finish(step, cost)
                if step == "sample":
                    log.add("store_bytes", bytes_on_disk(store))
            task.advance()
    shutil.rmtree(store, ignore_errors=True)
    return CaseResult(name, METHOD, _row_figures(case, log.figures))


def _row_figures(case: SizeCase, noted: Mapping[str, float]) -> dict[str, float]:
    """The figures of a row, from those of the log."""
    figures = {"poses": float(case.poses), "vertices": float(case.vertices)}
    figures |= {name: value for name, value in noted.items() if not name.endswith("_bytes")}
    peaks = {f"{step}_peak_mb": noted[f"{step}_peak_bytes"] / 1e6 for step in STEPS}
    disk = noted["store_bytes"] / 1e6
    return {**figures, **peaks, "peak_mb": max(peaks.values()), "disk_mb": disk}


class _StepLog:
    """The figures of the steps of a case that are done, in a file.

    key  what the figures belong to; a file with another one is ignored
    """

    def __init__(self, path: Path, key: object):
        self._path, self._key = path, json.loads(json.dumps(key))
        self.figures: dict[str, float] = {}
        self._begun: list[str] = []

    def read(self) -> bool:
        """Read the file of an earlier run; False: there is none."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            if found["key"] != self._key:
                return False
            self.figures, self._begun = found["figures"], found["begun"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return True

    def begin(self, step: str) -> None:
        """Note that a step begins."""
        if step in self._begun:
            self.figures["interrupted"] = 1.0
        self._begun.append(step)
        self._write()

    def finish(self, step: str, cost: Cost) -> None:
        """Note the cost of a step."""
        self.figures[f"{step}_s"] = cost.seconds
        self.figures[f"{step}_cpu_s"] = cost.cpu
        self.add(f"{step}_peak_bytes", cost.peak)

    def add(self, name: str, value: float) -> None:
        """Note a figure."""
        self.figures[name] = value
        self._write()

    def _write(self) -> None:
        known = {"key": self._key, "figures": self.figures, "begun": self._begun}
        with atomic_write(self._path) as draft:
            draft.write_text(json.dumps(known), encoding="utf-8")


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent of a cost against a size: the slope of a line through their logarithms.

    >>> round(slope([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def findings(results: Sequence[CaseResult]) -> list[str]:
    """Slopes over poses and over vertices, and what the largest cases imply for 20,000 poses."""
    notes = []
    for kind, size in (("astrid", "poses"), ("vertices", "vertices")):
        rows = sorted(
            (row for row in results if row.case.startswith(f"{kind}/")),
            key=lambda row: row.figures[size],
        )
        if len(rows) < 2:
            continue
        sizes = [row.figures[size] for row in rows]
        text = ", ".join(
            f"{step} {slope(sizes, [row.figures[f'{step}_cpu_s'] for row in rows]):.2f}"
            for step in STEPS
        )
        peak = max(row.figures["peak_mb"] for row in rows)
        notes.append(
            f"{kind}: processor time grows with the {size} to the power of: {text}; the peak of "
            f"the memory is {peak / 1e3:.2f} GB"
        )
        if kind == "astrid":
            notes += _projection(rows[-2], rows[-1])
    return notes


def _projection(before: CaseResult, last: CaseResult) -> list[str]:
    """The cost of 20,000 poses: measured, or what the two largest cases imply for a + b poses."""
    total = {}
    for step in STEPS:
        first, second = (row.figures[f"{step}_s"] for row in (before, last))
        rate = (second - first) / (last.figures["poses"] - before.figures["poses"])
        total[step] = max(0.0, second + rate * (TARGET - last.figures["poses"])) / 60
    disk = last.figures["disk_mb"] / last.figures["poses"] * TARGET
    text = ", ".join(f"{step} {minutes:.0f} min" for step, minutes in total.items())
    known = last.figures["poses"] == TARGET
    source = "" if known else ", by the line through the two largest cases"
    return [
        f"{TARGET} poses{source}: {text}, together "
        f"{sum(total.values()):.0f} min; {disk / 1e3:.0f} GB on disk"
    ]


def simulated_farm(row: CaseResult, machines: int = 1000, poses: int = TARGET) -> str:
    """On paper: what limits `machines` that sample `poses` into one store, from measured rates."""
    figures = row.figures
    per_pose = figures["sample_cpu_s"] / figures["poses"]
    bytes_per_pose = 1e6 * figures["disk_mb"] / figures["poses"]
    rate = machines / per_pose * bytes_per_pose
    slow = machines / 0.1 * bytes_per_pose  # a film rig takes 100 ms a pose
    return (
        f"{machines} machines of one core that each sample at the rate of {row.case} would write "
        f"{rate / 1e9:.0f} GB/s into one store, with a film rig of 100 ms a pose {slow / 1e9:.0f} "
        f"GB/s: the shared disk is the first limit. At 10 GB/s, {poses} poses take at least "
        f"{poses * bytes_per_pose / 1e10:.0f} s"
    )
