"""`FbxScene`: the arrays that `understudy.io.fbx.worker` reads from an FBX file, by name.

Transforms are (3,4), for column vectors, in the axes and the unit of the file. The arrays come
from C code that read an untrusted file, so indices are checked here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from understudy.core.poses import distinct_names
from understudy.io.budget import Budget
from understudy.io.numbers import ragged
from understudy.system import checks
from understudy.system.errors import FileError

# Directions of ufbx's axes: +X, -X, +Y, -Y, +Z, -Z.
_PART, _INFLUENCE = 16_000, 128  # bytes
_DIRECTIONS = np.repeat(np.eye(3), 2, axis=0) * np.array([[1.0], [-1.0]] * 3)


@dataclass(frozen=True, eq=False)
class Part:
    """One object: a node with its mesh.

    name              of the object, unique
    node, mesh        indices
    vertices          (V,3) in the space of the geometry
    polygon_sizes     (F,)
    corners           (N,) vertices of the polygons
    corner_normals    (N,3) or None
    materials         names
    polygon_material  (F,)
    skin              or None
    uv_sets           names
    corner_values     as `Mesh` has them, and UVs
    """

    name: str
    node: int
    mesh: int
    vertices: np.ndarray
    polygon_sizes: np.ndarray
    corners: np.ndarray
    corner_normals: np.ndarray | None
    materials: tuple[str, ...]
    polygon_material: np.ndarray
    skin: FbxSkin | None
    uv_sets: list[str]
    corner_values: dict[str, np.ndarray]

    @property
    def vertex_count(self) -> int:
        """V."""
        return len(self.vertices)


@dataclass(frozen=True, eq=False)
class FbxSkin:
    """The clusters of an object.

    nodes               (K,) the node of each cluster
    node_from_geometry  (K,3,4)
    bind_to_world       (K,3,4) the nodes at the time of binding
    cluster, vertex     (n,) of each weight
    weight              (n,)
    dual_quaternion     (V,) share of dual quaternion skinning, from 0 to 1
    """

    nodes: np.ndarray
    node_from_geometry: np.ndarray
    bind_to_world: np.ndarray
    cluster: np.ndarray
    vertex: np.ndarray
    weight: np.ndarray
    dual_quaternion: np.ndarray


@dataclass(frozen=True, eq=False)
class Shape:
    """One target of a blend channel; an in-between shape is a target of its own.

    vertices (n,), offsets (n,3) in the space of the geometry
    """

    name: str
    mesh: int
    vertices: np.ndarray
    offsets: np.ndarray


@dataclass(frozen=True, eq=False)
class Take:
    """One animation, sampled.

    node_to_world  (F,N,3,4); nodes that move nothing are left at rest
    shape_weight   (F,S)
    """

    name: str
    start_frame: int
    frame_rate: float
    node_to_world: np.ndarray
    shape_weight: np.ndarray


class FbxScene:
    """The header and the arrays of one file, and what may be made of them.

    frame_rate        frames per second, as the file says
    from_maya         whether Maya wrote the file
    node_parent       (N,) parents, -1 for the root, which is node 0
    node_to_world     (N,3,4), in the pose that the file shows without animation
    geometry_to_node  (N,3,4), the geometric transform of each node
    bind_to_world     (N,3,4), nodes in the bind poses of the file; NaN for a node that is in none
    """

    def __init__(self, header: dict[str, Any], arrays: dict[str, np.ndarray], budget: Budget):
        self.header, self.arrays, self.budget = header, arrays, budget
        self.frame_rate = float(header["frame_rate"])
        self.from_maya = "maya" in str(header["application"]).lower()
        self.node_parent, self.node_to_world = arrays["node_parent"], arrays["node_to_world"]
        self.geometry_to_node = arrays["geometry_to_node"]
        self.bind_to_world = arrays["bind_to_world"]

    def axes(self) -> tuple[str, str]:
        """Return the up axis ("Y", "Z" or "unknown") and the handedness."""
        codes = self.header["axes"]
        if not all(0 <= code < 6 for code in codes):
            return "unknown", "right"
        right, up, front = _DIRECTIONS[codes]
        handedness = "right" if np.linalg.det([right, up, front]) > 0 else "left"
        return {2: "Y", 4: "Z"}.get(codes[1], "unknown"), handedness

    def parts(self) -> list[Part]:
        """Return the objects; a mesh that several nodes show is several objects."""
        found = []
        for number, entry in enumerate(self.header["meshes"]):
            # Other programs than Maya show all instances of a skinned mesh at one place.
            alone = entry["skin"] >= 0 and not self.from_maya
            for place, node in enumerate(entry["nodes"][:1] if alone else entry["nodes"]):
                if len(self.arrays[f"mesh{number}_vertices"]):
                    name = self.header["nodes"][node] or entry["name"] or "mesh"
                    found.append(self._part(name, number, node, entry["materials"][place]))
        names = distinct_names([part.name for part in found])
        return [replace(part, name=name) for part, name in zip(found, names)]

    @cached_property
    def takes(self) -> list[Take]:
        """The animations."""
        entries = self.header["takes"]
        # Programs add an empty take to files whose animation is in another one.
        animated = [entry["keys"] for entry in entries]
        chosen = [i for i in range(len(entries)) if animated[i] or not any(animated)]
        names = distinct_names([entries[i]["name"] or "take" for i in chosen])
        return [self._take(i, name) for i, name in zip(chosen, names)]

    def still(self) -> Take:
        """Return the pose that the file shows without animation, as a take of one frame."""
        weights = np.array([[shape["weight"] for shape in self.header["shapes"]]])
        return Take("pose", 0, self.frame_rate, self.node_to_world[None], weights.reshape(1, -1))

    def shapes(self) -> list[Shape]:
        """Return the targets of all blend channels."""
        found = []
        for number, entry in enumerate(self.header["shapes"]):
            name = entry["name"] or entry["shape"] or "shape"
            if not entry["last"]:
                name = f"{name} {100 * entry['target']:g}%"
            vertices = self.arrays[f"shape{number}_vertex"]
            offsets = self.arrays[f"shape{number}_offset"]
            checks.same_count(len(offsets), len(vertices), "offsets", name, "its vertices")
            checks.finite(offsets, f"blend shape {name!r}")
            found.append(Shape(name, entry["mesh"], vertices, offsets))
        return found

    @cached_property
    def moves(self) -> np.ndarray:
        """Whether each node (N,) is, in a take, elsewhere than without animation."""
        size = np.maximum(np.abs(self.node_to_world).max(axis=(1, 2)), 1e-30)
        found = np.zeros(len(size), bool)
        for take in self.takes:
            apart = np.abs(take.node_to_world - self.node_to_world).max(axis=(0, 2, 3), initial=0)
            found |= apart > 1e-9 * size
        return found

    def _take(self, number: int, name: str) -> Take:
        sampled = self.arrays[f"take{number}_node_to_world"]
        self.budget.take(len(sampled) * self.node_to_world.nbytes * 2, f"take {name!r}")
        whole = np.tile(self.node_to_world, (len(sampled), 1, 1, 1))
        whole[:, self.arrays["sampled_nodes"]] = sampled
        return Take(
            name,
            self.header["takes"][number]["start"],
            float(self.header["rate"]),
            checks.finite(whole, f"the transforms of take {name!r}"),
            checks.finite(self.arrays[f"take{number}_shape_weight"], f"the shapes of {name!r}"),
        )

    def _part(self, name: str, mesh: int, node: int, materials: list[str]) -> Part:
        told = self.header["meshes"][mesh]
        get = lambda key: self.arrays.get(f"mesh{mesh}_{key}")
        vertices, indices = get("vertices"), get("indices")
        assert vertices is not None  # the worker writes them
        assert indices is not None
        begin, size = self.arrays[f"mesh{mesh}_faces"].T
        # Polygons of one or two corners are points and lines.
        keep = size >= 3
        begin, size = begin[keep], size[keep]
        if size.size and (begin.min() < 0 or (begin + size).max() > len(indices)):
            raise FileError(f"a polygon of {name!r} has corners that do not exist")
        given = [values for values in map(get, told["sets"]) if values is not None]
        corner = 400 + 8 * sum(values.shape[1] for values in given)
        room = _PART + 200 * len(vertices) + corner * int(size.sum())
        self.budget.take(room, f"object {name!r}")
        corners = ragged(begin, size)
        material = get("face_material")
        if material is None or len(material) != len(keep):
            material = np.zeros(len(keep), np.int64)
        sets = {name: _attribute(get(name), get(f"{name}_index"), corners) for name in told["sets"]}
        return Part(
            name,
            node,
            mesh,
            checks.finite(vertices, f"the vertices of {name!r}"),
            size,
            checks.index(indices[corners], f"the polygons of {name!r}", len(vertices)),
            _attribute(get("normal"), get("normal_index"), corners),
            tuple(distinct_names([label or "material" for label in materials])),
            np.maximum(material[keep], 0),
            self._skin(told["skin"], name, len(vertices)),
            told["uv_sets"],
            {name: values for name, values in sets.items() if values is not None},
        )

    def _skin(self, number: int, name: str, vertex_count: int) -> FbxSkin | None:
        """Return a skin without the clusters that have no node; None: there is none."""
        if number < 0:
            return None
        get = lambda key: self.arrays[f"skin{number}_{key}"]
        nodes = get("bone")
        use = np.flatnonzero(nodes >= 0)
        cluster, vertex, weight = get("cluster"), get("vertex"), get("weight")
        self.budget.take(_INFLUENCE * len(weight), "skin weights")  # of each instance
        keep = np.isin(cluster, use) & (weight != 0) & (vertex < vertex_count)
        share = np.zeros(vertex_count)
        given = get("dq")[:vertex_count]
        share[: len(given)] = np.clip(given, 0, 1)
        checks.finite(weight, f"the skin weights of {name!r}")
        return FbxSkin(
            checks.index(nodes[use], f"the bones of {name!r}", len(self.node_parent)),
            checks.finite(get("geometry_to_bone")[use], f"the clusters of {name!r}"),
            checks.finite(get("bind_to_world")[use], f"the bind pose of {name!r}"),
            np.searchsorted(use, cluster[keep]),
            vertex[keep],
            weight[keep],
            share,
        )


def _attribute(
    values: np.ndarray | None, index: np.ndarray | None, corners: np.ndarray
) -> np.ndarray | None:
    """Return the values of the corners; None if there are none, or some are not numbers."""
    if values is None or index is None or (corners.size and corners.max() >= len(index)):
        return None
    at = index[corners]
    if at.size and (at.min() < 0 or at.max() >= len(values)):
        return None
    found = values[at]
    return found if np.isfinite(found).all() else None
