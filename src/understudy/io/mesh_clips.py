"""`MeshClip`: frames of one mesh as they were read, and the checks every sequence goes through.

Sequences come from many programs. Whatever would spoil a fit without an error is refused here, with
the file and the frame named: a different number or order of vertices, clips of different meshes,
mixed units, NaN, a mesh collapsed to a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from understudy.core.clip import ClipSpan
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, distinct_names
from understudy.system import checks
from understudy.system.errors import InputError

# Sizes that differ by one of these factors (to within a third) are the same size in other units:
# decimal steps, inches, feet.
_UNIT_FACTORS = (10.0, 100.0, 1000.0, 12.0, 25.4, 30.48, 39.37, 304.8)
_ABOUT = 1.3
_EDGES_AT_ONCE = 4_000_000


class FrameData(NamedTuple):
    """What a sequence needs of every mesh file but the first.

    vertices  (V,3) float64
    polygons  the bytes that describe the polygons: equal bytes are equal polygons
    """

    vertices: np.ndarray
    polygons: bytes


@dataclass(frozen=True, eq=False)
class MeshClip:
    """One clip as it was read.

    name         of the clip
    mesh         at rest
    vertices     (T,V,3) float32
    places       T texts that name each frame in errors
    frame_rate   frames per second, or None: unknown
    start_frame  the number of the first frame
    """

    name: str
    mesh: Mesh
    vertices: np.ndarray
    places: Sequence[str]
    frame_rate: float | None = None
    start_frame: int = 0


@np.errstate(all="ignore")  # positions near the largest number overflow, which is no harm here
def join_clips(clips: Sequence[MeshClip], mesh: Mesh, name: str | None = None) -> Poses:
    """Return clips of one mesh as one sequence, checked.

    mesh  at rest, for all of them
    name  of the sequence; by default the clips' names
    """
    if sum(len(clip.vertices) for clip in clips) < 2:
        raise InputError(
            f"{clips[0].places[0]}: a sequence needs at least two frames, got one; "
            "give a folder, a pattern such as 'walk/*.obj', or a .npz with more frames"
        )
    for clip in clips:
        for place, finite in zip(clip.places, np.isfinite(clip.vertices).all(axis=(1, 2))):
            if not finite:
                raise InputError(
                    f"{place}: holds NaN or infinite positions; remove or repair that frame"
                )
    _need_extent(mesh)
    for clip in clips:
        _check_clip(clip, mesh)
    sizes = [float(np.median(_diagonals(clip.vertices))) for clip in clips]
    for clip, size in zip(clips[1:], sizes[1:]):
        _need_same_unit(size, sizes[0], f"clip {clip.name!r}", f"clip {clips[0].name!r}")
    labels = distinct_names([clip.name for clip in clips])
    rates = {clip.frame_rate for clip in clips}
    parts = [clip.vertices for clip in clips]
    return Poses(
        mesh,
        parts[0] if len(parts) == 1 else np.concatenate(parts),
        frame_rate=rates.pop() if len(rates) == 1 else None,
        name=name or "+".join(labels),
        spans=tuple(
            ClipSpan(label, len(clip.vertices), clip.frame_rate, clip.start_frame)
            for label, clip in zip(labels, clips)
        ),
    )


def frames_array(value: npt.ArrayLike, name: str) -> np.ndarray:
    """Return (T,V,3) float32; NaN passes, because `join_clips` names the frame it is in."""
    frames = checks.array_of(value, name, (None, None, 3))
    if not frames.size:
        raise InputError(f"{name}: holds no frames or no vertices, its shape is {frames.shape}")
    return frames


def need_same_mesh(mesh: Mesh, other: Mesh, name: str, other_name: str) -> None:
    """Raise unless two meshes have the same vertices and polygons; names are for the error."""
    checks.same_count(mesh.vertex_count, other.vertex_count, "vertices", name, other_name)
    if not same_polygons(mesh, other) and not _same_polygon_set(mesh, other):
        raise InputError(
            f"{name} has other polygons than {other_name} ({len(mesh.polygon_sizes)} and "
            f"{len(other.polygon_sizes)}): the order of the vertices or the mesh itself has "
            "changed; export every frame from the same mesh"
        )


def same_polygons(mesh: Mesh, other: Mesh) -> bool:
    """Return whether two meshes have the same polygons, in the same order."""
    return np.array_equal(mesh.polygon_sizes, other.polygon_sizes) and np.array_equal(
        mesh.polygon_vertices, other.polygon_vertices
    )


def _same_polygon_set(mesh: Mesh, other: Mesh) -> bool:
    """Return whether two meshes have the same polygons, in any order and from any first corner."""
    if not np.array_equal(np.sort(mesh.polygon_sizes), np.sort(other.polygon_sizes)):
        return False
    return all(
        np.array_equal(_sorted_polygons(mesh, size), _sorted_polygons(other, size))
        for size in np.unique(mesh.polygon_sizes).tolist()
    )


def _sorted_polygons(mesh: Mesh, size: int) -> np.ndarray:
    """Return the polygons of one size, (n,size): each from its lowest vertex on, sorted."""
    starts = (np.cumsum(mesh.polygon_sizes) - mesh.polygon_sizes)[mesh.polygon_sizes == size]
    polygons = mesh.polygon_vertices[starts[:, None] + np.arange(size)]
    turned = np.take_along_axis(
        polygons, (polygons.argmin(axis=1)[:, None] + np.arange(size)) % size, axis=1
    )
    return turned[np.lexsort(turned.T[::-1])]


def _need_extent(mesh: Mesh) -> None:
    """Raise if the mesh has no polygons, no size or no area."""
    if not len(mesh.polygon_sizes):
        raise InputError("the mesh has no polygons; a sequence without faces cannot be fitted")
    extent = np.ptp(mesh.vertices.astype(np.float64), axis=0)
    if not extent.max() > 0:
        raise InputError("the mesh at rest is degenerate: all its vertices lie in one point")
    corners = mesh.vertices.astype(np.float64)[mesh.triangles]
    sides = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(sides, axis=1).sum() / 2
    if area <= 1e-10 * extent.max() ** 2:
        raise InputError(
            "the mesh at rest is degenerate: its polygons have no area (all its vertices lie on "
            "one line?)"
        )


def _check_clip(clip: MeshClip, mesh: Mesh) -> None:
    """Check the size of every frame, against the rest shape too, and the order of the vertices."""
    diagonals = _diagonals(clip.vertices)
    flat = np.flatnonzero(~(diagonals > 0))
    if flat.size:
        raise InputError(
            f"{clip.places[int(flat[0])]}: degenerate: all its vertices lie in one point"
        )
    rest = float(_diagonals(mesh.vertices[None])[0])
    _need_same_unit(float(np.median(diagonals)), rest, f"clip {clip.name!r}", "the rest shape")
    for before, size, place in zip(diagonals, diagonals[1:], clip.places[1:]):
        _need_same_unit(size, before, place, "the frame before")
    # Shuffled vertices keep the outline, but every edge becomes a jump across the mesh.
    edges = mesh.edges
    if not len(edges):
        return
    at_rest = _edge_spread(mesh.vertices[None], edges)[0]
    block = max(1, _EDGES_AT_ONCE // len(edges))
    starts = range(0, len(clip.vertices), block)
    spread = np.concatenate([_edge_spread(clip.vertices[s : s + block], edges) for s in starts])
    # A mesh may stretch, but not in one frame alone.
    near = np.pad(spread, 1, mode="reflect" if len(spread) > 1 else "edge")
    alone = (spread > 2 * np.maximum(near[:-2], near[2:])) & (spread > 2 * at_rest)
    wrong = np.flatnonzero((spread > 0.7) & ((spread > 4 * at_rest) | alone))
    if wrong.size:
        raise InputError(
            f"{clip.places[int(wrong[0])]}: the order of its vertices differs from "
            "that of the rest shape (its edges cross the whole mesh); export every frame with "
            "the same vertex order"
        )


def _diagonals(vertices: np.ndarray) -> np.ndarray:
    """Return the diagonal of each frame's bounding box, (T,)."""
    return np.linalg.norm(vertices.max(axis=1).astype(np.float64) - vertices.min(axis=1), axis=1)


def _edge_spread(vertices: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return mean edge length over the vertices' RMS distance from their centre, (T,).

    It is about 1.3 if the edges are random pairs of vertices.
    """
    ends = vertices[:, edges[:, 0]] - vertices[:, edges[:, 1]]
    length = np.linalg.norm(ends, axis=2).mean(axis=1)
    return length / np.sqrt(vertices.var(axis=1, dtype=np.float64).sum(axis=1))


def _need_same_unit(size: float, other: float, name: str, other_name: str) -> None:
    """Raise if two sizes differ by about the factor between two units of length."""
    ratio = size / other
    large = max(ratio, 1 / ratio)
    if any(factor / _ABOUT < large < factor * _ABOUT for factor in _UNIT_FACTORS):
        nearest = min(_UNIT_FACTORS, key=lambda factor: abs(np.log(large / factor)))
        which = "larger" if ratio > 1 else "smaller"
        raise InputError(
            f"{name} is about {nearest:g} times {which} than {other_name} ({size:.4g} and "
            f"{other:.4g}): this looks like mixed units; convert everything to one unit first"
        )
