"""Fitting a method by name to a source of poses, and writing the result: `fit` and `compress`.

    job = FitJob.of("fdda", "hero.understudy", {"epochs": "50"})     refuses wrong options and paths
    poses = job.read("hero.zarr")                                    refuses poses it cannot fit
    deformer = job.fit(poses, rig)                                   continues from a checkpoint
    job.write(deformer)

Every refusal comes before any work.
"""

from __future__ import annotations

import dataclasses
import glob
import importlib.util
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core import cluster
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError, MissingDependencyError
from understudy.core.parts import (
    join_deformers,
    part_vertices,
    take_vertices,
    without_parts,
)
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.io.atomic_write import ensure_writable
from understudy.io.registry import (
    ReadOptions,
    format_of,
    read_poses,
    source_provenance,
    write_deformer,
)
from understudy.methods.base import Config, Method, config_from_text
from understudy.methods.posing_fitting import with_posing
from understudy.methods.registry import method_type, methods_by_name
from understudy.rigs.base import Rig
from understudy.rigs.blender.options import is_blend
from understudy.rigs.part_rig import PartRig
from understudy.rigs.ray_sampling import ClusterRig
from understudy.rigs.registry import absolute_name, load_rig

Source = str | Path
SIMPLE = "lbs"  # what every engine has; a result that is worse is of no use
FEW_POSES = 40  # networks need more


