"""What an animation asks of a stand-in that its training poses never showed.

Letters: T poses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.provenance import UNMOVED, sample_of
from understudy.core.skin import Skin
from understudy.evaluation.metric_catalogue import digits3
from understudy.evaluation.result import CaseResult
from understudy.methods.skin_fitting.unmoved import moves

_SHOWN = 8  # names in a sentence
_FEW = 0.02  # share of the frames: so many outside are not worth a word


@dataclass(frozen=True, eq=False)
class Coverage:
    """How an animation and the training poses of a stand-in compare.

    bones, controls  names of those that move in the animation and never did in training
    outside          (T,) the frames where these move, or that are far from the training poses
    """

    bones: Sequence[str]
    controls: Sequence[str]
    outside: np.ndarray

    @staticmethod
    def of(deformer: Deformer, poses: Poses) -> Coverage:
        """The coverage of some poses with the bones or controls of `deformer`."""
        unmoved = sample_of(deformer).get(UNMOVED)
        still: Mapping[str, Sequence[str]] = unmoved if isinstance(unmoved, Mapping) else {}
        outside = np.zeros(poses.pose_count, bool)
        bones: list[str] = []
        skeleton, world = poses.skeleton, poses.world_from_bone
        names = set(still.get("bones", ()))
        if names and skeleton is not None and world is not None:
            chosen = [b for b, name in enumerate(skeleton.names) if name in names]
            for t in range(len(world)):
                moved = moves(skeleton, world[t : t + 1], poses.mesh.height)[chosen]
                outside[t] |= moved.any()
                bones += [skeleton.names[b] for b, yes in zip(chosen, moved) if yes]
        controls: list[str] = []
        for name in still.get("controls", ()):
            spec = poses.control_spec
            if spec is not None and poses.controls is not None and name in spec.names:
                c = spec.names.index(name)
                differs = np.abs(poses.controls[:, c] - spec.rest[c]) > 1e-6
                outside |= differs
                controls += [name] if differs.any() else []
        if deformer.bounds is not None:
            outside |= deformer.distance_from_data(world, poses.controls) > 1
        return Coverage(list(dict.fromkeys(bones)), controls, outside)

    def warnings(self, case: str) -> list[str]:
        """Sentences about what never moved in training."""
        return [
            f"Warning: {len(names)} {kind}{'s' if len(names) > 1 else ''} of {case} never moved in "
            f"training, so errors there are not known beforehand: {_named(names)}."
            for kind, names in (("bone", self.bones), ("control", self.controls))
            if names
        ]

    def split(self, case: str, error: np.ndarray, unit: str) -> str:
        """The mean of an error (T,) inside and outside the training poses; "": all are inside."""
        share = float(self.outside.mean()) if len(self.outside) else 0.0
        if share <= _FEW or len(error) != len(self.outside):
            return ""
        inside = f"{digits3(float(error[~self.outside].mean()))} {unit}" if share < 1 else "none"
        return (
            f"{100 * share:.0f} % of the frames of {case} lie outside the training poses: mean "
            f"error there {digits3(float(error[self.outside].mean()))} {unit}, inside {inside}."
        )


def unmoved_warning(deformer: Deformer, own: Skin | None) -> str:
    """What to say of bones that deform the mesh and never moved in training; "": none."""
    unmoved = sample_of(deformer).get(UNMOVED)
    skeleton, skin = deformer.skeleton, own or deformer.skin
    if not isinstance(unmoved, Mapping) or skeleton is None or skin is None or skin.virtual:
        return ""
    used = {skeleton.names[int(b)] for b in np.unique(skin.bone_index[skin.weight != 0])}
    names = [name for name in unmoved.get("bones", ()) if own is None or name in used]
    if not names:
        return ""
    weights = "a guess" if own is None else "those of the file"
    return (
        f"Warning: {len(names)} bone{'s' if len(names) > 1 else ''} never moved in training; the "
        f"weights there are {weights}: {_named(names)}."
    )


def coverage_notes(deformer: Deformer, poses: Poses, row: CaseResult) -> list[str]:
    """What to say of the poses that a row was measured on; warnings first."""
    if poses.skeleton is None and poses.controls is None:
        return []
    found = Coverage.of(deformer, poses)
    unit = "units" if poses.mesh.unit == "unitless" else poses.mesh.unit
    error = np.zeros(0) if row.per_frame_mean is None else row.per_frame_mean
    return [*found.warnings(row.case), *filter(None, [found.split(row.case, error, unit)])]


def _named(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
