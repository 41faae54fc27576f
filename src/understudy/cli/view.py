"""`understudy view`: a character in the browser; and the page of `understudy export`."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import RIG_HELP
from understudy.evaluation.metric_catalogue import size_text
from understudy.io.atomic_write import ensure_writable
from understudy.rigs.base import ExternalRig
from understudy.system.terminal_progress import TerminalProgress
from understudy.viewer.page import write_page
from understudy.viewer.server import ViewServer
from understudy.viewer.subjects import Subject, ViewJob, load_subjects, scene_of, title_of

PAGE_SUFFIX = ".html"

Beside = Annotated[
    list[Path],
    typer.Option(
        help="Another .understudy file of the same character, to compare with in a page; repeat it."
    ),
]


def view(
    things: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|RIG|POSES",
            help="One or several .understudy files of a character, a rig, or poses. " + RIG_HELP,
        ),
    ],
    clip: Annotated[
        list[str],
        typer.Option(
            help="Animation to show: of the rig, or a clip of a compressed sequence; repeat it. "
            "Default: all."
        ),
    ] = [],  # noqa: B006
    motion: Annotated[
        list[str],
        typer.Option(help="File with bone motion, or recorded poses, to show; repeat it."),
    ] = [],  # noqa: B006
    rig: Annotated[
        str | None,
        typer.Option("--rig", help="The original of a .understudy file. Default: the rig in it."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open the browser.")
    ] = True,
) -> None:
    """Look at a character in the browser, and pose it.

    Shows stand-ins beside the original, errors as a heat map, bones and their weights. If the rig
    of a file can be loaded, sliders move its controls, and it is compared live.

    The page is served to this computer only. Ctrl-C ends it. `understudy export FILE page.html`
    writes a page that needs no server.
    """
    scene, live = scene_of(things, ViewJob(clip, motion, rig), TerminalProgress())
    try:
        with ViewServer(scene, live, port) as server:
            print(f"{server.url}\nCtrl-C ends the server.", flush=True)
            if browser and not webbrowser.open(server.url):
                print("Open this address in a browser.", file=sys.stderr)
            server.wait()
    finally:
        if isinstance(live, ExternalRig):
            live.close()


def export_page(file: Path, beside: Sequence[Path], out: Path, job: ViewJob) -> None:
    """Write a page that needs no server, and say what is in it."""
    ensure_writable(out)
    subjects = [Subject(s.label, s.deformer) for s in load_subjects([file, *beside])]
    title = title_of(file, subjects[0].deformer)
    scene, _ = job.scene(subjects, title, progress=TerminalProgress())
    size = write_page(scene, out)
    print(f"{out}: {size_text(size)}, opens in any browser")
    for clip in scene.about["clips"]:
        original = "with the original" if "original" in clip else "without an original"
        print(f"clip         {clip['name']}: {clip['frames']} frames, {original}")
