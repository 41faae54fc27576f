"""`understudy sample RIG --around hero.understudy`: more poses where a stand-in fails.

Of the new poses, one part is random: the proposals, on which the stand-in is measured. The others
are drawn around its failures (`methods/failure_sampling.py`). The store holds both, so that no
evaluation of the rig is lost. Failures are looked for nowhere else: animations that a stand-in is
measured on take no part.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.io import pose_store as store
from understudy.io.understudy_file import SUFFIX
from understudy.methods.failure_sampling import failure_values
from understudy.rigs.base import Rig, name_of
from understudy.rigs.parallel_sampling import SamplingJob, sample_poses
from understudy.rigs.sampling import SamplePlan

KIND = "around failures"


@dataclass(frozen=True)
class FailurePlan:
    """Which poses to sample.

    file       the stand-in
    count      number of poses, proposals included
    share      share of the poses around failures, below 1
    spread     width of the noise around them, as a share of the training range
    proposals  how the proposals are drawn; its count is not used
    """

    file: Path
    count: int
    share: float
    spread: float
    proposals: SamplePlan

    @property
    def random_plan(self) -> SamplePlan:
        """The plan of the proposals."""
        return replace(self.proposals, count=self.count - round(self.share * self.count))

    def facts(self) -> dict[str, object]:
        """The plan as JSON values, for the store's provenance."""
        with self.file.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {
            "kind": KIND,
            "count": self.count,
            "share": self.share,
            "spread": self.spread,
            "deformer": digest,
            "proposals": self.random_plan.facts(),
        }


def stand_in_of(around: list[str]) -> Path | None:
    """The stand-in that `--around` names; None: it names animations."""
    files = [Path(name) for name in around if Path(name).suffix == SUFFIX]
    if not files:
        return None
    if len(around) > 1:
        raise InputError("--around: give one .understudy file, or animations of the rig")
    if not files[0].is_file():
        raise InputError(f"--around {files[0]}: no such file")
    return files[0]


def sample_failures(
    build: str | Callable[[], Rig],
    plan: FailurePlan,
    out: Path,
    processes: int | None,
    progress: Progress,
    ranges: Path | None,
    overwrite: bool,
) -> Poses:
    """Sample a rig into the store `out`; arguments as in `sample_poses`."""
    if not 0 < plan.share < 1:
        raise InputError(
            f"--share {plan.share:g}: with a stand-in it must lie between 0 and 1; the other poses "
            "are random, to find its failures"
        )
    random = plan.random_plan
    if random.count < 2 or random.count == plan.count:
        raise InputError(f"--count {plan.count}: too few poses to find failures; give at least 4")
    deformer = Deformer.load(plan.file)
    job = SamplingJob.of(build, random, ranges, None)
    if deformer.mesh.vertex_count != job.rig.mesh.vertex_count:
        raise InputError(
            f"{plan.file} has {deformer.mesh.vertex_count} vertices and the rig "
            f"{name_of(job.rig)!r} has {job.rig.mesh.vertex_count}: it stands in for another rig"
        )
    job = replace(job, facts={**job.facts, "plan": plan.facts()})
    if store.occupied(out) and not overwrite:
        # The values of an interrupted run are in its store.
        if store.provenance(out).get("plan") == plan.facts():
            stored = [store.block_controls(out, k)[1] for k in range(store.count_blocks(out))]
            job = replace(job, values=np.concatenate(stored))
        with store.lock(out):
            job.write(out, job.open_store(out, False), processes, progress)
        return store.open_poses(out)
    # Beside the store, so that an interrupted run finds them again.
    beside = out.with_name(f".{out.stem}-proposals{out.suffix}")
    proposals = sample_poses(build, random, beside, processes, progress, ranges)
    with progress.task("looking for failures", 1) as task:
        near = failure_values(
            deformer, proposals, plan.count - random.count, plan.spread, random.seed
        )
        task.advance()
    job = replace(job, values=np.concatenate([job.values, near]))
    with store.lock(out):
        missing = job.open_store(out, overwrite)
        left = _copied(job, out, proposals, missing)
        job.write(out, left, processes, progress)
    shutil.rmtree(beside, ignore_errors=True)
    return store.open_poses(out)


def _copied(job: SamplingJob, out: Path, proposals: Poses, missing: list[int]) -> list[int]:
    """Write the blocks that begin with proposals; return those that are left."""
    left = []
    for k in missing:
        rows, values = store.block_controls(out, k)
        known = min(rows.stop, proposals.pose_count)
        if rows.start >= known:
            left.append(k)
            continue
        parts = [proposals.between(rows.start, known)]
        if known < rows.stop:  # one block has poses of both kinds
            parts.append(job.rig.evaluate(values[known - rows.start :]))
        bones = [part.world_from_bone for part in parts if part.world_from_bone is not None]
        vertices = np.concatenate([part.read_poses(0, part.pose_count) for part in parts])
        whole = Poses(
            job.rig.mesh,
            vertices,
            job.rig.skeleton,
            np.concatenate(bones) if bones else None,
        )
        store.write_block(out, k, whole)
    return left
