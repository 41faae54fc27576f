"""`understudy data`: the public mesh sequences of the benchmarks, from their original downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.plugin_commands import with_example
from understudy.system.errors import InputError
from understudy.system.terminal_progress import TerminalProgress
from understudy_benchmarks import public_data
from understudy_benchmarks.real_data import data_folder


@with_example("understudy data horse_gallop horse-gallop.zip -o data")
def data(
    name: Annotated[
        str | None, typer.Argument(help="A sequence, such as horse_gallop. Default: list them.")
    ] = None,
    download: Annotated[
        Path | None,
        typer.Argument(help="What was downloaded: an archive, or the folder it was unpacked to."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Data folder. Default: UNDERSTUDY_DATA."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the sequences of the data folder.")
    ] = False,
) -> None:
    """Convert public mesh sequences for the benchmarks.

    Without arguments, say where each sequence is published. With a name and a download, write the
    sequence into the data folder and compare it with what the tables were measured on.
    """
    folder = data_folder(out)
    if check:
        if name is not None:
            raise InputError("--check compares all sequences; leave the name out")
        for line in public_data.check(folder):
            print(line)
    elif name is None:
        for source in public_data.SOURCES.values():
            print(f"{source.name}: {source.paper}")
            print(f"    get: {source.download}, " + (source.page or "from the authors"))
            print(f"    terms: {source.terms}")
            print(f"    SHA-256: {source.digest}")
    else:
        source = public_data.source_of(name)
        if download is None:
            raise InputError(
                f"{name}: give what was downloaded too ({source.download}, "
                f"{source.page or 'from the authors'})"
            )
        for line in public_data.convert(source, download, folder, TerminalProgress()):
            print(line)
