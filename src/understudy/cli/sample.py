"""`understudy sample` and `understudy controls`: poses of a rig, and the ranges they come from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.added_options import Group
from understudy.cli.options import RIG_HELP, Out, Seed
from understudy.io.atomic_write import atomic_write
from understudy.jobs.source import load_asked, ranges_text
from understudy.rigs.blender.options import MODIFIERS, BlenderOptions, is_blend
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.chunk_sampling import Chunk, sample_chunk
from understudy.rigs.parallel_sampling import SamplingJob, sample_poses
from understudy.rigs.ray_sampling import sample_on_cluster
from understudy.rigs.registry import absolute_name
from understudy.rigs.sampling import SIGMA, SamplePlan, read_modes
from understudy.system.bucket import place
from understudy.system.cluster import Cluster
from understudy.system.errors import InputError
from understudy.system.terminal_progress import TerminalProgress

STORE_SUFFIX = ".zarr"
Ranges = Annotated[
    Path | None,
    typer.Option(help="Training ranges (TOML); `understudy controls RIG` prints the defaults."),
]
Modes = Annotated[
    Path | None,
    typer.Option(
        help="Several ways to move (TOML): one table [NAME] for each, with `weight = 3` (how "
        "often it is drawn) and a table [NAME.ranges] with lines `control = [low, high]`."
    ),
]
Around = Annotated[
    list[str], typer.Option(help="Also sample around this animation of the rig; repeat it.")
]


def blender_options(
    meshes: Annotated[
        list[str],
        typer.Option(
            "--mesh", help="Mesh object of a .blend file; repeat it. Default: the visible ones."
        ),
    ] = [],  # noqa: B006
    patterns: Annotated[
        list[str],
        typer.Option(
            "--control",
            help="Only controls whose name matches: 'arm_*'; repeat it. '!*tweak*' leaves those "
            "out.",
        ),
    ] = [],  # noqa: B006
    trust_scripts: Annotated[
        bool,
        typer.Option(
            "--trust-scripts", help="Run the scripts in a .blend file; only if you trust it."
        ),
    ] = False,
    ignore_drivers: Annotated[
        bool,
        typer.Option(
            "--ignore-drivers",
            help="Go on although drivers of a .blend file are evaluated to 0 without its scripts.",
        ),
    ] = False,
    modifiers: Annotated[
        str,
        typer.Option(help="Modifiers of a .blend file to use: those of the viewport or render."),
    ] = MODIFIERS[0],
    collections: Annotated[
        list[str],
        typer.Option("--collection", help="Only controls of this bone collection; repeat it."),
    ] = [],  # noqa: B006
    animations: Annotated[
        list[str],
        typer.Option(
            "--animation",
            help="A .blend, .fbx or .bvh file with animations of the rig, in place of those of its "
            "own file; repeat it.",
        ),
    ] = [],  # noqa: B006
    libraries: Annotated[
        list[str],
        typer.Option(
            "--library",
            metavar="OLD=NEW",
            help="Linked files whose path begins with OLD lie at NEW; repeat it.",
        ),
    ] = [],  # noqa: B006
    simulations: Annotated[
        bool,
        typer.Option("--simulations", help="Keep cloth and what else depends on earlier frames."),
    ] = False,
) -> BlenderOptions:
    """What the options of a command say of a .blend file."""
    moved = [(old, new) for old, _, new in (text.partition("=") for text in libraries)]
    for text, pair in zip(libraries, moved):
        if not all(pair):
            raise InputError(f"--library {text}: expected OLD=NEW, two paths or starts of paths")
    return BlenderOptions(
        tuple(meshes),
        tuple(patterns),
        trust_scripts,
        ignore_drivers,
        modifiers,
        collections=tuple(collections),
        animations=tuple(animations),
        libraries=tuple(moved),
        simulations=simulations,
    )


BLENDER: Any = Group(blender_options)


def sample(
    rig: Annotated[str, typer.Argument(help=RIG_HELP)],
    out: Out,
    count: Annotated[int, typer.Option(min=1, help="Number of poses.")] = 5000,
    seed: Seed = 0,
    ranges: Ranges = None,
    modes: Modes = None,
    around: Around = [],  # noqa: B006
    share: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of the poses around those animations."),
    ] = 0.5,
    spread: Annotated[
        float, typer.Option(min=0, help="Noise around them, as a share of the training range.")
    ] = 0.25,
    active: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the controls that a random pose moves.")
    ] = 1.0,
    sigma: Annotated[
        float,
        typer.Option(
            help="Standard deviation of a random value, as a share of its range. 1.5: nearly "
            "uniform, Equation 8 of the FDDA paper."
        ),
    ] = SIGMA,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Worker processes. Default: --threads.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the store instead of resuming.")] = False,
    chunk: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER/COUNT",
            help="Sample one share of the poses, such as 3/40; other machines sample the others "
            "into the same store, at any time. `understudy farm-job` writes the job for all.",
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(
            min=1, help="Poses that are written together. Default: 128, fewer for large meshes."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Sample with the workers of a Ray cluster: auto, or its address (ray://...). The "
            "store must lie on a disk that they share."
        ),
    ] = None,
    blender: BlenderOptions = BLENDER,
) -> None:
    """Sample random poses of a rig into a pose store.

    If it is interrupted, run the same command again: it resumes.
    """
    asked_chunk = None if chunk is None else Chunk.from_text(chunk)
    if asked_chunk is not None and overwrite:
        raise InputError(
            "--overwrite cannot be combined with --chunk: it would remove what other chunks wrote; "
            "delete the store before the job"
        )
    if asked_chunk is not None and cluster is not None:
        raise InputError("--cluster cannot be combined with --chunk; give one of them")
    if out.suffix != STORE_SUFFIX:
        raise InputError(
            f"{out}: a pose store is a folder whose name ends in {STORE_SUFFIX}; use "
            f"{out.with_suffix(STORE_SUFFIX).name}"
        )
    progress = TerminalProgress()
    loaded = load_asked(rig, blender, progress)
    if isinstance(loaded, BlenderRig):
        for note in loaded.notes:
            print(f"note: {note}")
    spec = loaded.controls
    plan = SamplePlan(
        count,
        seed,
        modes=read_modes(modes, spec) if modes else {},
        animation_share=share if around else 0.0,
        animations=tuple(around),
        spread=spread,
        active=active,
        sigma=sigma,
    )
    # Worker processes build a rig of Python again; one of Blender brings its own.
    build = (lambda: loaded) if isinstance(loaded, BlenderRig) else rig
    if asked_chunk is not None:
        done = sample_chunk(build, plan, out, asked_chunk, processes, progress, ranges, block)
        print(f"{place(out)}: {done.text()}")
        return
    if cluster is not None:
        there = partial(load_asked, absolute_name(rig), blender, None)
        poses = sample_on_cluster(
            SamplingJob.of(build, plan, ranges, block),
            out,
            Cluster(cluster, processes),
            there,
            overwrite,
            progress,
        )
    else:
        poses = sample_poses(
            build,
            plan,
            out,
            processes=processes,
            progress=progress,
            ranges=ranges,
            overwrite=overwrite,
            block=block,
        )
    where = place(out)
    print(
        f"{where}: {poses.pose_count} poses of {rig}, {poses.vertex_count} vertices. Next: "
        f"understudy fit auto {where} -o {where.stem}.understudy"
    )


def controls(
    rig: Annotated[str, typer.Argument(help=RIG_HELP)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write. Default: print it.")
    ] = None,
    blender: BlenderOptions = BLENDER,
) -> None:
    """List the controls of a rig with their training ranges (TOML).

    Edit the file and pass it to `sample --ranges`.
    """
    only_names = replace(blender, controls=())  # of other rigs, all controls can be listed
    loaded = load_asked(rig, blender if is_blend(rig) else only_names, TerminalProgress())
    text = ranges_text(loaded, blender.controls)
    if out is None:
        print(text, end="")
        return
    with atomic_write(out) as draft:
        draft.write_text(text, encoding="utf-8")
    print(f"{out}: edit it, then: understudy sample {rig} --ranges {out} ...")
