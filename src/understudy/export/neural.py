"""The neural-morph pair: a character with blend shapes, and a net that computes their weights.

Engines skin and morph the mesh; the net, from bones and controls to weights, runs beside them. So
the correctives follow any motion, not only baked clips.

If engines play the deformer's own skin, its correctives d = mean + B c are linear in the
coefficients c of its networks. Their projection to the blend shapes is linear too, and is folded
into one matrix:

    d_t = mean' + U a_t             principal components U of the poses, U+ its pseudo-inverse
    a   = U+ (mean - mean') + (U+ B) c
    w   = a, scaled to 0..1         the weights of the blend shapes

Otherwise (dual quaternions, negative weights, too many influences) the skin is fitted again, and
the matrix from coefficients and features to weights is fitted to the poses by ridge regression.

Letters: F poses, V vertices, S blend shapes, P components, N coefficients, X features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.version import __version__
from understudy.export.bones import (
    EngineBones,
    Frames,
    deformed_frames,
    packed,
    plays_as_it_is,
    range_clip,
)
from understudy.export.character import (
    ExportSettings,
    clip_errors,
    engine_bones,
    engine_skin,
    notes_on,
)
from understudy.export.clips import SourceClip, distinct_clips
from understudy.export.errors import Errors
from understudy.export.joints import Joints, make_joints
from understudy.export.shapes import ShapeBasis, SkinnedFrames, low_rank_displacements
from understudy.io.onnx import WeightsNet
from understudy.runtime.reference import coefficients_of, drivers, pose_readings
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

HELD_OUT = "held-out poses"
EXACT = "The net is the deformer's own, projected to the blend shapes."
FITTED = "The skin was fitted again, and the last layer of the net to poses."
_RIDGE = 1e-3  # of the mean square of a column


@dataclass(frozen=True, eq=False)
class NeuralMorphs:
    """A neural-morph pair.

    character  mesh, skin, blend shapes, and the clips with weights that the net computes
    net        from bones and controls to the weights of the blend shapes
    errors     of both together
    example    a clip of one frame, with what the net makes of it: (S,) weights
    exact      whether the net is the deformer's own, projected to the blend shapes; else its last
               layer was fitted to poses
    """

    character: Character
    net: WeightsNet
    errors: Errors
    example: tuple[SourceClip, np.ndarray]
    exact: bool

    def about(self, mesh_file: str) -> dict[str, Any]:
        """Return what an engine programmer needs to know, as plain data."""
        deformer = self.net.deformer
        mesh, skeleton, spec = deformer.mesh, deformer.skeleton, deformer.control_spec
        bones, rest, posed = [], {}, {}
        clip, weights = self.example
        if skeleton is not None and clip.world_from_bone is not None:
            name = lambda bone: None if bone < 0 else skeleton.names[bone]
            above = skeleton.parents[self.net.bones]
            bones = [{"name": name(b), "parent": name(p)} for b, p in zip(self.net.bones, above)]
            read = sorted({*self.net.bones, *above} - {-1})
            rest = {name(bone): skeleton.world_from_bone[bone].tolist() for bone in read}
            posed = {name(bone): clip.world_from_bone[0, bone].tolist() for bone in read}
        used = list(self.net.controls)
        names = () if spec is None else [spec.names[control] for control in used]
        controls = [] if clip.controls is None else clip.controls[0, used].tolist()
        return {
            "understudy": __version__,
            "mesh": mesh_file,
            "inputs": {
                "bones": {
                    "rows": bones,
                    "matrix": "inverse(parent in world) * bone in world",
                    "in_world": "motion since the bind pose * rest",
                    "rest": rest,
                },
                "controls": {"rows": list(names)},
            },
            "outputs": {"weights": [shape.name for shape in self.character.shapes]},
            "test": {"bones": posed, "controls": controls, "weights": weights.tolist()},
            "unit": mesh.unit,
            "up_axis": mesh.up,
            "handedness": mesh.handedness,
            "errors": self.errors.json(),
        }

    def text(self) -> str:
        """Return the same as a few sentences, for the doc_string of the net."""
        mesh = self.net.deformer.mesh
        return (
            "Weights of the blend shapes of a character from its bones and controls. Input bones "
            "(poses, bones, 3, 4): each bone in the frame of its parent, for column vectors, row "
            f"by row, in {mesh.unit}, {mesh.up} up, {mesh.handedness}-handed. Input controls "
            "(poses, controls). Output weights (poses, shapes). The metadata property understudy "
            "names the rows."
        )


def make_neural_morphs(
    deformer: Deformer,
    poses: Poses | None,
    clips: Sequence[SourceClip] = (),
    settings: ExportSettings | None = None,
    *,
    held_out: Poses | None = None,
    name: str = "character",
    progress: Progress = SILENT,
) -> NeuralMorphs:
    """Return the neural-morph pair of a deformer with networks.

    poses     of the training range, which the blend shapes have to reproduce; None: the clips alone
    clips     to bake as well
    settings  influences, blend shapes, joints
    held_out  further poses to measure on, or None
    name      of the character
    """
    settings = ExportSettings() if settings is None else settings
    if not deformer.nets or not settings.morphs:
        raise InputError(
            "a neural-morph pair needs networks and blend shapes, and this export has none; leave "
            "out --neural"
        )
    clips = distinct_clips(clips)
    sources = [*clips, *([] if poses is None else [range_clip(deformer, poses)])]
    if not sources:
        raise InputError("a neural-morph pair is fitted to poses: name a rig, clips or motion")
    bones = engine_bones(deformer, sources, settings, progress)
    frames = [deformed_frames(deformer, bones, clip) for clip in sources]
    base, joints, exact = _skinned(deformer, bones, frames, settings, name, progress)
    with progress.task("finding blend shapes", 1) as task:
        reads = [_read(deformer, clip) for clip in sources]
        if exact:
            wanted = np.concatenate(
                [deformer.displacements(clip.world_from_bone, clip.controls) for clip in sources]
            )
        else:
            assert joints is not None  # without bones, the skin is exact
            assert base.skin is not None
            moved = np.concatenate([joints.moved_by(part.world_from_bone) for part in frames])
            targets = np.concatenate([part.target for part in frames])
            skinned = SkinnedFrames(base.mesh.vertices, joints.skeleton, base.skin, moved, targets)
            wanted = low_rank_displacements(skinned, settings.morphs)
        basis = ShapeBasis.of(wanted, settings.morphs, deformer.mesh.height)
        inputs = np.concatenate(reads)
        if exact:
            matrix, offset = _projected(deformer, basis)
        else:
            matrix, offset = _regressed(inputs, basis.scores(wanted))
        shapes, scaled, shift = basis.shapes(inputs @ matrix.T + offset)
        net = WeightsNet(deformer, scaled @ matrix, scaled @ offset + shift)
        task.advance()
    made = replace(base, shapes=shapes)
    measured = list(zip(clips, frames))
    if held_out is not None:
        clip = replace(range_clip(deformer, held_out), name=HELD_OUT)
        measured.append((clip, deformed_frames(deformer, bones, clip)))
    baked, rows, examples = [], [], []
    for clip, part in measured:
        weights = _read(deformer, clip) @ net.matrix.T + net.offset
        world = part.in_world if joints is None else joints.moved_by(part.in_world)
        played = CharacterClip(clip.name, world, weights, clip.frame_rate, clip.start_frame)
        rows += clip_errors(made, played, part)
        baked.append(played)
        examples.append(_farthest(clip, weights))
    baked = baked[: len(clips)]
    if joints is not None:  # with the joints that move no vertex
        worlds = joints.world_from_bone
        baked = [replace(one, world_from_bone=world) for one, world in zip(baked, worlds)]
    notes = [] if joints is None else notes_on(joints, deformer)
    notes.append(EXACT if exact else FITTED)
    errors = Errors(tuple(rows), deformer.mesh.unit, tuple(notes))
    whole = replace(made, clips=tuple(baked)).with_unit_bones()
    return NeuralMorphs(whole, net, errors, examples[-1], exact)


def _farthest(clip: SourceClip, weights: np.ndarray) -> tuple[SourceClip, np.ndarray]:
    """Return the frame whose weights (F,S) differ most from the others': the best test."""
    at = int(np.abs(weights - np.median(weights, axis=0)).sum(axis=1).argmax())
    cut = lambda array: None if array is None else array[at : at + 1]
    one = SourceClip(clip.name, cut(clip.world_from_bone), cut(clip.controls))
    return one, weights[at].astype(np.float32)


