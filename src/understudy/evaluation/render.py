"""Pictures of a mesh without a GPU: an orthographic z-buffer rasteriser and a soft three-light clay
look, all in NumPy.

How it draws, in order:

1. project the vertices to pixels (supersampled `samples` x `samples`); 2. cut every triangle into
its pixel rows, and every row into its pixels, as two ragged enumerations. Only covered pixels are
ever made, so
   there is no loop over triangles and no waste on their bounding boxes. A row's ends are the
   crossings of the triangle's edges with it; each edge is walked from its lower end by both
   triangles that share it, hence both find the same crossing and no crack opens between them;
3. keep the nearest triangle of each pixel: depth and triangle packed into one integer, reduced with
`np.maximum.at` (ties: the first triangle); 4. shade the pixels that are left: key, fill and rim
light over interpolated vertex normals, darkened by screen-space obscurance
   (how much of the near neighbourhood stands in front of the tangent plane), averaged in linear
   light. No cast shadows: on a thigh, the shadow of a hand looks like a dent, and these pictures
   are for finding dents.

Both sides of a triangle are drawn: cloth and open shells are common. Axis letters: V vertices, M
triangles; pictures are (h,w,3) uint8.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.errors import InputError, MissingDependencyError
from understudy.io.atomic_write import atomic_write

VIEWS = {
    "front": (0.0, 0.0),
    "side": (90.0, 0.0),
    "back": (180.0, 0.0),
    "three_quarter": (35.0, 8.0),
}
BACKGROUND = (240, 241, 243)

_CLAY = np.array([0.275, 0.315, 0.375])  # linear light: a grey-blue that leaves room for highlights
_NO_VALUE = np.array([0.30, 0.30, 0.30])
# Lights in the camera's frame (x right, y up, z to the viewer): they follow the camera, so every
# view is lit alike.
_KEY = (np.array([-0.66, 0.64, 0.40]), np.array([1.00, 0.94, 0.86]) * 2.3)
_FILL = (np.array([0.85, 0.05, 0.50]), np.array([0.68, 0.83, 1.00]) * 0.30)
_RIM = (np.array([0.55, 0.60, -0.60]), np.array([0.90, 0.95, 1.00]) * 1.1)
_SKY, _GROUND = np.array([0.27, 0.31, 0.37]), np.array([0.13, 0.115, 0.11])
_INK = (38, 42, 50)
_TOO_FAR = 1e100  # beyond it a square overflows
_MARGIN = 0.05  # of the picture, left free around the framed bounds
_NOTHING = np.iinfo(np.int64).min
_CHUNK = 4_000_000  # candidate pixels made at once: bounds memory to a few hundred MB


def render(
    vertices,
    triangles,
    *,
    size: tuple[int, int] = (600, 800),
    view: str | tuple[float, float] = "three_quarter",
    values=None,
    vmin: float | None = None,
    vmax: float | None = None,
    background: tuple[int, int, int] = BACKGROUND,
    up_axis: str = "Y",
    handedness: str = "right",
    fit_to=None,
    zoom: tuple[float, float, float, float] | None = None,
    samples: int = 2,
    lit: bool = True,
) -> np.ndarray:
    """(h,w,3) uint8: the mesh as seen from `view`, framed by its own bounds or by `fit_to`.

    vertices    (V,3); triangles that touch a NaN or infinite vertex are left out, so that a broken
                pose still shows what is whole
    triangles   (M,3) indices
    size        (width, height) in pixels
    view        a name of `VIEWS`, or (azimuth, elevation) of the camera in degrees; azimuth 0 looks
                at the character's front with +X on the viewer's right, 90 stands on its +X side.
                The front is +Z for up axis Y, and -Y for up axis Z
    values      (V,) scalars shown by the turbo colour map from `vmin` to `vmax` (their own range
                where not given); NaN shows grey
    handedness  of the coordinates; left-handed ones are mirrored so that a character's left hand
                stays its left hand
    fit_to      (2,3) corners of a box, or (n,3) points to frame, so that several pictures share one
                scale and place
    zoom        (left, top, right, bottom) as fractions of the picture, to enlarge that region of it
    samples     supersampling per axis
    lit         False: flat material or map colours without lights, for pictures that are measured

    >>> render([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], size=(32, 24)).shape
    (24, 32, 3)
    """
    vertices = checks.shape_of(np.asarray(vertices, np.float64), "vertices", (None, 3))
    triangles = checks.index(
        np.reshape(triangles, (-1, 3)) if np.size(triangles) == 0 else triangles,
        "triangles",
        len(vertices),
        (None, 3),
    )
    width, height = (int(checks.between(n, "picture size", 1, 16384)) for n in size)
    samples = int(checks.between(samples, "samples", 1, 8))
    if values is not None:
        values = checks.shape_of(np.asarray(values, np.float64), "values", (len(vertices),))
    finite = (np.abs(vertices) < _TOO_FAR).all(axis=1)  # false for NaN too
    triangles = triangles[finite[triangles].all(axis=1)]

    camera = _camera(view, up_axis, handedness)
    seen = (
        np.where(finite[:, None], vertices, 0.0) @ camera.T
    )  # (V,3) right, up, towards the viewer
    frame = _frame(
        seen[np.unique(triangles)] if fit_to is None else _corners(fit_to) @ camera.T,
        width / height,
        zoom,
    )
    pixels = _to_pixels(seen, frame, width * samples)

    shape = (height * samples, width * samples)
    owner = _rasterise(pixels, triangles, shape)
    backdrop = _backdrop(background, width, height)
    hit = np.flatnonzero(owner >= 0)
    if not hit.size:
        return _to_srgb(backdrop)

    corner = triangles[owner[hit]]
    share = _barycentric(pixels, corner, hit % shape[1] + 0.5, hit // shape[1] + 0.5)
    albedo = (
        _CLAY
        if values is None
        else _map_colours(np.einsum("pk,pk->p", share, values[corner]), values, vmin, vmax)
    )
    if lit:
        normals = _facing_normals(seen, triangles, corner, share)
        depth = np.full(shape[0] * shape[1], -np.inf)
        depth[hit] = np.einsum("pk,pk->p", share, pixels[corner, 2])
        clear = _clearance(depth.reshape(shape), hit, normals, samples)
        colour = _shade(normals, albedo, clear, studio=values is None)
    else:
        colour = np.broadcast_to(albedo, (len(hit), 3))

    # Average the subpixels of each pixel in linear light; what they leave uncovered shows the
    # backdrop.
    at = (hit // shape[1] // samples) * width + hit % shape[1] // samples
    count = width * height
    total = np.stack([np.bincount(at, colour[:, c], count) for c in range(3)], axis=1) / samples**2
    cover = np.bincount(at, minlength=count)[:, None] / samples**2
    return _to_srgb(
        total.reshape(height, width, 3) + backdrop * (1 - cover.reshape(height, width, 1))
    )


def project(
    points,
    *,
    size: tuple[int, int],
    view: str | tuple[float, float],
    fit_to,
    up_axis: str = "Y",
    handedness: str = "right",
    zoom: tuple[float, float, float, float] | None = None,
) -> np.ndarray:
    """(n,3): where `render` with the same arguments puts `points` (n,3): pixels right and down, and
    pixels towards the viewer.
    """
    points = checks.shape_of(np.asarray(points, np.float64), "points", (None, 3))
    camera = _camera(view, up_axis, handedness)
    return _to_pixels(
        points @ camera.T, _frame(_corners(fit_to) @ camera.T, size[0] / size[1], zoom), size[0]
    )


def visible(
    vertices,
    triangles,
    *,
    view: str | tuple[float, float],
    up_axis: str = "Y",
    handedness: str = "right",
    pixels: int = 240,
) -> np.ndarray:
    """(V,) bool: the vertices that the camera of `view` sees, by the depth picture (`pixels` wide)
    of the mesh; good to about one pixel.
    """
    vertices = np.asarray(vertices, np.float64)
    triangles = checks.index(triangles, "triangles", len(vertices), (None, 3))
    finite = (np.abs(vertices) < _TOO_FAR).all(axis=1)
    triangles = triangles[finite[triangles].all(axis=1)]
    seen = np.where(finite[:, None], vertices, 0.0) @ _camera(view, up_axis, handedness).T
    placed = _to_pixels(seen, _frame(seen[np.unique(triangles)], 1.0, None), pixels)
    owner = _rasterise(placed, triangles, (pixels, pixels))
    hit = np.flatnonzero(owner >= 0)
    depth = np.full(pixels * pixels, -np.inf)
    corner = triangles[owner[hit]]
    depth[hit] = np.einsum(
        "pk,pk->p",
        _barycentric(placed, corner, hit % pixels + 0.5, hit // pixels + 0.5),
        placed[corner, 2],
    )
    column, row = (np.clip(np.floor(placed[:, k]), 0, pixels - 1).astype(np.int64) for k in (0, 1))
    return finite & (
        placed[:, 2] >= depth[row * pixels + column] - 2.0
    )  # two pixels: the depth within one on a steep surface


def frame_width(
    points,
    *,
    size: tuple[int, int],
    view: str | tuple[float, float],
    up_axis: str = "Y",
    handedness: str = "right",
) -> float:
    """How much of the world, in its unit, a picture framed by `fit_to=points` spans from left to
    right.
    """
    return _frame(_corners(points) @ _camera(view, up_axis, handedness).T, size[0] / size[1], None)[
        2
    ]


def _to_pixels(
    seen: np.ndarray, frame: tuple[float, float, float, float], width: int
) -> np.ndarray:
    left, top, across, depth = frame
    return (seen - [left, top, depth]) * (np.array([1.0, -1.0, 1.0]) * width / across)


def vertex_normals(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """(V,3) unit normals, each the area-weighted mean of its triangles' normals; zero where a
    vertex has none.
    """
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    face = np.cross(b - a, c - a)
    flat = triangles.T.reshape(-1)
    total = np.stack(
        [np.bincount(flat, np.tile(face[:, k], 3), len(vertices)) for k in range(3)], axis=1
    )
    length = np.linalg.norm(total, axis=1, keepdims=True)
    return np.divide(total, length, out=np.zeros_like(total), where=length > 0)


def camera_direction(
    view: str | tuple[float, float], up_axis: str = "Y", handedness: str = "right"
) -> np.ndarray:
    """(3,) unit vector in the mesh's coordinates from the mesh towards the camera of `view`."""
    return _camera(view, up_axis, handedness)[2]


