"""`understudy export`: a stand-in in another format, or in 16 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy import jobs
from understudy.cli.options import RIG_HELP, File, Json
from understudy.cli.view import PAGE_SUFFIX, Beside, export_page
from understudy.core.deformer import Deformer
from understudy.export.character import ExportSettings
from understudy.system.errors import InputError
from understudy.system.terminal_progress import TerminalProgress
from understudy.viewer.subjects import ViewJob


def export(
    file: File,
    out: Annotated[
        Path,
        typer.Argument(
            help="File to write; its suffix decides the format: .understudy, .onnx, .html (a page "
            "to look at it in any browser), or a character's file such as .glb, .usd or .fbx."
        ),
    ],
    clip: Annotated[
        list[str],
        typer.Option(
            help="Animation to bake: of the rig in the file, or a clip of a compressed sequence; "
            "repeat it, or say all. Default: the clips of the sequence, else none."
        ),
    ] = [],  # noqa: B006
    motion: Annotated[
        list[str],
        typer.Option(
            help="File with bone motion to bake (recorded poses, a pose store, a character's "
            "file); bones are matched by name. Repeat it."
        ),
    ] = [],  # noqa: B006
    influences: Annotated[
        int,
        typer.Option(
            min=0,
            help="Largest number of bones per vertex, fitted again; engines play 4, some 8. 0: no "
            "limit.",
        ),
    ] = 4,
    morphs: Annotated[
        int,
        typer.Option(
            min=0,
            max=128,
            help="Largest number of blend shapes (morph targets) for the correctives. 0: none.",
        ),
    ] = 64,
    morph_normals: Annotated[
        bool,
        typer.Option(
            help="Blend shapes change normals too (.glb): right shading, about twice their size."
        ),
    ] = True,
    bones: Annotated[
        str,
        typer.Option(
            help="pair: a bone that shears becomes an exact pair of joints; rigid: bones neither "
            "scale nor shear."
        ),
    ] = "pair",
    original: Annotated[
        bool,
        typer.Option(
            "--original",
            help="Bake what the rig (or the vertices in --motion) shows instead of the stand-in.",
        ),
    ] = False,
    neural: Annotated[
        bool,
        typer.Option(
            "--neural",
            help="Also write OUT with the suffix .onnx: a small net from bones and controls to the "
            "weights of the blend shapes, which then follow any motion; and .json: what the net "
            "reads.",
        ),
    ] = False,
    rig: Annotated[
        str | None,
        typer.Option("--rig", help=f"The rig of --clip. {RIG_HELP} Default: the rig in the file."),
    ] = None,
    looks: Annotated[
        Path | None,
        typer.Option(
            "--looks",
            help="Character's file with the materials and images of the stand-in, which a "
            ".understudy file names only. Default: those in --motion.",
        ),
    ] = None,
    lod: Annotated[
        Path | None,
        typer.Option(
            "--lod",
            help="Mesh of a level of detail (.obj, .ply, .npz) at rest, in the file's unit and "
            "axes: the result has its vertices and the networks of FILE (.understudy, .onnx).",
        ),
    ] = None,
    half: Annotated[
        bool,
        typer.Option(
            "--half",
            help="Store 16-bit numbers: half the size (.understudy, .onnx, the net of --neural).",
        ),
    ] = False,
    beside: Beside = [],  # noqa: B006
    as_json: Json = None,
) -> None:
    """Write a stand-in in another format.

    A .onnx file holds the whole deformer as one graph. `--half` halves a .understudy file. `--lod`
    makes a level of detail that shares the networks; its error is printed.

    A .html file is one page that shows the character in any browser, without a server: the runtime,
    the stand-in in 16 bits, its clips, and the original where its rig or --motion has it.

    Other formats hold what every engine plays: a skin of few influences, fitted again; blend
    shapes for the correctives; and the clips you name, baked. The errors of that are printed. They
    hold for the baked clips; without a clip, the file has the bind pose and the skin alone.

    `--neural` makes blend shapes for the whole training range instead, and a small ONNX net that
    computes their weights from the pose: for Unreal, Unity, Houdini or your own engine.
    """
    if out.suffix.lower() == PAGE_SUFFIX:
        for given, name in ((original, "--original"), (neural, "--neural"), (half, "--half")):
            if given:
                raise InputError(f"{name}: pages have no such option; leave it out")
        export_page(file, beside, out, ViewJob(clip, motion, rig))
        return
    if beside:
        raise InputError("--beside is for pages; write to a .html, or leave it out")
    done = jobs.export(
        Deformer.load(file),
        out,
        settings=ExportSettings(influences, morphs, bones, "original" if original else "deformer"),
        clips=clip,
        motions=motion,
        rig=rig,
        looks=looks,
        morph_normals=morph_normals,
        neural=neural,
        half=half,
        lod=lod,
        as_json=as_json,
        progress=TerminalProgress(),
    )
    print("\n".join([*done.sizes, *done.about]))
