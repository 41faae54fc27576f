"""`understudy compress`: a mesh sequence in, a skin with few bones and its clips out, with the
error in every measure of the papers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import FileError, InputError
from understudy.core.progress import SILENT, Progress
from understudy.core.version import __version__
from understudy.evaluation.measure import measure_deformers
from understudy.evaluation.metric_catalogue import digits3, metric_of, size_text
from understudy.io.sequences import read_sequence
from understudy.methods.fitting import fit_sequence

METHODS = ("temporal", "ssdr", "two_layer")
# Where a method that must be told is told neither bones nor an error: E = 2, a five-hundredth of
# half the box's diagonal, about where a difference stops showing.
DEFAULT_ERROR = 2.0
_INFLUENCES = {"temporal": 6, "ssdr": 4, "two_layer": 4}


@dataclass(frozen=True, eq=False)
class Compressed:
    """What came out: the deformer, every figure of it by name, and the sizes of the sequence and of
    the file in bytes.
    """

    deformer: Deformer
    figures: Mapping[str, float]
    bytes_before: int
    bytes_after: int
    error_asked: float | None

    def summary(self, out: str | Path) -> str:
        """The closing lines a user reads."""
        f, mesh, skin = self.figures, self.deformer.mesh, self.deformer.skin
        virtual = f", {f['virtual_bones']:.0f} virtual bones" if "virtual_bones" in f else ""
        joined = " in one skeleton" if (self.deformer.skeleton.parents >= 0).any() else ""
        frames = sum(clip.frame_count for clip in self.deformer.clips)
        clips = ", ".join(
            f"{clip.name} ({clip.frame_count} frames)" for clip in self.deformer.clips
        )
        shown = lambda name: (
            f"{metric_of(name).label} {digits3(f[name])} {metric_of(name).unit_of(mesh.unit)}"
        ).rstrip()
        errors = ("e", "erms", "disper", "max_avg_dist", "norm_distort", "mean", "p99", "max")
        lines = [
            f"{out}: {self.deformer.method}",
            f"sequence     {mesh.vertex_count} vertices x {frames} frames: {clips}",
            f"skin         {f['bones']:.0f} bones{joined}, up to {f['influences']:.0f} per vertex, "
            f"{skin.blend} blend{virtual}",
            "error        " + ", ".join(shown(name) for name in errors if name in f),
            f"size         {size_text(self.bytes_before)} of float32 positions before, "
            f"{size_text(self.bytes_after)} in the file after",
            f"compression  {shown('crp')}",
            f"time         {f['fit_s']:.1f} s",
        ]
        if self.error_asked is not None and f["e"] > 1.01 * self.error_asked:
            lines.append(
                f"The error asked for, E = {self.error_asked:g}, was not reached; allow more bones "
                f"or influences, or affine transforms."
            )
        return "\n".join(lines)


def compress(
    sources: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    bones: int | None = None,
    error: float | None = None,
    influences: int | None = None,
    transforms: str = "affine",
    method: str | None = None,
    skeleton: bool = False,
    rest: str | Path | None = None,
    frame_rate: float | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Compressed:
    """Read, fit, measure, write `out` (whole or not at all).

    bones, error  at most so many bones, or as many as E <= error needs; neither: `temporal` finds
                  the number, the others stop at `DEFAULT_ERROR`
    influences    bones per vertex; of `two_layer`, blending operations per vertex; None: six of
                  `temporal`, else four
    skeleton      one tree of bones that turn about fixed joints, to be edited and retargeted
                  (`temporal`)
    method        None: `temporal`, and `ssdr` where bones, an error or rigid bones are asked for
    """
    checks.one_of(transforms, "transforms", ("affine", "rigid"))
    if method is None:
        method = (
            "temporal"
            if skeleton or (bones is None and error is None and transforms == "affine")
            else "ssdr"
        )
    checks.one_of(method, "method of compress", METHODS)
    if skeleton and (error is not None or transforms != "affine"):
        raise InputError(
            "skeleton: its bones turn about joints, as many as --bones says or the motion asks "
            "for; leave --error and --transforms out"
        )
    if method == "temporal" and (error is not None or transforms != "affine"):
        raise InputError(
            "temporal: finds the number of bones by itself, and they are affine; for an error to "
            "reach or rigid bones use ssdr"
        )
    if method != "temporal" and skeleton:
        raise InputError(
            f"skeleton: {method} makes loose bones; leave the method out, or use temporal"
        )
    influences = _INFLUENCES[method] if influences is None else influences
    if bones is not None:
        checks.between(bones, "bones", 1)
    if error is not None:
        checks.between(error, "error", above=0)
    checks.between(influences, "influences", 3 if method == "two_layer" else 1)
    if frame_rate is not None:
        checks.between(frame_rate, "frame rate", above=0)
    if Path(out).is_dir():
        raise FileError(f"{out}: is a folder; give a file name")
    asked = DEFAULT_ERROR if bones is None and error is None and method != "temporal" else error
    poses = read_sequence(sources, rest, progress=progress)
    if frame_rate is not None:
        poses = replace(
            poses,
            frame_rate=frame_rate,
            spans=tuple(replace(span, frame_rate=frame_rate) for span in poses.spans),
        )
    if bones is not None and bones > poses.vertex_count:
        raise InputError(
            f"bones: {bones} are more than the mesh has vertices ({poses.vertex_count})"
        )
    started = time.perf_counter()
    deformer = fit_sequence(
        poses,
        method,
        bones=bones,
        error=asked,
        influences=influences,
        transforms=transforms,
        skeleton=skeleton,
        seed=seed,
        progress=progress,
    )
    seconds = time.perf_counter() - started
    fit_time = {method: {"fit_s": seconds}}
    figures = measure_deformers({method: deformer}, {poses.name: poses}, fit_time)[0].figures
    training = {name: float(figures[name]) for name in ("e", "erms", "mean", "max")}
    made_by = {"understudy": __version__, "sequence": [span.name for span in poses.spans]}
    deformer = replace(
        deformer,
        training={**deformer.training, **training},
        provenance={**deformer.provenance, **made_by},
    )
    deformer.save(out)
    return Compressed(
        deformer,
        figures,
        12 * poses.vertex_count * poses.pose_count,
        Path(out).stat().st_size,
        asked,
    )
