"""`understudy demo`: `learn` on the built-in human, and a look at the result."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from understudy import jobs
from understudy.cli.learn import print_result
from understudy.cli.options import Out, Seed
from understudy.evaluation.result import overall
from understudy.system.terminal_progress import TerminalProgress

RIG, METHOD = "human", "corrected_skin"
README_MM = 0.22  # number cmu_mm


def demo(
    out: Out = Path("out/demo"),
    poses: Annotated[int, typer.Option(min=10, help="Number of training poses.")] = 2000,
    seed: Seed = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open the page.")
    ] = True,
) -> None:
    """Learn the built-in human and look at the result.

    The same as `understudy learn human`, with fewer poses: samples the rig, fits the default
    method, measures it on a walk and a kick beside linear blend skinning, writes a report and a
    page, and opens the page. If it is interrupted, run the same command again: it resumes.
    """
    result = jobs.learn(RIG, out, count=poses, seed=seed, progress=TerminalProgress())
    print_result(result)
    rows = [row for row in result.measured.rows if row.method == result.deformer.method]
    mean = 10 * overall(rows, result.deformer.method)["mean"]  # the human's unit is a centimetre
    print(
        f"README's mean error, of {METHOD} from more poses on motion capture, is {README_MM} mm; "
        f"this one, of {result.deformer.method} from {poses} poses, is {mean:.2g} mm."
    )
    page = result.measured.page
    if page is not None and browser and sys.stdout.isatty():
        webbrowser.open(page.absolute().as_uri())
