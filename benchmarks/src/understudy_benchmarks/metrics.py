"""The error metrics of the papers, each a pure function with its formula.

`understudy.evaluation.measure` computes the same numbers block by block, for animations that do not
fit into memory, and is tested against these.

Letters: T poses, V vertices, E edges, M triangles; y the true vertices, a the approximate ones.
Distances are in the unit of the mesh. Papers are named by their methods: FDDA is Bailey et al.
2018, two-layer is Le & Deng 2013, temporal deep skinning is Moutafidou et al.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from understudy.core.error_summary import ErrorSummary, Seam, enveloping_ratio, pose_difference
from understudy.core.poses import Poses
from understudy.evaluation.measure import normal_sines, relative_to_box
from understudy.geometry.transforms import compose
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors
from understudy.system import checks
from understudy.system.errors import InputError


def distances(true: np.ndarray, approx: np.ndarray) -> np.ndarray:
    """|y - a| of every vertex in every pose: (T,V,3), (T,V,3) -> (T,V) float64.

    >>> distances(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]])).tolist()
    [[5.0, 1.0]]
    """
    return np.linalg.norm(pose_difference(true, approx), axis=-1)


def mean_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """1/(TV) sum |y - a| (FDDA Tables 2 to 4).

    true, approx  (T,V,3)

    >>> mean_distance(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]]))
    3.0
    """
    return float(distances(true, approx).mean())


def max_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """max |y - a|, the worst vertex of the worst pose (FDDA Tables 2 and 3).

    true, approx  (T,V,3)

    >>> max_distance(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]]))
    5.0
    """
    return float(distances(true, approx).max())


def rms_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """sqrt(1/(TV) sum |y - a|^2).

    true, approx  (T,V,3)

    >>> rms_distance(np.zeros((1, 2, 3)), np.array([[[1, 0, 0], [7, 0, 0]]]))
    5.0
    """
    return float(np.sqrt(np.mean(distances(true, approx) ** 2)))


def enveloping_error(true: np.ndarray, approx: np.ndarray, reference: np.ndarray) -> float:
    """EE = 100 sqrt(sum |y - a|^2 / sum |y - c|^2), in percent (Wang et al. 2007; FDDA Eq. 9).

    true, approx  (T,V,3)
    reference     c, (T,V,3): each vertex moved rigidly with its best bone (`best_bone_reference`)

    100 means no better than the reference. If the reference has no error, EE is 0 if the
    approximation has none either, else infinite.

    >>> enveloping_error(np.zeros((1, 1, 3)), np.array([[[1, 0, 0]]]), np.array([[[2, 0, 0]]]))
    50.0
    """
    return enveloping_ratio(
        np.sum(pose_difference(true, approx) ** 2), np.sum(pose_difference(true, reference) ** 2)
    )


def decomposition_error(true: np.ndarray, approx: np.ndarray, rest: np.ndarray) -> float:
    """E = 1000 |A - A'|_F / sqrt(3 V T) * 2 / D, with D the diagonal of the rest pose's box.

    The root-mean-square error of a coordinate in thousandths of half that diagonal (Kavan et al.
    2010; Le & Deng 2012; two-layer Table 3, where the rest poses fit into a unit sphere).

    true, approx  (T,V,3)
    rest          (V,3)

    >>> rest = np.array([[0, 0, 0], [3, 4, 0]])
    >>> decomposition_error(np.zeros((1, 2, 3)), np.full((1, 2, 3), 0.5), rest)
    200.0
    """
    return relative_to_box(_coordinate_rms(true, approx), rest)


def erms(true: np.ndarray, approx: np.ndarray) -> float:
    """ERMS = 100 |A - A'|_F / sqrt(3 V T), in hundredths of a unit (temporal deep skinning Eq. 4).

    true, approx  (T,V,3)

    >>> erms(np.zeros((1, 2, 3)), np.full((1, 2, 3), 0.5))
    50.0
    """
    return 100.0 * _coordinate_rms(true, approx)


def distortion_percentage(true: np.ndarray, approx: np.ndarray) -> float:
    """DisPer = 100 |A - A'|_F / |A - A_avg|_F, in percent (temporal deep skinning Eq. 3).

    true, approx  (T,V,3); A_avg is the average of each vertex over the poses

    If nothing moves, it is 0 if there is no error either, else infinite.

    >>> true = np.array([[[1, 0, 0]], [[-1, 0, 0]]])
    >>> approx = np.array([[[1, 0, 0]], [[0, 0, 0]]])
    >>> round(distortion_percentage(true, approx), 4)
    70.7107
    """
    error = float(np.sum(pose_difference(true, approx) ** 2))
    true = np.asarray(true, np.float64)
    return enveloping_ratio(error, float(np.sum((true - true.mean(axis=0)) ** 2)))


def max_average_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """MaxAvgDist = 1/T sum over poses of max over vertices |y - a| (temporal deep skinning Eq. 5).

    true, approx  (T,V,3)

    >>> approx = np.array([[[3, 4, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 0]]])
    >>> max_average_distance(np.zeros((2, 2, 3)), approx)
    3.0
    """
    return float(distances(true, approx).max(axis=1).mean())


def normal_distortion(true: np.ndarray, approx: np.ndarray, triangles: np.ndarray) -> float:
    """NormDistort = asin(1/(M T) sum |n x n'|), in radians (temporal deep skinning Eq. 6).

    true, approx  (T,V,3); n and n' are the unit normals of their faces
    triangles     (M,3)

    A face without area has no normal and counts as not rotated.

    >>> flat = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]])
    >>> upright = np.array([[[0, 0, 0], [1, 0, 0], [0, 0, 1]]])
    >>> round(normal_distortion(flat, upright, np.array([[0, 1, 2]])), 4)
    1.5708
    """
    sines = normal_sines(true, approx, triangles)
    return float(np.arcsin(min(1.0, sines.mean()))) if sines.size else 0.0


def weight_error(weights, approx) -> float:
    """Delta_W = |DA - W|_F / sqrt(V B), the RMS difference of two weight maps (two-layer Eq. 1a).

    weights, approx  (V,B), dense or sparse

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
    """c of FDDA Eq. 10, (T,V,3) float32: each rest vertex moved rigidly with its best single bone.

    bones  (V,) the bone of each vertex; None: the best one of the whole skeleton over these poses
    """
    skeleton = poses.need_skeleton("the rigid reference")
    bones = best_bone(rigid_errors(poses)) if bones is None else bones
    bones = checks.index(bones, "bones", skeleton.bone_count, (poses.vertex_count,))
    matrix = compose(np.asarray(poses.world_from_bone, np.float64), skeleton.bone_from_world)
    rest = np.column_stack([poses.mesh.vertices, np.ones(poses.vertex_count)])
    result = np.empty((len(matrix), poses.vertex_count, 3), np.float32)
    for bone in np.unique(bones):
        mine = np.flatnonzero(bones == bone)
        result[:, mine] = rest[mine] @ matrix[:, bone].transpose(0, 2, 1)
    return result


def log_histogram(values: np.ndarray, bins: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Edges (bins+1,) float64 and counts (bins,) int64 of equal bins from 0 to the largest value.

    FDDA Figures 6 and 7 show the counts on a logarithmic axis.

    values  of any shape

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
    """Mean over edges (i,j) and poses of |e_i - e_j| with e = a - y, between and within regions.

    true, approx  (T,V,3)
    edges         (E,2) vertex indices
    labels        (V,) the region of each vertex; an edge between two regions is a border edge

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
