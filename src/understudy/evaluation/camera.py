"""An orthographic camera around a character: where it stands and what it frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.system import checks

View = tuple[float, float]  # azimuth and elevation in degrees

_MARGIN = 0.05  # of the picture, left free on each side of what is framed


@dataclass(frozen=True, eq=False)
class Camera:
    """An orthographic camera.

    view        (azimuth, elevation) in degrees. Azimuth 0 looks at the character's front with +X on
                the right of the picture; azimuth 90 looks from +X. The front is +Z if Y is up, and
                -Y if Z is up
    size        (width, height) of the picture in pixels
    fit_to      what to frame: (2,3) corners of a box, or (n,3) points. None: the mesh that is
                drawn. Pictures with the same `fit_to` share their scale and place
    up_axis     "Y" or "Z"
    handedness  "right" or "left"; left-handed coordinates are mirrored, so that a left hand stays a
                left hand
    """

    view: View = (35.0, 8.0)
    size: tuple[int, int] = (600, 800)
    fit_to: np.ndarray | None = None
    up_axis: str = "Y"
    handedness: str = "right"

    def framing(self, points: np.ndarray) -> Camera:
        """The same camera, framing `points` unless it frames something already."""
        return self if self.fit_to is not None else replace(self, fit_to=points)

    @property
    def axes(self) -> np.ndarray:
        """(3,3) rows: the directions of the picture's right, its up, and towards the viewer."""
        azimuth, elevation = np.radians([checks.between(x, "view angle") for x in self.view])
        right = np.array([np.cos(azimuth), 0.0, -np.sin(azimuth)])
        flat = np.cos(elevation)
        towards = np.array([np.sin(azimuth) * flat, np.sin(elevation), np.cos(azimuth) * flat])
        axes = np.stack([right, np.cross(towards, right), towards])
        if checks.one_of(self.handedness, "handedness", ("right", "left")) == "left":
            axes = axes * [-1, 1, 1]
        if checks.one_of(self.up_axis, "up axis", ("Y", "Z")) == "Z":
            # (x,y,z) with Z up is (x,z,-y) with Y up.
            axes = axes @ np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
        return axes

    @property
    def direction(self) -> np.ndarray:
        """(3,) unit vector from the mesh towards the camera."""
        return self.axes[2]

    @property
    def world_width(self) -> float:
        """The width of what the picture shows, in the unit of the mesh."""
        return self._frame()[2]

    def project(self, points: np.ndarray) -> np.ndarray:
        """Pixels right, down and towards the viewer of points (n,3): (n,3) float64."""
        points = checks.shape_of(np.asarray(points, np.float64), "points", (None, 3))
        return self.to_pixels(points @ self.axes.T)

    def to_pixels(self, seen: np.ndarray, samples: int = 1) -> np.ndarray:
        """`project` for points (n,3) that are in the frame of the camera already.

        samples  subpixels per pixel and axis
        """
        left, top, width, depth = self._frame()
        scale = self.size[0] * samples / width
        return (seen - [left, top, depth]) * (np.array([1.0, -1.0, 1.0]) * scale)

    def _frame(self) -> tuple[float, float, float, float]:
        """(left, top, width, middle depth) of the picture in the frame of the camera.

        The bounds of `fit_to`, centred, with a margin, at the aspect of the picture.
        """
        aspect = self.size[0] / self.size[1]
        points = np.zeros((0, 3)) if self.fit_to is None else _corners(self.fit_to) @ self.axes.T
        if not len(points):
            points = np.zeros((1, 3))
        low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
        centre, extent = (low + high) / 2, (high - low) / (1 - 2 * _MARGIN)
        width = max(extent[0], extent[1] * aspect) or 1.0
        left, top = centre[0] - width / 2, centre[1] + width / aspect / 2
        return float(left), float(top), float(width), float(points[:, 2].mean())


def _corners(fit_to: np.ndarray) -> np.ndarray:
    """(n,3) points to frame: the eight corners of a (2,3) box, or the points themselves."""
    points = checks.array(fit_to, "fit_to", (None, 3), np.float64)
    if len(points) != 2:
        return points
    x, y, z = points.T
    return np.stack(np.meshgrid(x, y, z, indexing="ij"), axis=-1).reshape(-1, 3)
