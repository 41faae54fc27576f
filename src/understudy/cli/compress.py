"""`understudy compress`: a mesh sequence becomes a skin with few bones and its clips."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy import jobs
from understudy.cli import options
from understudy.io.registry import ReadOptions
from understudy.system.terminal_progress import TerminalProgress


def compress(
    sequence: Annotated[
        list[str],
        typer.Argument(
            help="A .npz, a folder or a 'pattern' of .obj or .ply files; several: one clip each."
        ),
    ],
    out: options.Out,
    bones: Annotated[
        int | None, typer.Option(min=1, help="Number of bones. Default: found from the motion.")
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="Add bones until this error E is reached, in thousandths of half the diagonal of "
            "the rest pose's bounding box (ssdr, two_layer)."
        ),
    ] = None,
    influences: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest number of bones per vertex; for two_layer, blending operations per "
            "vertex. Default: 6 for temporal, else 4.",
        ),
    ] = None,
    transforms: Annotated[
        str | None,
        typer.Option(help="affine: bones may stretch and shear; rigid: not (ssdr, two_layer)."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="A method for mesh sequences (temporal, ssdr, two_layer, ...). Default: "
            "temporal; with --bones, --error or --transforms, ssdr."
        ),
    ] = None,
    skeleton: Annotated[
        bool,
        typer.Option(
            "--skeleton",
            help="Join the bones to one skeleton with joints inside the body, to edit and retarget "
            "(temporal).",
        ),
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Error E that storing may add: key frames only where they are needed, in 16 bits. "
            "Default: a tenth of the error, at least 0.1; 0: every frame as it was fitted.",
        ),
    ] = None,
    settings: dict[str, str] = options.SETTINGS,
    reading: ReadOptions = options.OF_SEQUENCES,
    as_json: options.Json = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Also write a page (.html) that shows the result beside the sequence."),
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Turn a mesh sequence into bones and clips.

    The result is a skin with few bones and few influences per vertex. No option is needed.

    A .understudy file has the bones that reproduce the sequence best. The file of an engine (.glb,
    .usd, .fbx, ...) has one skeleton and at most 4 influences; --transforms and --method keep the
    bones that they ask for instead. The error of what was written is printed.
    """
    done = jobs.compress(
        sequence,
        out,
        bones=bones,
        error=error,
        influences=influences,
        transforms=transforms,
        method=method,
        skeleton=skeleton,
        tolerance=tolerance,
        options=settings,
        seed=seed or None,
        reading=reading,
        as_json=as_json,
        page=page,
        progress=TerminalProgress(),
    )
    print("\n".join(done.lines()))
