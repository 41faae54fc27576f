"""The steps of `fdda`: skin, groups, inputs, networks, deformer; `fdda.py` has the equations."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis
from understudy.core.poses import Poses
from understudy.core.version import __version__
from understudy.methods.correctives.bounds import with_bounds
from understudy.methods.correctives.components import BasisOptions, find_groups, find_skin
from understudy.methods.correctives.evidence import resolve_controls
from understudy.methods.correctives.features import FeatureTable
from understudy.methods.correctives.inputs import InputGroups, InputSelection, needed_units
from understudy.methods.correctives.networks import NetTasks, TrainedNets, train_nets
from understudy.methods.correctives.range_of_motion import range_of_motion
from understudy.methods.fdda.fdda import FddaConfig
from understudy.methods.skin_fitting.displacements import displace
from understudy.rigs.base import Rig
from understudy.system.progress import Progress
from understudy.training.schedule import Schedule, validation_poses
from understudy.training.trainer import curve_numbers

_BASIS_ERROR = 1.6e-4  # of the height
_INPUT_POSES = 5
_INPUT_GAIN, _MOST_INPUTS = 0.01, 20


def fit_fdda(config: FddaConfig, poses: Poses, rig: Rig | None, progress: Progress) -> Deformer:
    """The deformer of `poses`; `rig`, where there is one, is perturbed to select inputs."""
    skeleton = poses.need_skeleton("fdda")
    given = config.basis_error
    basis_error = _BASIS_ERROR * poses.mesh.height if given is None else given
    skin, labels = find_skin(poses, config.tau, config.skin_rings, progress)
    options = BasisOptions(config.basis_poses, config.max_components, float(basis_error))
    found = find_groups(poses, skin, labels, config.seam_rings, options, progress)
    controls = resolve_controls(config.controls, poses, skin)
    scaling = "own" if config.standardise else "none"
    table = FeatureTable.of(poses, controls, config.features, scaling)
    selection = InputSelection(
        source=config.inputs,
        error=basis_error if config.input_error is None else config.input_error,
        example_poses=_INPUT_POSES,
        gain=_INPUT_GAIN,
        most=_MOST_INPUTS,
        seed=config.seed,
    )
    groups = InputGroups(
        vertices=[group.core for group in found.groups],
        targets=[group.coefficients for group in found.groups],
        displace=lambda moved: displace(moved, skin),
    )
    needs = needed_units(selection, groups, table.units, table.standard, poses, rig, progress)
    more = range_of_motion(poses, rig, config.rom_share)
    added = None
    if more is not None:
        table = table.with_added(more)
        added = found.coefficients(displace(more, skin)), config.rom_share
    inputs, targets = [table.inputs_of(row) for row in needs], groups.targets
    checkpoint = None if config.checkpoint is None else Path(config.checkpoint)
    schedule = Schedule.of(config).for_poses(poses.pose_count)
    tasks = NetTasks(inputs, targets, 0, linear=False, added=added)
    trained = train_nets(table, tasks, schedule, progress, checkpoint)
    deformer = Deformer(
        mesh=poses.mesh,
        skeleton=skeleton,
        control_spec=poses.control_spec,
        skin=skin,
        features=table.clamped(config.clamp_margin),
        nets=trained.nets,
        bases=tuple(
            Basis(group.vertices, group.basis, outputs)
            for group, outputs in zip(found.groups, trained.outputs)
        ),
        mean=found.mean,
        method="fdda",
        training=_training_figures(poses, float(basis_error), trained),
        provenance={
            "understudy": __version__,
            "poses": poses.name,
            "config": config.header(),
            "training_curve": curve_numbers(trained.training_curve),
            "validation_curve": curve_numbers(trained.validation_curve),
        },
    )
    if not config.bounded:
        return deformer
    return with_bounds(deformer, poses, validation_poses(poses.pose_count, schedule), more)


def _training_figures(poses: Poses, basis_error: float, trained: TrainedNets) -> dict[str, float]:
    """Numbers of the file's header; a loss is the fraction of the squared motion that is left."""
    figures = {"poses": poses.pose_count, "networks": len(trained.nets), "basis_error": basis_error}
    curves = {"loss": trained.training_curve, "loss_unseen": trained.validation_curve}
    for name, curve in curves.items():
        if len(curve) and np.isfinite(curve[-1]):
            figures[name] = float(curve[-1])
    return figures
