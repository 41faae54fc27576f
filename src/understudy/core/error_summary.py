"""`ErrorSummary`: distances between true and approximate poses, added in blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.system import checks
from understudy.system.errors import InputError

# Bit patterns of positive float32 numbers are ordered. Cut to 10 bits of mantissa, they are
# histogram bins 0.1 % wide over the whole range.
_BIN_SHIFT = 13
_BIN_COUNT = (0x7F800000 >> _BIN_SHIFT) + 1  # the last one holds infinity


class Seam(NamedTuple):
    """Mean |e_i - e_j| over edges (i,j), e being the error vectors; 0 if there are no such edges.

    border  over the edges between groups
    inner   over the edges inside groups
    """

    border: float
    inner: float


class ErrorSummary:
    """Distances between true and approximate poses, added in blocks with `add`.

    height  for figures in percent of it, or None
    edges   (E,2) vertex indices and labels (V,) groups, to measure the seam; or both None

    All results are exact, except that percentiles have a tolerance of 0.1 % of their value. The
    largest distance is `max`, at `worst_pose` and `worst_vertex`.

    >>> summary = ErrorSummary(height=2.0)
    >>> summary.add(np.zeros((1, 2, 3)), np.array([[[3, 4, 0], [0, 0, 1]]]))
    >>> summary.mean, summary.max, summary.worst_vertex, summary.figures()["mean_pct"]
    (3.0, 5.0, 0, 150.0)
    """

    def __init__(
        self,
        height: float | None = None,
        edges: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ):
        self.height = None if height is None else checks.between(height, "height", above=0.0)
        if (edges is None) != (labels is None):
            raise InputError("edges and labels belong together: one of them is missing")
        self._edges: tuple[np.ndarray, np.ndarray] | None = None
        if edges is not None:
            labels = checks.index(labels, "labels", 2**31)
            edges = checks.index(edges, "edges", len(labels), (None, 2))
            crosses = labels[edges[:, 0]] != labels[edges[:, 1]]
            self._edges = (edges[crosses], edges[~crosses])
            self._edge_sums = np.zeros(2)
        self._bins = np.zeros(_BIN_COUNT, np.int64)
        self._pose_mean: list[np.ndarray] = []
        self._pose_max: list[np.ndarray] = []
        self._vertex_sum = np.zeros(0)
        self.vertex_max = np.zeros(0)
        self._square = 0.0
        self.max = 0.0
        self.worst_pose = 0
        self.worst_vertex = 0
        self.pose_count = 0

    def add(self, true: np.ndarray, approx: np.ndarray) -> None:
        """Add a block of poses: true and approx, (t,V,3) each."""
        difference = pose_difference(true, approx)
        if difference.ndim != 3 or not difference.size:
            raise InputError(
                f"poses to compare: expected shape (t, V, 3) with at least one pose and vertex, "
                f"got {difference.shape}"
            )
        distance = np.linalg.norm(difference, axis=-1)
        # NaN counts as an infinite error, so that a method that fails is not left out.
        distance[~np.isfinite(distance)] = np.inf
        if not self.pose_count:
            self._vertex_sum = np.zeros(distance.shape[1])
            self.vertex_max = np.zeros(distance.shape[1])
        checks.same_count(
            distance.shape[1], len(self._vertex_sum), "vertices", "this block", "the blocks before"
        )
        self._vertex_sum += distance.sum(axis=0)
        self._square += float(np.sum(distance**2))
        np.maximum(self.vertex_max, distance.max(axis=0), out=self.vertex_max)
        self._pose_mean.append(distance.mean(axis=1))
        self._pose_max.append(distance.max(axis=1))
        if distance.max() > self.max:
            pose, self.worst_vertex = divmod(int(distance.argmax()), distance.shape[1])
            self.worst_pose, self.max = self.pose_count + pose, float(distance.max())
        bits = distance.astype(np.float32).reshape(-1).view(np.uint32) >> _BIN_SHIFT
        self._bins += np.bincount(bits, minlength=_BIN_COUNT)
        if self._edges is not None:
            for kind, edges in enumerate(self._edges):
                jump = difference[:, edges[:, 0]] - difference[:, edges[:, 1]]
                self._edge_sums[kind] += np.linalg.norm(jump, axis=-1).sum()
        self.pose_count += len(distance)

    @property
    def count(self) -> int:
        """How many distances have been added, T*V."""
        if not self.pose_count:
            raise InputError("no poses have been compared yet; call add first")
        return self.pose_count * len(self._vertex_sum)

    @property
    def mean(self) -> float:
        """The mean distance."""
        return float(self._vertex_sum.sum() / self.count)

    @property
    def rms(self) -> float:
        """The root mean square distance."""
        return float(np.sqrt(self._square / self.count))

    @property
    def vertex_mean(self) -> np.ndarray:
        """The mean distance of each vertex, (V,)."""
        return self._vertex_sum / self.pose_count

    @property
    def pose_mean(self) -> np.ndarray:
        """The mean distance of each pose, (T,)."""
        return np.concatenate(self._pose_mean)

    @property
    def pose_max(self) -> np.ndarray:
        """The largest distance of each pose, (T,)."""
        return np.concatenate(self._pose_max)

    def percentile(self, percent: float) -> float:
        """Return the distance that `percent` of all distances do not exceed, to 0.1 %."""
        rank = checks.between(percent, "percent", 0, 100) / 100 * (self.count - 1)
        found = int(np.searchsorted(np.cumsum(self._bins), rank, side="right"))
        low, high = (np.array([found, found + 1], np.uint32) << _BIN_SHIFT).view(np.float32)
        return 0.0 if found == 0 else min(float(np.sqrt(float(low) * float(high))), self.max)

    @property
    def p99(self) -> float:
        """The 99th percentile."""
        return self.percentile(99)

    @property
    def seam(self) -> Seam:
        """The jump of the error across edges between and inside groups."""
        if self._edges is None:
            raise InputError("the seam was not measured; pass edges and labels to ErrorSummary")
        counts = [len(edges) * self.pose_count for edges in self._edges]
        means = [float(s / n) if n else 0.0 for s, n in zip(self._edge_sums, counts)]
        return Seam(*means)

    def enveloping_error(self, reference_square: float) -> float:
        """Return the enveloping error in percent, FDDA Eq. 9.

        reference_square  the sum of squares to compare with, of `best_bone_square`
        """
        return enveloping_ratio(self._square, reference_square)

    def histogram(self, bins: int = 50) -> tuple[np.ndarray, np.ndarray]:
        """Return a histogram of all finite distances, placed to 0.1 %.

        The results are the edges of the bins, (bins+1,), and their counts, (bins,).
        """
        used = np.flatnonzero(self._bins[:-1])
        bits = ((2 * used.astype(np.uint64) + 1) << _BIN_SHIFT) // 2
        middle = bits.astype(np.uint32).view(np.float32).astype(np.float64)
        top = self.max if np.isfinite(self.max) else float(middle.max(initial=0.0))
        top = top if top > 0 else 1.0
        values = np.minimum(np.where(used == 0, 0.0, middle), top)
        counts, edges = np.histogram(values, bins, (0.0, top), weights=self._bins[used])
        return edges, counts.astype(np.int64)

    def figures(self) -> dict[str, float]:
        """Return the figures of a report row by name: mean, max, p99, rms.

        Percentages are added if the height is known, and the seam if it was measured.
        """
        result = {"mean": self.mean, "max": self.max, "p99": self.p99, "rms": self.rms}
        if self.height is not None:
            result |= {f"{name}_pct": 100 * result[name] / self.height for name in ("mean", "max")}
        if self._edges is not None:
            result |= {"seam": self.seam.border, "seam_inner": self.seam.inner}
        return result


def pose_difference(true: np.ndarray, approx: np.ndarray) -> np.ndarray:
    """Return approx - true as float64; both (..., 3) and of the same shape."""
    true, approx = np.asarray(true, np.float64), np.asarray(approx, np.float64)
    if true.shape != approx.shape or true.shape[-1:] != (3,):
        raise InputError(
            f"poses to compare: expected two arrays of shape (T, V, 3), got {true.shape} and "
            f"{approx.shape}"
        )
    return approx - true


def enveloping_ratio(error_square: float, reference_square: float) -> float:
    """Return 100 sqrt(error / reference) of two sums of squares, in percent."""
    if reference_square > 0:
        return 100.0 * float(np.sqrt(error_square / reference_square))
    return 0.0 if error_square == 0 else float("inf")
