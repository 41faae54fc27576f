"""Every error measure of the papers, each a pure function with its formula. Distances are in model units.

`ErrorSummary` gives the same numbers for animations too long to hold: add true and approximate poses block by block.
Letters: T poses, V vertices, E edges; y the true vertices, a the approximate ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from understudy.core import checks
from understudy.core.deformer import Skin
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import compose
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors

# float32 bit patterns of positive numbers are ordered; cut to 10 bits of mantissa they are histogram bins 0.1% wide over the whole range.
_BIN_SHIFT = 13
_BIN_COUNT = (0x7F800000 >> _BIN_SHIFT) + 1  # the last one holds infinity


def distances(true: np.ndarray, approx: np.ndarray) -> np.ndarray:
    """|y - a| of every vertex in every pose: (T,V,3), (T,V,3) -> (T,V) float64.

    >>> distances(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]])).tolist()
    [[5.0, 1.0]]
    """
    return np.linalg.norm(_difference(true, approx), axis=-1)


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
    """EE = 100 sqrt(sum |y - a|^2 / sum |y - c|^2), in percent (Wang et al. 2007; FDDA Eq. 9). 100: no better than `reference`, c.

    c is the rest shape moved rigidly, each vertex by its best single bone (`best_bone_reference`). Where c has no error either, EE is 0 if the
    approximation has none and infinite if it has.

    >>> enveloping_error(np.zeros((1, 1, 3)), np.array([[[1, 0, 0]]]), np.array([[[2, 0, 0]]]))
    50.0
    """
    return _enveloping(np.sum(_difference(true, approx) ** 2), np.sum(_difference(true, reference) ** 2))


def decomposition_error(true: np.ndarray, approx: np.ndarray, rest: np.ndarray) -> float:
    """E = 1000 |A - A'|_F / sqrt(3 N F) * 2 / D: the root-mean-square coordinate error in thousandths of half the diagonal D of the rest shape's
    bounding box (Kavan et al. 2010; Le & Deng 2012 and the two-layer paper's Table 3, where rest shapes fit a unit sphere).

    rest  (N,3)

    >>> decomposition_error(np.zeros((1, 2, 3)), np.full((1, 2, 3), 0.5), np.array([[0, 0, 0], [3, 4, 0]]))
    200.0
    """
    return 2000.0 * _coordinate_rms(true, approx) / box_diagonal(rest)


def box_diagonal(points: np.ndarray) -> float:
    """The diagonal of the bounding box of points (V,3); a mesh squashed into one point has none, and is refused.

    >>> box_diagonal(np.array([[0, 0, 0], [3, 4, 0]]))
    5.0
    """
    diagonal = float(np.linalg.norm(np.ptp(np.asarray(points, np.float64), axis=0)))
    return checks.between(diagonal, "diagonal of the rest shape's bounding box", above=0.0)


def erms(true: np.ndarray, approx: np.ndarray) -> float:
    """ERMS = 100 |A - A'|_F / sqrt(3 N P) (temporal deep skinning Eq. 4), in hundredths of a model unit.

    >>> erms(np.zeros((1, 2, 3)), np.full((1, 2, 3), 0.5))
    50.0
    """
    return 100.0 * _coordinate_rms(true, approx)


def distortion_percentage(true: np.ndarray, approx: np.ndarray) -> float:
    """DisPer = 100 |A - A'|_F / |A - A_avg|_F, in percent (temporal deep skinning Eq. 3); A_avg is each vertex's average over the poses.

    Where nothing moves at all it is 0 if there is no error either, and infinite if there is.

    >>> distortion_percentage(np.array([[[1, 0, 0]], [[-1, 0, 0]]]), np.array([[[1, 0, 0]], [[0, 0, 0]]])).__round__(4)
    70.7107
    """
    error = float(np.sum(_difference(true, approx) ** 2))
    true = np.asarray(true, np.float64)
    return _enveloping(error, float(np.sum((true - true.mean(axis=0)) ** 2)))


def max_average_distance(true: np.ndarray, approx: np.ndarray) -> float:
    """MaxAvgDist = 1/P sum over poses of max over vertices |v - v'| (temporal deep skinning Eq. 5).

    >>> max_average_distance(np.zeros((2, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 0]]]))
    3.0
    """
    return float(distances(true, approx).max(axis=1).mean())


def normal_distortion(true: np.ndarray, approx: np.ndarray, triangles: np.ndarray) -> float:
    """NormDistort = asin(1/(F P) sum |n x n'|) in radians, n and n' the unit normals of the faces (temporal deep skinning Eq. 6).

    triangles  (M,3). A face without area, in either shape, has no normal and counts as not turned.

    >>> flat, upright = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]]), np.array([[[0, 0, 0], [1, 0, 0], [0, 0, 1]]])
    >>> normal_distortion(flat, upright, np.array([[0, 1, 2]])).__round__(4)
    1.5708
    """
    turned = normal_sines(true, approx, triangles)
    return float(np.arcsin(min(1.0, turned.mean()))) if turned.size else 0.0


def normal_sines(true: np.ndarray, approx: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """|n x n'| of every face in every pose, the sine of the angle it turned by: (T,M) float64."""
    _difference(true, approx)
    before, after = (_unit_normals(np.asarray(shape, np.float64), triangles) for shape in (true, approx))
    return np.linalg.norm(np.cross(before, after), axis=-1)


