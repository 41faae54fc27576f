"""Fits of candidates, measured on poses that took no part; finished ones are kept in files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.errors import FileError
from understudy.core.poses import Poses, evenly
from understudy.core.progress import Progress
from understudy.io.atomic_write import atomic_write
from understudy.methods.auto.budget import Measured
from understudy.methods.auto.candidates import Candidate, cheap_pose_count
from understudy.methods.base import config_from_text
from understudy.methods.corrected_skin.guard import clips_aside, mean_error
from understudy.methods.registry import method_type
from understudy.rigs.base import Rig
from understudy.runtime.pose_time import pose_ms

_HELD_OUT = 0.1  # of the poses
_FEWEST = 40  # poses; networks need more, so nothing is held out of fewer
_MEASURED = 400  # poses that an error is measured on, at most


@dataclass(frozen=True, eq=False)
class Lesson:
    """Poses to fit, and poses to measure on; these are the same where there are too few."""

    fit: Poses
    held_out: Poses

    @staticmethod
    def of(poses: Poses, seed: int) -> Lesson:
        """Hold out whole clips of a recording, and every tenth pose of a random sample.

        A mesh sequence is measured on itself: its bones exist in its own frames alone.
        """
        count = poses.pose_count
        if (poses.skeleton is None and poses.controls is None) or count < _FEWEST:
            return Lesson(poses, poses)
        aside = clips_aside(poses, _HELD_OUT)
        if not len(aside):
            order = np.random.default_rng([seed, 5]).permutation(count)
            aside = np.sort(order[: round(_HELD_OUT * count)])
        rest = np.setdiff1d(np.arange(count), aside)
        return Lesson(_taken(poses, rest), _taken(poses, aside[evenly(len(aside), _MEASURED)]))


def _taken(poses: Poses, chosen: np.ndarray) -> Poses:
    """Some poses; those at the start keep their clips."""
    if np.array_equal(chosen, np.arange(len(chosen))):
        return poses.between(0, len(chosen))
    return poses.take(chosen)


class MeasuredFits:
    """Fits each candidate once, in memory, and in files where a run may be interrupted.

    lesson    what to fit and to measure on
    rig       the live rig, or None
    seconds   after which no further fit should begin; None: no limit
    kept      start of the names of files of finished fits; None: none are kept
    device    of training
    """

    def __init__(
        self,
        lesson: Lesson,
        rig: Rig | None,
        progress: Progress,
        seconds: float | None = None,
        kept: Path | None = None,
        device: str = "auto",
    ):
        self._lesson, self._rig, self._progress = lesson, rig, progress
        self._end = None if seconds is None else time.monotonic() + seconds
        self._kept, self._device = kept, device
        poses = lesson.fit
        # One object for all cheap fits: what they share, such as skins, is found once.
        self._few = (
            poses
            if poses is lesson.held_out
            else poses.take(evenly(poses.pose_count, cheap_pose_count(poses.pose_count)))
        )
        self._made: dict[tuple[str, bool], tuple[Measured, Deformer]] = {}
        self._data = "" if kept is None else fingerprint(lesson.fit)

    @property
    def out_of_time(self) -> bool:
        """Whether no further fit should begin."""
        return self._end is not None and time.monotonic() > self._end

    def whole(self, candidate: Candidate) -> Measured:
        """Fit a candidate with all poses."""
        return self._get(candidate, False)[0]

    def cheap(self, candidate: Candidate) -> Measured:
        """Fit a candidate with few poses and epochs."""
        return self._get(candidate, candidate.cheap is not None)[0]

    def deformer(self, name: str) -> Deformer:
        """The whole fit of the candidate called `name`."""
        return self._made[name, False][1]

    def _get(self, candidate: Candidate, cheap: bool) -> tuple[Measured, Deformer]:
        key = candidate.name, cheap
        if key not in self._made:
            self._made[key] = self._read(candidate, cheap) or self._fit(candidate, cheap)
        return self._made[key]

    def _fit(self, candidate: Candidate, cheap: bool) -> tuple[Measured, Deformer]:
        poses = self._lesson.fit
        options = dict(candidate.options)
        if cheap:
            options |= candidate.cheap or {}
            poses = self._few
        kind = method_type(candidate.method)
        names = {field.name for field in dataclasses.fields(kind.Config)}
        if "device" in names:
            options["device"] = self._device
        file = self._file(candidate, cheap)
        if file is not None and "checkpoint" in names:
            options["checkpoint"] = f"{file}.training"
        self._progress.say(f"{candidate.name}{' (cheap)' if cheap else ''}")
        start = time.perf_counter()
        method = kind(config_from_text(kind.Config, options))
        deformer = method.fit(poses, rig=self._rig, progress=self._progress)
        seconds = time.perf_counter() - start
        measured = Measured(
            candidate.name,
            self._error(deformer),
            float(deformer.cost()["bytes"]),
            pose_ms(deformer, self._lesson.held_out),
            seconds,
        )
        if file is not None:
            deformer.save(file)
            facts = {"data": self._data, "candidate": dataclasses.asdict(candidate)}
            with atomic_write(Path(f"{file}.json")) as part:
                part.write_text(json.dumps({**facts, "measured": dataclasses.asdict(measured)}))
        return measured, deformer

    def _error(self, deformer: Deformer) -> float:
        """The mean error on the poses held out, or on the sequence itself."""
        poses = self._lesson.held_out
        if not deformer.clips:
            return mean_error(deformer, poses)
        sums, first = 0.0, 0
        for number, clip in enumerate(deformer.clips):
            true = poses.read_poses(first, first + clip.frame_count)
            sums += float(
                np.linalg.norm(deformer.deform_clip(number) - true, axis=2).sum(dtype=np.float64)
            )
            first += clip.frame_count
        return sums / (first * poses.vertex_count)

    def _file(self, candidate: Candidate, cheap: bool) -> Path | None:
        if self._kept is None:
            return None
        name = candidate.name.replace("/", "-") + ("-cheap" if cheap else "")
        return Path(f"{self._kept}.{name}.understudy")

    def _read(self, candidate: Candidate, cheap: bool) -> tuple[Measured, Deformer] | None:
        """A fit that an interrupted run finished; None: there is none of the same data."""
        file = self._file(candidate, cheap)
        if file is None:
            return None
        try:
            facts = json.loads(Path(f"{file}.json").read_text())
            same = facts["data"] == self._data and facts["candidate"] == json.loads(
                json.dumps(dataclasses.asdict(candidate))
            )
            if not same:
                return None
            return Measured(**facts["measured"]), Deformer.load(file)
        except (OSError, ValueError, KeyError, TypeError, FileError):
            return None


def fingerprint(poses: Poses) -> str:
    """A digest of some poses, so that files of other data are not taken for this one's."""
    digest = hashlib.sha256(poses.name.encode())
    digest.update(np.ascontiguousarray(poses.mesh.vertices).tobytes())
    for at in evenly(poses.pose_count, 4):
        digest.update(np.ascontiguousarray(poses.read_poses(int(at), int(at) + 1)).tobytes())
    for values in (poses.world_from_bone, poses.controls):
        digest.update(b"none" if values is None else np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
