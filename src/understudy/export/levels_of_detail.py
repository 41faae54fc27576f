"""A level of detail for `understudy export --lod`, and how far it is from the original."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.levels_of_detail import Parents, find_parents, level_of_detail
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.evaluation.metric_catalogue import digits3
from understudy.geometry.transforms import rotation_from_axis_angle

_POSES = 32  # most poses that are compared
_TURN = 0.3  # radians, standard deviation of the rotation of each bone in a random pose


@dataclass(frozen=True)
class LevelOfDetail:
    """A deformer of a coarser mesh, and its distances from the surface of the original.

    deformer  of the coarse mesh
    parents   of its vertices
    vertices  of the original
    at_rest   largest distance of a vertex from the original's surface, at rest
    mean, p99, max   distances between its vertices and the same points of the original's surface,
              in some poses; without what they differ at rest
    poses     how many poses, and which
    """

    deformer: Deformer
    parents: Parents
    vertices: int
    at_rest: float
    mean: float
    p99: float
    max: float
    poses: str

    def text(self) -> str:
        """The lines that the command prints."""
        mesh = self.deformer.mesh
        unit = "model units" if mesh.unit == "unitless" else mesh.unit
        if self.parents.is_subset:
            kind = "all of them vertices of the original"
        else:
            kind = f"at most {digits3(self.at_rest)} {unit} from its surface at rest"
        return (
            f"level of detail: {mesh.vertex_count} of {self.vertices} vertices, {kind}\n"
            f"errors in {unit} on {self.poses}: mean {digits3(self.mean)}, p99 "
            f"{digits3(self.p99)}, max {digits3(self.max)}"
        )

    def json(self) -> dict:
        """The same figures by name."""
        return {
            "vertices": self.deformer.mesh.vertex_count,
            "of": self.vertices,
            "unit": self.deformer.mesh.unit,
            "is_subset": self.parents.is_subset,
            "at_rest": self.at_rest,
            "mean": self.mean,
            "p99": self.p99,
            "max": self.max,
            "poses": self.poses,
        }


def make_level_of_detail(deformer: Deformer, coarse: Mesh) -> LevelOfDetail:
    """Return a level of detail with its errors.

    coarse  the mesh of the level, in the unit and axes of the deformer
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
    return LevelOfDetail(
        made,
        parents,
        deformer.mesh.vertex_count,
        float(at_rest.max()),
        float(error.mean()),
        float(np.percentile(error, 99)),
        float(error.max()),
        poses,
    )


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
    bones = skeleton.bone_count
    rest = np.tile(np.eye(4), (bones, 1, 1))
    rest[:, :3] = skeleton.world_from_bone
    turn = np.tile(np.eye(4), (_POSES, bones, 1, 1))
    turn[..., :3, :3] = rotation_from_axis_angle(rng.normal(size=(_POSES, bones, 3)) * _TURN)
    world = np.empty_like(turn)
    for bone, parent in enumerate(skeleton.parents):
        local = rest[bone] if parent < 0 else np.linalg.solve(rest[parent], rest[bone])
        start = local if parent < 0 else world[:, parent] @ local
        world[:, bone] = start @ turn[:, bone]
    return np.ascontiguousarray(world[..., :3, :])
