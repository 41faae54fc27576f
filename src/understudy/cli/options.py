"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.added_options import Group
from understudy.io.registry import ReadOptions
from understudy.jobs import PartOptions
from understudy.methods.base import PRESET
from understudy.system.errors import InputError

AUTO = "auto"  # the method that takes a budget

RIG_HELP = (
    "A built-in rig (human, face, tube), a plug-in's name, package.module:Class, "
    "path/to/rig.py:Class or a Blender file (path/to/hero.blend)."
)

Out = Annotated[Path, typer.Option("--out", "-o", help="File or folder to write.")]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of the random numbers; the same seed, the same result.")
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option of the method; repeat it. `understudy methods NAME` lists them.",
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")]
AllFigures = Annotated[
    bool, typer.Option("--all-figures", help="Print all figures, not only the first five.")
]
File = Annotated[Path, typer.Argument(help="A .understudy file.")]

HeldOut = Annotated[
    list[str], typer.Option(help="Clip to measure on instead of fitting it; repeat it.")
]
Count = Annotated[int, typer.Option(min=20, help="Poses to sample from a rig.")]
Overwrite = Annotated[bool, typer.Option(help="Start anew in a folder that is in use.")]


def part_options(
    without: Annotated[
        list[str],
        typer.Option(metavar="PART", help="Leave a part of the character out; repeat it."),
    ] = [],  # noqa: B006
    part_error: Annotated[
        list[str],
        typer.Option(
            "--part-error",
            metavar="PART=LENGTH",
            help="Learn a part with its own networks and this basis_error, in model units, such as "
            "eyes=0.002; repeat it.",
        ),
    ] = [],  # noqa: B006
) -> PartOptions:
    """How to treat the parts of a character.

    >>> dict(part_options([], ["eyes=0.5"]).errors)
    {'eyes': 0.5}
    """
    found: dict[str, float] = {}
    for text in part_error:
        name, equals, value = text.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not equals or not name or not number > 0:
            raise InputError(f"--part-error {text}: expected part=length, as in eyes=0.002")
        if name in found or name in without:
            raise InputError(f"--part-error {text}: the part {name!r} is given twice")
        found[name] = number
    return PartOptions(tuple(without), found)


def settings_of(
    settings: Settings = [],  # noqa: B006
    preset: Annotated[
        str | None,
        typer.Option(
            help="Options that the method lists under a name, such as paper: the method as "
            "published. --set replaces single ones."
        ),
    ] = None,
) -> dict[str, str]:
    """Name -> value of `--set` texts and of `--preset`.

    >>> settings_of(["epochs=50", "hidden=64,64"], "paper")
    {'preset': 'paper', 'epochs': '50', 'hidden': '64,64'}
    """
    found: dict[str, str] = {} if preset is None else {PRESET: preset}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--set {text}: expected name=value, as in --set epochs=50")
        if name in found:
            raise InputError(f"--set {name} is given twice: {found[name]} and {value}")
        found[name] = value
    return found


def budget_of(
    max_error: Annotated[
        str | None,
        typer.Option(
            help="auto: largest mean error on poses held out: 0.5mm, 0.02% (of the height), or a "
            "number in model units."
        ),
    ] = None,
    max_ms: Annotated[
        float | None, typer.Option(help="auto: largest time of one pose on one thread, in ms.")
    ] = None,
    max_bytes: Annotated[str | None, typer.Option(help="auto: largest size, such as 5MB.")] = None,
    time: Annotated[
        str | None, typer.Option(help="auto: begin no further fit after this: 10min, 90s.")
    ] = None,
) -> dict[str, str]:
    """The options of `auto` that are given, as texts."""
    given = {"max_error": max_error, "max_ms": max_ms, "max_bytes": max_bytes, "time": time}
    return {name: str(value) for name, value in given.items() if value is not None}


def budget_settings(
    method: str, settings: Mapping[str, str], budget: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a method with those of a budget, which `auto` alone takes.

    >>> budget_settings("auto", {}, {"max_error": "0.5mm"})
    {'max_error': '0.5mm'}
    """
    for name in budget:
        flag = "--" + name.replace("_", "-")
        if method != AUTO:
            raise InputError(f"{flag}: {method} has no budget; use the method {AUTO}")
        if name in settings:
            raise InputError(f"{flag} and --set {name} are the same option; give one of them")
    return {**settings, **budget}


def names_of(text: str) -> tuple[str, ...]:
    """The names in a text, separated by commas.

    >>> names_of("fdda, lbs-4")
    ('fdda', 'lbs-4')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def read_options(
    up: Annotated[
        str | None, typer.Option("--up", help="Up axis, where the files do not say: Y or Z.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of length, where the files do not say: cm, m, ...")
    ] = None,
    frame_rate: Annotated[
        float | None, typer.Option(help="Frames per second, where the files do not say.")
    ] = None,
    rest: Annotated[
        Path | None,
        typer.Option(
            help="Rest shape (.obj, .ply or .npz). Default: the `rest` of the .npz, else the first "
            "frame."
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Vertex cache of the original that goes with a character's file: .mdd, .pc2, "
            "Maya's .mcx or .xml, .npz, .abc, .usd, a folder or 'pattern' of .obj files."
        ),
    ] = None,
    clip: Annotated[
        list[str],
        typer.Option("--clip", help="Animation to read from a character's file; repeat it."),
    ] = [],  # noqa: B006
    meshes: Annotated[
        list[str],
        typer.Option("--mesh", help="Object to read from a character's file; repeat it."),
    ] = [],  # noqa: B006
    frame_offset: Annotated[
        int | None,
        typer.Option(
            help="Frame of the clip, counted from its first, that is the first of --cache. "
            "Default: found by comparing them."
        ),
    ] = None,
) -> ReadOptions:
    """What the user says about the files that they cannot say, and what to read of them."""
    axis = None if up is None else up.upper()
    return ReadOptions(
        rest, axis, unit, frame_rate, tuple(clip), tuple(meshes), cache, frame_offset
    )


# The defaults of parameters that stand for several options.
READING: Any = Group(read_options)
OF_SEQUENCES: Any = Group(read_options, "up", "unit", "frame_rate", "rest")
SETTINGS: Any = Group(settings_of)
PARTS: Any = Group(part_options)
BUDGET: Any = Group(budget_of)