def _camera(view, up_axis: str, handedness: str) -> np.ndarray:
    """(3,3) rows: the directions of the picture's right, its up, and towards the viewer."""
    if isinstance(view, str):
        view = VIEWS[checks.one_of(view, "view", VIEWS)]
    azimuth, elevation = (np.radians(checks.between(angle, "view angle")) for angle in view)
    right = np.array([np.cos(azimuth), 0.0, -np.sin(azimuth)])
    towards = np.array(
        [
            np.sin(azimuth) * np.cos(elevation),
            np.sin(elevation),
            np.cos(azimuth) * np.cos(elevation),
        ]
    )
    camera = np.stack([right, np.cross(towards, right), towards])
    if checks.one_of(handedness, "handedness", ("right", "left")) == "left":
        camera = camera * [-1, 1, 1]
    if checks.one_of(up_axis, "up axis", ("Y", "Z")) == "Z":
        camera = camera @ np.array(
            [[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]
        )  # (x,y,z) of a Z-up world is (x,z,-y) of a Y-up one
    return camera


def _corners(fit_to) -> np.ndarray:
    """(n,3) points to frame: the eight corners of a (2,3) box, or the points themselves."""
    points = checks.array(fit_to, "fit_to", (None, 3), np.float64)
    if len(points) != 2:
        return points
    low, high = points
    return np.array(
        [
            [(low, high)[i][0], (low, high)[j][1], (low, high)[k][2]]
            for i in (0, 1)
            for j in (0, 1)
            for k in (0, 1)
        ]
    )


def _frame(points: np.ndarray, aspect: float, zoom) -> tuple[float, float, float, float]:
    """(left, top, width, depth) of the picture in the camera's frame: the points' bounds, centred,
    with a margin, at the picture's aspect.
    """
    if not len(points):
        points = np.zeros((1, 3))
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    centre, extent = (low + high) / 2, (high - low) / (1 - 2 * _MARGIN)
    width = max(extent[0], extent[1] * aspect) or 1.0
    left, top = centre[0] - width / 2, centre[1] + width / aspect / 2
    if zoom is not None:
        u0, v0, u1, v1 = (float(x) for x in zoom)
        if not (u1 > u0 and v1 > v0):
            raise InputError(
                f"zoom: expected (left, top, right, bottom) with left < right and top < bottom, "
                f"got {tuple(zoom)}"
            )
        part = max(u1 - u0, v1 - v0)  # one factor for both axes keeps the shape of things
        left, top = (
            left + ((u0 + u1) / 2 - part / 2) * width,
            top - ((v0 + v1) / 2 - part / 2) * width / aspect,
        )
        width *= part
    return float(left), float(top), float(width), float(points[:, 2].mean())


def _rasterise(pixels: np.ndarray, triangles: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """(h*w,) int64: the nearest triangle of each pixel, or -1. `pixels` (V,3): x right, y down, z
    towards the viewer; centres at +0.5.
    """
    rows, columns = shape
    best = np.full(rows * columns, _NOTHING, np.int64)
    corners = pixels[triangles]  # (M,3,3)
    low = np.minimum(np.minimum(corners[:, 0], corners[:, 1]), corners[:, 2])
    high = np.maximum(np.maximum(corners[:, 0], corners[:, 1]), corners[:, 2])
    doubled_area = _cross2(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    first = np.maximum(np.ceil(low[:, 1] - 0.5), 0)
    last = np.minimum(np.floor(high[:, 1] - 0.5), rows - 1)
    drawn = (
        (np.abs(doubled_area) > 1e-9) & (first <= last) & (high[:, 0] > 0) & (low[:, 0] < columns)
    )
    keep = np.flatnonzero(drawn)
    if not keep.size:
        return np.full(rows * columns, -1, np.int64)
    corners, low, high, first, last = (
        corners[keep],
        low[keep],
        high[keep],
        first[keep].astype(np.int64),
        last[keep].astype(np.int64),
    )

    # Depth is a plane over the picture: z = origin + slope . (x, y).
    edge1, edge2, area = (
        corners[:, 1] - corners[:, 0],
        corners[:, 2] - corners[:, 0],
        doubled_area[keep],
    )
    slope_x = (edge1[:, 2] * edge2[:, 1] - edge2[:, 2] * edge1[:, 1]) / area
    slope_y = (edge1[:, 0] * edge2[:, 2] - edge2[:, 0] * edge1[:, 2]) / area

    # Each edge from its upper end (smaller y, then smaller x): the same for both triangles that
    # share it.
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
        z = np.clip(
            z, low[owner, 2], high[owner, 2]
        )  # a sliver's plane is steep: never outside the triangle
        key = (_ordered(z) << 32) | (0xFFFFFFFF - keep[owner])
        np.maximum.at(best, row[span] * columns + column, key)
    return np.where(best > _NOTHING, 0xFFFFFFFF - (best & 0xFFFFFFFF), -1)


def _ordered(z: np.ndarray) -> np.ndarray:
    """int64 that order as `z` does in float32. A float's bits already do, but for the sign; so one
    exploded vertex costs nobody else precision.
    """
    bits = z.astype(np.float32).view(np.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)


def _ragged(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For n lists of the given lengths: which list each element is in, and its place there.

    >>> [part.tolist() for part in _ragged(np.array([2, 0, 3]))]
    [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    """
    which = np.repeat(np.arange(len(lengths)), lengths)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _cross2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _barycentric(
    pixels: np.ndarray, corner: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """(n,3) weights of each pixel's three corners, kept inside the triangle."""
    a, b, c = (pixels[corner[:, k], :2] for k in range(3))
    point = np.stack([x, y], axis=1)
    share = np.stack(
        [
            _cross2(b - point, c - point),
            _cross2(c - point, a - point),
            _cross2(a - point, b - point),
        ],
        axis=1,
    )
    share = np.clip(share / _cross2(b - a, c - a)[:, None], 0.0, 1.0)
    return share / share.sum(axis=1, keepdims=True)


def _facing_normals(seen, triangles, corner, share) -> np.ndarray:
    """(n,3) unit normals in the camera's frame, turned to the side of the surface that is looked
    at.
    """
    normals = vertex_normals(seen, triangles)
    smooth = np.einsum("pk,pkc->pc", share, normals[corner])
    a, b, c = (seen[corner[:, k], :2] for k in range(3))
    smooth *= np.sign(_cross2(b - a, c - a))[
        :, None
    ]  # by the triangle, not the normal: a smooth normal may tip over the silhouette
    smooth[:, 2] = np.maximum(smooth[:, 2], 0.02)
    return (smooth / np.linalg.norm(smooth, axis=1, keepdims=True)).astype(np.float32)


def _clearance(depth: np.ndarray, hit: np.ndarray, normals: np.ndarray, samples: int) -> np.ndarray:
    """(n,) 0..1 per covered subpixel: how open the surface is, from the depth picture alone.

    Obscurance after McGuire et al. 2011 (Alchemy): the mean over neighbours v of max(0, n.v - bias)
    / (|v|^2 + e), which knows how far away an occluder is and so leaves no halo behind a far arm.
    Worked out once per final pixel, at two neighbourhood sizes.
    """
    rows, columns = depth.shape
    height, width = rows // samples, columns // samples
    blocks = (
        depth.reshape(height, samples, width, samples)
        .transpose(0, 2, 1, 3)
        .reshape(height * width, -1)
    )
    z = blocks.max(axis=1) / samples  # in final pixels
    at = (hit // columns // samples) * width + hit % columns // samples
    normal = np.empty((height * width, 3), np.float32)
    normal[at] = normals
    covered = np.flatnonzero(np.isfinite(z))
    n, here = normal[covered], z[covered].astype(np.float32)
    row, column = covered // width, covered % width
    reach = 0.075 * np.sqrt(width * height)
    reach = min(reach, 0.11 * max(np.ptp(row) + 1, np.ptp(column) + 1))
    taps = 40
    padded = z.astype(np.float32).reshape(height, width)
    total = np.zeros(len(covered), np.float32)
    for k in range(
        taps
    ):  # a spiral of fixed taps: no noise to blur away, and the same picture every time
        radius = reach * ((k + 0.5) / taps) ** 1.4 + 1.0
        angle = k * 2.399963
        dx, dy = round(radius * np.cos(angle)), round(radius * np.sin(angle))
        there = padded[np.clip(row + dy, 0, height - 1), np.clip(column + dx, 0, width - 1)]
        dz = np.where(np.isfinite(there), there - here, np.float32(-1e6))
        square = dx * dx + dy * dy + dz * dz
        rise = n[:, 0] * dx - n[:, 1] * dy + n[:, 2] * dz
        near = np.maximum(1.0 - square / (2.5 * reach) ** 2, 0.0)
        total += np.maximum(rise / np.sqrt(square + 1e-6) - 0.12, 0.0) * near
    open_ = np.ones(height * width, np.float32)
    open_[covered] = np.clip(1.0 - 2.8 * total / taps, 0.0, 1.0)
    return open_[at]


def _shade(n: np.ndarray, albedo: np.ndarray, clear: np.ndarray, studio: bool) -> np.ndarray:
    """(p,3) linear light. `studio`: the warm and cool clay look; otherwise neutral and even light,
    so that map colours stay readable.
    """
    clear = clear[:, None]
    along = lambda direction: (
        n @ (direction / np.linalg.norm(direction)).astype(np.float32)
    )  # single precision: more than eight bits need
    if not studio:
        key = np.maximum(along(_KEY[0]), 0.0)[:, None]
        return albedo * (0.50 + 0.38 * key + 0.20 * n[:, 2:] ** 2) * (0.45 + 0.55 * clear)
    upward = (n[:, 1:2] + 1) / 2
    light = (_GROUND.astype(np.float32) + (_SKY - _GROUND).astype(np.float32) * upward) * (
        clear * np.sqrt(clear)
    )
    for direction, strength in (_KEY, _FILL):
        soft = (
            np.maximum((along(direction) + 0.15) / 1.15, 0.0) ** 1.35
        )  # a large, near light wraps round the form
        light += strength.astype(np.float32) * (soft[:, None] * (0.35 + 0.65 * clear))
    colour = albedo.astype(np.float32) * light
    graze = (1.0 - n[:, 2]) ** 3
    rim = np.maximum(along(_RIM[0]) + 0.35, 0.0) * graze
    colour += (_RIM[1] * 0.42).astype(np.float32) * (rim[:, None] * clear)
    gloss = np.maximum(along(_KEY[0] / np.linalg.norm(_KEY[0]) + [0, 0, 1]), 0.0) ** 18
    return colour + 0.07 * gloss[:, None] * clear


def _map_colours(shown: np.ndarray, values: np.ndarray, vmin, vmax) -> np.ndarray:
    """(n,3) linear light: turbo over vmin..vmax, clamped at its ends; NaN grey."""
    known = values[np.isfinite(values)]
    low = (known.min() if known.size else 0.0) if vmin is None else float(vmin)
    high = (known.max() if known.size else 1.0) if vmax is None else float(vmax)
    place = np.clip((shown - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    colours = _from_srgb(turbo())[np.nan_to_num(place * 255).round().astype(int)]
    return np.where(np.isfinite(shown)[:, None], colours, _NO_VALUE)


@cache
def turbo() -> np.ndarray:
    """(256,3) uint8: the turbo colour map, from matplotlib."""
    need_drawing()
    from matplotlib import colormaps

    return (np.asarray(colormaps["turbo"](np.arange(256)))[:, :3] * 255).round().astype(np.uint8)


def _backdrop(colour, width: int, height: int) -> np.ndarray:
    """(h,w,3) linear light: the background, a little darker towards the floor, as a studio sweep
    is.
    """
    fall = 1.0 - 0.07 * np.linspace(0.0, 1.0, height)[:, None, None] ** 2
    return np.broadcast_to(_from_srgb(np.asarray(colour, float)) * fall, (height, width, 3))


def _from_srgb(colour) -> np.ndarray:
    x = np.asarray(colour) / 255.0
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def _to_srgb(linear: np.ndarray) -> np.ndarray:
    x = np.clip(linear, 0.0, 1.0)
    return (
        (np.where(x <= 0.0031308, 12.92 * x, 1.055 * x ** (1 / 2.4) - 0.055) * 255)
        .round()
        .astype(np.uint8)
    )


def need_drawing() -> None:
    """Raise where the packages that hold the colour map, the typeface and the PNG writer are not
    installed; shapes alone need neither.
    """
    try:
        import matplotlib  # noqa: F401
        import PIL  # noqa: F401
    except ImportError as problem:
        raise MissingDependencyError(
            f"pictures and reports need matplotlib and Pillow: pip install 'understudy[cli]' "
            f"({problem})"
        ) from problem


def colour_bar(
    vmin: float,
    vmax: float,
    unit: str,
    *,
    size: tuple[int, int] = (600, 64),
    label: str = "error",
    background: tuple[int, int, int] = BACKGROUND,
) -> np.ndarray:
    """(h,w,3) uint8: the turbo scale from `vmin` to `vmax`, five ticks with numbers, and "label,
    unit" under it.
    """
    need_drawing()
    from PIL import Image, ImageDraw

    width, height = size
    picture = Image.new("RGB", (width, height), tuple(background))
    draw = ImageDraw.Draw(picture)
    pad, bar = max(28, width // 16), max(6, height // 4)
    ramp = turbo()[np.linspace(0, 255, width - 2 * pad).round().astype(int)]
    picture.paste(
        Image.fromarray(np.ascontiguousarray(np.broadcast_to(ramp, (bar, *ramp.shape)))), (pad, 4)
    )
    font = _font(max(9, round(height * 0.21)))
    for place in np.linspace(0.0, 1.0, 5):
        x = pad + place * (width - 2 * pad - 1)
        draw.line([(x, 4 + bar), (x, 8 + bar)], fill=_INK)
        draw.text(
            (x, 10 + bar), f"{vmin + place * (vmax - vmin):.3g}", fill=_INK, font=font, anchor="ma"
        )
    draw.text(
        (width / 2, height - 3),
        f"{label}, {unit}" if unit else label,
        fill=_INK,
        font=font,
        anchor="md",
    )
    return np.asarray(picture)


def sheet(
    images: Sequence[np.ndarray],
    labels: Sequence[str],
    columns: int,
    *,
    title: str = "",
    gap: int = 10,
    background: tuple[int, int, int] = (255, 255, 255),
) -> np.ndarray:
    """(h,w,3) uint8: a contact sheet, `columns` pictures a row in reading order, each with its
    label under it (long labels are cut with ...).
    """
    need_drawing()
    from PIL import Image, ImageDraw

    if not len(images) or len(images) != len(labels):
        raise InputError(
            f"sheet: expected one label for each picture and at least one picture, got "
            f"{len(images)} pictures and {len(labels)} labels"
        )
    columns = int(checks.between(columns, "columns", 1))
    columns = min(columns, len(images))
    cell_w = max(i.shape[1] for i in images)
    text = max(11, round(cell_w * 0.042))
    font, strip = _font(text), round(text * 1.9)
    head = round(text * 2.6) if title else 0
    heights = [
        max(i.shape[0] for i in images[k : k + columns]) for k in range(0, len(images), columns)
    ]
    tops = np.cumsum([gap + head, *(h + strip + gap for h in heights)]).tolist()
    page = Image.new("RGB", (columns * (cell_w + gap) + gap, tops[-1]), tuple(background))
    draw = ImageDraw.Draw(page)
    if title:
        draw.text(
            (gap, gap + head / 2), title, fill=_INK, font=_font(round(text * 1.4)), anchor="lm"
        )
    for k, (image, label) in enumerate(zip(images, labels)):
        x, y, cell_h = gap + k % columns * (cell_w + gap), tops[k // columns], heights[k // columns]
        page.paste(
            Image.fromarray(image),
            (x + (cell_w - image.shape[1]) // 2, y + (cell_h - image.shape[0]) // 2),
        )
        draw.text(
            (x + cell_w / 2, y + cell_h + strip / 2),
            _fitting(str(label), font, cell_w),
            fill=_INK,
            font=font,
            anchor="mm",
        )
    return np.asarray(page)


def png_bytes(image: np.ndarray) -> bytes:
    """`image` (h,w,3) uint8 as a PNG file's bytes."""
    need_drawing()
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(
        checks.shape_of(np.ascontiguousarray(image, np.uint8), "image", (None, None, 3))
    ).save(file, "PNG")
    return file.getvalue()


def save_png(path: str | Path, image: np.ndarray) -> Path:
    """Write `image` (h,w,3) uint8 to `path`, whole or not at all; `FileError` where that fails."""
    data = png_bytes(image)
    with atomic_write(path) as part:
        part.write_bytes(data)
    return Path(path)


@cache
def _font(pixels: int):
    """matplotlib's own copy of DejaVu Sans: the same text on every machine, with the signs units
    need.
    """
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(
        str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), pixels
    )


def _fitting(text: str, font, width: float) -> str:
    """`text`, cut with an ellipsis where it is wider than `width` pixels."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "\u2026") > width:
        text = text[:-1]
    return text + "\u2026"
