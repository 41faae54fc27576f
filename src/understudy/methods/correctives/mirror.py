"""Mirror images of recorded poses, for meshes and controls that are symmetric.

A recorded rig cannot be asked for more poses. Faces, however, are usually symmetric: exchange the
values of left and right controls, and the mesh becomes its mirror image. So every pose yields a
second one. Which control corresponds to which, and whether its sign changes, is found from the
data:

    vertices    the mirror image of each rest vertex is another vertex, its twin
    controls    in a linear map from controls to vertices, the mirrored effect of a control is that
                of its twin, or its negative
    validation  held-out poses are predicted better if mirror images join the training poses; the
                predictor is a kernel ridge regression

A control whose sign changes is mirrored about its rest value. There is no mirror where any of this
fails, or where vertices coincide, since the rest shape does not tell their twins apart.

Letters: T poses, V vertices, C controls, n sampled vertices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.methods.correctives.ridge import ridge_regression
from understudy.training.held_out import held_out_blocks

_TWIN_DISTANCE = 1e-3  # of the height: largest distance of a mirror image from the twin
_SIMILARITY = 0.8  # smallest similarity of the mirrored effect of a control and that of its twin
_SAMPLED_VERTICES = 300
_SAMPLED_POSES = 1500
_FEWEST_POSES = 10
# Mirror images must reduce the held-out error to this fraction. Those of a rig that is only nearly
# symmetric do not.
_LARGEST_ERROR_RATIO = 0.9
_EXACT = 1e-5  # of the height: smaller errors cannot be improved
_KERNEL_WIDTH, _KERNEL_RIDGE = 0.15, 0.01
_MOST_BYTES = 1 << 30  # of the vertices with their mirror images


@dataclass(frozen=True, eq=False)
class Mirror:
    """A symmetry of mesh and controls.

    axis     0, 1 or 2: the x, y or z coordinate changes its sign
    twin     (V,) the vertex at the mirror image of each vertex
    control  (C,) the control whose value each control takes, relative to rest
    sign     (C,) 1 or -1, the factor of that value
    rest     (C,) rest values of the controls
    """

    axis: int
    twin: np.ndarray
    control: np.ndarray
    sign: np.ndarray
    rest: np.ndarray

    def with_images(self, poses: Poses) -> Poses:
        """The poses, followed by their mirror images."""
        given, rest = poses.read_poses(0, poses.pose_count), poses.mesh.vertices
        vertices = np.concatenate([given, rest + mirrored(given - rest, self.axis, self.twin)])
        _, controls = poses.need_controls("a mirror image")
        return replace(
            poses,
            vertices=vertices,
            controls=np.concatenate([controls, self.controls(controls)]),
            spans=(),
            frame_rate=None,
        )

    def controls(self, values: np.ndarray) -> np.ndarray:
        """The controls of the mirror images: (T,C) -> (T,C)."""
        return self.rest + (values - self.rest)[:, self.control] * self.sign


def mirrored(displacements: np.ndarray, axis: int, twin: np.ndarray) -> np.ndarray:
    """Mirrored displacements: (T,n,3) -> (T,n,3), with twins (n,) among the n vertices."""
    image = displacements[:, twin]
    image[..., axis] *= -1
    return image


def find_mirror(poses: Poses) -> Mirror | None:
    """The symmetry of poses driven by controls alone; None if there is none or it does not help."""
    spec, every_control = poses.control_spec, poses.controls
    if spec is None or every_control is None or spec.rest is None or poses.skeleton is not None:
        return None
    if 2 * 12 * poses.pose_count * poses.vertex_count > _MOST_BYTES:
        return None
    chosen = evenly(poses.pose_count, _SAMPLED_POSES)
    if len(chosen) < _FEWEST_POSES:
        return None
    sample, controls = poses.take(chosen), every_control[chosen]
    for axis in range(3):
        twin = vertex_twins(poses.mesh, axis)
        if twin is None:
            continue
        some = evenly(poses.vertex_count, _SAMPLED_VERTICES)
        some = np.unique(np.concatenate([some, twin[some]]))
        own = np.searchsorted(some, twin[some])
        displacements = sample.read_vertices(some).astype(np.float64) - poses.mesh.vertices[some]
        pairs = _control_twins(controls, displacements, axis, own)
        if pairs is None:
            continue
        mirror = Mirror(axis, twin, *pairs, spec.rest)
        if _reduces_error(mirror, controls, displacements, own, poses.mesh.height):
            return mirror
    return None


def vertex_twins(mesh: Mesh, axis: int) -> np.ndarray | None:
    """The vertex at the mirror image of each vertex, (V,); None if some have none.

    >>> tent = Mesh.from_faces([[-1, 0, 0], [1, 0, 0], [0, 2, 0]], [[0, 1, 2]])
    >>> vertex_twins(tent, 0).tolist(), vertex_twins(tent, 1)
    ([1, 0, 2], None)
    """
    points = mesh.vertices.astype(np.float64)
    images = points.copy()
    images[:, axis] = points[:, axis].min() + points[:, axis].max() - points[:, axis]
    distance, twin = cKDTree(points).query(images)
    everything = np.arange(len(twin))
    if distance.max() > _TWIN_DISTANCE * mesh.height or not np.array_equal(twin[twin], everything):
        return None
    # In a mesh that lies in the mirror plane, every vertex would be its own twin.
    return twin if (twin != everything).any() else None


def _control_twins(
    controls: np.ndarray, displacements: np.ndarray, axis: int, twin: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The twin (C,) and sign (C,) of each control; None if the controls do not form pairs.

    controls       (T,C)
    displacements  (T,n,3) of the sampled vertices
    twin           (n,) among them
    """
    spread = controls.std(axis=0)
    weight, _ = ridge_regression(
        (controls - controls.mean(axis=0)) / np.maximum(spread, 1e-12),
        displacements.reshape(len(displacements), -1),
    )
    effects = weight.T.reshape(controls.shape[1], -1, 3)
    images = mirrored(effects, axis, twin).reshape(len(effects), -1)
    flat = effects.reshape(len(effects), -1)
    size = np.maximum(np.square(flat).sum(axis=1), 1e-30)
    # 1 only where direction and size are both equal.
    similarity = 2 * flat @ images.T / (size[:, None] + size)
    own, partner = linear_sum_assignment(-np.abs(similarity))
    matched = similarity[own, partner]
    # A control without a similar one is its own twin; the validation decides whether that holds.
    partner = np.where(np.abs(matched) > _SIMILARITY, partner, own)
    sign = np.where(matched < -_SIMILARITY, -1.0, 1.0)
    paired = np.array_equal(partner[partner], own) and np.array_equal(sign[partner], sign)
    return (partner, sign) if paired and (np.abs(matched) > _SIMILARITY).any() else None


