"""Mirror images of recorded clips of a symmetric body.

A recording cannot be asked for more poses. A body, however, is usually symmetric: what the left arm
shows, the right arm would show. With F the reflection in the plane of symmetry, and M_b the
transform of bone b from the rest pose, the image of a pose is

    y'_i = F y_twin(i),      M'_b = F M_twin(b) F

which needs no convention about the axes of bones. Twins of vertices are found in the rest mesh,
twins of bones by names and rest positions (`posing_fitting/sides.py`).

Held-out clips decide (`reduces_error`): each clip is predicted from the others by a kernel ridge
regression of the displacements before skinning, with and without the images of the others. Images
are used if they lower the mean error clearly. Random samples and single clips get none.

A kernel regression is coarser than the networks, and its gain need not be theirs; so images of
bodies are asked for (`mirror=bodies`), not a default.

Letters: T poses, V vertices, B bones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.core.skeleton import Skeleton
from understudy.geometry.transforms import compose, inverse
from understudy.methods.differential.mirror import vertex_twins
from understudy.methods.posing_fitting.sides import mirror_bones
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors
from understudy.methods.skin_fitting.blended_skin import blended_skin
from understudy.methods.skin_fitting.displacements import displace
from understudy.training.features import pose_features

_FEWEST_CLIPS = 3
_MOST_FOLDS = 5
_POSES = 300  # of the evidence
_VERTICES = 1500
_SKIN_POSES = 50
_SKIN_RINGS = 4
_WIDTHS, _RIDGE = (2.0, 8.0, 32.0), 1e-4  # of the kernel, in median squared distances
_CLEARLY_LESS = 0.9  # images must lower the mean distance on held-out clips to this fraction
_MOST_BYTES = 1 << 30  # of the vertices with their images


@dataclass(frozen=True, eq=False)
class BodyMirror:
    """A symmetry of mesh and skeleton.

    axis   0, 1 or 2: the coordinate that changes
    plane  twice its value on the plane of symmetry
    twin   (V,) the vertex at the mirror image of each vertex
    bone   (B,) the bone of the other side, itself in the middle
    """

    axis: int
    plane: float
    twin: np.ndarray
    bone: np.ndarray

    def image(self, poses: Poses) -> Poses:
        """The mirror images of some poses in memory."""
        skeleton, bones = poses.need_bones("a mirror image")
        vertices = poses.read_poses(0, poses.pose_count)[:, self.twin]
        vertices[..., self.axis] = self.plane - vertices[..., self.axis]
        moved = compose(bones, inverse(skeleton.world_from_bone))[:, self.bone]
        return replace(
            poses,
            vertices=vertices,
            world_from_bone=compose(self._reflected(moved), skeleton.world_from_bone),
        )

    def _reflected(self, moved: np.ndarray) -> np.ndarray:
        """F M F of transforms (T,B,3,4)."""
        sign = np.ones(3)
        sign[self.axis] = -1
        offset = np.zeros(3)
        offset[self.axis] = self.plane
        result = moved.astype(np.float64)
        linear = sign[:, None] * result[..., :3] * sign
        # F (M (F x)) with F x = sign x + offset
        place = sign * (result[..., :3] @ offset + result[..., 3]) + offset
        return np.concatenate([linear, place[..., None]], axis=-1)

    def with_images(self, poses: Poses) -> Poses:
        """The clips, each followed by its image in the same span: 2 T poses.

        A clip and its image are then kept aside together.
        """
        parts, start = [], 0
        for span in poses.spans:
            clip = poses.take(np.arange(start, start + span.frame_count))
            parts += [clip, self.image(clip)]
            start += span.frame_count
        together = [part.need_bones("a mirror image")[1] for part in parts]
        return replace(
            poses,
            vertices=np.concatenate([part.vertices for part in parts]),
            world_from_bone=np.concatenate(together),
            spans=tuple(replace(span, frame_count=2 * span.frame_count) for span in poses.spans),
        )


def find_body_mirror(poses: Poses) -> BodyMirror | None:
    """The symmetry of recorded clips with bones; None if there is none or it does not help."""
    mirror = symmetry_of(poses)
    return mirror if mirror is not None and reduces_error(mirror, poses) else None


def symmetry_of(poses: Poses) -> BodyMirror | None:
    """The symmetry of mesh and skeleton; None if there is none, or too few clips to judge it."""
    skeleton: Skeleton | None = poses.skeleton
    if skeleton is None or poses.controls is not None or len(poses.spans) < _FEWEST_CLIPS:
        return None
    if 2 * 12 * poses.pose_count * poses.vertex_count > _MOST_BYTES:
        return None
    bone, axis = mirror_bones(skeleton)
    if axis < 0 or (bone == np.arange(len(bone))).all():
        return None
    twin = vertex_twins(poses.mesh, axis)
    if twin is None:
        return None
    across = poses.mesh.vertices[:, axis].astype(np.float64)
    return BodyMirror(axis, float(across.min() + across.max()), twin, bone)


def reduces_error(mirror: BodyMirror, poses: Poses) -> bool:
    """Whether images of the other clips lower the error on clips that are held out."""
    alone, both = held_out_errors(mirror, poses)
    return both < _CLEARLY_LESS * alone


def held_out_errors(mirror: BodyMirror, poses: Poses) -> tuple[float, float]:
    """The mean distances on held-out clips: learned without and with images of the others."""
    chosen = evenly(poses.pose_count, _POSES)
    clip = np.repeat(np.arange(len(poses.spans)), [span.frame_count for span in poses.spans])
    clip = clip[chosen]
    some = poses.take(chosen)
    vertices = evenly(poses.vertex_count, _VERTICES)
    # One bone per vertex, blended at the borders: what the image shows is then not in its weights.
    few = poses.take(evenly(poses.pose_count, _SKIN_POSES))
    bones = best_bone(rigid_errors(few, np.arange(few.pose_count)))
    skin = blended_skin(few, bones, _SKIN_RINGS)
    image = mirror.image(some)
    moved = np.concatenate([displace(part, skin, vertices) for part in (some, image)])
    joined = replace(
        some,
        vertices=np.concatenate([some.vertices, image.vertices]),
        world_from_bone=np.concatenate([some.world_from_bone, image.world_from_bone]),
        spans=(),
    )
    raw, units = pose_features(joined, "none")
    features = raw[:, units.columns].astype(np.float64)
    count, own = len(chosen), np.arange(len(chosen))
    totals = [0.0, 0.0]
    for fold in _folds(clip):
        test = np.isin(clip, fold)
        for with_images in (0, 1):
            fit = np.concatenate([own[~test], count + own[~test]]) if with_images else own[~test]
            error = _prediction_error(features, moved, fit, own[test])
            totals[with_images] += error * int(test.sum()) / count
    return totals[0], totals[1]


def _prediction_error(
    features: np.ndarray, moved: np.ndarray, fit: np.ndarray, test: np.ndarray
) -> float:
    """The mean distance of a kernel ridge regression, the least over widths and ridges.

    features   (T,X)
    moved      (T,n,3) displacements before skinning
    fit, test  numbers of poses
    """
    centre, spread = features[fit].mean(axis=0), np.maximum(features[fit].std(axis=0), 1e-9)
    x, y = ((features[rows] - centre) / spread for rows in (fit, test))
    mean = moved[fit].mean(axis=0)
    known = (moved[fit] - mean).reshape(len(fit), -1).astype(np.float64)
    squared = lambda a, b: np.maximum(
        np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2 * a @ b.T, 0
    )
    inner, across = squared(x, x), squared(y, x)
    middle = max(float(np.median(inner)), 1e-12)
    errors = []
    for width in _WIDTHS:
        kernel = np.exp(-inner / (width * middle)) + _RIDGE * np.eye(len(fit))
        weights = np.linalg.solve(kernel, np.exp(-across / (width * middle)).T).T
        found = (weights @ known).reshape(len(test), -1, 3) + mean
        errors.append(float(np.linalg.norm(found - moved[test], axis=2).mean()))
    return min(errors)


def _folds(clip: np.ndarray) -> list[np.ndarray]:
    """The clips that are held out together; every clip once."""
    clips = np.unique(clip)
    return np.array_split(clips, min(_MOST_FOLDS, len(clips)))
