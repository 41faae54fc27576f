"""Recorded poses of a symmetric rig, and each of them once more as a mirror shows it.

A rig that was only recorded cannot be asked for more poses. But a face is as a rule the same left
and right: put every control's value on its twin, and the mesh is the mirror image. So each pose is
worth two. Which control is whose twin, and whether it turns its sign, nobody says; it is found:

    vertices   each one's mirror image at rest is another vertex
    controls   of the linear map from controls to vertices, mirrored, a control's part is that of
               its twin, or its negative
    proof      poses kept aside are predicted better when mirror images are learned too (by kernel
               ridge regression, which takes a second)

A control that turns its sign does so about the value it rests at. Where anything does not fit,
there is no mirror; nor where vertices coincide, since which of them is whose twin the rest shape
does not say.

Letters: T poses, V vertices, C controls, n vertices that are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.methods.differential.ridge import ridge_regression

_APART = 1e-3  # of the height: how far a mirror image may lie from the twin
_ALIKE = 0.8  # likeness of what a control does and what its twin does, mirrored
_LOOKED_AT = 300  # vertices
_TRIED = 1500  # poses
_ASIDE = 5  # one of so many is kept aside for the proof
# of the error on the poses kept aside, what mirror images must leave; of a rig that is nearly
# symmetric they leave more
_GAIN = 0.9
_EXACT = 1e-5  # of the height: nothing is left to gain
_KERNEL_WIDTH, _KERNEL_RIDGE = 0.15, 0.01
_MOST_BYTES = 1 << 30  # of the vertices with their mirror images


@dataclass(frozen=True, eq=False)
class Mirror:
    """axis: 0, 1 or 2 for x, y or z; twin (V,); control (C,): whose distance from rest each control
    takes, times sign (C,); rest (C,).
    """

    axis: int
    twin: np.ndarray
    control: np.ndarray
    sign: np.ndarray
    rest: np.ndarray

    def with_images(self, poses: Poses) -> Poses:
        """The poses, then their mirror images."""
        given, rest = poses.read_poses(0, poses.pose_count), poses.mesh.vertices
        vertices = np.concatenate([given, rest + mirrored(given - rest, self.axis, self.twin)])
        return replace(
            poses,
            vertices=vertices,
            controls=np.concatenate([poses.controls, self.controls(poses.controls)]),
            spans=(),
            frame_rate=None,
        )

    def controls(self, values: np.ndarray) -> np.ndarray:
        """(T,C) -> (T,C)."""
        return self.rest + (values - self.rest)[:, self.control] * self.sign


def mirrored(moved: np.ndarray, axis: int, twin: np.ndarray) -> np.ndarray:
    """Displacements (T,n,3) -> (T,n,3), `twin` (n,) among the n."""
    image = moved[:, twin]
    image[..., axis] *= -1
    return image


def find_mirror(poses: Poses) -> Mirror | None:
    """The mirror that poses driven by controls alone are symmetric about; None: there is none, or
    it would not pay.
    """
    if (
        poses.controls is None
        or poses.skeleton is not None
        or 2 * 12 * poses.pose_count * poses.vertex_count > _MOST_BYTES
    ):
        return None
    tried = poses.take(evenly(poses.pose_count, _TRIED))
    if tried.pose_count < 2 * _ASIDE:
        return None
    for axis in range(3):
        twin = vertex_twins(poses.mesh, axis)
        if twin is None:
            continue
        some = evenly(poses.vertex_count, _LOOKED_AT)
        some = np.unique(np.concatenate([some, twin[some]]))
        own = np.searchsorted(some, twin[some])
        moved = tried.vertices[:, some].astype(np.float64) - poses.mesh.vertices[some]
        pairs = _control_twins(tried.controls, moved, axis, own)
        if pairs is None:
            continue
        mirror = Mirror(axis, twin, *pairs, poses.control_spec.rest)
        if _pays(mirror, tried.controls, moved, own, poses.mesh.height):
            return mirror
    return None


def vertex_twins(mesh: Mesh, axis: int) -> np.ndarray | None:
    """(V,) the vertex at each one's mirror image; None: some have none.

    >>> tent = Mesh.from_faces([[-1, 0, 0], [1, 0, 0], [0, 2, 0]], [[0, 1, 2]])
    >>> vertex_twins(tent, 0).tolist(), vertex_twins(tent, 1)
    ([1, 0, 2], None)
    """
    points = mesh.vertices.astype(np.float64)
    images = points.copy()
    images[:, axis] = points[:, axis].min() + points[:, axis].max() - points[:, axis]
    apart, twin = cKDTree(points).query(images)
    if apart.max() > _APART * mesh.height or not np.array_equal(twin[twin], np.arange(len(twin))):
        return None
    # In a flat mesh every vertex would be its own twin.
    return twin if (twin != np.arange(len(twin))).any() else None


def _control_twins(
    controls: np.ndarray, moved: np.ndarray, axis: int, twin: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(C,) twins and (C,) signs, by what each control (T,C) does to vertices moved (T,n,3) when all
    are linear; None: they make no pairs.
    """
    spread = controls.std(axis=0)
    weight, _ = ridge_regression(
        (controls - controls.mean(axis=0)) / np.maximum(spread, 1e-12),
        moved.reshape(len(moved), -1),
    )
    fields = weight.T.reshape(controls.shape[1], -1, 3)
    fields, images = (
        part.reshape(len(part), -1) for part in (fields, mirrored(fields, axis, twin))
    )
    size = np.maximum(np.square(fields).sum(axis=1), 1e-30)
    likeness = (
        2 * fields @ images.T / (size[:, None] + size)
    )  # in direction and in size: 1 only where both are the same
    own, partner = linear_sum_assignment(-np.abs(likeness))
    alike = likeness[own, partner]
    # What a control does that is like no other's is chance, or the proof will tell.
    partner, sign = (
        np.where(np.abs(alike) > _ALIKE, partner, own),
        np.where(alike < -_ALIKE, -1.0, 1.0),
    )
    paired = np.array_equal(partner[partner], own) and np.array_equal(sign[partner], sign)
    return (partner, sign) if paired and (np.abs(alike) > _ALIKE).any() else None


