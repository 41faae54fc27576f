"""A z-buffer rasteriser in NumPy, without a loop over triangles.

Every triangle is cut into its pixel rows, and every row into its pixels, as two ragged
enumerations, so that only covered pixels are created. The ends of a row are the crossings of the
triangle's edges with it. Both triangles that share an edge compute the crossing from the same end,
hence no crack opens between them. Depth and triangle are packed into one integer, and
`np.maximum.at` keeps the nearest triangle of each pixel; ties go to the first triangle.

Letters: V vertices, M triangles, n pixels.
"""

from __future__ import annotations

import numpy as np

_EMPTY = np.iinfo(np.int64).min
_CHUNK = 4_000_000  # candidate pixels created at once; bounds the memory to a few hundred MB


def rasterise(pixels: np.ndarray, triangles: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The nearest triangle of each pixel, or -1: (h*w,) int64.

    pixels     (V,3) vertices: x right, y down, z towards the viewer; pixel centres are at +0.5
    triangles  (M,3) vertex indices; both sides of a triangle are drawn
    shape      (h, w) of the picture
    """
    rows, columns = shape
    best = np.full(rows * columns, _EMPTY, np.int64)
    corners = pixels[triangles]  # (M,3,3)
    low = np.minimum(np.minimum(corners[:, 0], corners[:, 1]), corners[:, 2])
    high = np.maximum(np.maximum(corners[:, 0], corners[:, 1]), corners[:, 2])
    doubled_area = cross2(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    first = np.maximum(np.ceil(low[:, 1] - 0.5), 0)
    last = np.minimum(np.floor(high[:, 1] - 0.5), rows - 1)
    drawn = (
        (np.abs(doubled_area) > 1e-9) & (first <= last) & (high[:, 0] > 0) & (low[:, 0] < columns)
    )
    keep = np.flatnonzero(drawn)
    if not keep.size:
        return np.full(rows * columns, -1, np.int64)
    corners, low, high, area = corners[keep], low[keep], high[keep], doubled_area[keep]
    first, last = first[keep].astype(np.int64), last[keep].astype(np.int64)

    # The depth of a triangle is a plane over the picture: z = origin + slope . (x, y).
    edge1, edge2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    slope_x = (edge1[:, 2] * edge2[:, 1] - edge2[:, 2] * edge1[:, 1]) / area
    slope_y = (edge1[:, 0] * edge2[:, 2] - edge2[:, 0] * edge1[:, 2]) / area

    # Each edge starts at its upper end (smaller y, then smaller x), so that both triangles that
    # share it compute the same crossings.
    start, end = corners, np.roll(corners, -1, axis=1)
    swap = (start[..., 1] > end[..., 1]) | (
        (start[..., 1] == end[..., 1]) & (start[..., 0] > end[..., 0])
    )
    start, end = np.where(swap[..., None], end, start), np.where(swap[..., None], start, end)

    heights = last - first + 1
    bound = np.cumsum(heights * (np.minimum(high[:, 0], columns) - np.maximum(low[:, 0], 0) + 1))
    cuts = np.searchsorted(bound, np.arange(_CHUNK, bound[-1], _CHUNK))
    for chunk in np.split(np.arange(len(keep)), np.unique(cuts)):
        triangle, step = _ragged(heights[chunk])
        triangle = chunk[triangle]
        row = first[triangle] + step
        y = row + 0.5
        left, right = np.full(len(y), np.inf), np.full(len(y), -np.inf)
        for edge in range(3):
            x0, y0 = start[triangle, edge, 0], start[triangle, edge, 1]
            x1, y1 = end[triangle, edge, 0], end[triangle, edge, 1]
            crossed = (y0 <= y) & (y <= y1) & (y0 < y1)
            x = x0 + (x1 - x0) * ((y - y0) / np.where(crossed, y1 - y0, 1.0))
            left = np.minimum(left, np.where(crossed, x, np.inf))
            right = np.maximum(right, np.where(crossed, x, -np.inf))
        left = np.maximum(np.ceil(left - 0.5), 0)
        right = np.minimum(np.floor(right - 0.5), columns - 1)
        lengths = np.maximum(right - left + 1, 0).astype(np.int64)

        span, step = _ragged(lengths)
        owner = triangle[span]
        column = left[span].astype(np.int64) + step
        anchor = corners[owner, 0]
        z = (
            anchor[:, 2]
            + slope_x[owner] * (column + 0.5 - anchor[:, 0])
            + slope_y[owner] * (row[span] + 0.5 - anchor[:, 1])
        )
        # The plane of a sliver is steep: keep the depth within the triangle.
        z = np.clip(z, low[owner, 2], high[owner, 2])
        key = (_ordered(z) << 32) | (0xFFFFFFFF - keep[owner])
        np.maximum.at(best, row[span] * columns + column, key)
    return np.where(best > _EMPTY, 0xFFFFFFFF - (best & 0xFFFFFFFF), -1)


def barycentric(pixels: np.ndarray, corner: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,3) weights of the three corners of each pixel's triangle, clamped to the triangle.

    pixels  (V,3) vertices in pixels
    corner  (n,3) vertex indices of the triangle that covers each pixel
    x, y    (n,) the pixels
    """
    a, b, c = (pixels[corner[:, k], :2] for k in range(3))
    point = np.stack([x, y], axis=1)
    weight = np.stack(
        [cross2(b - point, c - point), cross2(c - point, a - point), cross2(a - point, b - point)],
        axis=1,
    )
    weight = np.clip(weight / cross2(b - a, c - a)[:, None], 0.0, 1.0)
    return weight / weight.sum(axis=1, keepdims=True)


def cross2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The z component of the cross product of (...,2) vectors."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _ordered(z: np.ndarray) -> np.ndarray:
    """int64 with the same order as `z` in float32.

    Floats are compared by their bits, so one far vertex costs no other vertex precision.
    """
    bits = z.astype(np.float32).view(np.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)


def _ragged(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For lists of the given lengths: the list of each element, and its position in the list.

    >>> [part.tolist() for part in _ragged(np.array([2, 0, 3]))]
    [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    """
    which = np.repeat(np.arange(len(lengths)), lengths)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
