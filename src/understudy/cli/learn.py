"""`understudy learn`: the whole job in one command, from a rig or a file to an engine's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from understudy import jobs
from understudy.cli import options, sample
from understudy.cli.output import file_text, print_measured
from understudy.io.registry import ReadOptions, format_of
from understudy.rigs.blender.options import BlenderOptions
from understudy.system.errors import InputError
from understudy.system.terminal_progress import TerminalProgress


def learn(
    source: Annotated[
        list[str],
        typer.Argument(
            help="A rig (a .blend, a built-in or your own), a pose store, recorded poses, a "
            "character's file (.glb, .fbx, .usd) with or without --cache, or a mesh sequence."
        ),
    ],
    out: options.Out,
    method: Annotated[
        str | None,
        typer.Option(
            help="Method to fit. Default: auto; with --part-error, or --set of another method's "
            "option, the one that suits the source."
        ),
    ] = None,
    settings: options.Settings = [],  # noqa: B006
    to: Annotated[
        str, typer.Option(help="Also export to these formats: glb,usd,fbx,onnx, ...")
    ] = "",
    count: options.Count = 3000,
    held_out: Annotated[
        list[str],
        typer.Option(help="Clip to measure on instead of learning it; repeat it. Default: chosen."),
    ] = [],  # noqa: B006
    seed: options.Seed = 0,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Worker processes for sampling. Default: one per core."),
    ] = None,
    ranges: sample.Ranges = None,
    around: sample.Around = [],  # noqa: B006
    modes: sample.Modes = None,
    active: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of the controls that a pose moves. Default: of few, all."
        ),
    ] = None,
    blender: BlenderOptions = sample.BLENDER,
    parts: jobs.PartOptions = options.PARTS,
    reading: ReadOptions = options.READING,
    budget: dict[str, str] = options.BUDGET,
    full_precision: Annotated[
        bool,
        typer.Option(
            "--float32",
            help="Store 32-bit numbers, also where 16 bits do not change the error.",
        ),
    ] = False,
    overwrite: options.Overwrite = False,
    all_figures: options.AllFigures = False,
) -> None:
    """Learn a character: everything from the source to the files of an engine.

    Samples the rig or reads the file, fits the method that suits it, measures it on animation that
    took no part in the fit, beside linear blend skinning, writes a report and exports. Everything
    goes to one folder. The method is `auto`: the cheapest that keeps a budget (--max-error,
    --max-ms, --max-bytes). Without one, it is a plain skin where that has no visible error, else
    the default size of the method that suits the source. If it is interrupted, run the same command
    again: it resumes.
    """
    if method is None and budget:
        method = options.AUTO
    wanted = options.names_of(to)
    for suffix in wanted:
        format_of(f"hero.{suffix.lstrip('.')}", to="write")
    progress = TerminalProgress()
    result = jobs.learn(
        source,
        out,
        method=method,
        options=options.budget_settings(
            method or "the method that suits the source", options.settings_of(settings), budget
        ),
        count=count,
        around=around,
        modes=modes,
        active=active,
        ranges=ranges,
        processes=processes,
        held_out=held_out,
        parts=parts,
        seed=seed,
        full_precision=full_precision,
        overwrite=overwrite,
        reading=reading,
        blender=blender,
        progress=progress,
    )
    print_result(result, all_figures)
    export_all(result, wanted, progress)


def print_result(result: jobs.Result, every: bool = False) -> None:
    """Print the errors of what was learned, what came up, and its file."""
    print_measured(result.measured, every)
    print(*result.notes, f"{result.file}: {file_text(result.file, result.deformer)}", sep="\n")


def export_all(result: jobs.Result, wanted: Sequence[str], progress: TerminalProgress) -> None:
    """Write the stand-in in other formats. One that cannot hold it does not stop the others."""
    said: Sequence[str] = []
    refused: list[str] = []
    for suffix in wanted:
        try:
            made = result.export(suffix, progress)
        except InputError as problem:
            refused.append(str(problem))
            continue
        print("\n".join(made.sizes))
        if made.about and made.about != said:
            said = made.about
            print("\n".join(said))
    if refused:
        raise InputError("\n".join(refused))
