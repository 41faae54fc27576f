"""Pictures of a mesh without a GPU: an orthographic view with a soft clay look, all in NumPy.

The steps:

1. project the vertices to pixels, supersampled (`camera`);
2. find the nearest triangle of each subpixel (`rasteriser`);
3. shade the covered subpixels with interpolated vertex normals, darkened in folds (`shading`);
4. average the subpixels of each pixel in linear light.

Letters: V vertices, M triangles; pictures are (h,w,3) uint8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from understudy.evaluation import rasteriser, shading
from understudy.evaluation.camera import Camera
from understudy.evaluation.pictures import BACKGROUND, Colour
from understudy.geometry.normals import vertex_normals
from understudy.system import checks

_TOO_FAR = 1e100  # the square of a larger coordinate overflows
_VISIBLE_PIXELS = 240  # width of the depth picture that decides visibility


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Values shown by the turbo colour map.

    values     (V,); NaN shows grey
    low, high  ends of the scale; values beyond them get the colour of the end. None: the smallest
               and the largest value
    """

    values: np.ndarray
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the scale."""
        known = np.asarray(self.values)[np.isfinite(self.values)]
        low = (known.min() if known.size else 0.0) if self.low is None else self.low
        high = (known.max() if known.size else 1.0) if self.high is None else self.high
        return float(low), float(high)


def render(
    vertices: npt.ArrayLike,
    triangles: npt.ArrayLike,
    camera: Camera | None = None,
    *,
    heat: HeatMap | None = None,
    colours: npt.ArrayLike | None = None,
    background: Colour = BACKGROUND,
    samples: int = 2,
    lit: bool = True,
) -> np.ndarray:
    """A picture of the mesh: (h,w,3) uint8.

    vertices    (V,3); triangles with a NaN or infinite vertex are left out, so that a broken pose
                shows what is intact
    triangles   (M,3) vertex indices; both sides are drawn, as cloth and open shells are common
    camera      None: `Camera()`, a three-quarter view of the whole mesh
    heat        values to show as colours. None: clay
    colours     (V,3) sRGB colours of 0 to 255, instead of clay or a heat map
    samples     supersampling per axis
    lit         False: flat colours without lights, for pictures that are measured

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
    owner = rasteriser.rasterise(pixels, triangles, shape)
    behind = shading.backdrop(background, width, height)
    hit = np.flatnonzero(owner >= 0)
    if not hit.size:
        return shading.to_srgb(behind)

    corner = triangles[owner[hit]]
    weight = rasteriser.barycentric(pixels, corner, hit % shape[1] + 0.5, hit // shape[1] + 0.5)
    albedo = _albedo(corner, weight, heat, colours, len(finite))
    if lit:
        normals = _facing_normals(seen, triangles, corner, weight)
        depth = np.full(shape[0] * shape[1], -np.inf)
        depth[hit] = np.einsum("pk,pk->p", weight, pixels[corner, 2])
        openness = shading.ambient_openness(depth.reshape(shape), hit, normals, samples)
        colour = shading.shade(normals, albedo, openness, studio=heat is None and colours is None)
    else:
        colour = np.broadcast_to(albedo, (len(hit), 3))

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
    camera = replace(camera, size=(size, size), zoom=None, fit_to=vertices[np.unique(triangles)])
    placed = camera.to_pixels(vertices @ camera.axes.T)
    owner = rasteriser.rasterise(placed, triangles, (size, size))
    hit = np.flatnonzero(owner >= 0)
    depth = np.full(size * size, -np.inf)
    corner = triangles[owner[hit]]
    weight = rasteriser.barycentric(placed, corner, hit % size + 0.5, hit // size + 0.5)
    depth[hit] = np.einsum("pk,pk->p", weight, placed[corner, 2])
    column, row = (np.clip(np.floor(placed[:, k]), 0, size - 1).astype(np.int64) for k in (0, 1))
    # A tolerance of two pixels: the depth within one pixel of a steep surface.
    return finite & (placed[:, 2] >= depth[row * size + column] - 2.0)


def _whole(vertices, triangles) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices (V,3), zero where broken; triangles without these; (V,) which are finite."""
    vertices = checks.shape_of(np.asarray(vertices, np.float64), "vertices", (None, 3))
    triangles = checks.index(
        np.reshape(triangles, (-1, 3)) if np.size(triangles) == 0 else triangles,
        "triangles",
        len(vertices),
        (None, 3),
    )
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
        return shading.map_colours(np.einsum("pk,pk->p", weight, values[corner]), *heat.ends)
    return shading.CLAY


def _facing_normals(
    seen: np.ndarray, triangles: np.ndarray, corner: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """(n,3) float32 unit normals in the frame of the camera, on the side that faces the viewer."""
    normals = vertex_normals(seen, triangles, np.float64)
    smooth = np.einsum("pk,pkc->pc", weight, normals[corner])
    a, b, c = (seen[corner[:, k], :2] for k in range(3))
    # The triangle decides the side: a smooth normal may point away at the silhouette.
    smooth *= np.sign(rasteriser.cross2(b - a, c - a))[:, None]
    smooth[:, 2] = np.maximum(smooth[:, 2], 0.02)
    return (smooth / np.linalg.norm(smooth, axis=1, keepdims=True)).astype(np.float32)
