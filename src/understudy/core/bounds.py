"""`Bounds`: what keeps the correctives of a deformer near its training poses.

Coefficients are clamped to the range that they have over the training poses, and correctives fade
out as a pose leaves these poses. A unit is a bone (those of its 12 numbers that networks read) or a
control. With x the features of a pose before they are clamped:

    e_u  = min over clusters k of  sum over d of  scale_ud (x[features_ud] - centres_ukd)^2
    f_u  = 3 s^2 - 2 s^3,   s = clamp((fade_end^2 - e_u) / (fade_end^2 - 1), 0, 1)
    c_n  = clamp(c_n, low_n, high_n) * min over the units u of group(n) of  f_u

sqrt(e_u) is the distance of a unit from the training poses: at most 1 for every training pose, so
that all of this changes nothing there.

Letters: N coefficients, U units, K clusters of poses per unit, D features per unit, G groups of
coefficients that depend on the same units, S units per group. Shorter rows repeat their first
entry; a repeated feature has scale 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.noun import Noun
from understudy.system import checks
from understudy.system.errors import InputError

# Features are compared with the centres inside this range, so that no square overflows.
LARGEST_FEATURE = 1e15
BOUND_ARRAYS = ("low", "high", "group", "units", "features", "scale", "centres")


@dataclass(frozen=True, eq=False, repr=False)
class Bounds(Noun):
    """The range of the training poses. The module's docstring has the equations.

    low, high  (N,) float32, the range of each coefficient
    group      (N,) int32, the group of each coefficient; -1: it never fades
    units      (G,S) int32, the units of each group
    features   (U,D) int32, the features of each unit
    scale      (U,D) float32, not negative
    centres    (U,K,D) float32, the middle of each cluster of training poses
    fade_end   the distance, above 1, from which correctives are zero
    """

    low: np.ndarray
    high: np.ndarray
    group: np.ndarray
    units: np.ndarray
    features: np.ndarray
    scale: np.ndarray
    centres: np.ndarray
    fade_end: float

    def __post_init__(self):
        put = self._keep
        put("low", checks.array(self.low, "bounds low", (None,)))
        count = len(self.low)
        put("high", checks.array(self.high, "bounds high", (count,)))
        if (self.low > self.high).any():
            first = int(np.flatnonzero(self.low > self.high)[0])
            raise InputError(f"bounds: low is above high at coefficient {first}")
        put("features", checks.index(self.features, "bounds features", 2**31, (None, None)))
        unit_count, width = self.features.shape
        put("scale", checks.array(self.scale, "bounds scale", (unit_count, width)))
        if (self.scale < 0).any():
            raise InputError("bounds scale: expected numbers that are not negative")
        put("centres", checks.array(self.centres, "bounds centres", (unit_count, None, width)))
        if np.abs(self.centres).max(initial=0) > LARGEST_FEATURE:
            raise InputError(f"bounds centres: a number is above {LARGEST_FEATURE:g}")
        put("units", checks.index(self.units, "bounds units", unit_count, (None, None)))
        shifted = np.asarray(self.group).astype(np.int64) + 1
        put("group", checks.index(shifted, "bounds group", len(self.units) + 1, (count,)) - 1)
        if (unit_count and not self.centres.size) or (len(self.units) and not self.units.size):
            raise InputError("bounds: every unit needs a feature and a cluster, every group a unit")
        checks.between(self.fade_end, "bounds fade_end", above=1.0, high=1e6)
        put("fade_end", float(self.fade_end))

    @property
    def unit_count(self) -> int:
        """U."""
        return len(self.features)

    def need_counts(self, feature_count: int, coefficient_count: int) -> None:
        """Raise unless these bounds belong to that many features and coefficients."""
        checks.index(self.features, "bounds features", feature_count, self.features.shape)
        have = len(self.low)
        checks.same_count(have, coefficient_count, "coefficients", "the bounds", "the nets")

    def take(self, kept: np.ndarray) -> Bounds:
        """Return the bounds of some coefficients (n,), in the order given."""
        return replace(self, low=self.low[kept], high=self.high[kept], group=self.group[kept])

    def squared_distances(self, readings: np.ndarray) -> np.ndarray:
        """Return e of the equations, (T,U) float32.

        readings  (T,X), features that are not clamped
        """
        limit = np.float32(LARGEST_FEATURE)
        held = np.clip(readings, -limit, limit)[:, self.features]  # (T,U,D)
        nearest = np.full(held.shape[:2], np.inf, np.float32)
        with np.errstate(over="ignore"):  # far outside, infinity is right
            for centres in np.moveaxis(self.centres, 1, 0):  # few: the clusters
                off = (np.square(held - centres) * self.scale).sum(axis=2)
                nearest = np.minimum(nearest, off)
        return nearest

    def fades(self, squared: np.ndarray) -> np.ndarray:
        """Return f of the equations for every coefficient, (T,N) float32, of e (T,U)."""
        end = np.float32(self.fade_end) ** 2
        s = np.clip((end - squared) / (end - np.float32(1)), np.float32(0), np.float32(1))
        of_units = s * s * (3 - 2 * s)
        of_groups = of_units[:, self.units].min(axis=2, initial=1)
        # The last column serves coefficients without a group.
        ones = np.ones((len(squared), 1), np.float32)
        return np.concatenate([of_groups, ones], axis=1)[:, self.group]

    def bounded(self, coefficients: np.ndarray, readings: np.ndarray) -> np.ndarray:
        """Return coefficients (T,N) clamped and faded; `readings` as in `squared_distances`."""
        fade = self.fades(self.squared_distances(readings))
        return np.clip(coefficients, self.low, self.high) * fade


def join_bounds(parts: list[tuple[Bounds | None, int, int]]) -> Bounds | None:
    """Return the bounds of a deformer that joins several; None if one of them has none.

    parts  of each: its bounds, its number of features and its number of coefficients
    """
    given = [bounds for bounds, _, _ in parts if bounds is not None]
    if not given or any(count and bounds is None for bounds, _, count in parts):
        return None
    widths = [max(b.centres.shape[2] for b in given), max(b.centres.shape[1] for b in given)]
    most_units = max(b.units.shape[1] for b in given)
    rows: dict[str, list[np.ndarray]] = {name: [] for name in BOUND_ARRAYS}
    first_feature = first_unit = first_group = 0
    for bounds, feature_count, _ in parts:
        if bounds is not None:  # else it has no coefficients
            rows["low"].append(bounds.low)
            rows["high"].append(bounds.high)
            rows["group"].append(np.where(bounds.group < 0, -1, bounds.group + first_group))
            rows["units"].append(_padded(bounds.units, 1, most_units) + first_unit)
            rows["features"].append(_padded(bounds.features, 1, widths[0]) + first_feature)
            rows["scale"].append(_padded(bounds.scale, 1, widths[0], zero=True))
            rows["centres"].append(_padded(_padded(bounds.centres, 2, widths[0]), 1, widths[1]))
            first_unit += bounds.unit_count
            first_group += len(bounds.units)
        first_feature += feature_count
    joined = {name: np.concatenate(arrays) for name, arrays in rows.items()}
    return Bounds(**joined, fade_end=max(bounds.fade_end for bounds in given))


def _padded(array: np.ndarray, axis: int, length: int, zero: bool = False) -> np.ndarray:
    """Return `array` with its first entry along `axis`, or zeros, repeated up to `length`."""
    missing = length - array.shape[axis]
    first = np.take(array, [0] if array.shape[axis] else [], axis=axis)
    more = np.repeat(np.zeros_like(first) if zero else first, missing, axis=axis)
    return np.concatenate([array, more], axis=axis)
