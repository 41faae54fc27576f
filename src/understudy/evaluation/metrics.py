"""Every error measure of the papers, each a pure function with its formula. Distances are in model
units.

`ErrorSummary` gives the same numbers for animations too long to hold: add true and approximate
poses block by block. Letters: T poses, V vertices, E edges; y the true vertices, a the approximate
ones.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from understudy.core import checks
from understudy.core.error_summary import ErrorSummary, Seam, enveloping_ratio, pose_difference
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.geometry.transforms import compose
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors


def distances(true: np.ndarray, approx: np.ndarray) -> np.ndarray:
    """|y - a| of every vertex in every pose: (T,V,3), (T,V,3) -> (T,V) float64.

    >>> distances(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]])).tolist()
    [[5.0, 1.0]]
    """
    return np.linalg.norm(pose_difference(true, approx), axis=-1)


def mean_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """1/(TV) sum |y - a| (FDDA Tables 2 to 4).

    >>> mean_distance(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]]))
    3.0
    """
    return float(distances(true, approx).mean())


def max_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """max |y - a|: the worst single vertex of the worst pose (FDDA Tables 2 and 3).

    >>> max_distance(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]]))
    5.0
    """
    return float(distances(true, approx).max())


def percentile_distance(true: np.ndarray, approx: np.ndarray, percent: float) -> float:
    """The distance that `percent` of all T*V distances do not exceed, interpolated.

    >>> percentile_distance(np.zeros((1, 3, 3)), np.array([[[1, 0, 0], [2, 0, 0], [3, 0, 0]]]), 50)
    2.0
    """
    return float(np.percentile(distances(true, approx), checks.between(percent, "percent", 0, 100)))


def rms_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """sqrt(1/(TV) sum |y - a|^2).

    >>> rms_distance(np.zeros((1, 2, 3)), np.array([[[1, 0, 0], [7, 0, 0]]]))
    5.0
    """
    return float(np.sqrt(np.mean(distances(true, approx) ** 2)))


def percent_of_height(distance: float, mesh: Mesh) -> float:
    """100 distance / height, the mesh's extent along its up axis at rest.

    >>> percent_of_height(0.5, Mesh.from_faces([[0, 0, 0], [0, 2, 0], [1, 0, 0]], [[0, 1, 2]]))
    25.0
    """
    return 100.0 * float(distance) / mesh.height


def enveloping_error(true: np.ndarray, approx: np.ndarray, reference: np.ndarray) -> float:
    """EE = 100 sqrt(sum |y - a|^2 / sum |y - c|^2), in percent (Wang et al. 2007; FDDA Eq. 9). 100:
    no better than `reference`, c.

    c is the rest shape moved rigidly, each vertex by its best single bone (`best_bone_reference`).
    Where c has no error either, EE is 0 if the approximation has none and infinite if it has.

    >>> enveloping_error(np.zeros((1, 1, 3)), np.array([[[1, 0, 0]]]), np.array([[[2, 0, 0]]]))
    50.0
    """
    return enveloping_ratio(
        np.sum(pose_difference(true, approx) ** 2), np.sum(pose_difference(true, reference) ** 2)
    )


def decomposition_error(true: np.ndarray, approx: np.ndarray, rest: np.ndarray) -> float:
    """E = 1000 |A - A'|_F / sqrt(3 N F) * 2 / D: the root-mean-square coordinate error in
    thousandths of half the diagonal D of the rest shape's bounding box (Kavan et al. 2010; Le &
    Deng 2012 and the two-layer paper's Table 3, where rest shapes fit a unit sphere).

    rest  (N,3)

    >>> decomposition_error(np.zeros((1, 2, 3)), np.full((1, 2, 3), 0.5), np.array([[0, 0, 0], [3,
    ... 4, 0]]))
    200.0
    """
    return 2000.0 * _coordinate_rms(true, approx) / box_diagonal(rest)


def box_diagonal(points: np.ndarray) -> float:
    """The diagonal of the bounding box of points (V,3); a mesh squashed into one point has none,
    and is refused.

    >>> box_diagonal(np.array([[0, 0, 0], [3, 4, 0]]))
    5.0
    """
    diagonal = float(np.linalg.norm(np.ptp(np.asarray(points, np.float64), axis=0)))
    return checks.between(diagonal, "diagonal of the rest shape's bounding box", above=0.0)


def erms(true: np.ndarray, approx: np.ndarray) -> float:
    """ERMS = 100 |A - A'|_F / sqrt(3 N P) (temporal deep skinning Eq. 4), in hundredths of a model
    unit.

    >>> erms(np.zeros((1, 2, 3)), np.full((1, 2, 3), 0.5))
    50.0
    """
    return 100.0 * _coordinate_rms(true, approx)


def distortion_percentage(true: np.ndarray, approx: np.ndarray) -> float:
    """DisPer = 100 |A - A'|_F / |A - A_avg|_F, in percent (temporal deep skinning Eq. 3); A_avg is
    each vertex's average over the poses.

    Where nothing moves at all it is 0 if there is no error either, and infinite if there is.

    >>> distortion_percentage(np.array([[[1, 0, 0]], [[-1, 0, 0]]]), np.array([[[1, 0, 0]], [[0, 0,
    ... 0]]])).__round__(4)
    70.7107
    """
    error = float(np.sum(pose_difference(true, approx) ** 2))
    true = np.asarray(true, np.float64)
    return enveloping_ratio(error, float(np.sum((true - true.mean(axis=0)) ** 2)))


def max_average_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """MaxAvgDist = 1/P sum over poses of max over vertices |v - v'| (temporal deep skinning Eq. 5).

    >>> max_average_distance(np.zeros((2, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]], [[0, 0, 1], [0,
    ... 0, 0]]]))
    3.0
    """
    return float(distances(true, approx).max(axis=1).mean())


def normal_distortion(true: np.ndarray, approx: np.ndarray, triangles: np.ndarray) -> float:
    """NormDistort = asin(1/(F P) sum |n x n'|) in radians, n and n' the unit normals of the faces
    (temporal deep skinning Eq. 6).

    triangles  (M,3). A face without area, in either shape, has no normal and counts as not turned.

    >>> flat, upright = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]]), np.array([[[0, 0, 0], [1, 0,
    ... 0], [0, 0, 1]]])
    >>> normal_distortion(flat, upright, np.array([[0, 1, 2]])).__round__(4)
    1.5708
    """
    turned = normal_sines(true, approx, triangles)
    return float(np.arcsin(min(1.0, turned.mean()))) if turned.size else 0.0


def normal_sines(true: np.ndarray, approx: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """|n x n'| of every face in every pose, the sine of the angle it turned by: (T,M) float64."""
    pose_difference(true, approx)
    before, after = (
        _unit_normals(np.asarray(shape, np.float64), triangles) for shape in (true, approx)
    )
    return np.linalg.norm(np.cross(before, after), axis=-1)


