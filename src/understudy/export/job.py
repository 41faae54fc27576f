"""`ExportJob`: which clips an export bakes, and from which rig, for the command line.

Every refusal comes before any work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.provenance import parts_left_out, rig_of
from understudy.export.character import ExportSettings, baked_character, make_character
from understudy.export.clips import SourceClip, animation_clip, motion_clips, own_clips, poses_clips
from understudy.export.errors import Errors
from understudy.export.neural import NeuralMorphs, make_neural_morphs
from understudy.io.registry import format_of
from understudy.rigs.base import Rig, animation_names, name_of
from understudy.rigs.part_rig import rig_without_parts
from understudy.rigs.registry import load_rig
from understudy.rigs.sampling import SamplePlan
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

ALL = "all"
NEURAL_POSES = 600  # poses of the training range that live blend shapes have to reproduce
HELD_OUT_POSES, HELD_OUT_SEED = 100, 20_000  # further poses to measure them on
RANGE_POSES = 200  # poses of the training range that the skin is fitted to, beside the clips


@dataclass(frozen=True)
class ExportJob:
    """What the user asks of an export.

    settings  influences, blend shapes, joints
    clips     names of own clips of the deformer, or of animations of its rig; "all": all of them;
              empty: all own clips
    motions   files of bone motion, or recorded poses
    rig       the rig that the deformer was learned from, or its name as `load_rig` takes it; None:
              the one in its provenance
    looks     a mesh with the materials of the deformer's; None: those of `motions`
    """

    settings: ExportSettings = field(default_factory=ExportSettings)
    clips: Sequence[str] = ()
    motions: Sequence[str | Poses] = ()
    rig: str | Rig | None = None
    looks: Mesh | None = None

    def make(
        self, deformer: Deformer, out: str | Path, progress: Progress = SILENT
    ) -> tuple[Character, Errors]:
        """Return the character of `deformer` to write to `out`, and its errors.

        Files of vertices get the vertices of every frame as they are.
        """
        rig = self.load_rig(deformer)
        chosen = self.source_clips(deformer, rig, progress)
        deformer, name = self._dressed(deformer, chosen), Path(out).stem
        if not format_of(out, to="write").holds_skin:
            return baked_character(deformer, chosen, name=name)
        poses = None if rig is None else range_poses(deformer, rig, RANGE_POSES)
        return make_character(
            deformer, chosen, self.settings, range_poses=poses, name=name, progress=progress
        )

    def make_neural(
        self, deformer: Deformer, out: str | Path, progress: Progress = SILENT
    ) -> NeuralMorphs:
        """Return the neural-morph pair of `deformer`, whose mesh is written to `out`."""
        if not format_of(out, to="write").holds_skin:
            raise InputError(f"--neural: {Path(out).suffix} files hold no skin; write a .glb")
        rig = self.load_rig(deformer)
        chosen = self.source_clips(deformer, rig, progress)
        poses = held_out = None
        deformer = self._dressed(deformer, chosen)
        if rig is not None:
            poses = range_poses(deformer, rig, NEURAL_POSES)
            held_out = range_poses(deformer, rig, HELD_OUT_POSES, HELD_OUT_SEED)
        return make_neural_morphs(
            deformer,
            poses,
            chosen,
            self.settings,
            held_out=held_out,
            name=Path(out).stem,
            progress=progress,
        )

    def _dressed(self, deformer: Deformer, clips: Sequence[SourceClip]) -> Deformer:
        """Return the deformer with materials: its file has their names alone."""
        mesh = deformer.mesh
        for source in (*(clip.mesh for clip in clips), self.looks):
            mesh = mesh if source is None else mesh.dressed(source)
        return replace(deformer, mesh=mesh)

    def load_rig(self, deformer: Deformer) -> Rig | None:
        """Return the rig of a deformer; None where it has none, or one that is not needed here."""
        name = self.rig or rig_of(deformer)
        if name is None or (deformer.clips and self.rig is None):
            return None
        try:
            rig = load_rig(name) if isinstance(name, str) else name
        except InputError as problem:
            own = {clip.name for clip in deformer.clips}
            known = own.issuperset(set(self.clips) - {ALL})
            if self.rig is None and (not self.clips or (own and known)):
                return None
            raise InputError(
                f"the rig {name} cannot be loaded ({problem}). Pass --rig with its path, or "
                "--motion FILE with the motion of its bones"
            ) from problem
        rig = rig_without_parts(rig, parts_left_out(deformer))
        who = f"the rig {name_of(rig)!r}"
        ours, theirs = deformer.mesh.vertex_count, rig.mesh.vertex_count
        checks.same_count(ours, theirs, "vertices", "the deformer", who)
        return rig

    def source_clips(
        self, deformer: Deformer, rig: Rig | None, progress: Progress = SILENT
    ) -> list[SourceClip]:
        """Return the clips to bake, in the order the user names them."""
        own = {clip.name: clip for clip in own_clips(deformer)}
        known = () if rig is None else animation_names(rig)
        chosen: list[SourceClip] = []
        if not self.clips and not self.motions:
            chosen += own.values()
        every = (*own, *(name for name in known if name not in own))
        if self.clips and not every:
            raise InputError(
                f"--clip {self.clips[0]}: neither the file nor its rig has animations; pass "
                "--motion FILE with the motion of its bones, or leave it out"
            )
        wanted = [n for name in self.clips for n in (every if name == ALL else (name,))]
        for name in dict.fromkeys(wanted):
            if name in own:
                chosen.append(own[name])
            elif rig is not None and name in known:
                chosen.append(animation_clip(deformer, rig, name))
            else:
                checks.one_of(name, "clip", (*every, ALL))
        for motion in self.motions:
            if isinstance(motion, Poses):
                chosen += poses_clips(deformer, motion, motion.name)
            else:
                chosen += motion_clips(deformer, motion, progress)
        return chosen


def range_poses(deformer: Deformer, rig: Rig, count: int, seed: int = 0) -> Poses:
    """Return random poses of the ranges that `deformer` was trained on."""
    return rig.evaluate(SamplePlan(count, seed).values(rig, deformer.control_spec))
