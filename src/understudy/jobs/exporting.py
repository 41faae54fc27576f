"""`export`: a stand-in in another format, in 16 bits, or on the mesh of a level of detail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.evaluation.metric_catalogue import size_text
from understudy.export.character import ExportSettings
from understudy.export.errors import about_lines
from understudy.export.job import ExportJob
from understudy.export.levels_of_detail import about_level, make_level_of_detail
from understudy.io.atomic_write import ensure_writable
from understudy.io.files import file_size, write_json
from understudy.io.gltf import write_glb
from understudy.io.onnx import write_onnx_weights
from understudy.io.registry import (
    format_of,
    formats,
    read_character,
    read_mesh,
    write_character,
    write_deformer,
)
from understudy.jobs.exports import Exported
from understudy.rigs.base import Rig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

Writer = Callable[[Character, Path], Sequence[str] | None]


@checks.typed
def export(
    deformer: Deformer,
    out: str | Path,
    *,
    settings: ExportSettings | None = None,
    clips: Sequence[str] = (),
    motions: Sequence[str | Poses] = (),
    rig: str | Rig | None = None,
    looks: str | Path | Mesh | None = None,
    morph_normals: bool = True,
    neural: bool = False,
    half: bool = False,
    lod: str | Path | None = None,
    as_json: str | Path | None = None,
    progress: Progress = SILENT,
) -> Exported:
    """Write a stand-in to `out`, whose suffix decides the format.

    settings  influences, blend shapes and joints of a character's file
    clips     animations to bake: own clips, or those of the rig; ("all",): all of them
    motions   files of bone motion, or recorded poses, to bake
    looks     a mesh, or the file of a character, that has the materials and images of the stand-in;
              None: those of `motions`
    rig       of `clips`; None: the one that the deformer was learned from
    morph_normals  blend shapes change normals too (.glb)
    neural    also write a small net from bones and controls to the weights of the blend shapes
    half      16-bit numbers (.understudy, .onnx, the net of `neural`)
    lod       mesh of a level of detail: the result has its vertices and the networks of `deformer`
    as_json   also write the errors to this file
    """
    out = Path(out)
    known = format_of(out, to="write")
    ensure_writable(out)
    if as_json is not None:
        ensure_writable(as_json)
    about: list[str] = []
    if lod is not None:
        if known.write_deformer is None:
            raise InputError(
                f"--lod: write a .understudy file first and export that to {known.name}"
            )
        deformer, figures = make_level_of_detail(deformer, read_mesh(lod))
        about = about_level(figures)
        if as_json is not None:
            write_json(Path(as_json), figures)
    if known.write_deformer is not None:
        if clips or motions or neural:
            raise InputError(
                f"{known.name} files hold a deformer and no clips; leave out --clip, --motion and "
                f"--neural, or write {_character_suffixes()}"
            )
        write_deformer(deformer.half() if half else deformer, out)
        return Exported([f"{out}: {size_text(out.stat().st_size)}"], about)
    if half and not neural:
        raise InputError(f"--half: {known.name} files have no 16-bit form; leave it out")
    write: Writer = write_character
    if not morph_normals:
        if out.suffix.lower() != ".glb":
            raise InputError("--no-morph-normals: only .glb files have normals of blend shapes")
        write = partial(write_glb, has_morph_normals=False)
    if isinstance(looks, str | Path):
        looks = read_character(looks, progress=progress).mesh
    job = ExportJob(settings or ExportSettings(), clips, motions, rig, looks)
    if neural:
        return _write_pair(
            job, deformer.half() if half else deformer, out, write, as_json, progress
        )
    character, errors = job.make(deformer, out, progress)
    lost = write(character, out) or []
    if as_json is not None:
        write_json(Path(as_json), errors.json())
    about = [*about_lines(character, errors), *lost, *_names_only(character)]
    return Exported([f"{out}: {size_text(file_size(out))}"], about)


def _names_only(character: Character) -> list[str]:
    """What to say of materials that are names only."""
    if not character.mesh.materials or character.mesh.looks:
        return []
    names = ", ".join(character.mesh.materials)
    return [f"Materials are names only ({names}); --looks FILE takes them from a file with images."]


def _write_pair(
    job: ExportJob,
    deformer: Deformer,
    out: Path,
    write: Writer,
    as_json: str | Path | None,
    progress: Progress,
) -> Exported:
    """Write a neural-morph pair; `write` writes its character."""
    net_file, about_file = out.with_suffix(".onnx"), out.with_suffix(".json")
    format_of(net_file, to="write")  # raises if the package onnx is missing
    for path in (net_file, about_file):
        ensure_writable(path)
    pair = job.make_neural(deformer, out, progress)
    about = pair.about(out.name)
    lost = write(pair.character, out) or []
    write_onnx_weights(pair.net, net_file, about, pair.text())
    write_json(about_file, about)
    if as_json is not None:
        write_json(Path(as_json), pair.errors.json())
    lines = [
        *about_lines(pair.character, pair.errors),
        *lost,
        *_names_only(pair.character),
        f"{net_file}: {size_text(net_file.stat().st_size)}, from {len(pair.net.bones)} bones and "
        f"{len(pair.net.controls)} controls to {len(pair.character.shapes)} weights",
        f"{about_file}: the names of its inputs and outputs",
    ]
    return Exported([f"{out}: {size_text(file_size(out))}"], lines)


def _character_suffixes() -> str:
    """The suffixes of the formats that hold a character, as a text."""
    return ", ".join(s for known in formats() if known.write_character for s in known.suffixes)
