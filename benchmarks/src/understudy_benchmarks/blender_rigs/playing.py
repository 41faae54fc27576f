"""Actions of .blend files as poses that were held out: what Blender shows at every frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.io.atomic_write import atomic_write
from understudy.io.blender import launch
from understudy.rigs.blender import connection
from understudy.rigs.blender.description import choose_request
from understudy.rigs.blender.options import BlenderOptions
from understudy.system.progress import SILENT, Progress

_SCRIPT = Path(__file__).parent / "inside" / "play.py"


def ask(path: str | Path, action: str | None, step: int, progress: Progress) -> launch.Answer:
    """Return what Blender shows at every `step`-th frame of an action; None: once, at rest."""
    request = {
        "path": str(Path(path).absolute()),
        "action": action,
        "choose": choose_request(BlenderOptions()),
        "step": step,
        "modules": str(connection.SCRIPT.parent),
    }
    return launch.run_script(_SCRIPT, request, progress=progress)


def read_action(
    path: str | Path, action: str | None, step: int = 1, progress: Progress = SILENT
) -> Poses:
    """Return the poses of every `step`-th frame of an action, as Blender plays it.

    action  its name; None: one pose, at rest

    Mesh, vertices and bones are in the order of `BlenderRig(path)`, so that a stand-in learned from
    that rig can be measured on them. There are no controls: an action may move what none of them
    moves.
    """
    values, arrays = ask(path, action, step, progress)
    counts = arrays["rest_counts"]
    mesh = Mesh(
        arrays["rest_rest"],
        polygon_sizes=arrays["rest_sizes"],
        polygon_vertices=arrays["rest_corners"],
        corner_uvs=arrays.get("rest_uvs"),
        materials=tuple(values["materials"]),
        polygon_material=arrays["rest_material"],
        parts={
            name: np.arange(end - count, end)
            for name, count, end in zip(values["meshes"], counts, np.cumsum(counts))
        },
        unit=values["unit"],
        up_axis="Z",
    )
    skeleton = Skeleton(tuple(values["bones"]), values["parents"], arrays["rest_bones"])
    return Poses(
        mesh=mesh,
        vertices=arrays["vertices"],
        skeleton=skeleton,
        world_from_bone=arrays["bones"],
        frame_rate=values["frame_rate"] / step,
        name=f"{Path(path).stem} {action or 'rest'}",
    )


def write_poses(poses: Poses, path: str | Path) -> None:
    """Write poses as a recorded `.npz`, as `understudy evaluate --poses` reads it."""
    skeleton, mesh = poses.need_skeleton("write_poses"), poses.mesh
    arrays: dict[str, Any] = {
        "vertices": poses.vertices,
        "polygon_sizes": mesh.polygon_sizes,
        "polygon_vertices": mesh.polygon_vertices,
        "rest": mesh.vertices,
        "frame_rate": poses.frame_rate,
        "world_from_bone": poses.world_from_bone,
        "rest_world_from_bone": skeleton.world_from_bone,
        "parents": skeleton.parents,
        "bone_names": skeleton.names,
        "unit": mesh.unit,
        "up_axis": mesh.up_axis,
    }
    with atomic_write(path) as draft, Path(draft).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
