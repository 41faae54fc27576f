"""Samples of the built-in rigs for benchmarks: in a pose store, or in memory where zarr is missing.

A machine that is used for its GPU alone may have torch, NumPy and SciPy and nothing else.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from understudy.core.poses import Poses
from understudy.rigs.base import Rig, name_of
from understudy.rigs.parallel_sampling import STEP, sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system import threads
from understudy.system.progress import Progress

# Of a `SamplePlan`: as equation 8 of the FDDA paper reads, where its text says `SIGMA`.
SIGMA_EQUATION_8 = 1.5

_AT_ONCE = 256  # poses of one task of a worker process


def sampled(rig: Callable[[], Rig], plan: SamplePlan, store: Path, progress: Progress) -> Poses:
    """The poses of a plan; they are kept in `store` where zarr exists.

    rig  what builds the rig: a class that worker processes can import
    """
    if importlib.util.find_spec("zarr") is not None:
        return sample_poses(rig, plan, store, progress=progress)
    return sampled_in_memory(rig, plan, progress)


def sampled_in_memory(
    rig: Callable[[], Rig], plan: SamplePlan, progress: Progress, processes: int | None = None
) -> Poses:
    """The same poses without a store, evaluated by worker processes (None: `threads.count()`)."""
    here = rig()
    values = plan.values(here)
    parts = np.array_split(values, max(1, len(values) // _AT_ONCE))
    workers = min(processes or threads.count(), len(parts))
    found = []
    with progress.task(f"sampling {name_of(here)}", len(values)) as task:
        if workers == 1:
            results = map(partial(_evaluated, rig), parts)
            for part in results:
                found.append(part)
                task.advance(len(part[0]))
        else:
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
                for part in pool.map(partial(_evaluated, rig), parts):
                    found.append(part)
                    task.advance(len(part[0]))
    bones = [part[1] for part in found if part[1] is not None]
    return Poses(
        here.mesh,
        np.concatenate([part[0] for part in found]),
        skeleton=here.skeleton,
        world_from_bone=np.concatenate(bones) if bones else None,
        control_spec=here.controls,
        controls=values,
        name=name_of(here),
    )


def _evaluated(rig: Callable[[], Rig], values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Vertices (t,V,3) and bones (t,B,3,4) of the control values (t,C)."""
    here = rig()
    parts = [here.evaluate(values[k : k + STEP]) for k in range(0, len(values), STEP)]
    vertices = np.concatenate([part.read_poses(0, part.pose_count) for part in parts])
    if here.skeleton is None:
        return vertices, None
    return vertices, np.concatenate([part.need_bones("a sample")[1] for part in parts])
