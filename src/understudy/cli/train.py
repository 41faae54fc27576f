"""`understudy train`: the networks that `temporal` ships with, trained anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.benchmarks.real_data import data_folder
from understudy.cli.options import Out, Seed, names_of
from understudy.core import checks
from understudy.core.errors import MissingDependencyError
from understudy.core.terminal_progress import TerminalProgress


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
        from understudy.methods.decomposition.trajectory_networks.training import train_networks
    except ImportError as problem:
        raise MissingDependencyError(
            "training networks needs the package torch: pip install 'understudy[fit]'"
        ) from problem
    folder = None if generated else data_folder(data)
    chosen = names_of(kinds), names_of(networks)
    for line in train_networks(out, folder, *chosen, epochs, device, seed, TerminalProgress()):
        print(line)
