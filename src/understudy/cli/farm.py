"""`understudy farm-job`: a sampling job for a render farm.

Options of `sample` are passed on as they are, so they are declared there alone. Files that the
options name are copied into the folder of the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.added_options import flat, memory_asked, threads_asked
from understudy.cli.options import RIG_HELP, Out
from understudy.cli.sample import BLENDER, STORE_SUFFIX, sample
from understudy.io.files import write_json
from understudy.jobs.farm import (
    TEMPLATE,
    VALUES,
    FarmJob,
    files_of,
    stem_of,
    words_for_farm,
)
from understudy.jobs.folder import make_folder
from understudy.jobs.source import load_asked
from understudy.rigs.chunk_sampling import need_blocks
from understudy.rigs.parallel_sampling import SamplingJob
from understudy.rigs.sampling import SamplePlan, read_modes
from understudy.system.errors import InputError
from understudy.system.terminal_progress import TerminalProgress

MOST_CHUNKS = 40  # by default


def farm_job(
    context: typer.Context,
    rig: Annotated[str, typer.Argument(help=RIG_HELP)],
    out: Out,
    chunks: Annotated[
        int | None,
        typer.Option(min=1, help="Tasks of the job. Default: one per block, at most 40."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Pose store to fill. Default: in the folder of the job."),
    ] = None,
    command: Annotated[
        str, typer.Option(help="How the machines of the farm call understudy.")
    ] = "understudy",
) -> None:
    """Write a sampling job for a render farm: an Open Job Description template.

    All options of `sample` are taken too, such as --count, --seed, --ranges and --mesh.
    """
    store = out / f"{stem_of(rig)}{STORE_SUFFIX}" if store is None else store
    given = _sample_options(rig, store, context.args)
    job = _job(rig, given)
    blocks = -(-len(job.values) // job.block)
    count = min(blocks, MOST_CHUNKS) if chunks is None else chunks
    need_blocks(job, count)
    make_folder(out)
    written = FarmJob(
        rig, store, count, command, words_for_farm(context.args, given, out), files_of(given)
    )
    write_json(out / TEMPLATE, written.template())
    write_json(out / VALUES, {"parameterValues": written.values()})
    example = " ".join(["understudy", *written.sample_words(f"1/{count}", out.absolute())])
    print(
        f"{out / TEMPLATE}: {len(job.values)} poses of {rig} in {count} chunks of about "
        f"{-(-len(job.values) // count)} poses.\n"
        f"Deadline Cloud: deadline bundle submit {out}\n"
        f"Open Job Description on this machine: {written.openjd_command(out)}\n"
        f"OpenCue, Tractor, Flamenco and others call the chunk command, 1/{count} to "
        f"{count}/{count}; see docs/farm.md:\n  {example}"
    )


def _sample_options(rig: str, store: Path, words: Sequence[str]) -> dict[str, Any]:
    """The options of `sample` in `words`, read and checked by its own parser."""
    app = typer.Typer()
    app.command(name="sample")(flat(sample, threads_asked, memory_asked))
    command = typer.main.get_command(app)
    context = command.make_context("understudy farm-job", [rig, "-o", str(store), *words])
    for name in ("chunk", "overwrite"):
        if context.params.get(name):
            raise InputError(f"--{name}: a farm job takes all options of `sample` but this one")
    return dict(context.params)


def _job(rig: str, given: Mapping[str, Any]) -> SamplingJob:
    """The job that the chunks will run; this reads the rig, so a wrong one is noticed here."""
    loaded = load_asked(rig, BLENDER.made(given), TerminalProgress())
    modes = {} if given["modes"] is None else read_modes(given["modes"], loaded.controls)
    plan = SamplePlan(given["count"], given["seed"], modes)
    return SamplingJob.of(lambda: loaded, plan, given["ranges"], given["block"])
