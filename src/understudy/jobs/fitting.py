"""Fitting a method to poses, and writing the result.

    fitting = Fit.of("fdda", "hero.understudy", {"epochs": 50})   refuses wrong options and paths
    deformer = fitting.run(poses)                                 continues from a checkpoint
    fitting.write(deformer)

Every refusal comes before any work.
"""

from __future__ import annotations

import dataclasses
import glob
import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.parts import join_deformers, part_vertices, take_vertices, without_parts
from understudy.core.poses import Poses, evenly
from understudy.core.posing import PosingSkeleton
from understudy.core.provenance import UNMOVED, with_source
from understudy.io.atomic_write import ensure_writable
from understudy.io.registry import (
    ReadOptions,
    format_of,
    read_poses,
    source_provenance,
    write_deformer,
)
from understudy.methods.base import Method, config_from_text
from understudy.methods.posing_fitting import can_pose, with_posing
from understudy.methods.registry import method_type, methods_by_name
from understudy.methods.skin_fitting.unmoved import (
    unmoved_bones,
    unmoved_controls,
    with_own_weights,
)
from understudy.rigs.base import Rig, elsewhere
from understudy.rigs.blender.options import is_blend
from understudy.rigs.parallel_sampling import SHOWN
from understudy.rigs.part_rig import PartRig
from understudy.rigs.ray_sampling import ClusterRig
from understudy.rigs.registry import absolute_name, load_rig
from understudy.system import checks, cluster
from understudy.system.errors import InputError, MissingDependencyError
from understudy.system.progress import SILENT, Progress

SIMPLE = "lbs"  # what every engine has; a result that is worse is of no use
FEW_POSES = 40  # networks need more
RIG_OF_POSES = "auto"  # the rig that the poses were sampled from

Options = Mapping[str, Any]  # option -> its value, or a text that is read as its type


@dataclass(frozen=True)
class PartOptions:
    """How the parts of a character are treated: body, eyes, clothes, ...

    without  parts that the deformer does not have
    errors   part -> `basis_error` of its own fit, in model units. Such a part has its own networks;
             all others are fitted together, with the options of the method
    """

    without: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)

    def check(self, mesh: Mesh) -> None:
        """Raise unless `mesh` has these parts."""
        for name in (*self.without, *self.errors):
            part_vertices(mesh, [name])


