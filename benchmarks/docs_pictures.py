"""Draw the pictures of the method pages, from the built-in rigs alone.

    understudy demo --out out/demo
    understudy sample face -o out/face.zarr --count 2000
    understudy fit differential out/face.zarr -o out/face.understudy
    python benchmarks/docs_pictures.py out/demo out/face.understudy     writes docs/images/*.png

`fdda` and `lbs` show the files of the demo, `differential` the fitted face. The methods for mesh
sequences are fitted here to the walk of the human, which takes about a minute.
"""

from __future__ import annotations

import colorsys
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from understudy import Deformer, Poses
from understudy.core.skin import skin_weights
from understudy.evaluation.camera import Camera, View
from understudy.evaluation.measure import seam_labels
from understudy.evaluation.render import HeatMap, render
from understudy.evaluation.shading import turbo
from understudy.methods import method_type
from understudy.rigs import load_rig
from understudy.rigs.base import animation_curves
from understudy_benchmarks.pictures import colour_bar, save_png, sheet

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
TEXT = 20  # pixels of the labels
WHITE = (255, 255, 255)
WALK_FRAMES = slice(0, 300, 6)  # the sequence that is decomposed
SHOWN = 9  # of these frames, the one in the pictures

Cells = Mapping[str, tuple[np.ndarray, HeatMap | np.ndarray | None]]


def save(name: str, mesh, cells: Cells, view: View, size: tuple[int, int], top: float = 0) -> None:
    """Write docs/images/NAME.png: one cell for each label.

    cells  label -> (vertices (V,3), heat map or colours (V,3) or None)
    top    mm, the end of the scale of the heat maps; 0: there are none
    """
    first = next(iter(cells.values()))[0]
    camera = Camera(view=view, size=size, fit_to=first)
    images = []
    for vertices, look in cells.values():
        heat = look if isinstance(look, HeatMap) else None
        colours = look if isinstance(look, np.ndarray) else None
        images.append(render(vertices, mesh.triangles, camera, heat=heat, colours=colours))
    page = sheet(images, list(cells), len(images), gap=6, text=TEXT, background=WHITE)
    if top:
        scale = colour_bar(
            turbo(), (0.0, top), "error, mm", size=(page.shape[1], 80), text=TEXT, background=WHITE
        )
        page = np.concatenate([page, scale])
    path = save_png(IMAGES / f"{name}.png", page)
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


def error_mm(vertices: np.ndarray, true: np.ndarray) -> np.ndarray:
    """(V,) distances in mm of vertices in cm."""
    return 10 * np.linalg.norm(vertices - true, axis=1)


def mean_and_max(error: np.ndarray) -> str:
    """The label of a heat map, errors in mm."""
    return f"mean {error.mean():.2g}, max {error.max():.2g} mm"


def palette(count: int) -> np.ndarray:
    """(count,3) sRGB colours of 0 to 255; neighbours in the list differ clearly."""
    hues = (np.arange(count) * 0.618034) % 1.0
    light = np.array([0.95, 0.72, 0.85])[np.arange(count) % 3]
    return np.array([colorsys.hsv_to_rgb(h, 0.62, v) for h, v in zip(hues, light)]) * 255


def bone_colours(deformer: Deformer) -> np.ndarray:
    """(V,3) the colours of the bones, blended by the skin weights."""
    weights = np.asarray(skin_weights(deformer.skin, deformer.skeleton.bone_count).todense())
    return np.clip(weights @ palette(weights.shape[1]), 0, 255)


def body_pictures(demo: Path) -> None:
    """fdda.png and lbs.png: one frame of the kick."""
    rig = load_rig("human")
    values, _ = animation_curves(rig, "kick")
    poses = rig.evaluate(values[152:153])
    true = poses.read_poses(0, 1)[0]
    for method, top in (("fdda", 3.0), ("lbs", 20.0)):
        deformer = Deformer.load(demo / f"{method}.understudy")
        shape = deformer.deform(poses.world_from_bone, poses.controls)[0]
        error = error_mm(shape, true)
        labels = seam_labels([deformer])
        if labels is None:
            first: Cells = {"original rig": (true, None)}
        else:
            first = {"one network per region": (true, palette(int(labels.max()) + 1)[labels])}
        cells: Cells = {
            **first,
            method: (shape, None),
            mean_and_max(error): (shape, HeatMap(error, 0.0, top)),
        }
        save(method, rig.mesh, cells, (40.0, 5.0), (290, 425), top)


def face_picture(file: Path) -> None:
    """differential.png: one frame of the expressions."""
    rig = load_rig("face")
    values, _ = animation_curves(rig, "expressions")
    poses = rig.evaluate(values[126:127])
    true = poses.read_poses(0, 1)[0]
    shape = Deformer.load(file).deform(poses.world_from_bone, poses.controls)[0]
    error = error_mm(shape, true)
    top = 3.0
    cells = {
        "original rig": (true, None),
        "differential": (shape, None),
        mean_and_max(error): (shape, HeatMap(error, 0.0, top)),
    }
    save("differential", rig.mesh, cells, (22.0, 3.0), (316, 378), top)


def walk() -> Poses:
    """The walk of the human as a mesh sequence, without bones and controls."""
    rig = load_rig("human")
    values, rate = animation_curves(rig, "walk")
    vertices = rig.evaluate(values[WALK_FRAMES]).read_poses(0, len(values))
    return Poses(rig.mesh, vertices, frame_rate=rate / WALK_FRAMES.step, name="walk")


def sequence_pictures() -> None:
    """ssdr.png, temporal.png and two_layer.png: the walk as few bones."""
    sequence = walk()
    true = sequence.read_poses(SHOWN, SHOWN + 1)[0]
    for method, options in (
        ("ssdr", {"bones": 20}),
        ("temporal", {}),
        ("two_layer", {"bones": 20}),
    ):
        kind = method_type(method)
        deformer = kind(kind.Config(**options)).fit(sequence)
        shape = deformer.deform_clip()[SHOWN]
        error = error_mm(shape, true)
        bones = f"{deformer.skeleton.bone_count} bones"
        top = 8.0
        cells = {
            "mesh sequence": (true, None),
            bones: (shape, bone_colours(deformer)),
            mean_and_max(error): (shape, HeatMap(error, 0.0, top)),
        }
        save(method, sequence.mesh, cells, (30.0, 5.0), (260, 430), top)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/docs_pictures.py DEMO_FOLDER FACE_FILE")
    body_pictures(Path(sys.argv[1]))
    face_picture(Path(sys.argv[2]))
    sequence_pictures()
