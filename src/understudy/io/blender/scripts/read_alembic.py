"""Runs inside Blender: reads the meshes of an Alembic file and their vertices at some frames.

Arguments: request.json and answer.json (`understudy.io.blender.launch` describes the exchange).
`understudy.io.blender.alembic` writes the request. Only Blender's own Python, NumPy and `bpy` are
used; nothing of the package is imported.
"""

import json
import sys
from pathlib import Path

import numpy as np

BASE_MEMORY = 3 << 30  # bytes that Blender may take for any file; a small one needs 300 MB
MEMORY_PER_BYTE = 64  # and for each byte of the file


class Refused(Exception):
    """The file cannot be read; the text says why and what to do."""


def read(request):
    """Return the answer and its arrays."""
    scene = bpy.context.scene
    whole = max(1, round(request["frame_rate"]))
    scene.render.fps, scene.render.fps_base = whole, whole / request["frame_rate"]
    try:
        bpy.ops.wm.alembic_import(
            filepath=request["path"],
            set_frame_range=False,
            validate_meshes=False,
            always_add_cache_reader=True,
            as_background_job=False,
        )
    except RuntimeError as problem:
        raise Refused(f"Blender cannot read it: {' '.join(str(problem).split())}") from problem
    order = {name: number for number, name in enumerate(request["parts"])}
    place = lambda target: (order.get(target.name, len(order)), target.name)
    meshes = sorted((o for o in bpy.data.objects if o.type == "MESH"), key=place)
    part_of = lambda target: request["parts"].get(target.name, target.name)
    named = chosen_meshes([(part_of(target), target) for target in meshes], request)
    vertices, arrays, materials = [], {}, []
    counts: list = []
    for number, frame in enumerate(request["frames"]):
        scene.frame_set(int(np.floor(frame)), subframe=float(frame - np.floor(frame)))
        depsgraph = bpy.context.evaluated_depsgraph_get()
        shown = [target.evaluated_get(depsgraph) for _, target in named]
        now = [placed(target) for target in shown]
        if not counts:
            counts = [len(points) for points in now]
            check_frames(request, len(request["frames"]), sum(counts))
            arrays, materials = surface(shown)
        for (name, _), points, count in zip(named, now, counts):
            if len(points) != count:
                raise Refused(
                    f"mesh {name!r} has {count} vertices at first and {len(points)} in frame "
                    f"{frame:g}; a mesh whose polygons change cannot be read"
                )
        vertices.append(np.concatenate(now))
        print("progress", number + 1, len(request["frames"]), flush=True)
    objects = [[name, count] for (name, _), count in zip(named, counts)]
    return {"objects": objects, "materials": materials}, {"vertices": np.array(vertices), **arrays}


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


def answer_request():
    """Answer the request that the arguments of the script name; a `Refused` is an answer too."""
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


if __name__ == "__main__":
    import bpy

    answer_request()
