"""`understudy bench`: the comparisons of the papers, every method on the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.added_options import with_threads
from understudy.cli.options import Json, Seed, Settings, names_of, settings_of
from understudy.cli.output import print_table
from understudy.cli.plugin_commands import with_example
from understudy.io.atomic_write import ensure_writable
from understudy.io.files import write_json
from understudy.system.errors import InputError
from understudy.system.progress import SILENT
from understudy.system.terminal_progress import TerminalProgress
from understudy_benchmarks import Request, run


@with_threads
@with_example("understudy bench decompose --quick")
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="body, face, recorded, blender, decompose, two-layer, temporal, runtime, "
            "web, scale, outside or auto."
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="At most 60 s on two cores; the errors are larger.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Every case, however long it takes.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of real data. Default: UNDERSTUDY_DATA, else ../shared/data."),
    ] = None,
    as_json: Json = None,
    wanted_methods: Annotated[
        str, typer.Option("--methods", help="Only these rows, separated by commas.")
    ] = "",
    cases: Annotated[str, typer.Option(help="Only these cases, separated by commas.")] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for samples, files, plots and the report."),
    ] = None,
    ablations: Annotated[
        bool, typer.Option(help="face: also the variants that its paper compares.")
    ] = False,
    seed: Seed = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="body, face: seeds of methods that train networks; averages and their spread.",
        ),
    ] = 1,
    poses: Annotated[
        int | None, typer.Option(min=20, help="body, face: number of sampled poses.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="body, face: auto (a GPU where there is one), cpu, cuda or cuda:N.")
    ] = "auto",
    jobs: Annotated[
        int, typer.Option(min=1, help="body, face: fits at a time; several fill a GPU better.")
    ] = 1,
    settings: Settings = [],  # noqa: B006
) -> None:
    """Run a comparison of the papers.

    Every method runs on the same data in the same run.
    """
    if quick and full:
        raise InputError("--quick and --full: give one of them")
    request = Request(
        size="quick" if quick else "full" if full else "default",
        data=data,
        methods=names_of(wanted_methods),
        cases=names_of(cases),
        out=out or Path("out/bench") / name,
        seed=seed,
        ablations=ablations,
        seeds=seeds,
        poses=poses,
        device=device,
        jobs=jobs,
        options=settings_of(settings),
    )
    if as_json is not None:
        ensure_writable(as_json)
    # Bars of several fits at a time would overwrite each other.
    outcome = run(name, request, TerminalProgress() if jobs == 1 else SILENT)
    print_table(outcome.results, outcome.unit, f"{name} ({request.size})")
    for line in outcome.notes:
        print(line)
    if as_json is not None:
        write_json(as_json, outcome.as_json(name))
    print(f"Written to {request.out}" + (f" and {as_json}" if as_json else ""))
