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


def limit_memory(size):
    """Make allocations fail beyond what a file of `size` bytes can need."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = BASE_MEMORY + MEMORY_PER_BYTE * size
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def get(collection, attribute, width, kind):
    """Return an attribute of a Blender collection as an array (n,width), or (n,) if width is 1."""
    values = np.empty(len(collection) * width, kind)
    collection.foreach_get(attribute, values)
    return values if width == 1 else values.reshape(-1, width)


def found_objects(request):
    """Return the mesh objects to read with their names, in the order of their names."""
    meshes = sorted((o for o in bpy.data.objects if o.type == "MESH"), key=lambda o: o.name)
    named = [(request["parts"].get(target.name, target.name), target) for target in meshes]
    if not named:
        raise Refused("the Alembic file has no mesh")
    known = [name for name, _ in named]
    for wanted in request["meshes"]:
        if wanted not in known:
            raise Refused(f"the file has no mesh {wanted!r}; it has {', '.join(known)}")
    return [each for each in named if not request["meshes"] or each[0] in request["meshes"]]


def placed(target, depsgraph):
    """Return the vertices of an evaluated object in world space, (V,3), and its mesh."""
    shown = target.evaluated_get(depsgraph)
    points = get(shown.data.vertices, "co", 3, np.float32)
    world = np.array(shown.matrix_world)
    if np.array_equal(world, np.eye(4)):
        return points, shown.data
    moved = points.astype(np.float64) @ world[:3, :3].T + world[:3, 3]
    return moved.astype(np.float32), shown.data


def topology(named, depsgraph):
    """Return polygons, UVs, normals and materials of all objects as arrays, and the materials."""
    sizes, corners, uvs, normals, of_polygon, materials = [], [], [], [], [], []
    start = 0
    for _, target in named:
        points, mesh = placed(target, depsgraph)
        sizes.append(get(mesh.polygons, "loop_total", 1, np.int32))
        corners.append(get(mesh.loops, "vertex_index", 1, np.int32) + start)
        layer = mesh.uv_layers.active
        uvs.append(None if layer is None else get(layer.uv, "vector", 2, np.float32))
        turn = np.linalg.inv(np.array(target.evaluated_get(depsgraph).matrix_world)[:3, :3]).T
        turned = get(mesh.corner_normals, "vector", 3, np.float32) @ turn.T
        length = np.linalg.norm(turned, axis=1, keepdims=True)
        normals.append(turned / np.maximum(length, 1e-30))
        names = [slot.name if slot else "" for slot in mesh.materials]
        materials += [name for name in names if name and name not in materials]
        known = np.array([materials.index(name) if name else 0 for name in names] or [0])
        slot = get(mesh.polygons, "material_index", 1, np.int32)
        of_polygon.append(known[np.minimum(slot, len(known) - 1)].astype(np.int32))
        start += len(points)
    arrays = {
        "polygon_sizes": np.concatenate(sizes),
        "polygon_vertices": np.concatenate(corners),
        "polygon_material": np.concatenate(of_polygon),
        "normals": np.concatenate(normals).astype(np.float32),
    }
    if any(each is not None for each in uvs):
        filled = [
            np.zeros((len(c), 2), np.float32) if u is None else u for u, c in zip(uvs, corners)
        ]
        arrays["uvs"] = np.concatenate(filled)
    return arrays, materials


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
        raise Refused(f"Blender cannot read this Alembic file: {problem}") from problem
    named = found_objects(request)
    frames, vertices, arrays, materials, counts = request["frames"], None, {}, [], []
    for number, frame in enumerate(frames):
        scene.frame_set(int(np.floor(frame)), subframe=float(frame - np.floor(frame)))
        depsgraph = bpy.context.evaluated_depsgraph_get()
        now = [placed(target, depsgraph)[0] for _, target in named]
        if vertices is None:
            counts = [len(points) for points in now]
            total = 12 * len(frames) * sum(counts)
            if total > BASE_MEMORY // 2 + MEMORY_PER_BYTE * request["bytes"]:
                raise Refused(f"{request['bytes']:,} bytes claim to hold {total:,} of vertices")
            vertices = np.empty((len(frames), sum(counts), 3), np.float32)
            arrays, materials = topology(named, depsgraph)
        for (name, _), points, count in zip(named, now, counts):
            if len(points) != count:
                raise Refused(
                    f"mesh {name!r} has {count} vertices at first and {len(points)} in frame "
                    f"{frame:g}; a mesh whose polygons change cannot be read"
                )
        vertices[number] = np.concatenate(now)
        print("progress", number + 1, len(frames), flush=True)
    objects = [[name, count] for (name, _), count in zip(named, counts)]
    return {"objects": objects, "materials": materials}, {"vertices": vertices, **arrays}


def main(asked, answered):
    """Answer one request."""
    request = json.loads(Path(asked).read_text(encoding="utf-8"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    limit_memory(request["bytes"])
    try:
        answer, arrays = read(request)
        np.savez(Path(answered).with_suffix(".npz"), **arrays)
    except (Refused, MemoryError) as problem:
        answer = {"error": str(problem) or "the file claims more than fits into memory"}
    Path(answered).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    import bpy

    main(*(sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else sys.argv[1:]))
