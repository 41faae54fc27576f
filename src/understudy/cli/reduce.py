"""`understudy reduce`: the skin of an existing character with fewer influences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from understudy import jobs
from understudy.cli import options
from understudy.cli.added_options import Group
from understudy.cli.output import file_text
from understudy.io.registry import ReadOptions
from understudy.system.terminal_progress import TerminalProgress

OF_CHARACTERS: Any = Group(options.read_options, "clip", "meshes")


def reduce(
    method: Annotated[str, typer.Argument(help="two_layer, or a baseline that reduces skins.")],
    skin: Annotated[
        Path,
        typer.Argument(
            help="A character's file (.glb, .fbx, .usd), a .understudy file, or a .npz with rest, "
            "faces and weights (V,B)."
        ),
    ],
    out: options.Out,
    weights_alone: Annotated[
        bool,
        typer.Option("--weights-alone", help="Do not use the clips of the file as example poses."),
    ] = False,
    settings: dict[str, str] = options.SETTINGS,
    reading: ReadOptions = OF_CHARACTERS,
) -> None:
    """Give the skin of a character fewer influences.

    The weights may be an artist's or computed by any program. Clips of the file are example poses;
    without them, the weights alone are approximated.
    """
    reduced, lines = jobs.reduce(
        method,
        skin,
        out,
        options=settings,
        examples=not weights_alone,
        reading=reading,
        progress=TerminalProgress(),
    )
    print(f"{out}: {file_text(out, reduced)}")
    print("\n".join(lines))
