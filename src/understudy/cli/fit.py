"""`understudy fit`: a method learns poses from a pose store, recorded poses or a mesh sequence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy import jobs
from understudy.cli import options
from understudy.cli.output import file_text
from understudy.core.provenance import rig_of
from understudy.io.registry import ReadOptions
from understudy.io.understudy import SUFFIX
from understudy.methods.registry import method_names, method_type
from understudy.system.cluster import Cluster, using
from understudy.system.errors import InputError
from understudy.system.terminal_progress import TerminalProgress


def fit(
    method: Annotated[str, typer.Argument(help="fdda, lbs, ...: see `understudy methods`.")],
    source: Annotated[
        list[str],
        typer.Argument(
            help="A pose store (.zarr), recorded poses (.npz), a character's file (.fbx, .glb, "
            ".usd) with or without --cache, or a mesh sequence: a .npz, a folder or a 'pattern' of "
            ".obj or .ply files."
        ),
    ],
    out: options.Out,
    settings: dict[str, str] = options.SETTINGS,
    rig: Annotated[
        str,
        typer.Option(
            help="Live rig for methods that evaluate it to find which controls move a vertex: a "
            "rig as for `sample`; auto: the sampled rig; none: learn it from the poses."
        ),
    ] = "auto",
    reading: ReadOptions = options.READING,
    parts: jobs.PartOptions = options.PARTS,
    budget: dict[str, str] = options.BUDGET,
    address: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="Fit with the workers of a Ray cluster: auto, or its address (ray://...). Source "
            "and output must lie on a disk that they share; the result is the same.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--processes", min=1, help="Workers of the cluster. Default: one for each processor."
        ),
    ] = None,
) -> None:
    """Fit a method to poses and write a .understudy file.

    `auto` chooses the method and its options by --max-error, --max-ms and --max-bytes. If it is
    interrupted, run the same command again: it resumes.
    """
    refuse_swapped(method, source)
    if workers is not None and address is None:
        raise InputError("--processes is for --cluster; threads are set with --threads")
    wanted = None if address is None else Cluster(address, workers)
    with using(wanted, Path(f"{out}.checkpoint-cluster")):
        deformer = jobs.fit(
            method,
            source,
            out,
            options=options.budget_settings(method, settings, budget),
            rig=None if rig == "none" else rig,
            reading=reading,
            parts=parts,
            progress=TerminalProgress(),
        )
    print(f"{out}: {file_text(out, deformer)}")
    better = method_type(method).traits.baseline
    if better:
        print(f"{method} is a baseline, for comparison; {better} is better")
    if out.suffix == SUFFIX:
        poses = "" if rig_of(deformer) else " --poses HELD_OUT.npz"
        print(f"Next: understudy evaluate {out}{poses}")


def refuse_swapped(method: str, source: list[str]) -> None:
    """Raise if the arguments came as SOURCE METHOD."""
    names = method_names()
    if method not in names and len(source) == 1 and source[0] in names:
        raise InputError(
            f"the method comes first, then the source: understudy fit {source[0]} {method}"
        )
    if method not in names and Path(method).exists():
        raise InputError(
            f"{method} is a file, and the first argument is the method: "
            f"understudy fit METHOD {method} ({', '.join(names)})"
        )