@dataclass(frozen=True)
class Fit:
    """A method with its options, and the file that its deformer is written to.

    method      with its config; the checkpoint is a file beside `out`, unless the config has one
    out         its suffix decides the format
    """

    method: Method
    out: Path

    @staticmethod
    def of(
        method: str | Method,
        out: str | Path,
        options: Options | None = None,
        *,
        for_engine: bool = False,
    ) -> Fit:
        """The fit of `method`, by its name and options, or as it is.

        for_engine  `out` may be a format that holds no networks: the caller writes it itself

        Raises now if the method or an option is unknown, a package is missing, or `out` cannot be
        written.
        """
        options = options or {}
        made = method_with(method, options)
        if made.traits.needs_torch and importlib.util.find_spec("torch") is None:
            raise MissingDependencyError(
                f"{made.name} trains networks and needs the package torch: "
                "pip install 'understudy[fit]'"
            )
        known = format_of(out, to="write")
        if known.write_deformer is None and not for_engine:
            raise InputError(
                f"{out}: {known.name} files hold no networks; write a .understudy file, then "
                f"`understudy export` it to {Path(out).suffix}"
            )
        ensure_writable(out)
        fitting = Fit(made, Path(out))
        is_open = "checkpoint" in option_names(made) - options.keys()
        if is_open and made.config.checkpoint is None:
            return fitting._with(checkpoint=str(fitting.checkpoint))
        return fitting

    @property
    def checkpoint(self) -> Path:
        """The start of the names of checkpoint files, which are removed when `out` is written."""
        return Path(f"{self.out}.checkpoint")

    def run(
        self,
        poses: Poses,
        made_by: Mapping[str, Any] | None = None,
        rig: Rig | str | None = None,
        parts: PartOptions | None = None,
        posing: PosingSkeleton | None = None,
        progress: Progress = SILENT,
    ) -> Deformer:
        """The deformer of some poses; an interrupted fit continues from its checkpoint.

        made_by  the provenance of the poses
        rig      the live rig, for methods that evaluate it: the rig, its name as `load_rig` takes
                 it, "auto" (the one in `made_by`, where it can be loaded), or None
        parts    parts to leave out, or to learn with another error
        posing   what poses the deformer without its rig, where that is known; None: it is looked
                 for
        """
        refuse_poses(type(self.method), poses)
        parts, made_by = parts or PartOptions(), dict(made_by or {})
        live = live_rig(rig, made_by, poses, progress) if self.method.traits.asks_rig else None
        if poses.notes:
            made_by["notes"] = list(poses.notes)
        if parts.without:
            kept = np.setdiff1d(
                np.arange(poses.vertex_count), part_vertices(poses.mesh, parts.without)
            )
            poses = without_parts(poses, parts.without)
            live = None if live is None else PartRig(live, kept)
            made_by["without_parts"] = list(parts.without)
        unmoved = {"bones": unmoved_bones(poses), "controls": unmoved_controls(poses)}
        if any(unmoved.values()):
            made_by[UNMOVED] = {kind: names for kind, names in unmoved.items() if names}
        if parts.errors:
            deformer = self.fit_parts(poses, parts.errors, live, progress)
        else:
            deformer = self.method.fit(poses, rig=live, progress=progress)
        deformer = with_own_weights(deformer, poses.skin, unmoved["bones"])
        if posing is not None and can_pose(deformer, poses):
            deformer = replace(deformer, posing=posing)
        else:
            deformer = with_posing(deformer, poses, progress)
        return with_source(deformer, made_by)

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
        names = option_names(self.method)
        if errors and "basis_error" not in names:
            raise InputError(f"part error: {self.method.name} has no option basis_error")
        left = np.arange(poses.vertex_count, dtype=np.int32)
        rows: dict[str, tuple[np.ndarray, Fit]] = {}
        for name, error in errors.items():
            changes: dict[str, Any] = {"basis_error": error}
            if "checkpoint" in names:
                # The part's name may hold any character, so its number names the file.
                changes["checkpoint"] = f"{self.checkpoint}.part{len(rows)}"
            chosen = np.intersect1d(part_vertices(poses.mesh, [name]), left)
            left = np.setdiff1d(left, chosen)
            rows[name] = (chosen, self._with(**changes))
        whole = {"": (left, self)} if len(left) else {}
        fitted = {
            name: (
                vertices,
                one.method.fit(
                    take_vertices(poses, vertices),
                    rig=None if rig is None else PartRig(rig, vertices),
                    progress=progress,
                ),
            )
            for name, (vertices, one) in {**whole, **rows}.items()
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

    def _with(self, **changes: Any) -> Fit:
        """The same fit with other options."""
        config = replace(self.method.config, **changes)
        return replace(self, method=type(self.method)(config))


@checks.typed
def fit(
    method: str | Method,
    source: str | Path | Poses | Sequence[str | Path],
    out: str | Path,
    *,
    options: Options | None = None,
    rig: Rig | str | None = RIG_OF_POSES,
    reading: ReadOptions | None = None,
    parts: PartOptions | None = None,
    progress: Progress = SILENT,
) -> Deformer:
    """Fit a method to poses and write the deformer to `out`.

    source   poses, a pose store, recorded poses (.npz), a mesh sequence, or several of these
    options  of the method, where it is named
    reading  what the files cannot say: up axis, unit, frame rate, rest shape
    rig, parts  as in `Fit.run`
    """
    fitting = Fit.of(method, out, options)
    if isinstance(source, Poses):
        poses, made_by = source, {}
    else:
        poses, made_by = read_poses(source, reading, progress), source_provenance(source)
    deformer = fitting.run(poses, made_by, rig, parts, progress=progress)
    fitting.write(deformer)
    return deformer


def method_with(method: str | Method, options: Options) -> Method:
    """The method of this name with some options, or the method as it is."""
    if isinstance(method, Method):
        if options:
            raise InputError(
                f"options: {method.name} was given with its config; change that, or give its name"
            )
        return method
    kind = method_type(method)
    return kind(config_from_text(kind.Config, options))


def option_names(method: Method | type[Method]) -> set[str]:
    """The names of the options of a method."""
    return {option.name for option in dataclasses.fields(method.Config)}


def method_for(has_bones: bool, pose_count: int) -> str:
    """The method that suits poses with bones or controls; `auto` without a budget takes it too."""
    if has_bones and pose_count < FEW_POSES:
        return SIMPLE
    return "corrected_skin" if has_bones else "differential"


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


def refuse_found_bones(kind: type[Method], source: str) -> None:
    """Raise if a method finds bones, which those of `source` cannot pose on other animation."""
    if kind.traits.finds_bones:
        raise InputError(
            f"{kind.name} finds bones of its own, which those of {source!r} cannot pose: give it "
            "a mesh sequence (`understudy compress`), or take another method"
        )


def live_rig(
    rig: Rig | str | None,
    made_by: Mapping[str, Any],
    poses: Poses,
    progress: Progress = SILENT,
) -> Rig | None:
    """The rig that a method may evaluate during the fit; arguments as in `Fit.run`."""
    name = made_by.get("rig") if rig == RIG_OF_POSES else rig
    if name is None or (isinstance(name, str) and not name):
        return None
    if not isinstance(name, str):
        return _of_these_poses(name, type(name).__name__, poses, made_by)
    with progress.task(f"loading the rig {name}", 1) as task:
        if rig == RIG_OF_POSES and is_blend(name):
            # Blender takes some 100 ms a pose, and the poses tell nearly as much.
            task.note("Blender is slow, so the poses alone are used; pass --rig to evaluate it")
            return None
        try:
            found = load_rig(name)
        except InputError:
            if rig != RIG_OF_POSES:
                raise
            task.note(
                "it is not here, so the poses alone are used; `understudy fit --rig` names it"
            )
            return None
        task.advance()
    _of_these_poses(found, name, poses, made_by)
    workers = cluster.current()
    if workers is None:
        return found
    return ClusterRig(found, partial(load_rig, absolute_name(name)), workers)


def _of_these_poses(rig: Rig, name: str, poses: Poses, made_by: Mapping[str, Any]) -> Rig:
    """The rig, or an error if the poses cannot come from it."""
    controls = 0 if poses.control_spec is None else poses.control_spec.count
    what = ""
    if rig.mesh.vertex_count != poses.vertex_count or rig.controls.count != controls:
        what = (
            f"has {rig.mesh.vertex_count} vertices and {rig.controls.count} controls, "
            f"{poses.name!r} has {poses.vertex_count} and {controls}"
        )
    elif "rig" in made_by and poses.controls is not None:
        some = evenly(poses.pose_count, SHOWN)
        where = elsewhere(poses.take(some), rig.evaluate(poses.controls[some]))
        what = where and f"moves {where} elsewhere than in {poses.name!r}"
    if what:
        raise InputError(
            f"the rig {name!r} {what}: it is not the rig these poses come from; pass that rig, or "
            "--rig none"
        )
    return rig
