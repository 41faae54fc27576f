"""Bone matrices of recorded poses: one convention, and the mistakes that can be recognised.

The convention is that of column vectors: a bone's matrix M maps a point p of the bone's space to
the world by `M @ (p, 1)`, so the translation is the last column. Maya, DirectX and FBX SDK exports
use row vectors, `(p, 1) @ M`, with the translation in the last row: such matrices must be
transposed first. Learning from the wrong convention does not fail; it only gives a bad deformer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from understudy.core.poses import Poses, evenly, pose_tile
from understudy.geometry.transforms import compose, inverse
from understudy.system import checks
from understudy.system.errors import InputError

_LAST_ROW = np.array([0.0, 0.0, 0.0, 1.0])
_TRANSPOSE = (
    "transpose them, numpy.swapaxes(matrices, -1, -2), then store 4x4 or the first three rows"
)
_POSES, _VERTICES = 12, 600  # enough to tell conventions apart, and few enough to take no time
_PRODUCTS = 600_000  # vertices times bones: more bones than a thousand are tried on fewer vertices
_TILE = 1000  # poses in memory that are looked at
# Another reading of the matrices is taken for the right one if it explains the poses this many
# times better, and what was given is off by more than this share of the mesh's size.
_TIMES_BETTER, _NOTICEABLE = 1.8, 2e-3
_UNIT_FACTORS = (10.0, 100.0, 1000.0, 2.54, 25.4, 39.37, 30.48)
# Another way to read the matrices: what to do about it, rest bones, bones.
Reading = tuple[str, np.ndarray, np.ndarray]


def as_3x4(value: np.ndarray, name: str, leading: tuple[int | None, ...]) -> np.ndarray:
    """Return matrices as (..., 3, 4) float64.

    value    (..., 3, 4), or (..., 4, 4) whose last row is 0 0 0 1
    name     for the errors
    leading  the axes before the last two; None: any length
    """
    value = np.asarray(value)
    if value.shape[-2:] == (4, 3):
        raise InputError(f"{name}: 4x3 matrices are of the row-vector convention; {_TRANSPOSE}")
    rows = 4 if value.shape[-2:] == (4, 4) else 3
    matrices = checks.array(value, name, (*leading, rows, 4), np.float64)
    if rows == 3:
        return matrices
    wrong = ~np.isclose(matrices[..., 3, :], _LAST_ROW, atol=1e-4).all(axis=-1)
    if wrong.any():
        if np.isclose(matrices[..., :, 3], _LAST_ROW, atol=1e-4).all():
            raise InputError(
                f"{name}: the translation is in the last row of the 4x4 matrices: they are of the "
                f"row-vector convention (Maya's); {_TRANSPOSE}"
            )
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        found = " ".join(f"{number:g}" for number in matrices[place][3])
        raise InputError(
            f"{name}: the last row of a 4x4 matrix must be 0 0 0 1, got {found} at index {place}"
        )
    return np.ascontiguousarray(matrices[..., :3, :])


def check_bones(
    rest: np.ndarray, vertices: np.ndarray, rest_bones: np.ndarray, bones: np.ndarray
) -> None:
    """Raise if the bones (T,B,3,4) do not move as the vertices (T,V,3) do, but would if they were
    read otherwise.

    Every vertex of a character nearly follows one of its bones. The distance that is left over
    tells a right reading of the matrices from a wrong one.
    """
    rest, vertices = rest.astype(np.float64), np.asarray(vertices)
    _check_rest_pose(rest, vertices, rest_bones, bones)
    _need_right_reading(rest, vertices, rest_bones, bones, (_turned, _inverted, _scaled))


def check_convention(poses: Poses) -> None:
    """Raise if the rotations of the bones explain the poses only when they are transposed.

    A rig may have bones that the mesh follows at a distance, such as handles; the other mistakes
    of recorded files cannot be told from those. Reads few poses and few vertices.
    """
    skeleton, bones = poses.need_bones("the check of bone matrices")
    rest_bones = skeleton.world_from_bone
    in_memory = isinstance(poses.vertices, np.ndarray)
    height, first = (_TILE, 0) if in_memory else pose_tile(poses.vertices)  # type: ignore[arg-type]
    height = max(height, _POSES)
    # The tile of the pose in which the bones turn furthest: of a store, this one alone is read.
    some = evenly(poses.pose_count, _TILE)
    turns = np.abs(bones[some, :, :, :3] - rest_bones[:, :, :3]).sum(axis=(1, 2, 3))
    start = (int(some[turns.argmax()]) + first) // height * height - first
    inside = slice(max(0, start), start + height)
    chosen = evenly(poses.vertex_count, _VERTICES)
    rest = poses.mesh.vertices[chosen].astype(np.float64)
    vertices = poses.read(inside.start, inside.stop, chosen)
    _need_right_reading(rest, vertices, rest_bones, bones[inside], (_turned,), from_file=False)


def _size(rest: np.ndarray) -> float:
    return float(np.linalg.norm(np.ptp(rest, axis=0))) or 1.0


def _need_right_reading(
    rest: np.ndarray,
    vertices: np.ndarray,
    rest_bones: np.ndarray,
    bones: np.ndarray,
    readings: Sequence[Callable[[np.ndarray, np.ndarray], Iterator[Reading]]],
    from_file: bool = True,
) -> None:
    """Raise if one of the other `readings` of the matrices explains the poses far better.

    from_file  the matrices may have been cut to three rows when they were written
    """
    if not rest.size or not rest_bones.size:
        return
    size, rest_extent = _size(rest), np.abs(rest).max()
    chosen = evenly(len(rest), max(3, min(_VERTICES, _PRODUCTS // len(rest_bones))))
    rest, vertices = rest[chosen], vertices[:, chosen]
    motion = np.linalg.norm(vertices - rest, axis=-1).mean(axis=1)
    poses = np.argsort(-motion, kind="stable")[:_POSES]
    bones, wanted, moved = bones[poses], vertices[poses].astype(np.float64), motion[poses].mean()
    given = _distance(rest, wanted, rest_bones, bones)
    if given <= _NOTICEABLE * size:
        return
    shifts = max(np.abs(rest_bones[..., 3]).max(), np.abs(bones[..., 3]).max())
    # A single bone may well stay at the origin: the root of a face that controls move.
    still = from_file and bones.shape[1] > 1 and shifts <= 1e-6 * rest_extent
    if still and given > 0.3 * moved:
        raise InputError(
            "world_from_bone: no bone has a translation in any pose, but the mesh moves: these are "
            "4x4 matrices of the row-vector convention (Maya's) cut to three rows. Start from the "
            f"4x4 matrices: {_TRANSPOSE}"
        )
    found = [
        (_distance(rest, wanted, *other), advice)
        for others in readings
        for advice, *other in others(rest_bones, bones)
    ]
    best, advice = min(found)
    if _TIMES_BETTER * best < given:
        raise InputError(
            f"the bones do not reproduce the poses (mean distance {given:.3g}, the mesh is "
            f"{size:.3g} across), but they would ({best:.3g}) if {advice}"
        )


def _check_rest_pose(
    rest: np.ndarray, vertices: np.ndarray, rest_bones: np.ndarray, bones: np.ndarray
) -> None:
    """Raise if some pose has its bones at rest, but another mesh than the one at rest."""
    nearest, apart = nearest_pose(bones, rest_bones)
    off = float(np.linalg.norm(vertices[nearest] - rest, axis=-1).mean())
    if apart <= 1e-4 * _size(rest) and off > 0.1 * _size(rest):
        raise InputError(
            f"rest and rest_world_from_bone are not the same pose: in pose {nearest} the bones are "
            f"at rest, but its vertices are {off:.3g} away from rest on average; "
            "store the mesh and the bones of one and the same pose"
        )


def nearest_pose(values: np.ndarray, wanted: np.ndarray) -> tuple[int, float]:
    """Return which of `values` (T, ...) is nearest to `wanted` (...), and their largest distance.

    >>> nearest_pose(np.array([[0.0, 4.0], [1.0, 2.0]]), np.array([1.0, 2.5]))
    (1, 0.5)
    """
    # Pose by pose: the vertices of all poses may be large.
    apart = np.array([np.abs(value - wanted).max() for value in values])
    return int(apart.argmin()), float(apart.min())


def _distance(
    rest: np.ndarray, wanted: np.ndarray, rest_bones: np.ndarray, bones: np.ndarray
) -> float:
    """Return how far vertices (t,n,3) are on average from where their best single bone puts them.

    The best bone of a vertex is the same in all poses.
    """
    matrices = compose(bones, inverse(rest_bones))
    total = np.zeros((bones.shape[1], len(rest)))
    for pose, points in zip(matrices, wanted):  # few poses; (B,n,3) at a time
        placed = rest @ pose[:, :, :3].swapaxes(-1, -2) + pose[:, None, :, 3]
        total += np.linalg.norm(placed - points, axis=-1)
    return float(np.mean(total.min(axis=0))) / len(wanted)


def _turned(rest_bones: np.ndarray, bones: np.ndarray) -> Iterator[Reading]:
    turned = lambda m: np.concatenate([m[..., :3].swapaxes(-1, -2), m[..., 3:]], axis=-1)
    maya = "were transposed: they are of the row-vector convention (Maya's). Start from the 4x4"
    for what, other_rest, other in (
        ("the 3x3 parts of all matrices", turned(rest_bones), turned(bones)),
        ("the 3x3 parts of world_from_bone alone", rest_bones, turned(bones)),
        ("the 3x3 parts of rest_world_from_bone alone", turned(rest_bones), bones),
    ):
        yield f"{what} {maya} matrices: {_TRANSPOSE}", other_rest, other


def _inverted(rest_bones: np.ndarray, bones: np.ndarray) -> Iterator[Reading]:
    if min(np.abs(np.linalg.det(m[..., :3])).min() for m in (rest_bones, bones)) > 1e-9:
        text = "were inverted: they look like bone_from_world; store numpy.linalg.inv of the 4x4"
        yield f"both {text}", inverse(rest_bones), inverse(bones)
        yield f"rest_world_from_bone alone {text}", inverse(rest_bones), bones


def _scaled(rest_bones: np.ndarray, bones: np.ndarray) -> Iterator[Reading]:
    for factor in (f for unit in _UNIT_FACTORS for f in (unit, 1 / unit)):
        scaled = [m.copy() for m in (rest_bones, bones)]
        for matrices in scaled:
            matrices[..., 3] *= factor
        advice = (
            f"their translations were multiplied by {factor:.4g}: the bones are in another unit "
            "than the mesh; convert both to one unit"
        )
        yield advice, scaled[0], scaled[1]
