"""Fits of candidates, measured on poses that took no part; finished ones are kept in files.

Times are processor times of this process: other programs do not change them.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.noun import fingerprint
from understudy.core.poses import Poses, content_of, evenly
from understudy.io.atomic_write import atomic_write
from understudy.methods.auto.budget import Budget, Measured
from understudy.methods.auto.candidates import Candidate, cheap_pose_count
from understudy.methods.auto.shrinking import Components
from understudy.methods.correctives.facts import PoseFacts, SharingMethod
from understudy.methods.correctives.guard import mean_error
from understudy.methods.correctives.storage import decides_storage, in_16_bits, stored
from understudy.methods.fit_arguments import is_sequence
from understudy.methods.registry import method_type
from understudy.rigs.base import Rig
from understudy.runtime.timing import pose_ms
from understudy.system.errors import FileError
from understudy.system.progress import Progress
from understudy.training.held_out import clips_aside, validation_poses
from understudy.training.schedule import Schedule

_HELD_OUT = 0.1  # of the poses
_FEWEST = 40  # poses; networks need more, so nothing is held out of fewer
_MEASURED = 150  # poses that an error is measured on, at most
_INFLUENCES = 4
_SEARCH_STEPS = 3  # errors that are measured to find how many components can be left out


@dataclass(frozen=True, eq=False)
class Lesson:
    """Poses to fit, and poses to measure on; these are the same where there are too few."""

    fit: Poses
    held_out: Poses

    @staticmethod
    def of(poses: Poses, seed: int) -> Lesson:
        """Hold out whole clips of a recording, and some poses of a random sample.

        A mesh sequence is measured on itself: its bones exist in its own frames alone.
        """
        count = poses.pose_count
        if is_sequence(poses) or count < _FEWEST:
            return Lesson(poses, poses)
        aside = clips_aside(poses, _HELD_OUT)
        if not len(aside):
            order = np.random.default_rng([seed, 5]).permutation(count)
            aside = np.sort(order[: min(_MEASURED, round(_HELD_OUT * count))])
        rest = np.setdiff1d(np.arange(count), aside)
        return Lesson(_taken(poses, rest), _taken(poses, aside[evenly(len(aside), _MEASURED)]))

    @staticmethod
    def of_all(poses: Poses, seed: int) -> Lesson:
        """Fit all poses, and measure on those that networks keep aside from their training."""
        aside = validation_poses(poses.pose_count, Schedule(seed=seed))
        some = aside if len(aside) else np.arange(poses.pose_count)
        return Lesson(poses, poses.take(some[evenly(len(some), _MEASURED)]))


def _taken(poses: Poses, chosen: np.ndarray) -> Poses:
    """Some poses; those at the start keep their clips."""
    if np.array_equal(chosen, np.arange(len(chosen))):
        return poses.between(0, len(chosen))
    return poses.take(chosen)


class MeasuredFits:
    """Fits each candidate once, in memory, and in files where a run may be interrupted.

    lesson   what to fit and to measure on
    rig      the live rig, or None
    seconds  after which no further fit should begin; None: no limit
    kept     start of the names of files of finished fits; None: none are kept
    device   of training
    storage  auto: 16 bits where that does not change the error; float32
    """

    def __init__(
        self,
        lesson: Lesson,
        rig: Rig | None,
        progress: Progress,
        *,
        seconds: float | None = None,
        kept: str | None = None,
        device: str = "auto",
        storage: str = "auto",
    ):
        self._lesson, self._rig, self._progress = lesson, rig, progress
        self._facts = PoseFacts(lesson.fit, progress)
        self._kept, self._device, self._storage = kept, device, storage
        self._end = None if seconds is None else time.monotonic() + seconds
        self._made: dict[tuple[str, bool], tuple[Measured, Deformer]] = {}
        self._components: dict[str, Components] = {}
        self._data = "" if kept is None else fingerprint(content_of(lesson.fit))
        self._controls: str | None = None

    @property
    def out_of_time(self) -> bool:
        """Whether no further fit should begin."""
        return self._end is not None and time.monotonic() > self._end

    def prepare(self) -> float:
        """Find what all fits share, the skins and the inputs; return the seconds that it took."""
        start = time.process_time()
        poses = self._lesson.fit
        if poses.skeleton is not None:
            skin = self._facts.skin("predicted", _INFLUENCES)
            self._controls = self._facts.controls("auto", skin)
        return time.process_time() - start

    @cached_property
    def _few(self) -> PoseFacts:
        """The poses of cheap fits, with what these share."""
        poses = self._lesson.fit
        if poses is self._lesson.held_out:
            return self._facts
        few = poses.take(evenly(poses.pose_count, cheap_pose_count(poses.pose_count)))
        return self._facts.of_part(few)

    def whole(self, candidate: Candidate) -> Measured:
        """Fit a candidate with all poses."""
        return self._get(candidate, False)[0]

    def cheap(self, candidate: Candidate) -> Measured:
        """Fit a candidate with few poses and epochs."""
        return self._get(candidate, candidate.cheap is not None)[0]

    def given(self, deformer: Deformer) -> Measured:
        """Measure a deformer that needs no fit; its name is that of its method."""
        measured = self._measured(deformer.method, deformer)
        self._made[deformer.method, False] = measured, deformer
        return measured

    def deformer(self, name: str) -> Deformer:
        """The whole fit of the candidate called `name`, or what `shrunk` made of one."""
        return self._made[name, False][1]

    def shrunk(self, candidate: Candidate, budget: Budget) -> Measured:
        """The whole fit of a candidate with as few components as a budget asks for or allows.

        Components are left out until bytes and time are within the budget, and further as long as
        the error is. Where the error has no limit, no more are left out.
        """
        measured, deformer = self._get(candidate, False)
        if not deformer.nets:
            return measured
        start = time.process_time()
        self._progress.say(f"{candidate.name} with fewer components")
        if candidate.name not in self._components:
            self._components[candidate.name] = Components.of(deformer, self._lesson.fit)
        components = self._components[candidate.name]
        known = {0: measured}
        if self._storage == "auto" and (small := in_16_bits(deformer)) is not deformer:
            deformer, known = small, {}

        def without(number: int) -> Measured:
            if number not in known:
                smaller = components.without(deformer, number)
                known[number] = self._measured(candidate.name, smaller)
            return known[number]

        number = self._least_left_out(deformer, components, budget)
        limit = budget.error_limit
        if limit is not None and without(number).error < limit:
            number = _most_left_out(without, components, number, limit)
        result = replace(
            without(number),
            name=f"{candidate.name}-{components.count - number}of{components.count}",
            seconds=time.process_time() - start,
            kept_share=1 - number / max(1, components.count),
        )
        self._made[result.name, False] = result, components.without(deformer, number)
        return result

    def _least_left_out(self, deformer: Deformer, components: Components, budget: Budget) -> int:
        """The smallest number of components to leave out so that bytes and time are in budget."""
        if budget.max_ms is None and budget.max_bytes is None:
            return 0

        def fits(number: int) -> bool:
            small = components.without(deformer, number)
            ms = 0.0 if budget.max_ms is None else pose_ms(small, self._lesson.held_out)
            return not budget.too_costly(Measured("", 0.0, float(small.cost()["bytes"]), ms))

        if fits(0):
            return 0
        low, high = 0, components.count
        while high - low > max(1, components.count // 64):
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def _measured(self, name: str, deformer: Deformer) -> Measured:
        ms = pose_ms(deformer, self._lesson.held_out)
        return Measured(name, self._error(deformer), float(deformer.cost()["bytes"]), ms)

    def _get(self, candidate: Candidate, cheap: bool) -> tuple[Measured, Deformer]:
        key = candidate.name, cheap
        if key not in self._made:
            self._made[key] = self._read(candidate, cheap) or self._fit(candidate, cheap)
        return self._made[key]

    def _fit(self, candidate: Candidate, cheap: bool) -> tuple[Measured, Deformer]:
        known = self._facts
        options = dict(candidate.options)
        kind = method_type(candidate.method)
        names = {field.name for field in dataclasses.fields(kind.Config)}
        if cheap:
            options |= candidate.cheap or {}
            known = self._few
            if "controls" in names and self._controls is not None:
                options.setdefault("controls", self._controls)
        if "device" in names:
            options["device"] = self._device
        if decides_storage(kind):
            options["storage"] = self._storage
        file = self._file(candidate, cheap)
        if file is not None and "checkpoint" in names:
            options["checkpoint"] = f"{file}.training"
        self._progress.say(f"{candidate.name}{' (cheap)' if cheap else ''}")
        start = time.process_time()
        method = kind(kind.Config(**options))
        if isinstance(method, SharingMethod):
            deformer = method.fit_facts(known, self._rig)
        else:
            deformer = method.fit(known.poses, rig=self._rig, progress=self._progress)
        if not decides_storage(kind):
            deformer = stored(deformer, self._storage, known.poses)
        measured = self._measured(candidate.name, deformer)
        measured = replace(measured, seconds=time.process_time() - start)
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


def _most_left_out(
    without: Callable[[int], Measured], components: Components, least: int, limit: float
) -> int:
    """The largest number of components to leave out, at least `least`, with an error in `limit`.

    The error is sqrt(e^2 + (k d)^2), with d the distance that the vertices move; k is found.
    """
    first, best, factor = without(least).error, least, 1.0
    too_many = components.count + 1
    for _ in range(_SEARCH_STEPS):
        distance = float(np.sqrt(limit**2 - first**2)) / factor
        number = min(components.number_within(distance), too_many - 1)
        if number <= best:
            break
        error = without(number).error
        if error <= limit:
            best = number
        else:
            too_many = number
        moved = float(np.sqrt(components.moved[components.order[:number]].sum()))
        if not moved or error <= first:
            break
        factor = float(np.sqrt(error**2 - first**2)) / moved * 1.02
    return best
