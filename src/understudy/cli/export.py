"""`understudy export`: a stand-in in another format, or in 16 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import File
from understudy.core.deformer import Deformer
from understudy.evaluation.metric_catalogue import size_text
from understudy.io.atomic_write import ensure_writable
from understudy.io.registry import format_of, write_deformer


def export(
    file: File,
    out: Annotated[
        Path,
        typer.Argument(help="File to write; its suffix decides the format: .understudy, .onnx."),
    ],
    half: Annotated[
        bool, typer.Option("--half", help="Store 16-bit numbers: half the size.")
    ] = False,
) -> None:
    """Write a stand-in in another format.

    A .onnx file holds the whole deformer as one graph. `--half` halves a .understudy file.
    """
    format_of(out, to="write")
    ensure_writable(out)
    deformer = Deformer.load(file)
    write_deformer(deformer.half() if half else deformer, out)
    print(f"{out}: {size_text(out.stat().st_size)}")
