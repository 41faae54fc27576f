"""Pictures of a mesh without a GPU: an orthographic view with a soft clay look, all in NumPy.

The steps:

1. project the vertices to pixels, supersampled (`camera`);
2. find the nearest triangle of each subpixel, in a z-buffer (`rasterise`);
3. shade the covered subpixels with interpolated vertex normals, darkened in folds (`shading`);
4. average the subpixels of each pixel in linear light.

Letters: V vertices, M triangles, n pixels; pictures are (h,w,3) uint8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from understudy.evaluation import shading
from understudy.evaluation.camera import Camera
from understudy.geometry.normals import vertex_normals
from understudy.io.numbers import ragged
from understudy.system import checks

_TOO_FAR = 1e100  # the square of a larger coordinate overflows
_VISIBLE_PIXELS = 240  # width of the depth picture that decides visibility
_EMPTY = np.iinfo(np.int64).min
_CHUNK = 4_000_000  # candidate pixels created at once; bounds the memory to a few hundred MB


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Values shown by the turbo colour map.

    values     (V,); NaN shows grey
    low, high  ends of the scale; values beyond them get the colour of the end
    """

    values: np.ndarray
    low: float
    high: float


def render(
    vertices: npt.ArrayLike,
    triangles: npt.ArrayLike,
    camera: Camera | None = None,
    *,
    heat: HeatMap | None = None,
    colours: npt.ArrayLike | None = None,
    samples: int = 2,
) -> np.ndarray:
    """A picture of the mesh: (h,w,3) uint8.

    vertices    (V,3); triangles with a NaN or infinite vertex are left out, so that a broken pose
                shows what is intact
    triangles   (M,3) vertex indices; both sides are drawn, as cloth and open shells are common
    camera      None: `Camera()`, a three-quarter view of the whole mesh
    heat        values to show as colours. None: clay
    colours     (V,3) sRGB colours of 0 to 255, instead of clay or a heat map
    samples     supersampling per axis

    >>> camera = Camera(size=(32, 24))
    >>> render([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], camera).shape
    (24, 32, 3)
    """
    vertices, triangles, finite = _whole(vertices, triangles)
    camera = camera or Camera()
    width, height = (int(checks.between(n, "picture size", 1, 16384)) for n in camera.size)
    samples = int(checks.between(samples, "samples", 1, 8))
    camera = replace(camera, size=(width, height)).framing(vertices[np.unique(triangles)])
    seen = vertices @ camera.axes.T  # (V,3) right, up, towards the viewer
    pixels = camera.to_pixels(seen, samples)

    shape = (height * samples, width * samples)
    hit, corner, weight, depth = _nearest(pixels, triangles, shape)
    behind = shading.backdrop(width, height)
    if not hit.size:
        return shading.to_srgb(behind)

    albedo = _albedo(corner, weight, heat, colours, len(finite))
    normals = _facing_normals(seen, triangles, corner, weight)
    openness = shading.ambient_openness(depth.reshape(shape), hit, normals, samples)
    colour = shading.shade(normals, albedo, openness, studio=heat is None and colours is None)

    # Average the subpixels of each pixel in linear light; uncovered ones show the backdrop.
    at = (hit // shape[1] // samples) * width + hit % shape[1] // samples
    count = width * height
    total = np.stack([np.bincount(at, colour[:, c], count) for c in range(3)], axis=1) / samples**2
    cover = np.bincount(at, minlength=count)[:, None] / samples**2
    return shading.to_srgb(
        total.reshape(height, width, 3) + behind * (1 - cover.reshape(height, width, 1))
    )


def visible(vertices: npt.ArrayLike, triangles: npt.ArrayLike, camera: Camera) -> np.ndarray:
    """Which vertices the camera sees, to about one pixel of a small depth picture: (V,) bool.

    vertices   (V,3)
    triangles  (M,3)
    camera     its size and framing do not matter
    """
    vertices, triangles, finite = _whole(vertices, triangles)
    size = _VISIBLE_PIXELS
    camera = replace(camera, size=(size, size), fit_to=vertices[np.unique(triangles)])
    placed = camera.to_pixels(vertices @ camera.axes.T)
    depth = _nearest(placed, triangles, (size, size))[-1]
    column, row = (np.clip(np.floor(placed[:, k]), 0, size - 1).astype(np.int64) for k in (0, 1))
    # A tolerance of two pixels: the depth within one pixel of a steep surface.
    return finite & (placed[:, 2] >= depth[row * size + column] - 2.0)


def _nearest(
    pixels: np.ndarray, triangles: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What each pixel shows: the n covered pixels, their corners and weights (n,3), and the depth.

    The depth is that of all pixels, (h*w,); -inf where nothing is.
    """
    owner = rasterise(pixels, triangles, shape)
    hit = np.flatnonzero(owner >= 0)
    corner = triangles[owner[hit]]
    weight = barycentric(pixels, corner, hit % shape[1] + 0.5, hit // shape[1] + 0.5)
    depth = np.full(len(owner), -np.inf)
    depth[hit] = np.einsum("pk,pk->p", weight, pixels[corner, 2])
    return hit, corner, weight, depth


def _whole(vertices, triangles) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices (V,3), zero where broken; triangles without these; (V,) which are finite."""
    vertices = checks.shape_of(np.asarray(vertices, np.float64), "vertices", (None, 3))
    triangles = np.reshape(triangles, (-1, 3)) if np.size(triangles) == 0 else triangles
    triangles = checks.index(triangles, "triangles", len(vertices), (None, 3))
    finite = (np.abs(vertices) < _TOO_FAR).all(axis=1)  # false for NaN too
    triangles = triangles[finite[triangles].all(axis=1)]
    return np.where(finite[:, None], vertices, 0.0), triangles, finite


def _albedo(
    corner: np.ndarray, weight: np.ndarray, heat: HeatMap | None, colours, vertex_count: int
) -> np.ndarray:
    """(3,) or (n,3) the material of each subpixel in linear light."""
    if colours is not None:
        colours = checks.shape_of(np.asarray(colours, np.float64), "colours", (vertex_count, 3))
        return np.einsum("pk,pkc->pc", weight, shading.from_srgb(colours)[corner])
    if heat is not None:
        values = np.asarray(heat.values, np.float64)
        checks.shape_of(values, "values of the heat map", (vertex_count,))
        return shading.map_colours(
            np.einsum("pk,pk->p", weight, values[corner]), heat.low, heat.high
        )
    return shading.CLAY


def _facing_normals(
    seen: np.ndarray, triangles: np.ndarray, corner: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """(n,3) float32 unit normals in the frame of the camera, on the side that faces the viewer."""
    normals = vertex_normals(seen, triangles, np.float64)
    smooth = np.einsum("pk,pkc->pc", weight, normals[corner])
    a, b, c = (seen[corner[:, k], :2] for k in range(3))
    # The triangle decides the side: a smooth normal may point away at the silhouette.
    smooth *= np.sign(cross2(b - a, c - a))[:, None]
    smooth[:, 2] = np.maximum(smooth[:, 2], 0.02)
    return (smooth / np.linalg.norm(smooth, axis=1, keepdims=True)).astype(np.float32)


def rasterise(pixels: np.ndarray, triangles: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The nearest triangle of each pixel, or -1: (h*w,) int64, without a loop over triangles.

    Every triangle is cut into its pixel rows, and every row into its pixels, as two ragged
    enumerations, so that only covered pixels are created. The ends of a row are the crossings of
    the triangle's edges with it. Both triangles that share an edge compute the crossing from the
    same end, hence no crack opens between them. Depth and triangle are packed into one integer, and
    `np.maximum.at` keeps the nearest triangle of each pixel; ties go to the first triangle.

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
        triangle = np.repeat(chunk, heights[chunk])
        row = ragged(first[chunk], heights[chunk])
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

        span = np.repeat(np.arange(len(lengths)), lengths)
        owner = triangle[span]
        column = ragged(np.where(lengths > 0, left, 0).astype(np.int64), lengths)
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
