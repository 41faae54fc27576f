"""Characters in .blend files that a script builds: `python -m understudy_benchmarks.blender_rigs`.

    rigify       a human of 13,380 vertices with Rigify's body, fingers and face, corrective shape
                 keys that drivers move, Corrective Smooth; a walk and `KEYED` as actions
    rigify_bare  the same without actions, at rest
    quadruped    a modelled animal with IK legs; a trot and keyed poses
    clothed      the human in clothes that are meshes of their own, with eyes and teeth
    unmovable    six bones, one of which nothing moves that an animator could set

Blender builds them, in a process of its own. The same script gives the same file.

Licence: all geometry and all motion is made here, except the human's body mesh, joints and skin
weights, which are MakeHuman's (CC0), as the rig `human` of `characters/` reads them. Rigify is part
of Blender (GPL); bones that it generates are data of the file and not covered by its licence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.io.blender import launch
from understudy.system import checks
from understudy.system.progress import SILENT, Progress
from understudy_benchmarks.blender_rigs.body import read_body

NAMES = ("rigify", "rigify_bare", "quadruped", "clothed", "unmovable")
HUMANS = ("rigify", "rigify_bare", "clothed")
# The poses of the human's action `keyed`: one every `STEP` frames, from frame 1 on.
KEYED = (
    "rest",
    "squat",
    "lunge",
    "arms_up",
    "arms_forward",
    "arms_crossed",
    "t_pose",
    "elbows_bent",
    "knees_bent",
    "twist",
    "bend_forward",
    "bend_back",
    "side_bend",
    "head_turn",
    "head_nod",
    "jaw_open",
    "smile",
    "fists",
)
STEP = 10
_INSIDE = Path(__file__).parent / "inside"


def build(name: str, out: str | Path, progress: Progress = SILENT) -> dict[str, Any]:
    """Build a character, save it as `out` and return counts: vertices, bones, drivers, actions."""
    checks.one_of(name, "character", NAMES)
    path = Path(out).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    request: dict[str, Any] = {"name": name, "out": str(path), "keyed": KEYED, "step": STEP}
    arrays = None
    if name in HUMANS:
        request["joints"], arrays = read_body()
    values, _ = launch.run_script(_INSIDE / "build.py", request, progress=progress, arrays=arrays)
    return values
