"""Lights and colours of a picture: a clay material under three lights, and the heat map.

Key, fill and rim light follow the camera, so every view is lit alike. Normals and colours are in
linear light; n is the number of shaded subpixels.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from understudy.system.errors import MissingDependencyError

Colour = tuple[int, int, int]
BACKGROUND: Colour = (240, 241, 243)
CLAY = np.array([0.275, 0.315, 0.375])  # linear light: a grey-blue that leaves room for highlights
_NO_VALUE = np.array([0.30, 0.30, 0.30])
# (direction, colour) in the frame of the camera: x right, y up, z towards the viewer.
_KEY = (np.array([-0.66, 0.64, 0.40]), np.array([1.00, 0.94, 0.86]) * 2.3)
_FILL = (np.array([0.85, 0.05, 0.50]), np.array([0.68, 0.83, 1.00]) * 0.30)
_RIM = (np.array([0.55, 0.60, -0.60]), np.array([0.90, 0.95, 1.00]) * 1.1)
_SKY, _GROUND = np.array([0.27, 0.31, 0.37]), np.array([0.13, 0.115, 0.11])
_TAPS = 40  # neighbours that ambient occlusion looks at


def need_drawing() -> None:
    """Raise an error unless matplotlib and Pillow are installed.

    They provide the colour map, the typeface and the PNG writer. Clay pictures need neither.
    """
    try:
        import matplotlib  # noqa: F401 (optional dependency)
        import PIL  # noqa: F401
    except ImportError as problem:
        raise MissingDependencyError(
            "pictures and reports need matplotlib and Pillow: pip install 'understudy[cli]' "
            f"({problem})"
        ) from problem


def shade(
    normals: np.ndarray, albedo: np.ndarray, openness: np.ndarray, studio: bool
) -> np.ndarray:
    """The colour of each subpixel in linear light: (n,3).

    normals   (n,3) unit normals in the frame of the camera
    albedo    (3,) or (n,3)
    openness  (n,) 0 to 1, from `ambient_openness`
    studio    True: warm key light and cool fill light, for clay. False: neutral and even light, so
              that the colours of a map stay readable
    """
    openness = openness[:, None]
    # Single precision has more digits than eight bits need.
    along = lambda direction: normals @ (direction / np.linalg.norm(direction)).astype(np.float32)
    if not studio:
        key = np.maximum(along(_KEY[0]), 0.0)[:, None]
        return albedo * (0.50 + 0.38 * key + 0.20 * normals[:, 2:] ** 2) * (0.45 + 0.55 * openness)
    upward = (normals[:, 1:2] + 1) / 2
    light = (_GROUND.astype(np.float32) + (_SKY - _GROUND).astype(np.float32) * upward) * (
        openness * np.sqrt(openness)
    )
    for direction, strength in (_KEY, _FILL):
        # A large light close by wraps around the form.
        soft = np.maximum((along(direction) + 0.15) / 1.15, 0.0) ** 1.35
        light += strength.astype(np.float32) * (soft[:, None] * (0.35 + 0.65 * openness))
    colour = albedo.astype(np.float32) * light
    grazing = (1.0 - normals[:, 2]) ** 3
    rim = np.maximum(along(_RIM[0]) + 0.35, 0.0) * grazing
    colour += (_RIM[1] * 0.42).astype(np.float32) * (rim[:, None] * openness)
    gloss = np.maximum(along(_KEY[0] / np.linalg.norm(_KEY[0]) + [0, 0, 1]), 0.0) ** 18
    return colour + 0.07 * gloss[:, None] * openness


def ambient_openness(
    depth: np.ndarray, hit: np.ndarray, normals: np.ndarray, samples: int
) -> np.ndarray:
    """How open the surface is at each covered subpixel, from the depth picture alone: (n,) 0 to 1.

    Ambient obscurance after McGuire et al. 2011 ("Alchemy"): the mean over neighbours v of
    max(0, n.v - bias) / (|v|^2 + e). It takes the distance of an occluder into account, so a far
    arm casts no halo. It is computed once per final pixel. There are no cast shadows: on a thigh,
    the shadow of a hand looks like a dent, and these pictures are for finding dents.

    depth    (h,w) of the supersampled picture, -inf where nothing is
    hit      (n,) flat indices of the covered subpixels
    normals  (n,3) in the frame of the camera
    samples  subpixels per pixel and axis
    """
    rows, columns = depth.shape
    height, width = rows // samples, columns // samples
    blocks = depth.reshape(height, samples, width, samples)
    z = blocks.max(axis=(1, 3)).ravel() / samples  # in final pixels
    at = (hit // columns // samples) * width + hit % columns // samples
    normal = np.empty((height * width, 3), np.float32)
    normal[at] = normals
    covered = np.flatnonzero(np.isfinite(z))
    n, here = normal[covered], z[covered].astype(np.float32)
    row, column = covered // width, covered % width
    reach = 0.075 * np.sqrt(width * height)
    reach = min(reach, 0.11 * max(np.ptp(row) + 1, np.ptp(column) + 1))
    padded = z.astype(np.float32).reshape(height, width)
    total = np.zeros(len(covered), np.float32)
    # A fixed spiral of neighbours: no noise to blur, and the same picture every time.
    for k in range(_TAPS):
        radius = reach * ((k + 0.5) / _TAPS) ** 1.4 + 1.0
        angle = k * 2.399963
        dx, dy = round(radius * np.cos(angle)), round(radius * np.sin(angle))
        there = padded[np.clip(row + dy, 0, height - 1), np.clip(column + dx, 0, width - 1)]
        dz = np.where(np.isfinite(there), there - here, np.float32(-1e6))
        square = dx * dx + dy * dy + dz * dz
        in_front = n[:, 0] * dx - n[:, 1] * dy + n[:, 2] * dz
        near = np.maximum(1.0 - square / (2.5 * reach) ** 2, 0.0)
        total += np.maximum(in_front / np.sqrt(square + 1e-6) - 0.12, 0.0) * near
    openness = np.ones(height * width, np.float32)
    openness[covered] = np.clip(1.0 - 2.8 * total / _TAPS, 0.0, 1.0)
    return openness[at]


def map_colours(shown: np.ndarray, low: float, high: float) -> np.ndarray:
    """The turbo colours of values (n,) from `low` to `high`, in linear light: (n,3).

    Values beyond the ends get the colour of the end; NaN is grey.
    """
    place = np.clip((shown - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    colours = from_srgb(turbo())[np.nan_to_num(place * 255).round().astype(int)]
    return np.where(np.isfinite(shown)[:, None], colours, _NO_VALUE)


@cache
def turbo() -> np.ndarray:
    """(256,3) uint8: the turbo colour map of matplotlib."""
    need_drawing()
    from matplotlib import colormaps  # optional dependency

    return (np.asarray(colormaps["turbo"](np.arange(256)))[:, :3] * 255).round().astype(np.uint8)


def backdrop(width: int, height: int) -> np.ndarray:
    """The background in linear light, a little darker towards the floor: (h,w,3)."""
    fall = 1.0 - 0.07 * np.linspace(0.0, 1.0, height)[:, None, None] ** 2
    return np.broadcast_to(from_srgb(np.asarray(BACKGROUND, float)) * fall, (height, width, 3))


def from_srgb(colour: np.ndarray) -> np.ndarray:
    """sRGB of 0 to 255 in linear light."""
    x = np.asarray(colour) / 255.0
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def to_srgb(linear: np.ndarray) -> np.ndarray:
    """Linear light in sRGB, uint8."""
    x = np.clip(linear, 0.0, 1.0)
    curved = np.where(x <= 0.0031308, 12.92 * x, 1.055 * x ** (1 / 2.4) - 0.055)
    return (curved * 255).round().astype(np.uint8)
