"""`understudy learning-curve`: how many poses an error would need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy import jobs
from understudy.cli import options
from understudy.cli.fit import refuse_swapped
from understudy.io.registry import ReadOptions
from understudy.system.terminal_progress import TerminalProgress


def learning_curve(
    method: Annotated[str, typer.Argument(help="corrected_skin, fdda, ...")],
    source: Annotated[
        list[str], typer.Argument(help="A pose store (.zarr) or recorded poses, as for `fit`.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for fits, figures and picture.")],
    max_error: Annotated[
        str | None,
        typer.Option(help="Mean error to reach: 0.5mm, 0.02% (of the height), or a number."),
    ] = None,
    fits: Annotated[
        int, typer.Option(min=3, max=12, help="Fits, each to about twice as many poses.")
    ] = 4,
    held_out: options.HeldOut = [],  # noqa: B006
    rig: Annotated[
        str, typer.Option(help="Live rig, as for `fit`: auto (the sampled one), none, or a rig.")
    ] = "auto",
    settings: options.Settings = [],  # noqa: B006
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    reading: ReadOptions = options.OF_SEQUENCES,
) -> None:
    """Say how many poses an error would need.

    A method is fitted to more and more of the poses (whole clips where there are several), each fit
    is measured on poses that took no part, and a power law is laid through the errors. The picture
    shows the range of the laws that explain them. If it is interrupted, run the same command again:
    it resumes.
    """
    refuse_swapped(method, source)
    found = jobs.learning_curve(
        method,
        source,
        out,
        max_error=max_error,
        fits=fits,
        held_out=held_out,
        rig=None if rig == "none" else rig,
        options=options.settings_of(settings),
        seed=seed,
        overwrite=overwrite,
        reading=reading,
        progress=TerminalProgress(),
    )
    for count, error in zip(found.curve.counts, found.curve.means):
        print(f"{int(count)} poses: {error:.4g} {found.unit}")
    print(found.note, found.sentence(), sep="\n")
    print(f"Written to {out}: learning_curve.png, learning_curve.json")
