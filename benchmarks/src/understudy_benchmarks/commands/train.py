"""`understudy train`: the networks that `temporal` ships with, trained anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.added_options import with_threads
from understudy.cli.options import Out, Seed, names_of
from understudy.cli.plugin_commands import with_example
from understudy.methods.decomposition.bones.classifier import NETWORKS
from understudy.system import checks
from understudy.system.errors import InputError, MissingDependencyError
from understudy.system.terminal_progress import TerminalProgress
from understudy_benchmarks.real_data import data_folder


@with_threads
@with_example("understudy train temporal -o networks --generated")
def train(
    what: Annotated[
        str, typer.Argument(help="temporal: the networks that group vertices by their motion.")
    ],
    out: Out,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with corpus/, the rigged characters to learn from. Default: "
            "UNDERSTUDY_DATA, else ../shared/data."
        ),
    ] = None,
    generated: Annotated[
        bool,
        typer.Option("--generated", help="Learn from generated characters; needs no data."),
    ] = False,
    networks: Annotated[
        str, typer.Option(help="Which networks, separated by commas.")
    ] = "lstm,cnn,hybrid",
    kinds: Annotated[
        str, typer.Option(help="Which kinds of character, separated by commas.")
    ] = "animals,humans",
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the training data; the paper's 20 to 100.")
    ] = 100,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper", help="Train as published, for temporal_paper; several seeds at once."
        ),
    ] = False,
    batch_sizes: Annotated[
        str, typer.Option(help="With --paper: batch sizes to compare, separated by commas.")
    ] = "4096",
    seeds: Annotated[int, typer.Option(min=1, help="With --paper: how many seeds.")] = 3,
    examples_only: Annotated[
        bool,
        typer.Option(
            "--examples-only", help="With --paper: write the examples, to train on another machine."
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: the fastest there is.")] = "auto",
    seed: Seed = 0,
) -> None:
    """Train the networks of `temporal` again.

    The shipped networks were trained this way. A network whose file exists is kept; delete the file
    to train it again.
    """
    checks.one_of(what, "networks to train", ("temporal",))
    try:
        # Needs torch, which is optional.
        from understudy_benchmarks.trajectory_training.published_training import Options
        from understudy_benchmarks.trajectory_training.training import (
            train_networks,
            train_published,
        )
    except ImportError as problem:
        raise MissingDependencyError(
            "training networks needs the package torch: pip install 'understudy[fit]'"
        ) from problem
    folder = None if generated else data_folder(data)
    if not paper and (examples_only or batch_sizes != "4096" or seeds != 3):
        raise InputError("--examples-only, --batch-sizes and --seeds need --paper; add it")
    if paper:
        options = [
            Options(checks.one_of(network, "network", NETWORKS), seeds, epochs, _whole(size))
            for network in names_of(networks)
            for size in names_of(batch_sizes)
        ]
        lines = train_published(out, folder, names_of(kinds), options, device, examples_only)
    else:
        chosen = names_of(kinds), names_of(networks)
        lines = train_networks(out, folder, *chosen, epochs, device, seed, TerminalProgress())
    for line in lines:
        print(line)


def _whole(size: str) -> int:
    if not size.isdigit() or int(size) < 1:
        raise InputError(f"--batch-sizes: expected whole numbers from 1, got {size!r}")
    return int(size)
