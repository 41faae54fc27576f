"""`understudy export`: a stand-in in another format, or in 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import RIG_HELP, File, Json
from understudy.cli.view import PAGE_SUFFIX, Beside, export_page, refuse_page_options
from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.metric_catalogue import size_text
from understudy.export.about import summary
from understudy.export.character import ExportSettings
from understudy.export.errors import Errors
from understudy.export.job import ExportJob
from understudy.export.levels_of_detail import make_level_of_detail
from understudy.io.atomic_write import ensure_writable
from understudy.io.files import write_json
from understudy.io.gltf import write_glb
from understudy.io.onnx_weights import write_onnx_weights
from understudy.io.registry import format_of, formats, write_character, write_deformer
from understudy.io.sequences import read_mesh
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
        refuse_page_options(original, neural, half)
        export_page(file, beside, out, ViewJob(clip, motion, rig))
        return
    if beside:
        raise InputError("--beside is for pages; write to a .html, or leave it out")
    known = format_of(out, to="write")
    ensure_writable(out)
    if as_json is not None:
        ensure_writable(as_json)
    deformer = Deformer.load(file)
    if lod is not None:
        if known.write_deformer is None:
            raise InputError(
                f"--lod: write a .understudy file first and export that to {known.name}"
            )
        level = make_level_of_detail(deformer, read_mesh(lod))
        print(level.text())
        deformer = level.deformer
        if as_json is not None:
            write_json(as_json, level.json())
    if known.write_deformer is not None:
        if clip or motion or neural:
            raise InputError(
                f"{known.name} files hold a deformer and no clips; leave out --clip, --motion and "
                f"--neural, or write {_character_suffixes()}"
            )
        write_deformer(deformer.half() if half else deformer, out)
        print(f"{out}: {size_text(out.stat().st_size)}")
        return
    if half and not neural:
        raise InputError(f"--half: {known.name} files have no 16-bit form; leave it out")
    write: Callable[[Character, Path], None] = write_character
    if not morph_normals:
        if out.suffix.lower() != ".glb":
            raise InputError("--no-morph-normals: only .glb files have normals of blend shapes")
        write = partial(write_glb, has_morph_normals=False)
    target = "original" if original else "deformer"
    job = ExportJob(ExportSettings(influences, morphs, bones, target), clip, motion, rig)
    if neural:
        errors = _write_pair(job, deformer.half() if half else deformer, out, write)
    else:
        character, errors = job.make(deformer, out, TerminalProgress())
        write(character, out)
        print(summary(out, character, errors))
    if as_json is not None:
        write_json(as_json, errors.json())


def _write_pair(
    job: ExportJob, deformer: Deformer, out: Path, write: Callable[[Character, Path], None]
) -> Errors:
    """Write and describe a neural-morph pair; return its errors.

    write  writes the character to its file
    """
    net_file, about_file = out.with_suffix(".onnx"), out.with_suffix(".json")
    format_of(net_file, to="write")  # raises if the package onnx is missing
    for path in (net_file, about_file):
        ensure_writable(path)
    pair = job.make_neural(deformer, out, TerminalProgress())
    about = pair.about(out.name)
    write(pair.character, out)
    write_onnx_weights(pair.net, net_file, about, pair.text())
    write_json(about_file, about)
    print(summary(out, pair.character, pair.errors))
    print(
        f"{net_file}: {size_text(net_file.stat().st_size)}, from {len(pair.net.bones)} bones and "
        f"{len(pair.net.controls)} controls to {len(pair.character.shapes)} weights\n"
        f"{about_file}: the names of its inputs and outputs"
    )
    return pair.errors


def _character_suffixes() -> str:
    """The suffixes of the formats that hold a character, as a text."""
    return ", ".join(s for known in formats() if known.write_character for s in known.suffixes)
