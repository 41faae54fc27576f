"""`understudy compress`: a mesh sequence becomes a skin with few bones and its clips.

A preset of `fit` for mesh sequences. Its flags are options of the method's config by another name;
it also measures the result on the sequence, in every metric of the papers.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from understudy.cli.options import (
    FrameRate,
    Json,
    Out,
    Preset,
    Rest,
    Seed,
    Settings,
    Unit,
    UpAxis,
    read_options,
    settings_of,
)
from understudy.cli.output import file_size, write_json
from understudy.core.clip import ClipKeys
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.measure import Reference, measure, measure_deformers, sequence_error
from understudy.evaluation.metric_catalogue import digits3, metric_of, size_text
from understudy.export.sequence import INFLUENCES as ENGINE_INFLUENCES
from understudy.export.sequence import engine_character
from understudy.io.atomic_write import ensure_writable
from understudy.io.registry import format_of, source_provenance, write_character
from understudy.methods.decomposition.compact import compact, default_tolerance
from understudy.methods.fitting import FitJob, with_source
from understudy.methods.posing_fitting import with_posing
from understudy.methods.registry import method_type, methods_by_name
from understudy.viewer.measured import KeptFrames

# The error E to reach where neither bones nor an error are given: a five-hundredth of half the
# diagonal of the rest pose's bounding box, about where a difference stops showing.
DEFAULT_ERROR = 2.0
ERRORS = ("e", "erms", "disper", "max_avg_dist", "norm_distort", "mean", "p99", "max")
# Flags whose option has another name in the config of a method.
OPTION_OF_FLAG = {"two_layer": {"influences": "bones_per_vertex", "error": "bone_error"}}


def compress(
    sequence: Annotated[
        list[str],
        typer.Argument(
            help="A .npz, a folder or a 'pattern' of .obj or .ply files; several: one clip each."
        ),
    ],
    out: Out,
    bones: Annotated[
        int | None, typer.Option(min=1, help="Number of bones. Default: found from the motion.")
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="Add bones until this error E is reached, in thousandths of half the diagonal of "
            "the rest pose's bounding box (ssdr, two_layer)."
        ),
    ] = None,
    influences: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Largest number of bones per vertex; for two_layer, blending operations per "
            "vertex. Default: 6 for temporal, else 4.",
        ),
    ] = None,
    transforms: Annotated[
        str | None,
        typer.Option(help="affine: bones may stretch and shear; rigid: not (ssdr, two_layer)."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="A method for mesh sequences (temporal, ssdr, two_layer, ...). Default: "
            "temporal; with --bones, --error or --transforms, ssdr."
        ),
    ] = None,
    skeleton: Annotated[
        bool,
        typer.Option(
            "--skeleton",
            help="Join the bones to one skeleton with joints inside the body, to edit and retarget "
            "(temporal).",
        ),
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Error E that storing may add: key frames only where they are needed, in 16 bits. "
            "Default: a tenth of the error, at least 0.1; 0: every frame as it was fitted.",
        ),
    ] = None,
    preset: Preset = None,
    settings: Settings = [],  # noqa: B006
    rest: Rest = None,
    frame_rate: FrameRate = None,
    up: UpAxis = None,
    unit: Unit = None,
    as_json: Json = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Also write a page (.html) that shows the result beside the sequence."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn a mesh sequence into bones and clips.

    The result is a skin with few bones and few influences per vertex. No option is needed.

    A .understudy file has the bones that reproduce the sequence best. The file of an engine (.glb,
    .usd, .fbx, ...) has one skeleton and at most 4 influences, fitted to the sequence again;
    --transforms and --method keep the bones that they ask for instead. Both errors are printed.
    """
    flags = {
        "bones": bones,
        "error": error,
        "influences": influences,
        "transforms": transforms,
        "skeleton": skeleton or None,
        "seed": seed or None,
    }
    for_engine = format_of(out, to="write").write_deformer is None
    if for_engine and tolerance is not None:
        raise InputError(
            f"--tolerance is about key frames of .understudy files; {out.suffix} files have a key "
            "in every frame. Leave it out"
        )
    if for_engine and skeleton and influences is None:
        flags["influences"] = ENGINE_INFLUENCES
    given = {flag: str(value) for flag, value in flags.items() if value is not None}
    chosen = method or default_method(given)
    options = options_of(chosen, given, settings_of(settings, preset))
    for path in (as_json, page):
        if path is not None:
            ensure_writable(path)
    progress = TerminalProgress()
    job = FitJob.of(chosen, out, options, for_engine=True)
    poses = job.read(sequence, read_options(up, unit, frame_rate, rest), progress)
    # Bones and controls that the file may have are not used: the method finds its own bones.
    poses = replace(poses, skeleton=None, world_from_bone=None, control_spec=None, controls=None)
    if bones is not None and bones > poses.vertex_count:
        raise InputError(
            f"--bones {bones} is more than the mesh has vertices ({poses.vertex_count})"
        )
    started = time.perf_counter()
    deformer = job.fit(poses, progress=progress)
    fit_time = {chosen: {"fit_s": time.perf_counter() - started}}
    if skeleton and not for_engine:
        deformer = _posable(deformer, poses, progress)
    kept = KeptFrames({poses.name: poses})
    added = 0.0
    if not for_engine:
        deformer, added = _compacted(deformer, poses, tolerance)
    rows = measure_deformers({chosen: deformer}, kept.cases, fit_time, progress)
    if page is not None:
        kept.write_page({chosen: deformer}, poses.name, page)
    figures = {name: float(value) for name, value in rows[0].figures.items()}
    asked = options.get(OPTION_OF_FLAG.get(chosen, {}).get("error", "error"))
    result = Compressed(
        deformer,
        figures,
        bytes_before=12 * poses.vertex_count * poses.pose_count,
        bytes_after=0,
        error_asked=None if asked in (None, "none") else float(asked),
        error_added=added,
    )
    if for_engine:
        as_asked = skeleton or transforms is not None or method is not None
        request = EngineFile(out, influences or ENGINE_INFLUENCES, as_asked, seed)
        figures = request.write(poses, result, progress)
        job.remove_checkpoints()
    else:
        errors = {name: figures[name] for name in ("e", "erms", "mean", "max")}
        job.write(
            replace(
                with_source(deformer, source_provenance(sequence)),
                training={**deformer.training, **errors},
            )
        )
        result = replace(result, bytes_after=out.stat().st_size)
        print(result.summary(out))
    if as_json is not None:
        sizes = {"bytes_before": result.bytes_before, "bytes_after": file_size(out)}
        write_json(as_json, {"unit": deformer.mesh.unit, **sizes, **figures})