def compression_rate(poses: int, vertices: int, bones: int, weights: int) -> float:
    """CRP = 100 (1 - (12 B P + w + 3 N) / (3 N P)), in percent: the numbers kept (bones of every
    frame, weights, rest shape) against those of the sequence (temporal deep skinning Table 2, whose
    figures it gives back; indices are not counted there).

    weights  how many weights the skin keeps: N K, and with virtual bones the entries of D besides

    >>> round(compression_rate(48, 8431, 26, 6 * 8431), 1), round(compression_rate(175, 9971, 17, 6
    ... * 9971), 1)
    (92.5, 97.6)
    """
    return 100.0 * (1.0 - (12 * bones * poses + weights + 3 * vertices) / (3 * vertices * poses))


def weight_error(weights, approx) -> float:
    """Delta_W = |DA - W|_F / sqrt(k n) (two-layer paper Eq. 1a): the root-mean-square difference of
    two weight maps, (V,B) dense or sparse.

    >>> weight_error(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]))
    0.5
    """
    shape = np.shape(weights)
    if shape != np.shape(approx) or len(shape) != 2 or not all(shape):
        raise InputError(
            f"weights to compare: expected two arrays of shape (V, B), got {shape} and "
            f"{np.shape(approx)}"
        )
    difference = weights - approx
    square = (
        difference.power(2).sum()
        if sp.issparse(difference)
        else np.sum(np.asarray(difference, np.float64) ** 2)
    )
    return float(np.sqrt(square / (shape[0] * shape[1])))


