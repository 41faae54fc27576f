"""The meshes of a stage as one `Mesh`, with vertices and polygons in their original order."""

from __future__ import annotations

from typing import Any

import numpy as np
from pxr import Usd, UsdGeom

from understudy.core.coordinates import METRES
from understudy.core.mesh import Mesh
from understudy.io.budget import Budget
from understudy.io.numbers import joined_values, ragged, uvs_of
from understudy.io.usd.prim_names import original_name
from understudy.io.usd.scene_meshes import ScenePart
from understudy.system.errors import FileError


def merged_mesh(stage: Any, parts: list[ScenePart], budget: Budget) -> tuple[np.ndarray, Mesh]:
    """Return where each point of the parts is in one mesh, (V,), and that mesh, not yet placed."""
    counts = [len(part.points) for part in parts]
    before = np.cumsum([0, *counts[:-1]])
    target = _ranks([part.vertex_order for part in parts], counts)
    polygons = _ranks([part.polygon_order for part in parts], [len(part.sizes) for part in parts])
    corners = np.concatenate([target[part.corners + k] for part, k in zip(parts, before)])
    sizes = np.concatenate([part.sizes for part in parts])
    order = np.argsort(polygons, kind="stable")
    at = ragged((np.cumsum(sizes) - sizes)[order], sizes[order])
    normals = [part.smooth_normals() if part.normals is None else part.normals for part in parts]
    names, material = _material_numbers(stage, [name for part in parts for name in part.material])
    meters = UsdGeom.GetStageMetersPerUnit(stage)
    if not (np.isfinite(meters) and meters > 0):
        raise FileError(f"metersPerUnit: expected a positive number, got {meters}")
    kept = dict(stage.GetRootLayer().customLayerData.get("understudy", {}))
    up = str(UsdGeom.GetStageUpAxis(stage))
    unit = unit_of(meters) or "m"  # of another unit: `read_stage` converts it
    if kept.get("unit") == "unitless" and meters == 1.0:
        unit = "unitless"
    if kept.get("upAxis") == "unknown" and up == "Y":
        up = "unknown"
    joined = joined_values([(part.values, len(part.corners)) for part in parts], budget)
    values = {name: rows[at] for name, rows in joined.items()}
    points = np.concatenate([part.points for part in parts])
    vertices = np.empty_like(points)
    vertices[target] = points
    return target, Mesh(
        vertices,
        sizes[order],
        corners[at],
        uvs_of(values),
        np.concatenate(normals)[at] if any(p.normals is not None for p in parts) else None,
        names,
        None if material is None else material[order],
        _named_parts(parts, target, before),
        unit=unit,
        up_axis=up,
        corner_values=values,
    )


def _ranks(orders: list[np.ndarray | None], counts: list[int]) -> np.ndarray:
    """Return where elements of several meshes are in one, (n,): as written, if all say so."""
    together = np.arange(sum(counts))
    if all(order is not None for order in orders):
        given = np.concatenate([order for order in orders if order is not None])
        if len(np.unique(given)) == len(given):
            together[np.argsort(given, kind="stable")] = np.arange(len(given))
    return together


def _material_numbers(stage: Any, names: list[str]) -> tuple[tuple[str, ...], np.ndarray | None]:
    """Return the materials in the order of the stage, and the number of each polygon's."""
    used = set(names)
    if used <= {""}:
        return (), None
    listed = [
        original_name(prim)
        for prim in Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies())
        if prim.GetTypeName() == "Material"
    ]
    label = lambda name: name or "default"
    order = tuple(dict.fromkeys(label(name) for name in [*listed, *names] if name in used))
    place = {name: k for k, name in enumerate(order)}
    return order, np.array([place[label(name)] for name in names], np.int32)


def _named_parts(
    parts: list[ScenePart], target: np.ndarray, before: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the parts of the mesh by name: its objects, then subsets of their points."""
    result: dict[str, list[np.ndarray]] = {}
    names = [part.name for part in parts]
    for part, start in zip(parts, before.tolist()):
        name = part.name
        if names.count(name) > 1:
            name = str(part.prim.GetPath())
        if part.is_part:
            result[name] = [target[start : start + len(part.points)]]
    for part, start in zip(parts, before.tolist()):
        for name, points in part.groups.items():
            label = f"{name} (subset)" if name in names else name
            result.setdefault(label, []).append(target[start + points])
    return {name: np.sort(np.concatenate(pieces)) for name, pieces in result.items()}


def unit_of(meters: float) -> str | None:
    """Return the unit of that many metres; None: it has no name.

    >>> unit_of(0.01), unit_of(0.1)
    ('cm', None)
    """
    for unit, size in METRES.items():
        if unit != "unitless" and abs(meters - size) <= 1e-6 * size:
            return unit
    return None
