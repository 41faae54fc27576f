"""`understudy sample` and `understudy ranges`: poses of a rig, and the ranges they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import RIG_HELP, Out, Seed
from understudy.core.errors import InputError
from understudy.core.terminal_progress import TerminalProgress
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.registry import load_rig
from understudy.rigs.sampling import SamplePlan, read_modes

STORE_SUFFIX = ".zarr"


def sample(
    rig: Annotated[str, typer.Argument(help=RIG_HELP)],
    out: Out,
    count: Annotated[int, typer.Option(min=1, help="Number of poses.")] = 5000,
    seed: Seed = 0,
    ranges: Annotated[
        Path | None,
        typer.Option(help="Training ranges (TOML); `understudy ranges RIG` prints the defaults."),
    ] = None,
    modes: Annotated[
        Path | None,
        typer.Option(
            help="Several ways to move (TOML): one table [NAME] for each, with `weight = 3` (how "
            "often it is drawn) and a table [NAME.ranges] with lines `control = [low, high]`."
        ),
    ] = None,
    around: Annotated[
        list[str], typer.Option(help="Also sample around this animation of the rig; repeat it.")
    ] = [],  # noqa: B006
    share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the poses around those animations.")
    ] = 0.5,
    spread: Annotated[
        float, typer.Option(min=0, help="Noise around them, as a share of the training range.")
    ] = 0.25,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Worker processes. Default: one per core.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the store instead of resuming.")] = False,
) -> None:
    """Sample random poses of a rig into a pose store.

    If it is interrupted, run the same command again: it resumes.
    """
    if out.suffix != STORE_SUFFIX:
        raise InputError(
            f"{out}: a pose store is a folder whose name ends in {STORE_SUFFIX}; use "
            f"{out.with_suffix(STORE_SUFFIX).name}"
        )
    spec = load_rig(rig).controls
    plan = SamplePlan(
        count,
        seed,
        modes=read_modes(modes, spec) if modes else {},
        animation_share=share if around else 0.0,
        animations=tuple(around),
        spread=spread,
    )
    poses = sample_poses(
        rig,
        plan,
        out,
        processes=processes,
        progress=TerminalProgress(),
        ranges=ranges,
        overwrite=overwrite,
    )
    method = "differential" if poses.skeleton is None else "fdda"
    print(
        f"{out}: {poses.pose_count} poses of {rig}, {poses.vertex_count} vertices. Next: "
        f"understudy fit {method} {out} -o {out.stem}.understudy"
    )


def ranges(rig: Annotated[str, typer.Argument(help=RIG_HELP)]) -> None:
    """Print the training ranges of a rig (TOML).

    Edit the file and pass it to `sample --ranges`.
    """
    print(load_rig(rig).controls.ranges_text(), end="")
