"""The stages between components and the deformer: features, inputs, the deformer itself.

A method with correctives chooses stages and hands a `FitSession` from one to the next:

    FitSession.of         the skin, and the displacements before it
    find_regions          regions.py, where regions are cells of the mesh
    find_groups           components.py, the components of each region
    feature_table, select_inputs
    train_networks        networks.py
    make_deformer         bounded (bounds.py); `stored` has it in 16 bits (storage.py)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis, Net
from understudy.core.poses import evenly
from understudy.core.version import __version__
from understudy.methods.correctives.bounds import with_bounds
from understudy.methods.correctives.features import FeatureTable, constant_controls
from understudy.methods.correctives.inputs import units_from_data, units_from_rig
from understudy.methods.correctives.networks import TrainedNets
from understudy.methods.correctives.session import FitSession
from understudy.methods.skin_fitting.displacements import displace
from understudy.system.errors import InputError

STILL = 1e-6  # of the height: a vertex that moves less, by rounding errors, does not move
_QUERIED_VERTICES = 60  # of a group, to find what moves it


def feature_table(session: FitSession, targets: Sequence[np.ndarray]) -> FeatureTable:
    """The features that the networks may read.

    targets  (T,...) what they have to predict; it is an error if they vary and no feature does
    """
    config = session.config
    table = FeatureTable.of(session.poses, session.controls, config.features, config.scaling)
    table = table if session.added is None else table.with_added(session.added)
    if not table.count and any(
        np.abs(rows).max(initial=0) > STILL * session.height for rows in targets
    ):
        raise InputError(
            f"{session.poses.name!r}: the mesh moves, but no bone or control does (or "
            f"controls=none leaves them out)"
        )
    return table


def select_inputs(
    session: FitSession,
    table: FeatureTable,
    groups: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    *,
    every_vertex: bool = False,
) -> list[np.ndarray]:
    """The features (n,) that each group of vertices (m,) with coefficients (T,P) depends on.

    every_vertex  look at all vertices of a group; else at a few, which show what moves it as well
    """
    config, poses, rig, units = session.config, session.poses, session.rig, table.units
    source = config.inputs
    if source == "auto":
        source = "rig" if rig is not None and poses.controls is not None else "data"
    if source == "all" or not groups or not table.count:
        return [table.all_inputs() for _ in groups]
    if source == "rig":
        if rig is None or poses.controls is None:
            raise InputError(
                "inputs=rig needs the live rig and poses with control values; use inputs=data for "
                "recorded poses"
            )
        few = [g if every_vertex else _representatives(session, np.asarray(g)) for g in groups]
        queried = np.unique(np.concatenate(few))
        needs = units_from_rig(
            rig,
            poses,
            [np.searchsorted(queried, group) for group in few],
            lambda moved: displace(moved, session.skin, queried),
            session.input_error,
            config.input_poses,
            config.seed,
            session.progress,
        )
    else:
        needs = np.zeros((len(groups), units.count), np.bool_)
        found = units_from_data(
            table.standard,
            units.unit,
            targets,
            config.input_gain,
            config.most_inputs,
            session.progress,
        )
        needs[:, : found.shape[1]] = found
    # A group that moves although no single unit moves it reads the bones of its skin.
    for g in np.flatnonzero(~(needs & units.varying).any(axis=1)).tolist():
        if session.skin is not None:
            index, weight = session.skin.bone_index[groups[g]], session.skin.weight[groups[g]]
            needs[g, index[weight > 0]] = True
    needs[~(needs & units.varying).any(axis=1)] = True  # none of these moves: every unit
    return [table.inputs_of(row) for row in needs]


def _representatives(session: FitSession, group: np.ndarray) -> np.ndarray:
    """Some vertices of a group, and for each of its bones the vertex with the largest weight.

    A single vertex may depend on a bone that no other vertex of the group depends on.
    """
    some = group[evenly(len(group), _QUERIED_VERTICES)]
    if session.skin is None:
        return some
    index, weight = session.skin.bone_index[group], session.skin.weight[group]
    order = np.argsort(-weight, axis=None, kind="stable")
    order = order[weight.reshape(-1)[order] > 0]
    first = np.unique(index.reshape(-1)[order], return_index=True)[1]
    return np.union1d(some, group[order[first] // index.shape[1]])


def make_deformer(
    session: FitSession,
    table: FeatureTable,
    nets: Sequence[Net],
    bases: Sequence[Basis],
    mean: np.ndarray,
    trained: TrainedNets,
    figures: Mapping[str, float],
    **provenance: Any,
) -> Deformer:
    """The deformer of a fit.

    trained     the networks whose loss curves its header records
    figures     training figures for the header, beside the number of poses
    provenance  further entries for the header
    """
    poses, config = session.poses, session.config
    given = poses.pose_count // 2 if session.mirrored else poses.pose_count
    deformer = Deformer(
        mesh=poses.mesh,
        skeleton=poses.skeleton,
        control_spec=poses.control_spec,
        skin=session.skin,
        features=table.clamped(config.clamp_margin),
        nets=tuple(nets),
        bases=tuple(bases),
        mean=mean,
        method=session.method,
        training={"poses": given, "mirror_images": poses.pose_count - given, **figures},
        provenance={
            "understudy": __version__,
            "poses": poses.name,
            "config": config.header(),
            "controls_never_seen": constant_controls(poses),
            "training_curve": _numbers(trained.training_curve),
            "validation_curve": _numbers(trained.validation_curve),
            **provenance,
        },
    )
    if not config.bounded:
        return deformer
    return with_bounds(deformer, poses, session.held_out, session.added)


def _numbers(curve: np.ndarray) -> list[float]:
    """A loss curve for the header of a file; empty where nothing was measured."""
    return [float(f"{value:.6g}") for value in curve if np.isfinite(value)]
