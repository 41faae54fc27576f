"""`understudy reduce`: the skin of an existing character with fewer influences."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import Clips, Meshes, Out, Preset, Settings, settings_of
from understudy.cli.output import file_text
from understudy.core.errors import InputError
from understudy.core.provenance import with_source
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.measure import Reference, deform_clips, measure
from understudy.evaluation.metric_catalogue import digits3
from understudy.io.registry import ReadOptions, source_provenance
from understudy.jobs import Fit
from understudy.methods.reducing import SourceSkin, read_skin, reduce_skin
from understudy.methods.registry import methods_by_name


def reduce(
    method: Annotated[str, typer.Argument(help="two_layer, or a baseline that reduces skins.")],
    skin: Annotated[
        Path,
        typer.Argument(
            help="A character's file (.glb, .fbx, .usd), a .understudy file, or a .npz with rest, "
            "faces and weights (V,B)."
        ),
    ],
    out: Out,
    weights_alone: Annotated[
        bool,
        typer.Option("--weights-alone", help="Do not use the clips of the file as example poses."),
    ] = False,
    preset: Preset = None,
    settings: Settings = [],  # noqa: B006
    clip: Clips = [],  # noqa: B006
    mesh: Meshes = [],  # noqa: B006
) -> None:
    """Give the skin of a character fewer influences.

    The weights may be an artist's or computed by any program. Clips of the file are example poses;
    without them, the weights alone are approximated.
    """
    reducers = [name for name, kind in methods_by_name()[0].items() if kind.traits.reduces_skin]
    if method not in reducers:
        raise InputError(f"{method!r} does not reduce skins; use {', '.join(reducers)}")
    fitting = Fit.of(method, out, settings_of(settings, preset))
    progress = TerminalProgress()
    source = read_skin(skin, ReadOptions(clips=tuple(clip), meshes=tuple(mesh)), progress)
    reduced = reduce_skin(fitting.method, source, not weights_alone, progress)
    reduced = with_source(reduced, source_provenance([str(skin)]))
    fitting.write(reduced)
    print(f"{out}: {file_text(out, reduced)}")
    print("\n".join(reduction_lines(source, dataclasses.replace(source, deformer=reduced))))


def reduction_lines(before: SourceSkin, after: SourceSkin) -> list[str]:
    """What a reduction did to the weights and, if there are clips, to the poses."""
    old, new = before.deformer.skin, after.deformer.skin
    training = after.deformer.training
    assert old is not None  # `read_skin` refuses such files
    assert new is not None
    virtual = "" if new.virtual_index is None else f", {len(new.virtual_index)} virtual bones"
    cost = training.get("bones_per_vertex", new.influences)
    lines = [
        f"influences   {old.influences} before, {new.influences} after{virtual} "
        f"({cost:.3g} blending operations per vertex)",
        f"weights      ΔW {digits3(training['delta_w'])} thousandths",
    ]
    poses = before.poses()
    if poses is None:
        return [*lines, "The file has no clips: the weights alone were approximated."]
    reference = Reference.of("clips", poses)
    rows = {
        name: measure(name, deform_clips(one.bare), reference).figures
        for name, one in (("before", before), ("after", after))
    }
    truth = "the true vertices" if before.vertices is not None else "the skin before"
    for figure, label in (("e", "E"), ("norm_distort", "NormDistort")):
        values = ", ".join(f"{digits3(rows[name][figure])} {name}" for name in rows)
        lines.append(f"{label:<12} {values}, against {truth}")
    return lines
