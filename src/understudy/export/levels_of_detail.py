"""A level of detail for `understudy export --lod`, and how far it is from the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.levels_of_detail import find_parents, level_of_detail
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.evaluation.metric_catalogue import digits3
from understudy.geometry.transforms import (
    parent_from_bone,
    rotation_from_axis_angle,
    world_from_local,
)

_POSES = 32  # most poses that are compared
_TURN = 0.3  # radians, standard deviation of the rotation of each bone in a random pose


def make_level_of_detail(deformer: Deformer, coarse: Mesh) -> tuple[Deformer, dict[str, Any]]:
    """Return a level of detail, and its figures by name.

    coarse  the mesh of the level, in the unit and axes of the deformer

    `at_rest` is the largest distance of a vertex from the original's surface at rest. `mean`, `p99`
    and `max` are distances between vertices and the same points of that surface, in some `poses`,
    without what they differ at rest.
    """
    parents = find_parents(deformer.mesh, coarse)
    made = level_of_detail(deformer, coarse, parents)
    world_from_bone, controls, poses = _drivers(deformer)
    wanted = parents.blended(deformer.deform(world_from_bone, controls).astype(np.float64))
    off = coarse.vertices - parents.blended(deformer.mesh.vertices.astype(np.float64))
    at_rest = np.linalg.norm(off, axis=1)
    # What the coarse mesh has beside the surface moves with its bones, so lengths are compared.
    error = np.linalg.norm(made.deform(world_from_bone, controls) - wanted, axis=2)
    error = np.maximum(error - at_rest, 0)
    return made, {
        "vertices": made.mesh.vertex_count,
        "of": deformer.mesh.vertex_count,
        "unit": made.mesh.unit,
        "is_subset": parents.is_subset,
        "at_rest": float(at_rest.max()),
        "mean": float(error.mean()),
        "p99": float(np.percentile(error, 99)),
        "max": float(error.max()),
        "poses": poses,
    }


def about_level(figures: Mapping[str, Any]) -> list[str]:
    """Return the lines that the command prints of the figures of a level of detail."""
    unit = "model units" if figures["unit"] == "unitless" else figures["unit"]
    kind = "all of them vertices of the original"
    if not figures["is_subset"]:
        kind = f"at most {digits3(figures['at_rest'])} {unit} from its surface at rest"
    mean, p99, largest = (digits3(figures[name]) for name in ("mean", "p99", "max"))
    return [
        f"level of detail: {figures['vertices']} of {figures['of']} vertices, {kind}",
        f"errors in {unit} on {figures['poses']}: mean {mean}, p99 {p99}, max {largest}",
    ]


def _drivers(deformer: Deformer) -> tuple[np.ndarray | None, np.ndarray | None, str]:
    """Bones (T,B,3,4) or None, controls (T,C) or None, and what they are."""
    rng = np.random.default_rng(0)
    if deformer.clips:
        frames = np.concatenate([clip.world_from_bone for clip in deformer.clips])
        some = np.linspace(0, len(frames) - 1, min(_POSES, len(frames))).round().astype(int)
        world, name = frames[some], f"{len(some)} frames of its clips"
    else:
        skeleton = deformer.skeleton
        world = None if skeleton is None else _random_poses(skeleton, rng)
        name = f"{_POSES} random poses"
    spec = deformer.control_spec
    count = _POSES if world is None else len(world)
    controls = None if spec is None else rng.uniform(spec.low, spec.high, (count, spec.count))
    return world, controls, name


def _random_poses(skeleton: Skeleton, rng: np.random.Generator) -> np.ndarray:
    """Bones (T,B,3,4) in which each is rotated about its own head."""
    turns = rng.normal(size=(_POSES, skeleton.bone_count, 3)) * _TURN
    local = np.tile(parent_from_bone(skeleton.world_from_bone, skeleton.parents), (_POSES, 1, 1, 1))
    local[..., :3] = local[..., :3] @ rotation_from_axis_angle(turns)
    return world_from_local(local, skeleton.parents)
