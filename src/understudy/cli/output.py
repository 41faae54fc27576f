"""What several commands print: tables and sizes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console

from understudy.core.deformer import Deformer
from understudy.evaluation.metric_catalogue import size_text
from understudy.evaluation.report import figures_table, figures_that_matter
from understudy.evaluation.result import CaseResult
from understudy.jobs import Measured

_FILE_WIDTH = 200  # columns of a table that does not go to a terminal: enough for every figure


def print_table(
    results: Sequence[CaseResult],
    unit: str,
    title: str,
    size: str = "height",
    names: Collection[str] | None = None,
) -> None:
    """Print one row for each case and method.

    unit   of the mesh
    size   what percentages refer to: `Mesh.size_label`
    names  the figures to show; None: all
    """
    width = None if sys.stdout.isatty() else _FILE_WIDTH
    Console(width=width).print(figures_table(results, unit, title, size, names))


def file_text(file: Path, deformer: Deformer) -> str:
    """The size of a file, in what numbers, and the size of its mesh, for a user to read."""
    count = deformer.mesh.vertex_count
    return f"{size_text(file.stat().st_size)}, {deformer.storage}, {count} vertices"


def print_measured(measured: Measured, every: bool = False) -> None:
    """Print the errors of a measurement, its remarks, and where its report is.

    every  print all figures, not only those that matter first
    """
    trial, rows = measured.trial, measured.rows
    title = f"{trial.title}: errors against the original"
    names = None if every else figures_that_matter(rows)
    warnings = [note for note in trial.notes if note.startswith("Warning")]
    print(*warnings, sep="\n", end="\n" if warnings else "")
    print_table(rows, measured.unit, title, trial.mesh.size_label, names)
    for note in trial.notes:
        if note not in warnings:
            print(note)
    if measured.report is not None:
        print(f"Report: {measured.report}\nPage: {measured.page}")