def _places(keys: ClipKeys) -> int:
    return int(keys.is_key.size)


def _compacted(deformer: Deformer, poses: Poses, tolerance: float | None) -> tuple[Deformer, float]:
    """The deformer in as few bytes as the tolerance allows, and the error E that this adds."""
    error = lambda of: sequence_error(poses, of)
    before = error(deformer)
    allowed = default_tolerance(before) if tolerance is None else tolerance
    smaller = compact(deformer, allowed)
    return smaller, error(smaller) - before if smaller is not deformer else 0.0


def _posable(deformer: Deformer, poses: Poses, progress: TerminalProgress) -> Deformer:
    """The deformer with handles to pose its skeleton, found from the motion of its bones."""
    moved = np.concatenate([clip.world_from_bone for clip in deformer.clips])
    rigged = replace(poses, skeleton=deformer.skeleton, world_from_bone=moved)
    return with_posing(deformer, rigged, progress)


def default_method(given: Mapping[str, str]) -> str:
    """The method for the flags that are given: the first that has an option for each of them.

    >>> default_method({}), default_method({"bones": "20"}), default_method({"skeleton": "True"})
    ('temporal', 'ssdr', 'temporal')
    """
    decided_by_user = {"bones", "error", "transforms"} & given.keys()
    return "ssdr" if decided_by_user and "skeleton" not in given else "temporal"


def options_of(
    method: str, given: Mapping[str, str], settings: Mapping[str, str]
) -> dict[str, str]:
    """The options of the method's config, from the flags and from `--set`.

    >>> options_of("two_layer", {"bones": "8", "influences": "6"}, {"finish": "5"})
    {'bones': '8', 'bones_per_vertex': '6', 'finish': '5'}
    """
    kind = method_type(method)
    if not kind.traits.takes_sequences:
        raise InputError(
            f"{method} does not fit mesh sequences; use {', '.join(_sequence_methods())}, or "
            f"`understudy fit {method}` for poses with bones or controls"
        )
    known = _option_names(method)
    options = {}
    for flag, value in given.items():
        name = _option_of(method, flag)
        if name not in known:
            others = [m for m in _sequence_methods() if _option_of(m, flag) in _option_names(m)]
            raise InputError(
                f"--{flag}: {method} has no such option; leave it out, or use --method "
                f"{' or '.join(others)}"
            )
        if name in settings:
            raise InputError(f"--{flag} and --set {name} are the same option; give one of them")
        options[name] = value
    options |= settings
    error = _option_of(method, "error")
    if error in known and error not in options and "bones" not in options:
        options[error] = str(DEFAULT_ERROR)
    if error in options:
        options.setdefault("bones", "none")
    return options


def _sequence_methods() -> list[str]:
    """The methods for mesh sequences, without the baselines and `auto`, which takes a budget."""
    return [
        name
        for name, kind in methods_by_name()[0].items()
        if kind.traits.takes_sequences
        and not kind.traits.controls_suffice
        and not kind.traits.baseline
    ]


def _option_of(method: str, flag: str) -> str:
    return OPTION_OF_FLAG.get(method, {}).get(flag, flag)


def _option_names(method: str) -> set[str]:
    return {field.name for field in dataclasses.fields(method_type(method).Config)}