def compression_rate(poses: int, vertices: int, bones: int, weights: int) -> float:
    """CRP = 100 (1 - (12 B P + w + 3 N) / (3 N P)), in percent: the numbers kept (bones of every frame, weights, rest shape) against those of the
    sequence (temporal deep skinning Table 2, whose figures it gives back; indices are not counted there).

    weights  how many weights the skin keeps: N K, and with virtual bones the entries of D besides

    >>> round(compression_rate(48, 8431, 26, 6 * 8431), 1), round(compression_rate(175, 9971, 17, 6 * 9971), 1)
    (92.5, 97.6)
    """
    return 100.0 * (1.0 - (12 * bones * poses + weights + 3 * vertices) / (3 * vertices * poses))


def weight_error(weights, approx) -> float:
    """Delta_W = |DA - W|_F / sqrt(k n) (two-layer paper Eq. 1a): the root-mean-square difference of two weight maps, (V,B) dense or sparse.

    >>> weight_error(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]))
    0.5
    """
    shape = np.shape(weights)
    if shape != np.shape(approx) or len(shape) != 2 or not all(shape):
        raise InputError(f"weights to compare: expected two arrays of shape (V, B), got {shape} and {np.shape(approx)}")
    difference = weights - approx
    square = difference.power(2).sum() if sp.issparse(difference) else np.sum(np.asarray(difference, np.float64) ** 2)
    return float(np.sqrt(square / (shape[0] * shape[1])))


