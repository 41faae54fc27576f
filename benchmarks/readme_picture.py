"""Draw the picture of README from the files of the demo.

    understudy demo --out out/demo
    python benchmarks/readme_picture.py out/demo        writes docs/images/human.png

One frame of the kick: the original rig, the stand-in with its error, and linear blend skinning with
its error, both heat maps on one scale.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from understudy import Deformer
from understudy.evaluation.camera import Camera
from understudy.evaluation.render import HeatMap, render
from understudy.evaluation.shading import turbo
from understudy.rigs import load_rig
from understudy.rigs.base import animation_curves
from understudy_benchmarks.pictures import colour_bar, save_png, sheet

ROOT = Path(__file__).resolve().parents[1]
FRAME = 152  # of the kick: a deep crouch, where hips, back and shoulders deform most
VIEW = (40.0, 5.0)
SIZE = (300, 440)
TEXT = 22  # pixels; README shows the picture at about half its width
TOP = 20.0  # mm, the end of the scale
WHITE = (255, 255, 255)


def picture(demo: Path) -> np.ndarray:
    """The whole picture: (h,w,3) uint8."""
    rig = load_rig("human")
    values, _ = animation_curves(rig, "kick")
    poses = rig.evaluate(values[FRAME : FRAME + 1])
    true = poses.read_poses(0, 1)[0]
    camera = Camera(view=VIEW, size=SIZE, fit_to=true)
    draw = lambda shape, heat=None: render(shape, rig.mesh.triangles, camera, heat=heat)
    cells = {"original rig": draw(true)}
    for name, file in (("stand-in", "fdda"), ("linear blend skinning", "lbs")):
        deformer = Deformer.load(demo / f"{file}.understudy")
        shape = deformer.deform(poses.world_from_bone, poses.controls)[0]
        error = 10 * np.linalg.norm(shape - true, axis=1)  # cm to mm
        cells[name] = draw(shape)
        cells[f"mean error {error.mean():.2g} mm"] = draw(shape, HeatMap(error, 0.0, TOP))
    page = sheet(list(cells.values()), list(cells), len(cells), gap=6, text=TEXT, background=WHITE)
    scale = colour_bar(
        turbo(), (0.0, TOP), "error, mm", size=(page.shape[1], 88), text=TEXT, background=WHITE
    )
    return np.concatenate([page, scale])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/readme_picture.py DEMO_FOLDER")
    out = ROOT / "docs" / "images" / "human.png"
    save_png(out, picture(Path(sys.argv[1])))
    print(f"{out.relative_to(ROOT)}: {out.stat().st_size / 1e3:.0f} kB")