@dataclass(frozen=True, eq=False)
class Compressed:
    """A compressed sequence: its deformer, its figures by name, and the sizes in bytes.

    bytes_before  of the vertices of the sequence in float32
    bytes_after   of the file
    error_asked   the error E that was asked for, or None
    error_added   the error E that storing added
    """

    deformer: Deformer
    figures: Mapping[str, float]
    bytes_before: int
    bytes_after: int
    error_asked: float | None
    error_added: float = 0.0

    def summary(self, out: Path) -> str:
        """The lines that the command prints at the end."""
        f, mesh = self.figures, self.deformer.mesh
        skin, skeleton = self.deformer.skin, self.deformer.skeleton
        lines = [f"{out}: {self.deformer.method}", self.sequence_line()]
        if skin is not None and skeleton is not None:
            joined = " in one skeleton" if (skeleton.parents >= 0).any() else ""
            virtual = f", {f['virtual_bones']:.0f} virtual bones" if "virtual_bones" in f else ""
            lines.append(
                f"skin         {f['bones']:.0f} bones{joined}, up to {f['influences']:.0f} per "
                f"vertex, {skin.blend} blend{virtual}"
            )
        lines += [
            f"error        {shown_errors(f, mesh)}",
            f"size         {size_text(self.bytes_before)} of float32 positions before, "
            f"{size_text(self.bytes_after)} in the file after"
            f" ({100 * self.bytes_after / self.bytes_before:.3g} %)",
            *self.storage_lines(),
            *([f"compression  {shown_figure('crp', f, mesh)}"] if "crp" in f else []),
            f"time         {f['fit_s']:.1f} s",
        ]
        if self.error_asked is not None and f["e"] > 1.01 * self.error_asked:
            lines.append(
                f"The error E = {self.error_asked:g} was not reached; allow more bones or "
                "influences, or affine transforms."
            )
        return "\n".join(lines)

    def storage_lines(self) -> list[str]:
        """The line about key frames and bits, if the clips have keys."""
        keys = [clip.keys for clip in self.deformer.clips if clip.keys is not None]
        if not keys:
            return []
        count, of = (sum(key(one) for one in keys) for key in (lambda k: k.is_key.sum(), _places))
        return [
            f"stored       {count} of {of} key frames of bones, {self.deformer.storage}: adds E "
            f"{digits3(self.error_added)}"
        ]

    def sequence_line(self) -> str:
        """The line about the sequence."""
        clips = self.deformer.clips
        return (
            f"sequence     {self.deformer.mesh.vertex_count} vertices x "
            f"{sum(c.frame_count for c in clips)} frames: "
            + ", ".join(f"{c.name} ({c.frame_count} frames)" for c in clips)
        )


@dataclass(frozen=True)
class EngineFile:
    """A compressed sequence in a file of an engine.

    out         the file
    influences  largest number of bones per vertex
    as_asked    the user chose the kind of bones, so they are not joined to one skeleton
    seed        of the fit of the skeleton
    """

    out: Path
    influences: int
    as_asked: bool
    seed: int = 0

    def write(
        self, poses: Poses, result: Compressed, progress: TerminalProgress
    ) -> dict[str, float]:
        """Write the file and print its errors; return its figures by name.

        poses   the sequence
        result  what a .understudy file would hold
        """
        character, errors = engine_character(
            poses,
            result.deformer,
            self.influences,
            keep_bones=self.as_asked,
            seed=self.seed,
            name=self.out.stem,
            progress=progress,
        )
        shown = np.concatenate([character.evaluate_clip(clip) for clip in character.clips])
        bare = Reference.of(poses.name, poses)
        figures = {n: float(v) for n, v in measure(self.out.name, shown, bare).figures.items()}
        write_character(character, self.out)
        assert character.skin is not None  # decompositions have bones
        mesh, own = character.mesh, result.deformer
        before, after = size_text(result.bytes_before), size_text(file_size(self.out))
        lines = [
            f"{self.out}: {after}",
            result.sequence_line(),
            f"skin         {character.bone_count} joints in one skeleton, up to "
            f"{character.skin.influences} per vertex",
            f"error        {shown_errors(figures, mesh)}",
            f"size         {before} of float32 positions before, {after} in the file after",
            f"As .understudy ({own.bone_count} bones, up to "
            f"{result.figures['influences']:.0f} per vertex), the error would be "
            f"{shown_errors(result.figures, mesh)}.",
            *errors.notes,
        ]
        print("\n".join(lines))
        as_understudy = {f"understudy_{n}": v for n, v in result.figures.items()}
        return {**figures, **as_understudy}


def shown_errors(figures: Mapping[str, float], mesh: Mesh) -> str:
    """The errors of a sequence as one text."""
    return ", ".join(shown_figure(name, figures, mesh) for name in ERRORS if name in figures)


def shown_figure(name: str, figures: Mapping[str, float], mesh: Mesh) -> str:
    """A figure with its label and unit."""
    metric = metric_of(name)
    unit = metric.unit_of(mesh.unit, mesh.size_label)
    return f"{metric.label} {digits3(figures[name])} {unit}".rstrip()