def skin_weights(skin: Skin, bone_count: int) -> sp.csr_matrix:
    """The weight map of a skin over its bones, (V,B) float64; virtual bones are multiplied out (D A of the two-layer paper).

    >>> skin_weights(Skin.rigid(np.array([1, 0])), 2).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if skin.virtual_index is None:
        return weight_matrix(skin.bone_index, skin.weight, bone_count).astype(np.float64)
    upper = weight_matrix(skin.bone_index, skin.weight, len(skin.virtual_index)).astype(np.float64)
    return sp.csr_matrix(upper @ weight_matrix(skin.virtual_index, skin.virtual_weight, bone_count).astype(np.float64))


def best_bone_reference(poses: Poses, bones: np.ndarray | None = None) -> np.ndarray:
    """c of FDDA Eq. 10: every vertex moved rigidly with its best single bone of the whole skeleton over these poses: (T,V,3) float32.

    bones  (V,) the bone of each vertex, where it is already known
    """
    bones = best_bone(rigid_errors(poses)) if bones is None else bones
    return rigid_shape(poses, bones, poses.world_from_bone)


def best_bone_square(poses: Poses) -> float:
    """sum |y - c|^2 over `poses`, the denominator of EE, without forming c (`ErrorSummary.enveloping_error` takes it)."""
    return float(rigid_errors(poses).min(axis=1).sum())


def rigid_shape(poses: Poses, bones: np.ndarray, world_from_bone: np.ndarray) -> np.ndarray:
    """Rest vertices moved by one bone each: X_b (X0_b)^-1 (v - t0_b) + t_b. bones (V,), world_from_bone (T,B,3,4) -> (T,V,3) float32."""
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
    """FDDA Figures 6 and 7: how many distances fall in each of `bins` equal bins from 0 to the largest; counts go on a logarithmic axis.

    values  any shape
    returns edges (bins+1,) float64 and counts (bins,) int64

    >>> [a.tolist() for a in log_histogram(np.array([0.0, 1.0, 1.5, 2.0]), bins=2)]
    [[0.0, 1.0, 2.0], [1, 3]]
    """
    values = np.asarray(values, np.float64).reshape(-1)
    top = float(values.max(initial=0.0))
    counts, edges = np.histogram(values, bins=int(checks.between(bins, "bins", 1)), range=(0.0, top if top > 0 else 1.0))
    return edges, counts.astype(np.int64)


class Seam(NamedTuple):
    """Mean |e_i - e_j| over the edges between groups and over the edges inside them; 0 where there are no such edges."""

    border: float
    inner: float


def seam(true: np.ndarray, approx: np.ndarray, edges: np.ndarray, labels: np.ndarray) -> Seam:
    """Tears between separately learned groups: mean over edges (i,j) and poses of |e_i - e_j|, with e = a - y.

    edges   (E,2) vertex indices
    labels  (V,) the group of each vertex; an edge whose ends differ is a border edge

    >>> moved = np.array([[[0, 0, 0], [0, 0, 0], [1, 0, 0]]])
    >>> seam(np.zeros((1, 3, 3)), moved, np.array([[0, 1], [1, 2]]), np.array([0, 0, 1]))
    Seam(border=1.0, inner=0.0)
    """
    summary = ErrorSummary(edges=edges, labels=labels)
    summary.add(true, approx)
    return summary.seam


class ErrorSummary:
    """Errors of poses that arrive block by block.

    height  for the figures in percent of it
    edges, labels  (E,2) and (V,): measure the seam too

    After `add`: mean, rms, max, percentile(q), worst_pose and worst_vertex (of the largest distance), vertex_mean and vertex_max (V,),
    pose_mean and pose_max (T,), seam. All exact except percentile, which is exact to 0.1% of its value.

    >>> summary = ErrorSummary(height=2.0)
    >>> summary.add(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]]))
    >>> summary.mean, summary.max, summary.worst_vertex, summary.figures()["mean_pct"]
    (3.0, 5.0, 0, 150.0)
    """

    def __init__(self, height: float | None = None, edges: np.ndarray | None = None, labels: np.ndarray | None = None):
        self.height = None if height is None else checks.between(height, "height", above=0.0)
        if (edges is None) != (labels is None):
            raise InputError("edges and labels come together: one of them is missing")
        self._edges = None
        if edges is not None:
            labels = checks.index(labels, "labels", 2**31)
            edges = checks.index(edges, "edges", len(labels), (None, 2))
            crosses = labels[edges[:, 0]] != labels[edges[:, 1]]
            self._edges = (edges[crosses], edges[~crosses])
            self._edge_sums = np.zeros(2)
        self._bins = np.zeros(_BIN_COUNT, np.int64)
        self._pose_mean: list[np.ndarray] = []
        self._pose_max: list[np.ndarray] = []
        self._vertex_sum: np.ndarray | None = None
        self._square = 0.0
        self.max = 0.0
        self.worst_pose = 0
        self.worst_vertex = 0
        self.pose_count = 0

    def add(self, true: np.ndarray, approx: np.ndarray) -> None:
        """One more block of poses: (t,V,3) each."""
        difference = _difference(true, approx)
        if difference.ndim != 3 or not difference.size:
            raise InputError(f"poses to compare: expected shape (t, V, 3) with at least one pose and vertex, got {difference.shape}")
        distance = np.linalg.norm(difference, axis=-1)
        distance[~np.isfinite(distance)] = np.inf  # a method that broke down is infinitely wrong, not unmeasured
        if self._vertex_sum is None:
            self._vertex_sum, self.vertex_max = np.zeros(distance.shape[1]), np.zeros(distance.shape[1])
        checks.same_count(distance.shape[1], len(self._vertex_sum), "vertices", "this block", "the blocks before")
        self._vertex_sum += distance.sum(axis=0)
        self._square += float(np.sum(distance**2))
        np.maximum(self.vertex_max, distance.max(axis=0), out=self.vertex_max)
        self._pose_mean.append(distance.mean(axis=1))
        self._pose_max.append(distance.max(axis=1))
        if distance.max() > self.max:
            pose, self.worst_vertex = (int(i) for i in np.unravel_index(distance.argmax(), distance.shape))
            self.worst_pose, self.max = self.pose_count + pose, float(distance.max())
        bits = distance.astype(np.float32).reshape(-1).view(np.uint32) >> _BIN_SHIFT
        self._bins += np.bincount(bits, minlength=_BIN_COUNT)
        if self._edges is not None:
            for kind, edges in enumerate(self._edges):
                self._edge_sums[kind] += np.linalg.norm(difference[:, edges[:, 0]] - difference[:, edges[:, 1]], axis=-1).sum()
        self.pose_count += len(distance)

    @property
    def count(self) -> int:
        """How many distances have been measured, T*V."""
        if self._vertex_sum is None:
            raise InputError("no poses have been compared yet; call add first")
        return self.pose_count * len(self._vertex_sum)

    @property
    def mean(self) -> float:
        count = self.count  # first: it says so where nothing was added
        return float(self._vertex_sum.sum() / count)

    @property
    def rms(self) -> float:
        return float(np.sqrt(self._square / self.count))

    @property
    def vertex_mean(self) -> np.ndarray:
        return self._vertex_sum / self.pose_count

    @property
    def pose_mean(self) -> np.ndarray:
        return np.concatenate(self._pose_mean)

    @property
    def pose_max(self) -> np.ndarray:
        return np.concatenate(self._pose_max)

    def percentile(self, percent: float) -> float:
        """The distance that `percent` of all distances do not exceed, to 0.1%."""
        rank = checks.between(percent, "percent", 0, 100) / 100 * (self.count - 1)
        found = int(np.searchsorted(np.cumsum(self._bins), rank, side="right"))
        low, high = (np.array([found, found + 1], np.uint32) << _BIN_SHIFT).view(np.float32)
        return 0.0 if found == 0 else min(float(np.sqrt(float(low) * float(high))), self.max)

    @property
    def p99(self) -> float:
        return self.percentile(99)

    @property
    def seam(self) -> Seam:
        if self._edges is None:
            raise InputError("the seam was not measured; pass edges and labels to ErrorSummary")
        edges = (len(e) * self.pose_count for e in self._edges)
        return Seam(*(float(total / n) if n else 0.0 for total, n in zip(self._edge_sums, edges)))

    def enveloping_error(self, reference_square: float) -> float:
        """FDDA Eq. 9 with the denominator of `best_bone_square`."""
        return _enveloping(self._square, reference_square)

    def histogram(self, bins: int = 50) -> tuple[np.ndarray, np.ndarray]:
        """`log_histogram` of all finite distances, each placed to 0.1%: edges (bins+1,), counts (bins,)."""
        used = np.flatnonzero(self._bins[:-1])
        middle = (((2 * used.astype(np.uint64) + 1) << _BIN_SHIFT) // 2).astype(np.uint32).view(np.float32).astype(np.float64)
        top = self.max if np.isfinite(self.max) else float(middle.max(initial=0.0))
        top = top if top > 0 else 1.0
        counts, edges = np.histogram(np.minimum(np.where(used == 0, 0.0, middle), top), bins=bins, range=(0.0, top), weights=self._bins[used])
        return edges, counts.astype(np.int64)

    def figures(self) -> dict[str, float]:
        """The figures of a report row by name: mean, max, p99, rms; the percentages where the height is known; seam where it was measured."""
        result = {"mean": self.mean, "max": self.max, "p99": self.p99, "rms": self.rms}
        if self.height is not None:
            result |= {"mean_pct": 100 * self.mean / self.height, "max_pct": 100 * self.max / self.height}
        if self._edges is not None:
            result |= {"seam": self.seam.border, "seam_inner": self.seam.inner}
        return result


def _difference(true: np.ndarray, approx: np.ndarray) -> np.ndarray:
    true, approx = np.asarray(true, np.float64), np.asarray(approx, np.float64)
    if true.shape != approx.shape or true.shape[-1:] != (3,):
        raise InputError(f"poses to compare: expected two arrays of shape (T, V, 3), got {true.shape} and {approx.shape}")
    return approx - true


def _coordinate_rms(true: np.ndarray, approx: np.ndarray) -> float:
    difference = _difference(true, approx)
    if not difference.size:
        raise InputError("poses to compare: there are none")
    return float(np.sqrt(np.mean(difference**2)))


def _unit_normals(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """(T,M,3); a face without area has a zero normal."""
    corner = vertices[:, triangles]
    normal = np.cross(corner[:, :, 1] - corner[:, :, 0], corner[:, :, 2] - corner[:, :, 0])
    length = np.linalg.norm(normal, axis=-1, keepdims=True)
    return np.divide(normal, length, out=np.zeros_like(normal), where=length > 0)


def _enveloping(error_square: float, reference_square: float) -> float:
    if reference_square > 0:
        return 100.0 * float(np.sqrt(error_square / reference_square))
    return 0.0 if error_square == 0 else float("inf")
