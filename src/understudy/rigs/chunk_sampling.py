"""One share of a sampling job, for the machines of a render farm.

Every machine runs the same command with another chunk. All of them write to one store on a disk
that they share; a chunk is a range of its blocks. Blocks do not depend on the number of chunks, so
the finished store has the same bytes as one that a single machine wrote. A chunk that failed is
run again and keeps the blocks it had finished; one that runs twice at a time does no harm. A
machine whose rig moves the mesh otherwise, such as that of another version, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.io import pose_store as store
from understudy.rigs.base import Rig
from understudy.rigs.parallel_sampling import SamplingJob, need_same_rig
from understudy.rigs.sampling import SamplePlan
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

MOST_NAMED = 20  # chunks in a message


@dataclass(frozen=True)
class Chunk:
    """Which share of a job: number 1 to count."""

    number: int
    count: int

    def __post_init__(self):
        checks.between(self.count, "number of chunks", low=1)
        checks.between(self.number, "chunk", low=1, high=self.count)

    @staticmethod
    def from_text(text: str) -> Chunk:
        """The chunk of a text such as 3/40.

        >>> Chunk.from_text("3/40")
        Chunk(number=3, count=40)
        """
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        if found is None:
            raise InputError(f"chunk: expected NUMBER/COUNT, such as 3/40, got {text!r}")
        return Chunk(int(found[1]), int(found[2]))

    def blocks(self, total: int) -> range:
        """The blocks of this chunk, of `total` blocks: consecutive, shares nearly equal."""
        first, last = ((n * total) // self.count for n in (self.number - 1, self.number))
        return range(first, last)


@dataclass(frozen=True)
class ChunkResult:
    """What a chunk did, and what the store still lacks.

    chunk         which share of the job
    sampled       poses that were sampled now
    share         poses of this chunk
    total         poses of the store
    left          poses that the store lacks
    chunks_left   chunks, from 1, with blocks that are not complete
    """

    chunk: Chunk
    sampled: int
    share: int
    total: int
    left: int
    chunks_left: tuple[int, ...]

    def text(self) -> str:
        """What was done and what is left, in words."""
        before = self.share - self.sampled
        there = f", {before} were there already" if before else ""
        text = (
            f"chunk {self.chunk.number}/{self.chunk.count}: {self.sampled} poses sampled{there}. "
        )
        if not self.left:
            return f"{text}The store is complete: {self.total} poses."
        names = ", ".join(str(n) for n in self.chunks_left[:MOST_NAMED])
        more = len(self.chunks_left) - MOST_NAMED
        which = "chunk" if len(self.chunks_left) == 1 else "chunks"
        return (
            f"{text}{self.left} of {self.total} poses are left: {which} "
            f"{names}{f' and {more} more' if more > 0 else ''}."
        )


def need_blocks(job: SamplingJob, chunks: int) -> None:
    """Raise if there are more chunks than blocks of poses: some would have nothing to do."""
    count = len(job.values)
    blocks = -(-count // job.block)
    if chunks > blocks:
        raise InputError(
            f"chunks: {count} poses are {blocks} blocks of up to {job.block} poses, too few for "
            f"{chunks} chunks; ask for at most {blocks}, or for smaller blocks (--block)"
        )


def sample_chunk(
    rig: str | Callable[[], Rig],
    plan: SamplePlan,
    path: str | Path,
    chunk: Chunk,
    processes: int | None = None,
    progress: Progress = SILENT,
    ranges: str | Path | None = None,
    block: int | None = None,
) -> ChunkResult:
    """Sample one chunk of a plan into the store at `path`, which the first chunk creates.

    chunk  which share; the other arguments are those of `sample_poses`, the same for every chunk
    """
    checks.between(1 if processes is None else processes, "processes", low=1)
    job = SamplingJob.of(rig, plan, ranges, block)
    need_blocks(job, chunk.count)
    missing = store.join(path, job.sample, job.block)
    need_same_rig(path, job.rig, job.sample.shown)
    mine = chunk.blocks(store.count_blocks(path))
    poses = lambda blocks: sum(len(store.block_controls(path, k)[0]) for k in blocks)
    todo = [k for k in missing if k in mine]
    job.write(path, todo, processes, progress, share=poses(mine))
    left = store.missing_blocks(path)
    if not left:
        store.tidy(path)
    found = _chunks_of(left, path, chunk.count)
    return ChunkResult(chunk, poses(todo), poses(mine), plan.count, poses(left), found)


def _chunks_of(blocks: Sequence[int], path: str | Path, count: int) -> tuple[int, ...]:
    """The chunks that `blocks` belong to."""
    total, wanted = store.count_blocks(path), set(blocks)
    chunks = (Chunk(number, count) for number in range(1, count + 1))
    return tuple(chunk.number for chunk in chunks if wanted.intersection(chunk.blocks(total)))
