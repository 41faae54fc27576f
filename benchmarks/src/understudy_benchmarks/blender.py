"""`bench blender`: rigs of .blend files against their stand-ins.

    understudy  the method that `learn` selects, with its default options, fitted to sampled poses
                and stored in 16 bits as `learn` does: the face from its controls alone
                (`differential`), the body from bones and controls (`corrected_skin`). Of a
                whole rig it is what `understudy learn` delivers without options
    lbs-4       linear blend skinning with fitted weights and four influences. It is given the bones
                of every pose, which only the rig itself computes, for the face too
    blender     the rig itself: no error, and the time that Blender needs for a pose

Parts are measured on random poses that no method has seen, whole rigs on animations. Times are
taken in turns in one run; that of Blender is its evaluation of one pose, with the result read and
sent to this process. `speedup_2` of the row `blender` is the speed of sampling with two processes,
relative to one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.evaluation.measure import Reference, deformer_figures, measure
from understudy.evaluation.result import CaseResult
from understudy.jobs.fitting import method_for
from understudy.methods import config_from_text, method_type
from understudy.methods.correctives.storage import decides_storage, stored
from understudy.rigs.blender.rig import BlenderRig
from understudy.runtime.timing import Call, take_turns
from understudy.system import checks
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request
from understudy_benchmarks.blender_cases import CASES, Case, load_case
from understudy_benchmarks.real_data import data_folder

METHODS = ("understudy", "lbs-4", "blender")
_BATCH = 8  # poses of one request when processes are compared


@dataclass(frozen=True)
class _Size:
    """The work of a run.

    counts   case -> training and test poses
    options  of the methods that `learn` selects
    seconds  of timing for each case
    repeats  of the comparison of one process with two; block_s: seconds of each side
    """

    counts: Mapping[str, tuple[int, int]]
    seconds: float
    repeats: int
    block_s: float
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


_PARTS = {"blenrig_face": (2000, 100), "blenrig_body": (2000, 100)}
SIZES = {
    "quick": _Size(
        {name: (48, 12) for name in CASES},
        2.0,
        1,
        0.0,
        {
            "differential": {
                "epochs": "4",
                "anchor_epochs": "4",
                "hidden": "32,32",
                "regions": "6",
            },
            "corrected_skin": {"epochs": "4", "hidden": "32", "regions": "16", "skin": "blended"},
        },
    ),
    "default": _Size({**_PARTS, **dict.fromkeys(CASES[2:], (3000, 200))}, 20.0, 6, 2.0),
    "full": _Size({name: (6000, 400) for name in CASES}, 60.0, 6, 4.0),
}


def run(request: Request, progress: Progress) -> Outcome:
    """Sample the cases, fit and measure the requested methods; stores go to `request.out`."""
    size = SIZES[request.size]
    for name in request.methods:
        checks.one_of(name, "method of bench blender", METHODS)
    for name in request.cases:
        checks.one_of(name, "case of bench blender", CASES)
    results: list[CaseResult] = []
    for name in request.cases or CASES:
        case = load_case(
            name,
            data_folder(request.data),
            request.out,
            size.counts[name],
            request.seed,
            progress,
        )
        with case.rig:
            results += _rows(case, request.methods or METHODS, request, size, progress)
    return Outcome(results, "m", list(_findings(results)))


def _rows(
    case: Case, methods: tuple[str, ...], request: Request, size: _Size, progress: Progress
) -> Iterator[CaseResult]:
    reference = Reference.of(case.name, case.test)
    fitted: dict[str, Deformer] = {}
    figures: dict[str, dict[str, float]] = {}
    for name in methods:
        if name == "blender":
            figures[name] = {"speedup_2": two_processes(case, size)}
            continue
        started = time.perf_counter()
        fitted[name] = _fit(name, case, request, size, progress)
        took = time.perf_counter() - started
        figures[name] = {**deformer_figures(fitted[name]), "fit_s": took}
    calls = {name: _call(name, case, fitted) for name in methods}
    with progress.task(f"timing {case.name}", 1) as task:
        times = take_turns(calls, 4, size.seconds)
        task.advance()
    for name in methods:
        approximation = played(fitted[name]) if name in fitted else case.test.read_poses(0, 1 << 40)
        row = {**figures[name], "ms_1": times[name].ms}
        yield measure(name, approximation, reference, row)


def _fit(name: str, case: Case, request: Request, size: _Size, progress: Progress) -> Deformer:
    """The deformer of one row."""
    if name == "understudy" and case.learned is not None:
        return case.learned
    if name == "lbs-4":
        return _fitted("lbs", {}, case.training, progress)
    training = case.training
    if case.name == "blenrig_face":
        training = replace(training, skeleton=None, world_from_bone=None)
    method = method_for(training.skeleton is not None, training.pose_count)
    options = {"seed": str(request.seed), **size.options.get(method, {})}
    made = _fitted(method, options, training, progress)
    return made if decides_storage(method_type(method)) else stored(made, "auto", training)


def _fitted(method: str, options: Mapping[str, str], poses: Poses, progress: Progress) -> Deformer:
    kind = method_type(method)
    return kind(config_from_text(kind.Config, options)).fit(poses, progress=progress)


def played(deformer: Deformer) -> Callable[[Poses], np.ndarray]:
    """What deforms poses with the inputs that a deformer has."""
    return lambda poses: deformer.deform(
        None if deformer.skeleton is None else poses.world_from_bone,
        poses.controls if deformer.reads_controls else None,
    )


def _call(name: str, case: Case, fitted: Mapping[str, Deformer]) -> Call:
    """What plays test pose i."""
    test = case.test
    assert test.controls is not None
    assert case.training.controls is not None
    controls, moved = test.controls, case.training.controls
    if name == "blender":
        return lambda i: case.rig.evaluate(moved[i % len(moved)][None])
    deformer, bones = fitted[name], test.world_from_bone
    out = np.empty((deformer.mesh.vertex_count, 3), np.float32)

    def play(i: int) -> object:
        i %= len(controls)
        return deformer.deform(
            None if deformer.skeleton is None or bones is None else bones[i],
            controls[i] if deformer.reads_controls else None,
            threads=1,
            out=out,
        )

    return play


def two_processes(case: Case, size: _Size) -> float:
    """The speed of two Blender processes relative to one, in blocks that take turns."""
    assert case.training.controls is not None
    values = case.training.controls[:_BATCH]
    rigs = [case.rig.sibling() for _ in range(2)]
    try:
        with ThreadPoolExecutor(2) as pool:
            for rig in rigs:
                rig.evaluate(values[:1])
            alone, together = [], []
            for _ in range(size.repeats):
                alone.append(_poses_per_second(pool, rigs[:1], values, size.block_s))
                together.append(_poses_per_second(pool, rigs, values, size.block_s))
    finally:
        for rig in rigs:
            rig.close()
    return max(together) / max(alone)


def _poses_per_second(
    pool: ThreadPoolExecutor, rigs: list[BlenderRig], values: np.ndarray, seconds: float
) -> float:
    """The poses per second of all rigs; each works on its own, as in sampling."""
    end = time.perf_counter() + seconds

    def work(rig: BlenderRig) -> float:
        started, done = time.perf_counter(), 0
        while not done or time.perf_counter() < end:
            rig.evaluate(values)
            done += len(values)
        return done / (time.perf_counter() - started)

    return sum(pool.map(work, rigs))


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """Sentences that compare the rows of each case."""
    row = {(r.case, r.method): r.figures for r in results}
    for case in dict.fromkeys(r.case for r in results):
        ours, skin, blender = (row.get((case, name)) for name in METHODS)
        if ours:
            yield f"{case}: mean error {1e3 * ours['mean']:.3f} mm, p99 {1e3 * ours['p99']:.2f} mm"
        if ours and skin:
            yield f"{case}: understudy / lbs-4: mean {ours['mean'] / skin['mean']:.2f}"
        if ours and blender:
            yield f"{case}: Blender / understudy: time {blender['ms_1'] / ours['ms_1']:.0f}"
        if blender:
            yield f"{case}: two Blender processes / one: speed {blender['speedup_2']:.2f}"
