"""`compress`: a mesh sequence becomes a skin with few bones and its clips.

Its flags are options of the method's config by another name; the result is measured on the
sequence, in every metric of the papers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.noun import OneLine
from understudy.core.poses import Poses
from understudy.core.provenance import with_source
from understudy.evaluation.measure import Reference, measure, measure_deformers, sequence_error
from understudy.evaluation.metric_catalogue import digits3, metric_of, size_text
from understudy.export.character import INFLUENCES as ENGINE_INFLUENCES
from understudy.export.character import sequence_character
from understudy.io.atomic_write import ensure_writable
from understudy.io.files import file_size, write_json
from understudy.io.registry import (
    ReadOptions,
    format_of,
    read_poses,
    source_provenance,
    write_character,
)
from understudy.jobs.fitting import Fit, Options, method_with, option_names
from understudy.jobs.measuring import Measured, Outputs, Trial, publish, sizes_of
from understudy.jobs.source import CharacterSource, Place, PosesSource, SequenceSource, Source
from understudy.methods.base import Method
from understudy.methods.decomposition.compact import compact, default_tolerance
from understudy.methods.posing_fitting import with_posing
from understudy.methods.registry import method_type, methods_by_name
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress
from understudy.viewer.subjects import KeptFrames, Subject

# The error E to reach where neither bones nor an error are given: a five-hundredth of half the
# diagonal of the rest pose's bounding box, about where a difference stops showing.
DEFAULT_ERROR = 2.0
ERRORS = ("e", "erms", "disper", "max_avg_dist", "norm_distort", "mean", "p99", "max")
TRAINING_ERRORS = ("e", "erms", "mean", "max")
TEMPORAL, SSDR = "temporal", "ssdr"
# Flags whose option has another name in the config of a method.
OPTION_OF_FLAG = {"two_layer": {"influences": "bones_per_vertex", "error": "bone_error"}}


@dataclass(frozen=True, eq=False, repr=False)
class Compressed(OneLine):
    """A compressed sequence.

    file          what was written
    deformer      the fit; a `.understudy` file holds it
    character     what the file of an engine holds; None: it is a `.understudy` file
    figures       of the file, by name
    notes         what was changed to fit the engine's form
    bytes_before  of the vertices of the sequence in float32
    bytes_after   of the file
    error_asked   the error E that was asked for, or None
    error_added   the error E that storing added
    measured      as a report shows it, where one was asked for
    """

    file: Path
    deformer: Deformer
    character: Character | None
    figures: Mapping[str, float]
    notes: Sequence[str]
    bytes_before: int
    bytes_after: int
    error_asked: float | None = None
    error_added: float = 0.0
    measured: Measured | None = None

    def lines(self) -> list[str]:
        """What the command prints at the end."""
        f, mesh = self.figures, self.deformer.mesh
        after = size_text(self.bytes_after)
        share = 100 * self.bytes_after / self.bytes_before
        head = after if self.character is not None else self.deformer.method
        lines = [
            f"{self.file}: {head}",
            self._sequence_line(),
            *self._skin_line(),
            f"error        {', '.join(_figure_text(n, f, mesh) for n in ERRORS if n in f)}",
            f"size         {size_text(self.bytes_before)} of float32 positions before, {after} in "
            f"the file after ({share:.3g} %)",
            *self._storage_line(),
            *([f"compression  {_figure_text('crp', f, mesh)}"] if "crp" in f else []),
            f"time         {f['fit_s']:.1f} s",
            *self.notes,
        ]
        if self.error_asked is not None and f["e"] > 1.01 * self.error_asked:
            lines.append(
                f"The error E = {self.error_asked:g} was not reached; allow more bones or "
                "influences, or affine transforms."
            )
        return lines

    def _sequence_line(self) -> str:
        clips = self.deformer.clips
        return (
            f"sequence     {self.deformer.mesh.vertex_count} vertices x "
            f"{sum(c.frame_count for c in clips)} frames: "
            + ", ".join(f"{c.name} ({c.frame_count} frames)" for c in clips)
        )

    def _skin_line(self) -> list[str]:
        made = self.character
        if made is not None:
            assert made.skin is not None  # decompositions have bones
            return [
                f"skin         {made.bone_count} joints in one skeleton, up to "
                f"{made.skin.influences} per vertex"
            ]
        skin, skeleton, f = self.deformer.skin, self.deformer.skeleton, self.figures
        if skin is None or skeleton is None:
            return []
        joined = " in one skeleton" if (skeleton.parents >= 0).any() else ""
        virtual = f", {f['virtual_bones']:.0f} virtual bones" if "virtual_bones" in f else ""
        return [
            f"skin         {f['bones']:.0f} bones{joined}, up to {f['influences']:.0f} per vertex, "
            f"{skin.blend} blend{virtual}"
        ]

    def _storage_line(self) -> list[str]:
        """The line about key frames and bits, if the clips have keys."""
        keys = [clip.keys for clip in self.deformer.clips if clip.keys is not None]
        if not keys or self.character is not None:
            return []
        count = sum(int(one.is_key.sum()) for one in keys)
        of = sum(one.is_key.size for one in keys)
        return [
            f"stored       {count} of {of} key frames of bones, {self.deformer.storage}: adds E "
            f"{digits3(self.error_added)}"
        ]


@checks.typed
def compress(
    sequence: Source | Poses | Place | Sequence[Place],
    out: str | Path,
    *,
    bones: int | None = None,
    error: float | None = None,
    influences: int | None = None,
    transforms: str | None = None,
    method: str | Method | None = None,
    skeleton: bool = False,
    tolerance: float | None = None,
    options: Options | None = None,
    seed: int | None = None,
    reading: ReadOptions | None = None,
    as_json: str | Path | None = None,
    page: str | Path | None = None,
    outputs: Outputs | None = None,
    progress: Progress = SILENT,
) -> Compressed:
    """Turn a mesh sequence into bones and clips, and write them to `out`.

    sequence    frames as files, poses, or what `read` returned; bones and controls are not used
    out         a `.understudy` file has the bones that reproduce the sequence best; the file of an
                engine (.glb, .usd, .fbx, ...) has one skeleton and at most 4 influences, or the
                bones that `transforms` or `method` ask for
    bones       their number; None: found from the motion
    error       add bones until this error E is reached, in thousandths of half the diagonal of the
                rest pose's bounding box (ssdr, two_layer)
    influences  largest number of bones per vertex; for two_layer, blending operations per vertex
    transforms  affine or rigid (ssdr, two_layer)
    method      None: temporal; with bones, error or transforms, ssdr
    skeleton    join the bones to one skeleton with joints inside the body (temporal)
    tolerance   error E that storing may add; None: a tenth of the error, at least 0.1; 0: none
    options     of the method
    reading     what the files cannot say
    as_json     also write the figures to this file
    page        also write a page (.html) that shows the result beside the sequence
    outputs     also write a report and its figures, of a `.understudy` file
    """
    flags = {
        "bones": bones,
        "error": error,
        "influences": influences,
        "transforms": transforms,
        "skeleton": skeleton or None,
        "seed": seed,
    }
    flags = {flag: value for flag, value in flags.items() if value is not None}
    for_engine = format_of(out, to="write").write_deformer is None
    if for_engine and tolerance is not None:
        raise InputError(
            f"--tolerance is about key frames of .understudy files; {Path(out).suffix} files have "
            "a key in every frame. Leave it out"
        )
    # Whether the user decided on the kind of bones; else those of an engine are one skeleton,
    # fitted under its limits from the start. An error is reached by bones of another kind first.
    as_asked = bool(skeleton or transforms or method)
    if for_engine and not as_asked and error is None:
        flags["skeleton"] = True
    if for_engine and "skeleton" in flags:
        flags.setdefault("influences", ENGINE_INFLUENCES)
    if isinstance(method, Method):
        chosen = method
    else:
        name = method or default_method(flags)
        chosen = method_with(name, options_of(name, flags, options or {}))
    for path in (as_json, page):
        if path is not None:
            ensure_writable(path)
    fitting = Fit.of(chosen, out, for_engine=True)
    poses, made_by = _sequence_of(sequence, reading, progress)
    if bones is not None and bones > poses.vertex_count:
        raise InputError(
            f"--bones {bones} is more than the mesh has vertices ({poses.vertex_count})"
        )
    started = time.perf_counter()
    deformer = fitting.method.fit(poses, progress=progress)
    if for_engine and not as_asked and error is not None:
        joined = {"bones": deformer.bone_count, "skeleton": True, "seed": seed or 0}
        joined["influences"] = influences or ENGINE_INFLUENCES
        deformer = method_with(TEMPORAL, joined).fit(poses, progress=progress)
    fit_s = time.perf_counter() - started
    asked = getattr(fitting.method.config, _option_of(chosen.name, "error"), None)
    before = 12 * poses.vertex_count * poses.pose_count
    done = Compressed(fitting.out, deformer, None, {}, (), before, 0, asked)
    kept = KeptFrames({poses.name: poses})
    if for_engine:
        done = _write_engine_file(done, poses, influences or ENGINE_INFLUENCES, fit_s, progress)
        fitting.remove_checkpoints()
    else:
        if (deformer.skeleton is not None) and (deformer.skeleton.parents >= 0).any():
            deformer = _posable(deformer, poses, progress)
        deformer, added = _compacted(deformer, poses, tolerance)
        label = deformer.method
        (row,) = measure_deformers(
            {label: deformer}, kept.cases, {label: {"fit_s": fit_s}}, progress
        )
        figures = {name: float(value) for name, value in row.figures.items()}
        training = {**deformer.training, **{name: figures[name] for name in TRAINING_ERRORS}}
        deformer = replace(with_source(deformer, made_by), training=training)
        fitting.write(deformer)
        after = file_size(fitting.out)
        measured = None
        if outputs is not None:
            subject = Subject(label, deformer, after, fitting.out)
            row = replace(row, figures={**row.figures, **sizes_of(subject)})
            measured = publish([subject], trial_of_sequence(poses), [row], kept, outputs)
        done = replace(
            done,
            deformer=deformer,
            figures=figures,
            bytes_after=after,
            error_added=added,
            measured=measured,
        )
    if page is not None:
        kept.cases[poses.name]()  # keeps the frames, also where nothing was measured
        kept.write_page({deformer.method: deformer}, poses.name, page)
    if as_json is not None:
        sizes = {"bytes_before": done.bytes_before, "bytes_after": done.bytes_after}
        write_json(Path(as_json), {"unit": poses.mesh.unit, **sizes, **done.figures})
    return done


def trial_of_sequence(poses: Poses) -> Trial:
    """A sequence, to measure on: bones that are found in it exist in its own frames alone."""
    note = "Measured on the sequence itself."
    return Trial(poses.name, poses.mesh, {poses.name: poses}, [note])


def _sequence_of(
    sequence: Source | Poses | Place | Sequence[Place],
    reading: ReadOptions | None,
    progress: Progress,
) -> tuple[Poses, Mapping[str, Any]]:
    """The vertices of a sequence, without bones and controls, and their provenance."""
    made_by: Mapping[str, Any]
    if isinstance(sequence, SequenceSource | PosesSource):
        poses, made_by = sequence.poses, sequence.made_by
    elif isinstance(sequence, CharacterSource):
        poses, made_by = sequence.recorded().poses, sequence.made_by
    elif isinstance(sequence, Poses):
        poses, made_by = sequence, {}
    elif isinstance(sequence, Source):
        raise InputError(f"{sequence.name} is a rig: learn it, or sample it first")
    else:
        poses, made_by = read_poses(sequence, reading, progress), source_provenance(sequence)
    bare = replace(poses, skeleton=None, world_from_bone=None, control_spec=None, controls=None)
    return bare, made_by


def _write_engine_file(
    done: Compressed, poses: Poses, influences: int, fit_s: float, progress: Progress
) -> Compressed:
    """Write a fit as an engine plays it, and measure what the file shows."""
    character, errors = sequence_character(
        poses, done.deformer, influences, name=done.file.stem, progress=progress
    )
    shown = np.concatenate([character.evaluate_clip(clip) for clip in character.clips])
    row = measure(done.file.name, shown, Reference.of(poses.name, poses))
    figures = {name: float(value) for name, value in row.figures.items()}
    lost = write_character(character, done.file)
    return replace(
        done,
        character=character,
        figures={**figures, "fit_s": fit_s},
        notes=(*errors.notes, *lost),
        bytes_after=file_size(done.file),
    )


def _compacted(deformer: Deformer, poses: Poses, tolerance: float | None) -> tuple[Deformer, float]:
    """The deformer in as few bytes as the tolerance allows, and the error E that this adds."""
    error = lambda of: sequence_error(poses, of)
    before = error(deformer)
    allowed = default_tolerance(before) if tolerance is None else tolerance
    smaller = compact(deformer, allowed)
    return smaller, error(smaller) - before if smaller is not deformer else 0.0


def _posable(deformer: Deformer, poses: Poses, progress: Progress) -> Deformer:
    """The deformer with handles to pose its skeleton, found from the motion of its bones."""
    moved = np.concatenate([clip.world_from_bone for clip in deformer.clips])
    rigged = replace(poses, skeleton=deformer.skeleton, world_from_bone=moved)
    return with_posing(deformer, rigged, progress)


def default_method(flags: Mapping[str, Any]) -> str:
    """The method for the flags that are given: the first that has an option for each of them.

    >>> default_method({}), default_method({"bones": 20}), default_method({"skeleton": True})
    ('temporal', 'ssdr', 'temporal')
    """
    decided_by_user = {"bones", "error", "transforms"} & flags.keys()
    return SSDR if decided_by_user and "skeleton" not in flags else TEMPORAL


def options_of(method: str, flags: Options, options: Options) -> dict[str, Any]:
    """The options of the method's config, from the flags and from those given by name.

    >>> options_of("two_layer", {"bones": 8, "influences": 6}, {"finish": 5})
    {'bones': 8, 'bones_per_vertex': 6, 'finish': 5}
    """
    kind = method_type(method)
    if not kind.traits.takes_sequences:
        raise InputError(
            f"{method} does not fit mesh sequences; use {', '.join(_sequence_methods())}, or "
            f"`understudy fit {method}` for poses with bones or controls"
        )
    known = option_names(kind)
    found: dict[str, Any] = {}
    for flag, value in flags.items():
        name = _option_of(method, flag)
        if name not in known:
            others = [
                other
                for other in _sequence_methods()
                if _option_of(other, flag) in option_names(method_type(other))
            ]
            raise InputError(
                f"--{flag}: {method} has no such option; leave it out, or use --method "
                f"{' or '.join(others)}"
            )
        if name in options:
            raise InputError(f"--{flag} and --set {name} are the same option; give one of them")
        found[name] = value
    found |= options
    error = _option_of(method, "error")
    if error in known and error not in found and "bones" not in found:
        found[error] = DEFAULT_ERROR
    if error in found:
        found.setdefault("bones", None)
    return found


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


def _figure_text(name: str, figures: Mapping[str, float], mesh: Mesh) -> str:
    """A figure with its label and unit."""
    metric = metric_of(name)
    unit = metric.unit_of(mesh.unit, mesh.size_label)
    return f"{metric.label} {digits3(figures[name])} {unit}".rstrip()
