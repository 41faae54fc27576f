"""`understudy info` and `understudy methods`: what is in a file, and what can make one."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Annotated

import numpy as np
import typer

from understudy.cli.options import File
from understudy.cli.output import file_text, read_per_pose
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.posing import PosingSkeleton
from understudy.evaluation.metric_catalogue import size_text
from understudy.geometry.skinning import weight_matrix
from understudy.io.byte_shares import byte_shares
from understudy.methods.base import Method, option_table, preset_lines
from understudy.methods.registry import method_type, methods_by_name

_WIDTH = 100
_REGIONS = 4  # that `info` names


def info(file: File) -> None:
    """Show what is in a .understudy file."""
    deformer = Deformer.load(file)
    print(f"{file}: {file_text(file, deformer)}")
    for name, text in (("bytes", bytes_text(byte_shares(file))), *info_lines(deformer)):
        print(f"{name:<12} {text}")


def bytes_text(shares: Mapping[str, int]) -> str:
    """Where the bytes of a file are; shares: name of a part -> its bytes.

    >>> bytes_text({"clips": 3000, "mesh": 1000, "skin": 0})
    'clips 3.00 kB (75 %), mesh 1.00 kB (25 %)'
    """
    total = sum(shares.values())
    return ", ".join(
        f"{name} {size_text(size)} ({100 * size / total:.0f} %)"
        for name, size in shares.items()
        if size
    )


def info_lines(deformer: Deformer) -> list[tuple[str, str]]:
    """(name, text) of each line that `info` prints about a deformer."""
    mesh, skin, skeleton = deformer.mesh, deformer.skin, deformer.skeleton
    lines = [
        ("method", deformer.method),
        ("mesh", mesh_text(mesh)),
    ]
    if skin is not None and skeleton is not None:
        virtual = "" if skin.virtual_index is None else f", {len(skin.virtual_index)} virtual bones"
        lines.append(
            (
                "skin",
                f"{skeleton.bone_count} bones, up to {skin.influences} per vertex, "
                f"{skin.blend} blend{virtual}",
            )
        )
    if deformer.posing is not None:
        lines += posing_lines(deformer.posing, mesh.unit)
    for clip in deformer.clips:
        rate = "" if clip.frame_rate is None else f" at {clip.frame_rate:g} per second"
        text = f"{clip.name}: {clip.frame_count} frames{rate}, from frame {clip.start_frame}"
        if clip.keys is not None:
            text += f", {clip.keys.is_key.sum()} of {clip.keys.is_key.size} key frames of bones"
        lines.append(("clip", text))
    if deformer.nets:
        lines.append(
            (
                "correctives",
                f"{len(deformer.nets)} networks, {deformer.features.count} features, "
                f"{deformer.coefficient_count} coefficients",
            )
        )
    lines += range_lines(deformer)
    read = read_per_pose(deformer)
    bytes_read = "" if read is None else f"{size_text(read)} read and "
    work = deformer.cost()["multiply_adds"] / 1e6
    lines.append(("one pose", f"{bytes_read}{work:.2f} million multiply-adds"))
    figures = [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in deformer.training.items()
    ]
    lines.append(("training", ", ".join(figures)))
    shown = {k: v for k, v in deformer.provenance.items() if not k.endswith("_curve")}
    lines.append(("provenance", json.dumps(shown, indent=2).replace("\n", "\n" + 13 * " ")))
    return lines


def range_lines(deformer: Deformer) -> list[tuple[str, str]]:
    """(name, text) of each line about the training poses of a deformer."""
    lines = []
    if deformer.bounds is not None:
        bounds = deformer.bounds
        text = (
            f"training poses of {bounds.unit_count} bones and controls in up to "
            f"{bounds.centres.shape[1]} clusters each; correctives fade from distance 1 to "
            f"{bounds.fade_end:g}"
        )
        lines.append(("range", text))
    error = deformer.held_out_error
    if error is not None:
        unit = deformer.mesh.unit
        text = f"mean {error.mean():.3g} {unit}, worst vertex {error.max():.3g} {unit}"
        regions = ", ".join(f"{name} {mean:.3g}" for name, mean in _worst_regions(deformer))
        lines.append(("held out", f"{text}; largest by region: {regions}"))
    return lines


def _worst_regions(deformer: Deformer) -> list[tuple[str, float]]:
    """(name, mean held-out error) of the regions with the largest: parts, or vertices by bone."""
    error, parts = deformer.held_out_error, deformer.mesh.parts
    assert error is not None
    if deformer.skeleton is not None and deformer.skin is not None:
        skin, names = deformer.skin, deformer.skeleton.names
        if skin.virtual_index is None:
            rows = weight_matrix(skin.bone_index, skin.weight, len(names))
            owner = np.asarray(rows.argmax(axis=1)).ravel()
            parts = {name: np.flatnonzero(owner == bone) for bone, name in enumerate(names)}
    parts = parts or {"all": np.arange(len(error))}
    means = [(name, float(error[at].mean())) for name, at in parts.items() if len(at)]
    return sorted(means, key=lambda region: -region[1])[:_REGIONS]


def posing_lines(posing: PosingSkeleton, unit: str) -> list[tuple[str, str]]:
    """(name, text) of each line about what poses a deformer without its rig."""
    error = f"vertex error {posing.errors.get('mean', 0):.3g} {unit} mean"
    text = (
        f"{posing.dofs.count} degrees of freedom of {len(posing.independent_bones)} bones, "
        f"{len(posing.helper_bones)} helper bones follow; {error}; handles: "
        f"{', '.join(handle.name for handle in posing.handles)}"
    )
    return [("posing", text), *(("", note) for note in posing.notes)]


def mesh_text(mesh: Mesh) -> str:
    """The size and orientation of a mesh, as far as they are known.

    >>> from understudy.rigs import load_rig
    >>> mesh_text(load_rig("tube").mesh)
    '104 vertices, 10 cm high, Y up, right-handed'
    """
    unit = "units" if mesh.unit == "unitless" else mesh.unit
    if mesh.up_axis == "unknown":
        return f"{mesh.vertex_count} vertices, {mesh.height:.4g} {unit} along Y, up axis unknown"
    return (
        f"{mesh.vertex_count} vertices, {mesh.height:.4g} {unit} high, {mesh.up_axis} up, "
        f"{mesh.handedness}-handed"
    )


def methods(
    name: Annotated[
        str | None, typer.Argument(help="Also show the options of this method.")
    ] = None,
) -> None:
    """List the methods, or the options of one method."""
    if name is not None:
        print(method_text(method_type(name)))
        return
    known, problems = methods_by_name()
    presets = lambda kind: "".join(f" [--preset {name}]" for name in kind.Config.presets)
    better = lambda kind: f" [use {kind.traits.baseline}]" if kind.traits.baseline else ""
    line = lambda kind: f"  {kind.name:<16} {kind.summary()}{presets(kind)}{better(kind)}"
    print("Methods")
    print("\n".join(line(kind) for kind in known.values() if not kind.traits.baseline))
    for broken, problem in problems.items():
        print(f"  {broken:<16} cannot be used: {problem}")
    print("\nBaselines of the papers, for comparison: another method is better")
    print("\n".join(line(kind) for kind in known.values() if kind.traits.baseline))
    print("\nOptions of one method: understudy methods NAME")


def method_text(kind: type[Method]) -> str:
    """What a method does, what it needs, and its options with type, default and meaning."""
    lines = [f"{kind.name}: {kind.summary()}", _needs(kind), "", "Options (--set NAME=VALUE):"]
    for option in option_table(kind.Config):
        default = option.default or "empty"
        lines.append(f"  {option.name} ({option.type}; default {default})")
        lines += textwrap.wrap(
            option.meaning, _WIDTH, initial_indent="      ", subsequent_indent="      "
        )
    presets = preset_lines(kind.Config)
    if presets:
        lines += ["", "Presets (--preset NAME):"]
    for text in presets:
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines)


def _needs(kind: type[Method]) -> str:
    """What a method takes and asks for, in a sentence."""
    traits = kind.traits
    if traits.takes_sequences:
        takes = "Fits poses and mesh sequences; it needs no bones."
    elif traits.controls_suffice:
        takes = "Fits poses that have bones, controls or both."
    else:
        takes = "Fits poses that have bones."
    more = [
        "It finds its own bones and keeps their motion as clips." if traits.finds_bones else "",
        "It evaluates the live rig where there is one." if traits.asks_rig else "",
        "It needs torch." if traits.needs_torch else "",
        f"A baseline, for comparison; use {traits.baseline} instead." if traits.baseline else "",
    ]
    return " ".join(sentence for sentence in (takes, *more) if sentence)
