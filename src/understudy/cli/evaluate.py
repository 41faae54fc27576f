"""`understudy evaluate`: a stand-in against the original."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from understudy import jobs
from understudy.cli import options
from understudy.cli.added_options import Group
from understudy.cli.output import print_measured
from understudy.io.registry import ReadOptions
from understudy.system.terminal_progress import TerminalProgress

RigOption = Annotated[
    str | None,
    typer.Option("--rig", help=f"The original. {options.RIG_HELP} Default: the rig in the file."),
]
PosesOption = Annotated[
    list[str],
    typer.Option(
        "--poses",
        help="Measure on recorded poses instead of a rig: a pose store or a .npz that took no "
        "part in the fit; repeat it.",
    ),
]
Animation = Annotated[
    list[str],
    typer.Option(help="Animation of the rig to measure on; repeat it. Default: all of them."),
]
OF_PAIRS: Any = Group(options.read_options, "cache", "clip", "meshes", "frame_offset")
Report = Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")]


def evaluate(
    file: options.File,
    rig: RigOption = None,
    poses: PosesOption = [],  # noqa: B006
    animation: Animation = [],  # noqa: B006
    report: Report = None,
    as_json: options.Json = None,
    all_figures: options.AllFigures = False,
    reading: ReadOptions = OF_PAIRS,
) -> None:
    """Measure a stand-in against the original.

    The original is the rig that the file was learned from, another rig (--rig), or recorded poses
    (--poses). A rig without animations is measured on random poses that took no part in the fit.
    """
    measured = jobs.evaluate(
        [file],
        rig=rig,
        poses=poses,
        animations=animation,
        reading=reading,
        outputs=jobs.Outputs(f"understudy evaluate {file.name}", report, as_json),
        progress=TerminalProgress(),
    )
    print_measured(measured, all_figures)