def best_bone_reference(poses: Poses, bones: np.ndarray | None = None) -> np.ndarray:
    """c of FDDA Eq. 10: every vertex moved rigidly with its best single bone of the whole skeleton
    over these poses: (T,V,3) float32.

    bones  (V,) the bone of each vertex, where it is already known
    """
    bones = best_bone(rigid_errors(poses)) if bones is None else bones
    return rigid_shape(poses, bones, poses.world_from_bone)


def best_bone_square(poses: Poses) -> float:
    """sum |y - c|^2 over `poses`, the denominator of EE, without forming c
    (`ErrorSummary.enveloping_error` takes it).
    """
    return float(rigid_errors(poses).min(axis=1).sum())


def rigid_shape(poses: Poses, bones: np.ndarray, world_from_bone: np.ndarray) -> np.ndarray:
    """Rest vertices moved by one bone each: X_b (X0_b)^-1 (v - t0_b) + t_b. bones (V,),
    world_from_bone (T,B,3,4) -> (T,V,3) float32.
    """
    skeleton = poses.need_skeleton("the rigid reference")
    bones = checks.index(bones, "bones", skeleton.bone_count, (poses.vertex_count,))
    matrix = compose(np.asarray(world_from_bone, np.float64), skeleton.bone_from_world)
    rest = np.column_stack([poses.mesh.vertices, np.ones(poses.vertex_count)])
    result = np.empty((len(matrix), poses.vertex_count, 3), np.float32)
    for bone in np.unique(bones):
        mine = np.flatnonzero(bones == bone)
        result[:, mine] = rest[mine] @ matrix[:, bone].transpose(0, 2, 1)
    return result


def log_histogram(values: np.ndarray, bins: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """FDDA Figures 6 and 7: how many distances fall in each of `bins` equal bins from 0 to the
    largest; counts go on a logarithmic axis.

    values  any shape
    returns edges (bins+1,) float64 and counts (bins,) int64

    >>> [a.tolist() for a in log_histogram(np.array([0.0, 1.0, 1.5, 2.0]), bins=2)]
    [[0.0, 1.0, 2.0], [1, 3]]
    """
    values = np.asarray(values, np.float64).reshape(-1)
    top = float(values.max(initial=0.0))
    counts, edges = np.histogram(
        values, bins=int(checks.between(bins, "bins", 1)), range=(0.0, top if top > 0 else 1.0)
    )
    return edges, counts.astype(np.int64)


def seam(true: np.ndarray, approx: np.ndarray, edges: np.ndarray, labels: np.ndarray) -> Seam:
    """Tears between separately learned groups: mean over edges (i,j) and poses of |e_i - e_j|, with
    e = a - y.

    edges   (E,2) vertex indices
    labels  (V,) the group of each vertex; an edge whose ends differ is a border edge

    >>> moved = np.array([[[0, 0, 0], [0, 0, 0], [1, 0, 0]]])
    >>> seam(np.zeros((1, 3, 3)), moved, np.array([[0, 1], [1, 2]]), np.array([0, 0, 1]))
    Seam(border=1.0, inner=0.0)
    """
    summary = ErrorSummary(edges=edges, labels=labels)
    summary.add(true, approx)
    return summary.seam


def _coordinate_rms(true: np.ndarray, approx: np.ndarray) -> float:
    difference = pose_difference(true, approx)
    if not difference.size:
        raise InputError("poses to compare: there are none")
    return float(np.sqrt(np.mean(difference**2)))


def _unit_normals(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """(T,M,3); a face without area has a zero normal."""
    corner = vertices[:, triangles]
    normal = np.cross(corner[:, :, 1] - corner[:, :, 0], corner[:, :, 2] - corner[:, :, 0])
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    return np.divide(normal, length, out=np.zeros_like(normal), where=length > 0)