def _skinned(
    deformer: Deformer,
    bones: EngineBones | None,
    frames: Sequence[Frames],
    settings: ExportSettings,
    name: str,
    progress: Progress,
) -> tuple[Character, Joints | None, bool]:
    """Return the character without blend shapes, its joints, and whether it has the own skin."""
    if bones is None:
        return Character(deformer.mesh, name=name), None, True
    exact = plays_as_it_is(bones.skin, settings.influences) and not bones.is_rigid
    skin = packed(bones.skin)
    if not exact:
        skin = engine_skin(deformer, bones, frames, settings.influences, progress)
    worlds = [part.in_world for part in frames]
    joints = make_joints(bones.skeleton, worlds)
    return Character(deformer.mesh, joints.skeleton, joints.skin(skin), name=name), joints, exact


def _read(deformer: Deformer, clip: SourceClip) -> np.ndarray:
    """Return the coefficients and the features of a clip, (F,N+X) float64."""
    given = drivers(deformer, clip.world_from_bone, clip.controls)
    readings = pose_readings(deformer, given.world_from_bone, given.controls)
    features = np.clip(readings, deformer.features.low, deformer.features.high)
    parts = [coefficients_of(deformer, readings), features]
    return np.concatenate(parts, axis=1).astype(np.float64)


