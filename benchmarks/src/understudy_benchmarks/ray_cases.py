"""The case `ray/50ms` of `bench scale`: one Ray worker against two, on this machine.

The rig has 10,005 vertices and takes 50 ms a pose, as film rigs do at best. It is sampled, and
fitted with `fdda`, whose inputs are selected by evaluating the rig (few epochs, so that the rig is
what takes the time). The cluster runs before the clock starts; the start of the workers counts.
`same` is 1 where both files have the same bytes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.evaluation.result import CaseResult
from understudy.jobs import fit
from understudy.rigs.parallel_sampling import SamplingJob
from understudy.rigs.ray_sampling import sample_on_cluster
from understudy.rigs.sampling import SamplePlan
from understudy.system.cluster import Cluster, using
from understudy.system.errors import MissingDependencyError
from understudy.system.progress import Progress

CASE = "ray/50ms"
METHODS = ("ray-1", "ray-2")
RIG = "understudy_benchmarks.astrid_rig:SlowLimbs"
POSES = {"quick": 40, "default": 400, "full": 1000}
SETTINGS = {"quick": {"epochs": "1"}, "default": {"epochs": "10"}, "full": {}}
_BLOCK = 8  # poses: both workers end at nearly the same time


def available() -> bool:
    """Whether Ray is installed."""
    return importlib.util.find_spec("ray") is not None


def measure_ray(size: str, out: Path, seed: int, progress: Progress) -> list[CaseResult]:
    """One row for one worker, and one for two; data and files go to the folder `out`."""
    if not available():
        raise MissingDependencyError(f"{CASE} needs the package ray: pip install ray")
    folder = out / CASE
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows, files = [], []
    with _two_processors():
        for count, method in enumerate(METHODS, 1):
            cluster = Cluster("auto", count)
            store, file = folder / f"{method}.zarr", folder / f"{method}.understudy"
            started = time.perf_counter()
            job = SamplingJob.of(RIG, SamplePlan(POSES[size], seed), None, _BLOCK)
            sample_on_cluster(job, store, cluster, progress=progress)
            sampled = time.perf_counter()
            settings = {**SETTINGS[size], "seed": str(seed)}
            with using(cluster, folder / f"{method}.files"):
                fit(
                    "fdda", folder / f"{METHODS[0]}.zarr", file, options=settings, progress=progress
                )
            fitted = time.perf_counter()
            files.append(file.read_bytes())
            figures = {"sample_s": sampled - started, "fit_s": fitted - sampled}
            rows.append(CaseResult(CASE, method, {**figures, "same": float(files[0] == files[-1])}))
    return rows


def ray_findings(rows: list[CaseResult]) -> Iterator[str]:
    """One sentence about both rows."""
    found = {row.method: row.figures for row in rows if row.case == CASE}
    if len(found) < 2:
        return
    one, two = (found[method] for method in METHODS)
    both = lambda row: row["sample_s"] + row["fit_s"]
    yield (
        f"{CASE}: two workers are {one['sample_s'] / two['sample_s']:.2f} x one at sampling, "
        f"{one['fit_s'] / two['fit_s']:.2f} x at fitting, {both(one) / both(two):.2f} x together; "
        f"the files are {'the same' if two['same'] else 'NOT the same'}"
    )


@contextlib.contextmanager
def _two_processors() -> Iterator[None]:
    """A cluster of two processors in this process."""
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
    )
    try:
        yield
    finally:
        ray.shutdown()
