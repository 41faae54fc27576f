"""What is in a deformer, as lines for a user to read: `understudy info`."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.evaluation.metric_catalogue import size_text
from understudy.geometry.skinning import weight_matrix
from understudy.runtime.native import runtime_of

_REGIONS = 4  # that are named


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
    lines = [("method", deformer.method), ("mesh", mesh_text(mesh))]
    if skin is not None and skeleton is not None:
        virtual = "" if skin.virtual_index is None else f", {len(skin.virtual_index)} virtual bones"
        bones = f"{skeleton.bone_count} bones, up to {skin.influences} per vertex"
        lines.append(("skin", f"{bones}, {skin.blend} blend{virtual}"))
    if deformer.posing is not None:
        posing = deformer.posing
        text = (
            f"all bones follow {posing.dofs.count} controls of the rig, without it; vertex error "
            if posing.from_controls
            else f"{posing.dofs.count} degrees of freedom of {len(posing.independent_bones)} "
            f"bones, {len(posing.helper_bones)} helper bones follow; vertex error "
        ) + (
            f"{posing.errors.get('mean', 0):.3g} {mesh.unit} mean; handles: "
            f"{', '.join(handle.name for handle in posing.handles)}"
        )
        lines += [("posing", text), *(("", note) for note in posing.notes)]
    for clip in deformer.clips:
        rate = "" if clip.frame_rate is None else f" at {clip.frame_rate:g} per second"
        text = f"{clip.name}: {clip.frame_count} frames{rate}, from frame {clip.start_frame}"
        if clip.keys is not None:
            text += f", {clip.keys.is_key.sum()} of {clip.keys.is_key.size} key frames of bones"
        lines.append(("clip", text))
    if deformer.nets:
        nets = f"{len(deformer.nets)} networks, {deformer.features.count} features"
        lines.append(("correctives", f"{nets}, {deformer.coefficient_count} coefficients"))
    lines += range_lines(deformer)
    runtime = runtime_of(deformer)
    bytes_read = "" if runtime is None else f"{size_text(runtime.bytes)} read and "
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
            rows = weight_matrix(skin.bone_index, skin.weight, len(names)).copy()  # sorted in place
            owner = np.asarray(rows.argmax(axis=1)).ravel()
            parts = {name: np.flatnonzero(owner == bone) for bone, name in enumerate(names)}
    parts = parts or {"all": np.arange(len(error))}
    means = [(name, float(error[at].mean())) for name, at in parts.items() if len(at)]
    return sorted(means, key=lambda region: -region[1])[:_REGIONS]


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