def _projected(deformer: Deformer, basis: ShapeBasis) -> tuple[np.ndarray, np.ndarray]:
    """Return the map from coefficients and features to scores: (P,N+X) and (P,)."""
    projection, deformer = basis.projection(), deformer.folded
    width = deformer.coefficient_count
    matrix = np.zeros((len(projection), width + deformer.features.count))
    for part in deformer.bases:
        if part.shared:
            for axis in range(3):
                columns: Any = (slice(None), part.coefficients[axis])
                moved = projection[:, 3 * part.vertices + axis] @ part.matrix
                np.add.at(matrix, columns, moved)
        else:
            rows = (3 * part.vertices[:, None] + np.arange(3)).reshape(-1)
            columns = (slice(None), part.coefficients)
            np.add.at(matrix, columns, projection[:, rows] @ part.matrix)
    mean = np.zeros(len(basis.mean)) if deformer.mean is None else deformer.mean.reshape(-1)
    return matrix, projection @ (mean - basis.mean)


def _regressed(inputs: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the map from inputs (F,n) to scores (F,P) by ridge regression: (P,n) and (P,)."""
    mean, target = inputs.mean(axis=0), scores.mean(axis=0)
    spread = inputs.std(axis=0)
    used = spread > 1e-9 * max(float(spread.max(initial=0.0)), 1e-300)
    scaled = (inputs[:, used] - mean[used]) / spread[used]
    hold = _RIDGE * len(inputs) * np.eye(scaled.shape[1])
    solved = np.linalg.solve(scaled.T @ scaled + hold, scaled.T @ (scores - target))
    matrix = np.zeros((scores.shape[1], inputs.shape[1]))
    matrix[:, used] = (solved / spread[used, None]).T
    return matrix, target - matrix @ mean
