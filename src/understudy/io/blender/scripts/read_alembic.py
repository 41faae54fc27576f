"""Runs inside Blender: reads the meshes of an Alembic file and their vertices at some frames.

Arguments: request.json and answer.json (`understudy.io.blender.launch` describes the exchange).
`understudy.io.blender.alembic` writes the request.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from reading_in_blender import (
    Refused,
    answer_request,
    check_frames,
    chosen_meshes,
    placed,
    surface,
)


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


if __name__ == "__main__":
    import bpy

    answer_request(read)
