"""`understudy compare`: several stand-ins of one character side by side, fitted here or before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy import jobs
from understudy.cli import options
from understudy.cli.evaluate import Animation, PosesOption, Report, RigOption
from understudy.cli.output import print_measured
from understudy.io.registry import ReadOptions
from understudy.io.understudy import SUFFIX
from understudy.system.errors import InputError
from understudy.system.terminal_progress import TerminalProgress


def compare(
    source: Annotated[
        list[str],
        typer.Argument(
            help="Several .understudy files of one character; or what to fit methods to: a rig, a "
            "pose store, recorded poses or a mesh sequence."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for what is fitted here, and for the report."),
    ] = None,
    wanted: Annotated[
        str,
        typer.Option(
            "--methods",
            help="Methods to fit, separated by commas. Default: all that suit the source, without "
            "baselines and auto.",
        ),
    ] = "",
    count: options.Count = 3000,
    held_out: options.HeldOut = [],  # noqa: B006
    seed: options.Seed = 0,
    rig: RigOption = None,
    poses: PosesOption = [],  # noqa: B006
    animation: Animation = [],  # noqa: B006
    report: Report = None,
    as_json: options.Json = None,
    overwrite: options.Overwrite = False,
    all_figures: options.AllFigures = False,
    reading: ReadOptions = options.OF_SEQUENCES,
) -> None:
    """Measure several stand-ins side by side: errors, sizes, times.

    Of .understudy files, as `evaluate`. Of any other source, methods are fitted first, with their
    default options, and measured on animation that took no part; figures, a report with plots of
    error against cost, and the files go to one folder. If it is interrupted, run the same command
    again: it resumes.
    """
    fitted = [Path(one).suffix == SUFFIX for one in source]
    progress = TerminalProgress()
    command = f"understudy compare {' '.join(Path(one).name for one in source)}"
    outputs = jobs.Outputs(command, report, as_json, times=True)
    if all(fitted):
        if out is not None or wanted:
            raise InputError("--out and --methods: they fit a source, and these files are fitted")
        measured = jobs.evaluate(
            source, rig=rig, poses=poses, animations=animation, outputs=outputs, progress=progress
        )
        print_measured(measured, all_figures)
        return
    if any(fitted):
        raise InputError("give .understudy files to compare, or a source to fit methods to")
    if rig is not None or poses:
        raise InputError("--rig and --poses: they measure .understudy files, and nothing is fitted")
    if out is None:
        raise InputError("--out is missing: the folder for what is fitted")
    compared = jobs.compare(
        source,
        out,
        methods=options.names_of(wanted),
        count=count,
        held_out=[*held_out, *animation],
        seed=seed,
        overwrite=overwrite,
        outputs=outputs,
        reading=reading,
        progress=progress,
    )
    print_measured(compared.measured, all_figures)
