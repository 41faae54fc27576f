"""Fitting a method by name: `fit_file` to a store of poses, `fit_sequence` to a mesh sequence."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.io import pose_store as store
from understudy.io.atomic_write import ensure_writable
from understudy.methods import config_from_text, method_type
from understudy.rigs import load_rig, rig_names


def fit_file(
    method: str,
    poses_path: str | Path,
    out: str | Path,
    options: Mapping[str, str] | None = None,
    rig: str = "auto",
    progress: Progress = SILENT,
) -> Deformer:
    """Fit a registered method to a store of poses and write the result; an interrupted fit goes on
    from its checkpoint.

    options  name -> text, as `--set name=value`
    rig      live rig for methods that ask it questions: a built-in rig's name, "none", or "auto":
             the one the poses were sampled from
    """
    kind = method_type(method)
    config = config_from_text(kind.Config, options or {})
    ensure_writable(out)
    checkpoint = Path(f"{out}.checkpoint")
    if hasattr(config, "checkpoint") and config.checkpoint is None:
        config = replace(config, checkpoint=str(checkpoint))
    poses = store.open_poses(poses_path)
    made_by = store.provenance(poses_path)
    deformer = kind(config).fit(poses, rig=_live_rig(rig, made_by, poses), progress=progress)
    deformer = replace(deformer, provenance={**deformer.provenance, "sample": made_by})
    deformer.save(out)
    for kept in checkpoint.parent.glob(
        f"{glob.escape(checkpoint.name)}*"
    ):  # a method may keep several; only now are they of no more use
        kept.unlink(missing_ok=True)
    return deformer


def _live_rig(name: str, made_by: Mapping, poses):
    if name == "none":
        return None
    if name == "auto":
        name = made_by.get("rig")
        if name not in rig_names():
            return None
    rig = load_rig(checks.one_of(name, "rig", rig_names()))
    if (
        rig.mesh.vertex_count != poses.vertex_count
        or rig.controls.count != poses.control_spec.count
    ):
        raise InputError(
            f"rig {name!r} is not the one these poses were sampled from; pass the right one, or "
            f"--rig none"
        )
    return rig


def fit_sequence(
    poses: Poses,
    method: str = "ssdr",
    *,
    bones: int | None = None,
    error: float | None = None,
    influences: int | None = 4,
    transforms: str = "affine",
    skeleton: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Deformer:
    """Fit `temporal`, `ssdr`, or `ssdr` with dense weights and `two_layer` on top of it; the clips
    are those the poses came in.
    """
    if method == "temporal":
        temporal = method_type("temporal")
        return temporal(
            temporal.Config(bones=bones, influences=influences, skeleton=skeleton, seed=seed)
        ).fit(poses, progress=progress)
    ssdr = method_type("ssdr")
    options = {"bones": bones, "error": error, "transforms": transforms, "seed": seed}
    dense = method == "two_layer"
    deformer = ssdr(ssdr.Config(influences=None if dense else influences, **options)).fit(
        poses, progress=progress
    )
    if dense:
        two_layer = method_type("two_layer")
        # Its examples are the sequence itself, in the bones that were just found.
        deformer = two_layer(
            two_layer.Config(bones_per_vertex=float(influences), seed=seed)
        ).reduce(deformer, None, poses.vertices, progress=progress)
    return deformer
