"""The cases `busy/<command>` of `bench scale`: a command beside a program that occupies a core.

People fit while other programs run. Every command runs in a process of its own, on two cores: alone
(`quiet_s`), and beside a loop that never waits (`busy_s`). A command that uses both cores and loses
no time at waiting takes 1.5 times as long beside the loop, because it gets two thirds of its
threads' time; one that uses a single core, hardly longer. `quiet_cpu_s` and `busy_cpu_s` are
the processor times: a command whose threads spin while they wait uses more beside the loop.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.evaluation.result import CaseResult
from understudy.rigs.base import animate
from understudy.rigs.sampling import SamplePlan
from understudy.system.errors import UnderstudyError
from understudy.system.progress import Progress
from understudy_benchmarks.samples import sampled
from understudy_benchmarks.size_cases import METHOD
from understudy_characters.face.rig import FaceRig
from understudy_characters.human.rig import HumanRig

CORES = 2
# It also ends where the benchmark was killed.
_LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(10000))
"""
_CLIP = "kick"  # of the human


@dataclass(frozen=True)
class BusySize:
    """The work of one run.

    sampled   poses of busy/sample
    fitted    poses that are fitted
    epochs    of training
    frames    of the sequence that is compressed; None: all
    bones     that compress it; None: found from the motion
    settings  further options of busy/differential
    repeats   runs of each command, alone and beside the loop in turns; the shortest counts
    """

    sampled: int
    fitted: int
    epochs: int
    frames: int | None
    bones: int | None
    settings: Mapping[str, str]
    repeats: int


SIZES = {
    "quick": BusySize(
        64, 32, 1, 12, 4, {"anchor_epochs": "1", "hidden": "16,16", "regions": "4"}, repeats=1
    ),
    "default": BusySize(2000, 600, 20, 40, None, {}, repeats=2),
    "full": BusySize(5000, 2000, 50, None, None, {}, repeats=3),
}


def _sample(folder: Path, size: BusySize, seed: int, progress: Progress) -> list[str]:
    out = folder / "sampled.zarr"
    counts = ("--count", str(size.sampled), "--seed", str(seed), "--overwrite")
    return ["sample", "human", "-o", str(out), *counts]


def _fdda(folder: Path, size: BusySize, seed: int, progress: Progress) -> list[str]:
    store = folder / "human.zarr"
    sampled(HumanRig, SamplePlan(size.fitted, seed), store, progress)
    return ["fit", "fdda", str(store), "-o", str(folder / "fdda.understudy"), *_set(size, {}, seed)]


def _differential(folder: Path, size: BusySize, seed: int, progress: Progress) -> list[str]:
    store, out = folder / "face.zarr", folder / "differential.understudy"
    sampled(FaceRig, SamplePlan(size.fitted, seed), store, progress)
    return ["fit", "differential", str(store), "-o", str(out), *_set(size, size.settings, seed)]


def _compress(folder: Path, size: BusySize, seed: int, progress: Progress) -> list[str]:
    clip = animate(HumanRig(), _CLIP)
    source = folder / "sequence.npz"
    np.savez(
        source,
        vertices=clip.read_poses(0, size.frames or clip.pose_count),
        faces=clip.mesh.triangles,
        rest=clip.mesh.vertices,
    )
    shape = ("--up", clip.mesh.up, "--unit", clip.mesh.unit, "--frame-rate", "30")
    bones = () if size.bones is None else ("--bones", str(size.bones))
    return ["compress", str(source), "-o", str(folder / "sequence.understudy"), *shape, *bones]


def _set(size: BusySize, settings: Mapping[str, str], seed: int) -> list[str]:
    given = {"epochs": str(size.epochs), "seed": str(seed), **settings}
    return [word for name, value in given.items() for word in ("--set", f"{name}={value}")]


# Case -> what prepares its data in a folder and returns the words of the command.
CASES: Mapping[str, Callable[[Path, BusySize, int, Progress], list[str]]] = {
    "busy/sample": _sample,
    "busy/fdda": _fdda,
    "busy/differential": _differential,
    "busy/compress": _compress,
}


def measure_busy(case: str, size: BusySize, out: Path, seed: int, progress: Progress) -> CaseResult:
    """The row of one case; its data and files go to the folder `out`."""
    folder = out / case
    folder.mkdir(parents=True, exist_ok=True)
    words = CASES[case](folder, size, seed, progress)
    taken: dict[str, list[tuple[float, float]]] = {"quiet": [], "busy": []}
    with two_cores(), progress.task(f"timing {case}", 2 * size.repeats) as task:
        for _ in range(size.repeats):
            for kind, times in taken.items():
                with ExitStack() as stack:
                    if kind == "busy":
                        stack.enter_context(busy_loop())
                    times.append(_run(words))
                task.advance()
    figures: dict[str, float] = {}
    for kind, times in taken.items():
        figures[f"{kind}_s"], figures[f"{kind}_cpu_s"] = min(times)
    return CaseResult(case, METHOD, figures)


@contextmanager
def two_cores() -> Iterator[None]:
    """Run this process and those it starts on two cores, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def busy_loop() -> Iterator[None]:
    """A process that occupies one core."""
    neighbour = subprocess.Popen([sys.executable, "-c", _LOOP])
    try:
        yield
    finally:
        neighbour.kill()
        neighbour.wait()


def _run(words: list[str]) -> tuple[float, float]:
    """Run an `understudy` command; return its seconds, and the processor time of its processes."""
    before, started = _children_cpu(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "understudy", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise UnderstudyError(f"understudy {' '.join(words)} failed: {done.stderr.strip()}")
    return seconds, _children_cpu() - before


def _children_cpu() -> float:
    """The processor seconds of all processes that were started here and have ended."""
    used = os.times()
    return used.children_user + used.children_system
