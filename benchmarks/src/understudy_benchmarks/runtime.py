"""`bench runtime`: the time of one pose, against ONNX Runtime, PyTorch and the original rig.

Cases are deformers of the sizes of the papers (`runtime_cases`) and `human`, fitted to the built-in
rig in this run. The time depends on the sizes only, so the fit is short. Methods:

    understudy       one call of `Deformer.deform` into a preallocated array, everything included
    understudy-fp16  the same with 16-bit storage
    onnxruntime      the exported graph, with the fastest of several settings
    onnxruntime-nets a plain graph of the networks and bases alone, which is given their inputs
    torch            the torch module
    corrected_skin   `understudy` with the default method for bones instead of `fdda`, at `human`
    rig              the original, at `human`
    lbs-4, lbs-all, two_layer, two_layer-paper    skins without networks, at `elephant`

Figures: `ms_1` and `ms_2` are one pose on one and two threads. `floor_ms_1` is the time to read as
many bytes as a call reads, once, with the same threads and instructions: in float32 the networks
are memory-bound. `arithmetic_ms_1` is the time of as many multiply-adds as a pose needs
(`Deformer.cost`), on data in registers: skinning alone is compute-bound. `crowd_ms_2` is the time
per pose in a call with a hundred poses. `busy_ms_2` is two threads while another process occupies a
core, to be compared with `busy_ms_1`. `max_pct` is the largest distance from the NumPy reference in
single precision, in % of the height.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import ensure_writable
from understudy.methods import config_from_text, method_type
from understudy.rigs import load_rig
from understudy.rigs.base import animation_curves
from understudy.rigs.sampling import gaussian
from understudy.runtime import native
from understudy.runtime.timing import Call, take_turns
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import Progress
from understudy_benchmarks import Outcome, Request, runtime_cases
from understudy_benchmarks.isolation import isolated
from understudy_benchmarks.runtime_contenders import CROWD, PEERS, Contender, Understudy

OURS: dict[str, Callable[[Deformer], Deformer]] = {
    "understudy": lambda deformer: deformer,
    "understudy-fp16": Deformer.half,
}
METHODS = (*OURS, *PEERS, "corrected_skin", "rig")
SKINS = ("lbs-4", "lbs-all", "two_layer", "two_layer-paper")
CHARACTERS = {
    "tigress": runtime_cases.tigress,
    "astrid": runtime_cases.astrid,
    "face": runtime_cases.face,
}
CASES = (*CHARACTERS, "elephant", "human")
_BUSY_CASE = "tigress"  # where `busy_ms_*` is measured
_RIG_BLOCKS = 4  # a pose of the rig takes long enough to need few
_POSES = 16


@dataclass(frozen=True)
class _Size:
    """Blocks and seconds of each measurement; poses and epochs of the fit of `human`."""

    cases: tuple[str, ...]
    blocks: int
    seconds: float
    poses: int
    epochs: int


SIZES = {
    "quick": _Size(("tigress", "face", "elephant", "human"), 12, 0.8, 60, 2),
    "default": _Size(CASES, 20, 12.0, 1000, 30),
    "full": _Size(CASES, 20, 60.0, 5000, 150),
}


def run(request: Request, progress: Progress) -> Outcome:
    """The rows of `bench runtime`."""
    size = SIZES[request.size]
    if native.compiled is None:
        raise InputError(
            "bench runtime measures the compiled runtime, but understudy was installed without a "
            "compiler; install it again with a C++ compiler"
        )
    for name in request.methods:
        checks.one_of(name, "method of bench runtime", (*METHODS, *SKINS))
    cases = (
        tuple(checks.one_of(name, "case of bench runtime", CASES) for name in request.cases)
        or size.cases
    )
    missing = [name for name in PEERS if find_spec(name.split("-")[0]) is None]
    notes = [
        f"{name} is not installed, so its rows are left out: pip install understudy-benchmarks"
        for name in missing
    ]
    methods = [name for name in request.methods or (*METHODS, *SKINS) if name not in missing]
    results: list[CaseResult] = []
    with progress.task("timing", len(cases)) as bar:
        for case in cases:
            if case == "elephant":
                results += _elephant(methods, request, size)
            elif case == "human":
                results += _human(methods, request, size)
            else:
                results += _character(case, methods, request, size)
            bar.advance()
    return Outcome(results, "cm", [*notes, *_findings(results)])


def _character(
    case: str, methods: list[str], request: Request, size: _Size
) -> Iterator[CaseResult]:
    """The rows of a deformer with random weights."""
    deformer = CHARACTERS[case](request.seed)
    bones, controls = runtime_cases.random_poses(deformer, _POSES, request.seed)
    yield from _rows(case, deformer, (bones, controls), methods, size)


def _human(methods: list[str], request: Request, size: _Size) -> Iterator[CaseResult]:
    """The rows of a stand-in for the built-in human, on poses of its walk, and of the rig."""
    deformer, drivers = human(request, size)
    yield from _rows("human", deformer, drivers, methods, size)
    if "corrected_skin" in methods:
        ours = Understudy(_fitted("corrected_skin", request, size), *drivers)
        times = _measured({"corrected_skin": ours}, size)["corrected_skin"]
        yield CaseResult("human", "corrected_skin", {"bytes": float(ours.bytes), **times})
    if "rig" in methods:
        rig = load_rig("human")
        values, _ = animation_curves(rig, "walk")
        call: Call = lambda i: rig.evaluate(values[i % len(values)][None])
        taken = take_turns({"rig": call}, min(size.blocks, _RIG_BLOCKS), size.seconds)["rig"]
        yield CaseResult("human", "rig", {"ms_1": taken.ms, "ms_p99_1": taken.p99})


def human(request: Request, size: _Size) -> tuple[Deformer, tuple[np.ndarray, np.ndarray]]:
    """Return a stand-in for the built-in human, with bones and controls of poses of its walk."""
    deformer = _fitted("fdda", request, size)
    rig = load_rig("human")
    values, _ = animation_curves(rig, "walk")
    some = values[np.linspace(0, len(values) - 1, _POSES).astype(int)]
    walk = rig.evaluate(some)
    drivers = (
        np.ascontiguousarray(walk.world_from_bone, np.float64),
        np.ascontiguousarray(walk.controls, np.float64),
    )
    return deformer, drivers


def _fitted(method: str, request: Request, size: _Size) -> Deformer:
    """A stand-in for the human, fitted in its own process."""
    file = request.out / ("human.understudy" if method == "fdda" else f"human-{method}.understudy")
    ensure_writable(file)
    # One thread for linear algebra: with two, its threads wait for each other on a busy machine.
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        isolated(_fit_human, method, file, size.poses, size.epochs, request.seed)
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before
    return Deformer.load(file)


def _fit_human(method: str, file: Path, poses: int, epochs: int, seed: int) -> None:
    """Fit a method to random poses of the human; runs in its own process."""
    rig, kind = load_rig("human"), method_type(method)
    config = config_from_text(kind.Config, {"epochs": str(epochs), "seed": str(seed)})
    kind(config).fit(rig.evaluate(gaussian(rig.controls, poses, seed)), rig=rig).save(file)


def _elephant(methods: list[str], request: Request, size: _Size) -> Iterator[CaseResult]:
    """The rows of skins without networks."""
    contenders = {}
    for kind in SKINS:
        if kind in methods:
            deformer = runtime_cases.elephant(kind, request.seed)
            poses = runtime_cases.random_poses(deformer, _POSES, request.seed)
            contenders[kind] = Understudy(deformer, *poses)
    for kind, times in _measured(contenders, size).items():
        yield CaseResult("elephant", kind, {"bytes": float(contenders[kind].bytes), **times})


def _rows(
    case: str,
    deformer: Deformer,
    drivers: tuple[np.ndarray, np.ndarray | None],
    methods: list[str],
    size: _Size,
) -> Iterator[CaseResult]:
    """The rows of one deformer in all its implementations.

    drivers  bones (T,B,3,4) and controls (T,C) or None
    """
    ours = {name: Understudy(OURS[name](deformer), *drivers) for name in methods if name in OURS}
    peers = {name: PEERS[name](deformer, *drivers) for name in methods if name in PEERS}
    contenders: dict[str, Contender] = {
        name: (ours | peers)[name] for name in methods if name in ours or name in peers
    }
    reference = deformer.deform_reference(*drivers)
    figures = {
        name: contender.figures(reference, deformer.mesh.height)
        for name, contender in contenders.items()
    }
    for name, times in _measured(contenders, size).items():
        figures[name] |= times
    for name, contender in ours.items():
        figures[name] |= contender.crowd(size.blocks // 2, size.seconds)
    if "understudy" in ours and case == _BUSY_CASE:
        figures["understudy"] |= ours["understudy"].beside_busy_process(size.blocks, size.seconds)
    yield from (CaseResult(case, name, values) for name, values in figures.items())


def _measured(contenders: Mapping[str, Contender], size: _Size) -> dict[str, dict[str, float]]:
    """name -> the times of its calls and, for ours, of what bounds them.

    Everything with the same number of threads takes turns.
    """
    result: dict[str, dict[str, float]] = {name: {} for name in contenders}
    for threads in (1, 2):
        calls: dict[tuple[str, str], Call] = {
            (name, ""): contender.call(threads) for name, contender in contenders.items()
        }
        for name, contender in contenders.items():
            if isinstance(contender, Understudy):
                calls |= {(name, kind): call for kind, call in contender.limits(threads).items()}
        # Calls become ms_1 and ms_p99_1; limits become floor_ms_1 and floor_p99_1.
        for (name, kind), taken in take_turns(calls, size.blocks, size.seconds).items():
            result[name][f"{kind}ms_{threads}"] = taken.ms
            result[name][f"{kind or 'ms_'}p99_{threads}"] = taken.p99
    return result


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """Sentences with the ratios that the rows are for."""
    row = {(r.case, r.method): r.figures for r in results}
    for case in dict.fromkeys(r.case for r in results):
        ours = row.get((case, "understudy"))
        if ours is None:
            continue
        half, rig = row.get((case, "understudy-fp16")), row.get((case, "rig"))
        peers = {name: row[case, name] for name in PEERS if (case, name) in row}
        for n in (1, 2):
            parts = [_beside(ours, "floor", n)]
            parts += [
                f"{ours[f'ms_{n}'] / peer[f'ms_{n}']:.2f} x {name}" for name, peer in peers.items()
            ]
            if half:
                parts.append(f"fp16 {half[f'ms_{n}'] / ours[f'ms_{n}']:.2f} x fp32")
            yield f"{case}, {_threads(n)}: " + ", ".join(parts)
            if {"onnxruntime", "onnxruntime-nets"} <= peers.keys():
                whole, nets = (peers[f"onnxruntime{name}"][f"ms_{n}"] for name in ("", "-nets"))
                yield (
                    f"{case}, {_threads(n)}: the exported ONNX graph takes {whole / nets:.2f} x a "
                    "plain graph of its networks and bases"
                )
            if half:
                yield f"{case}, {_threads(n)}: fp16 {_beside(half, 'floor', n)}"
        crowd = " and ".join(
            f"{ours[f'crowd_ms_{n}'] / ours[f'ms_{n}']:.2f} x a single pose on {_threads(n)}"
            for n in (1, 2)
        )
        yield f"{case}: a pose in a call with {CROWD} poses takes {crowd}"
        if "busy_ms_2" in ours:
            yield (
                f"{case}: while another process occupies a core, two threads take "
                f"{ours['busy_ms_2'] / ours['busy_ms_1']:.2f} x the time of one"
            )
        if rig:
            yield f"{case}: {rig['ms_1'] / ours['ms_1']:.0f} x faster than the rig"
    skins = {kind: row["elephant", kind] for kind in SKINS if ("elephant", kind) in row}
    for kind, skin in skins.items():
        for n in (1, 2):
            yield (
                f"elephant, {_threads(n)}: {kind} {_beside(skin, 'floor', n)}; "
                f"{_beside(skin, 'arithmetic', n)}"
            )
    if len(skins) == len(SKINS):
        for n in (1, 2):
            few, dense = skins["lbs-4"][f"ms_{n}"], skins["lbs-all"][f"ms_{n}"]
            for kind in ("two_layer", "two_layer-paper"):
                layers = skins[kind][f"ms_{n}"]
                yield (
                    f"elephant, {_threads(n)}: {kind} is {dense / layers:.2f} x faster than dense "
                    f"weights and takes {layers / few:.2f} x the time of lbs-4"
                )


def _threads(n: int) -> str:
    return f"{n} thread{'s' * (n > 1)}"


def _beside(ours: Mapping[str, float], limit: str, n: int) -> str:
    """A call relative to what bounds it, as text."""
    return (
        f"{ours[f'ms_{n}'] / ours[f'{limit}_ms_{n}']:.2f} x the {limit}, p99 "
        f"{ours[f'ms_p99_{n}'] / ours[f'{limit}_p99_{n}']:.2f} x its p99"
    )
