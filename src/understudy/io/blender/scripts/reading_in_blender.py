"""Runs inside Blender: what the scripts that read files share. They import it from their folder.

Only Blender's own Python, NumPy and `bpy` are used; nothing of the package is imported.
"""

import json
import sys
from pathlib import Path

import numpy as np

BASE_MEMORY = 3 << 30  # bytes that Blender may take for any file; a small one needs 300 MB
MEMORY_PER_BYTE = 64  # and for each byte of the file


class Refused(Exception):
    """The file cannot be read; the text says why and what to do."""


def answer_request(read):
    """Answer the request that the arguments of the script name.

    read  (request) -> (JSON values, arrays by name); what it raises as `Refused` is the answer
    """
    import bpy

    given = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else sys.argv[1:]
    asked, answered = map(Path, given)
    request = json.loads(asked.read_text(encoding="utf-8"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    _limit_memory(request["bytes"])
    try:
        answer, arrays = read(request)
        np.savez(answered.with_suffix(".npz"), **arrays)
    except (Refused, MemoryError) as problem:
        answer = {"error": str(problem) or "the file claims more than fits into memory"}
    answered.write_text(json.dumps(answer), encoding="utf-8")


def _limit_memory(size):
    """Make allocations fail beyond what a file of `size` bytes can need."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = BASE_MEMORY + MEMORY_PER_BYTE * size
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def check_frames(request, frames, vertices):
    """Raise if that many frames of vertices cannot come from a file of this size."""
    total = 12 * frames * vertices
    if total > BASE_MEMORY // 2 + MEMORY_PER_BYTE * request["bytes"]:
        raise Refused(f"{request['bytes']:,} bytes claim to hold {total:,} bytes of vertices")


def get(collection, attribute, width, kind):
    """Return an attribute of a Blender collection as an array (n,width), or (n,) if width is 1."""
    values = np.empty(len(collection) * width, kind)
    collection.foreach_get(attribute, values)
    return values if width == 1 else values.reshape(-1, width)


def placed(target):
    """Return the vertices of an object in world space, (V,3) float32."""
    points = get(target.data.vertices, "co", 3, np.float32)
    world = np.array(target.matrix_world)
    if np.array_equal(world, np.eye(4)):
        return points
    moved = points.astype(np.float64) @ world[:3, :3].T + world[:3, 3]
    return moved.astype(np.float32)


def chosen_meshes(named, request):
    """Return those mesh objects that the request names, or all: [(name, object), ...]."""
    if not named:
        raise Refused("the file has no mesh")
    known = [name for name, _ in named]
    for wanted in request["meshes"]:
        if wanted not in known:
            raise Refused(f"the file has no mesh {wanted!r}; it has {', '.join(known)}")
    return [each for each in named if not request["meshes"] or each[0] in request["meshes"]]


def surface(targets):
    """Return polygons, UVs, normals and materials of objects as arrays, and the material names."""
    sizes, corners, uvs, normals, of_polygon, materials = [], [], [], [], [], []
    start = 0
    for target in targets:
        mesh = target.data
        sizes.append(get(mesh.polygons, "loop_total", 1, np.int32))
        corners.append(get(mesh.loops, "vertex_index", 1, np.int32) + start)
        layer = mesh.uv_layers.active
        empty = np.zeros((len(mesh.loops), 2), np.float32)
        uvs.append(empty if layer is None else get(layer.uv, "vector", 2, np.float32))
        turn = np.linalg.inv(np.array(target.matrix_world)[:3, :3])
        turned = get(mesh.corner_normals, "vector", 3, np.float32) @ turn
        normals.append(turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-30))
        names = [slot.name if slot else "" for slot in mesh.materials]
        materials += [name for name in names if name and name not in materials]
        known = np.array([materials.index(name) if name else 0 for name in names] or [0])
        slot = get(mesh.polygons, "material_index", 1, np.int32)
        of_polygon.append(known[np.minimum(slot, len(known) - 1)].astype(np.int32))
        start += len(mesh.vertices)
    arrays = {
        "polygon_sizes": np.concatenate(sizes),
        "polygon_vertices": np.concatenate(corners),
        "polygon_material": np.concatenate(of_polygon),
        "normals": np.concatenate(normals).astype(np.float32),
    }
    if any(target.data.uv_layers.active is not None for target in targets):
        arrays["uvs"] = np.concatenate(uvs)
    return arrays, materials