def _reduces_error(
    mirror: Mirror, controls: np.ndarray, displacements: np.ndarray, twin: np.ndarray, height: float
) -> bool:
    """Whether mirror images in the training set reduce the error on held-out poses."""
    held_out = held_out_blocks(len(controls))
    x, y = controls[~held_out], displacements[~held_out]
    x_test, y_test = controls[held_out], displacements[held_out]
    alone = _prediction_error(x, y, x_test, y_test)
    both = _prediction_error(
        np.concatenate([x, mirror.controls(x)]),
        np.concatenate([y, mirrored(y, mirror.axis, twin)]),
        x_test,
        y_test,
    )
    return alone > _EXACT * height and both < _LARGEST_ERROR_RATIO * alone


def _prediction_error(
    x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray
) -> float:
    """Mean distance on test poses (t,C), (t,n,3) of a predictor trained on (T,C), (T,n,3).

    The predictor is a linear map plus a kernel ridge regression of its residual.
    """
    centre, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
    x, x_test = (x - centre) / spread, (x_test - centre) / spread
    y = y.reshape(len(y), -1)
    weight, bias = ridge_regression(x, y)
    dual = np.linalg.solve(_kernel(x, x) + _KERNEL_RIDGE * np.eye(len(x)), y - x @ weight.T - bias)
    predicted = x_test @ weight.T + bias + _kernel(x_test, x) @ dual
    return float(np.linalg.norm(predicted.reshape(y_test.shape) - y_test, axis=2).mean())


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Gaussian kernel between rows, (p,C) and (q,C) -> (p,q); its width grows with C."""
    square = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2 * a @ b.T
    return np.exp(-_KERNEL_WIDTH / a.shape[1] * np.maximum(square, 0))