@dataclass(frozen=True)
class PartOptions:
    """How the parts of a character are treated: body, eyes, clothes, ...

    without  parts that the deformer does not have
    errors   part -> `basis_error` of its own fit, in model units. Such a part has its own networks;
             all others are fitted together, with the options of the method
    """

    without: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FitJob:
    """A method with its options, and the file that its deformer is written to.

    kind        the class of the method
    config      its options; the checkpoint is a file beside `out`, unless one is set
    out         its suffix decides the format
    checkpoint  the start of the names of checkpoint files, which are removed when `out` is written
    """

    kind: type[Method]
    config: Config
    out: Path
    checkpoint: Path

    @staticmethod
    def of(
        method: str,
        out: Source,
        options: Mapping[str, str] | None = None,
        *,
        for_engine: bool = False,
    ) -> FitJob:
        """The job of fitting `method` with `options` (name -> text, as `--set name=value`).

        for_engine  `out` may be a format that holds no networks: the caller writes it itself

        Raises now if the method or an option is unknown, a package is missing, or `out` cannot be
        written.
        """
        kind = method_type(method)
        checkpoint = Path(f"{out}.checkpoint")
        texts = dict(options or {})
        if any(field.name == "checkpoint" for field in dataclasses.fields(kind.Config)):
            texts.setdefault("checkpoint", str(checkpoint))
        config = config_from_text(kind.Config, texts)
        if kind.traits.needs_torch and importlib.util.find_spec("torch") is None:
            raise MissingDependencyError(
                f"{method} trains networks and needs the package torch: "
                "pip install 'understudy[fit]'"
            )
        known = format_of(out, to="write")
        if known.write_deformer is None and not for_engine:
            raise InputError(
                f"{out}: {known.name} files hold no networks; write a .understudy file, then "
                f"`understudy export` it to {Path(out).suffix}"
            )
        ensure_writable(out)
        return FitJob(kind, config, Path(out), checkpoint)

    def read(
        self,
        sources: Source | Iterable[Source],
        options: ReadOptions | None = None,
        progress: Progress = SILENT,
    ) -> Poses:
        """The poses of `sources` (see `io.registry.read_poses`), if the method can fit them."""
        poses = read_poses(sources, options, progress)
        refuse_poses(self.kind, poses)
        return poses

    def fit(self, poses: Poses, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses`; an interrupted fit continues from its checkpoint."""
        return self.kind(self.config).fit(poses, rig=rig, progress=progress)

    def fit_parts(
        self,
        poses: Poses,
        errors: Mapping[str, float],
        rig: Rig | None = None,
        progress: Progress = SILENT,
    ) -> Deformer:
        """The deformer of `poses`, with its own fit for each part in `errors`.

        errors  as in `PartOptions`
        """
        names = {option.name for option in dataclasses.fields(self.config)}
        if errors and "basis_error" not in names:
            raise InputError(f"part error: {self.kind.name} has no option basis_error")
        left = np.arange(poses.vertex_count, dtype=np.int32)
        rows: dict[str, tuple[np.ndarray, FitJob]] = {}
        for name, error in errors.items():
            changes: dict[str, Any] = {"basis_error": error}
            if "checkpoint" in names:
                # The part's name may hold any character, so its number names the file.
                changes["checkpoint"] = f"{self.checkpoint}.part{len(rows)}"
            job = replace(self, config=replace(self.config, **changes))
            chosen = np.intersect1d(part_vertices(poses.mesh, [name]), left)
            left = np.setdiff1d(left, chosen)
            rows[name] = (chosen, job)
        whole = {"": (left, self)} if len(left) else {}
        fitted = {
            name: (
                vertices,
                job.fit(
                    take_vertices(poses, vertices),
                    None if rig is None else PartRig(rig, vertices),
                    progress,
                ),
            )
            for name, (vertices, job) in {**whole, **rows}.items()
            if len(vertices)
        }
        return join_deformers(poses.mesh, fitted)

    def write(self, deformer: Deformer) -> None:
        """Write `deformer` to `out`, whole or not at all, and remove the checkpoints."""
        write_deformer(deformer, self.out)
        self.remove_checkpoints()

    def remove_checkpoints(self) -> None:
        """Remove what an interrupted fit would continue from."""
        # A method may keep several checkpoints.
        for kept in self.checkpoint.parent.glob(f"{glob.escape(self.checkpoint.name)}*"):
            if kept.is_dir():  # files of a cluster
                shutil.rmtree(kept, ignore_errors=True)
            else:
                kept.unlink(missing_ok=True)


def method_for(poses: Poses) -> str:
    """The method that suits poses with bones or controls; `auto` without a budget takes it too."""
    if poses.skeleton is not None and poses.pose_count < FEW_POSES:
        return SIMPLE
    return "differential" if poses.skeleton is None else "corrected_skin"


def fit_file(
    method: str,
    sources: Source | Iterable[Source],
    out: Source,
    options: Mapping[str, str] | None = None,
    rig: str = "auto",
    read: ReadOptions | None = None,
    progress: Progress = SILENT,
    parts: PartOptions | None = None,
) -> Deformer:
    """Fit a method to a source of poses and write the deformer to `out`.

    sources  a pose store, recorded poses (.npz), a mesh sequence, or several of these
    options  name -> text, as `--set name=value`
    rig      live rig for methods that evaluate it: what `load_rig` takes; "none"; or "auto": the
             rig that the poses were sampled from, where it can be loaded
    read     what the files cannot say: up axis, unit, frame rate, rest shape
    parts    parts to leave out, or to learn with another error
    """
    sources = [sources] if isinstance(sources, str | Path) else list(sources)
    job = FitJob.of(method, out, options)
    poses = job.read(sources, read, progress)
    made_by = source_provenance(sources)
    deformer = fit_poses(job, poses, made_by, rig, parts, progress)
    job.write(deformer)
    return deformer


def fit_poses(
    job: FitJob,
    poses: Poses,
    made_by: Mapping[str, Any],
    rig: str = "auto",
    parts: PartOptions | None = None,
    progress: Progress = SILENT,
) -> Deformer:
    """The deformer of some poses; `made_by` is their provenance, the rest as in `fit_file`."""
    parts = PartOptions() if parts is None else parts
    live = live_rig(rig, made_by, poses, progress) if job.kind.traits.asks_rig else None
    if poses.notes:
        made_by = {**made_by, "notes": list(poses.notes)}
    if parts.without:
        kept = np.setdiff1d(np.arange(poses.vertex_count), part_vertices(poses.mesh, parts.without))
        poses = without_parts(poses, parts.without)
        live = None if live is None else PartRig(live, kept)
        made_by = {**made_by, "without_parts": list(parts.without)}
    if parts.errors:
        deformer = job.fit_parts(poses, parts.errors, live, progress)
    else:
        deformer = job.fit(poses, live, progress)
    return with_source(with_posing(deformer, poses, progress), made_by)


def with_source(deformer: Deformer, made_by: Mapping[str, Any]) -> Deformer:
    """`deformer` with the provenance of the poses it was fitted to."""
    return replace(deformer, provenance={**deformer.provenance, "sample": dict(made_by)})


def rig_of(deformer: Deformer) -> str | None:
    """The rig that a deformer was learned from, as `load_rig` takes it; None: it does not say."""
    sample = deformer.provenance.get("sample")
    rig = sample.get("rig") if isinstance(sample, Mapping) else None
    return rig if isinstance(rig, str) and rig else None


def parts_left_out(deformer: Deformer) -> tuple[str, ...]:
    """The parts of the original that a deformer was fitted without."""
    sample = deformer.provenance.get("sample")
    names = sample.get("without_parts") if isinstance(sample, Mapping) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def refuse_poses(kind: type[Method], poses: Poses) -> None:
    """Raise an error that says what to do if the traits of a method exclude `poses`."""
    traits, bones, controls = kind.traits, poses.skeleton is not None, poses.controls is not None
    if bones or traits.takes_sequences or (controls and traits.controls_suffice):
        return
    has = "controls and no bones" if controls else "vertices alone"
    needs = "bones or controls" if traits.controls_suffice else "bones"
    fitting = [
        name
        for name, other in methods_by_name()[0].items()
        if not other.traits.baseline
        and (other.traits.takes_sequences or (controls and other.traits.controls_suffice))
    ]
    raise InputError(
        f"{kind.name} needs {needs}, and {poses.name!r} has {has}. Use a method that does not "
        f"({', '.join(fitting)}), or record the bones with the poses (world_from_bone and "
        "rest_world_from_bone in the .npz)"
    )


def live_rig(
    text: str, made_by: Mapping[str, Any], poses: Poses, progress: Progress = SILENT
) -> Rig | None:
    """The rig that a method may evaluate during the fit; arguments as in `fit_file`."""
    name = made_by.get("rig") if text == "auto" else text
    if not isinstance(name, str) or name == "none":
        return None
    with progress.task(f"loading the rig {name}", 1) as task:
        if text == "auto" and is_blend(name):
            # Blender takes some 100 ms a pose, and the poses tell nearly as much.
            task.note("Blender is slow, so the poses alone are used; pass --rig to evaluate it")
            return None
        try:
            rig = load_rig(name)
        except InputError:
            if text != "auto":
                raise
            task.note("it is not here, so the poses alone are used; pass --rig to name it")
            return None
        task.advance()
    controls = 0 if poses.control_spec is None else poses.control_spec.count
    if rig.mesh.vertex_count != poses.vertex_count or rig.controls.count != controls:
        raise InputError(
            f"the rig {name!r} has {rig.mesh.vertex_count} vertices and {rig.controls.count} "
            f"controls, {poses.name!r} has {poses.vertex_count} and {controls}: it is not the rig "
            "these poses come from; pass that rig, or --rig none"
        )
    workers = cluster.current()
    if workers is None:
        return rig
    return ClusterRig(rig, partial(load_rig, absolute_name(name)), workers)