def _pays(
    mirror: Mirror, controls: np.ndarray, moved: np.ndarray, twin: np.ndarray, height: float
) -> bool:
    """Whether kept-aside poses are predicted better when the others' mirror images are learned
    too.
    """
    aside = np.arange(len(controls)) % _ASIDE == 0
    x, y = controls[~aside], moved[~aside]
    images = (
        np.concatenate([x, mirror.controls(x)]),
        np.concatenate([y, mirrored(y, mirror.axis, twin)]),
    )
    alone, both = (_error(*learned, controls[aside], moved[aside]) for learned in ((x, y), images))
    return alone > _EXACT * height and both < _GAIN * alone


def _error(x: np.ndarray, y: np.ndarray, x_aside: np.ndarray, y_aside: np.ndarray) -> float:
    """Mean distance left on the poses aside (t,C), (t,n,3) by what was learned of (T,C), (T,n,3): a
    linear map, and by kernels what that leaves.
    """
    centre, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
    x, x_aside = (x - centre) / spread, (x_aside - centre) / spread
    y = y.reshape(len(y), -1)
    weight, bias = ridge_regression(x, y)
    left = np.linalg.solve(_kernel(x, x) + _KERNEL_RIDGE * np.eye(len(x)), y - x @ weight.T - bias)
    told = x_aside @ weight.T + bias + _kernel(x_aside, x) @ left
    return float(np.linalg.norm(told.reshape(y_aside.shape) - y_aside, axis=2).mean())


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(p,q): Gaussian of the distance between rows, its width fit for as many standardised
    controls.
    """
    square = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1) - 2 * a @ b.T
    return np.exp(-_KERNEL_WIDTH / a.shape[1] * np.maximum(square, 0))
