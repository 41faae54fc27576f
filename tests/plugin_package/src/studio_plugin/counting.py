"""A command: how many vertices files have."""

from pathlib import Path
from typing import Annotated

import typer

from understudy import Deformer


def count_vertices(
    files: Annotated[list[Path], typer.Argument(help="Files with a deformer.")],
    total: Annotated[bool, typer.Option("--total", help="Print the sum alone.")] = False,
) -> None:
    """Print how many vertices .understudy files have."""
    counts = [Deformer.load(file).mesh.vertex_count for file in files]
    print(*([sum(counts)] if total else counts))


count_vertices.example = "understudy count-vertices hinge.understudy"
