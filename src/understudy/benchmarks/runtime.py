"""`bench runtime`: what one pose costs, against ONNX Runtime and PyTorch on the same deformer, the
original rig, and the floor.

Cases are deformers of the papers' sizes (`runtime_cases`) and `human`, fitted to the built-in rig
in this run; the time depends on the sizes, so the fit is short. Methods: `understudy` (one call of
`Deformer.deform`, everything included, into an array that is there), `understudy-fp16` (the same in
16 bits), `onnxruntime` (the exported graph,
the fastest of its settings), `torch` (the torch module) and `rig`. The floor is the time to read as
many bytes as a call reads, once, with the same threads and instructions. In 32 bits networks and
bases wait for little else. Skinning alone, of few bytes, waits for the processor: `arithmetic_ms_1`
is the time of as many multiply-adds as a pose needs (`Deformer.cost`), of numbers that need not be
fetched.

`max_pct` of a row is its largest distance from the NumPy reference in single precision, in % of
height. `crowd_ms_2` is one pose of a hundred. `busy_ms_2` is two threads while a neighbour keeps a
processor busy: to be held against `busy_ms_1`, one thread beside the same neighbour.
"""

from __future__ import annotations

import multiprocessing
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from understudy.benchmarks import Outcome, Request, runtime_cases
from understudy.benchmarks.timing import take_turns
from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.progress import Progress
from understudy.evaluation import machine
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import ensure_writable
from understudy.runtime import native as runtime

PEERS = ("onnxruntime", "torch")
OURS = {
    "understudy": lambda deformer: deformer,
    "understudy-fp16": Deformer.half,
}
METHODS = (*OURS, *PEERS, "rig")
SKINS = ("lbs-4", "lbs-all", "two_layer")
CASES = ("tigress", "astrid", "face", "elephant", "human")
_CROWD = 100
_POSES = 16


@dataclass(frozen=True)
class _Size:
    """Blocks and seconds of each measurement; poses and epochs of the human's fit."""

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
    size = SIZES[request.size]
    if runtime.compiled is None:
        raise InputError(
            "bench runtime measures the compiled runtime, and understudy was installed without a "
            "compiler"
        )
    for name in request.methods:
        checks.one_of(name, "method of bench runtime", (*METHODS, *SKINS))
    cases = (
        tuple(checks.one_of(name, "case of bench runtime", CASES) for name in request.cases)
        or size.cases
    )
    absent = [name for name in PEERS if find_spec(name) is None]
    notes = [
        f"{name} is not installed: its rows are left out. pip install 'understudy[bench,fit]' "
        f"brings it."
        for name in absent
    ]
    results: list[CaseResult] = []
    with progress.task("timing", len(cases)) as bar:
        for case in cases:
            methods = [name for name in request.methods or (*METHODS, *SKINS) if name not in absent]
            results += (
                _elephant(methods, request, size)
                if case == "elephant"
                else _case(case, methods, request, size)
            )
            bar.advance()
    return Outcome(results, "cm", [*notes, *_findings(results)])


def _case(case: str, methods: list[str], request: Request, size: _Size) -> Iterator[CaseResult]:
    rig = None
    if case == "human":
        rig, deformer, bones, controls = _human(request, size)
    else:
        deformer = getattr(runtime_cases, case)(request.seed)
        bones, controls = runtime_cases.random_poses(deformer, _POSES, request.seed)
    contenders: dict[str, _Contender] = {}
    for name in methods:
        if name in OURS:
            contenders[name] = _Ours(OURS[name](deformer), bones, controls)
        elif name in PEERS:
            contenders[name] = {"onnxruntime": _OnnxRuntime, "torch": _Torch}[name](
                deformer, bones, controls
            )
    wanted = deformer.deform_reference(bones, controls)
    figures = {
        name: dict(contender.figures(wanted, deformer.mesh.height))
        for name, contender in contenders.items()
    }
    for name, times in _measured(contenders, size).items():
        figures[name] |= times
    for name, contender in contenders.items():
        if isinstance(contender, _Ours):
            figures[name] |= contender.crowd(size)
    if "understudy" in contenders and case == "tigress":
        figures["understudy"] |= contenders["understudy"].beside_a_neighbour(size)
    if rig is not None and "rig" in methods:
        values = rig.animation("walk")[0]
        times = take_turns(
            {"rig": lambda i: rig.evaluate(values[i % len(values)][None])},
            min(size.blocks, 4),
            size.seconds,
        )
        figures["rig"] = {"ms_1": times["rig"].ms, "ms_p99_1": times["rig"].p99}
    yield from (CaseResult(case, name, values) for name, values in figures.items())


def _elephant(methods: list[str], request: Request, size: _Size) -> Iterator[CaseResult]:
    deformers = {
        kind: runtime_cases.elephant(kind, request.seed) for kind in SKINS if kind in methods
    }
    contenders = {
        kind: _Ours(d, *runtime_cases.random_poses(d, _POSES, request.seed))
        for kind, d in deformers.items()
    }
    for kind, times in _measured(contenders, size).items():
        yield CaseResult("elephant", kind, {"bytes": float(contenders[kind].bytes)} | times)


def _human(request: Request, size: _Size):
    """The rig, a stand-in fitted to it, and poses of its walk."""
    from understudy.rigs import animate, load_rig

    file = request.out / "human.understudy"
    ensure_writable(file)
    # On one processor of its own: on two, threads of the linear algebra wait for each other where a
    # neighbour is busy.
    kept = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        machine.isolated(_fit_human, file, size.poses, size.epochs, request.seed)
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        if kept is not None:
            os.environ["OMP_NUM_THREADS"] = kept
    rig = load_rig("human")
    walk = animate(rig, "walk")
    some = np.linspace(0, walk.pose_count - 1, _POSES).astype(int)
    drivers = (
        np.ascontiguousarray(values[some], np.float64)
        for values in (walk.world_from_bone, walk.controls)
    )
    return rig, Deformer.load(file), *drivers


def _fit_human(file: Path, poses: int, epochs: int, seed: int) -> None:
    from understudy.methods import config_from_text, method_type
    from understudy.rigs import load_rig
    from understudy.rigs.sampling import gaussian

    rig, kind = load_rig("human"), method_type("fdda")
    config = config_from_text(kind.Config, {"epochs": str(epochs), "seed": str(seed)})
    kind(config).fit(rig.evaluate(gaussian(rig.controls, poses, seed)), rig=rig).save(file)


def _measured(contenders: dict[str, _Contender], size: _Size) -> dict[str, dict[str, float]]:
    """name -> the times of its calls and, where it is ours, of its limits; everything with the same
    number of threads takes turns.
    """
    result: dict[str, dict[str, float]] = {name: {} for name in contenders}
    for threads in (1, 2):
        calls: dict[tuple[str, str], Callable[[int], object]] = {
            (name, ""): c.call(threads) for name, c in contenders.items()
        }
        for name, contender in contenders.items():
            if isinstance(contender, _Ours):
                calls |= {(name, kind): call for kind, call in contender.limits(threads).items()}
        times = take_turns(calls, size.blocks, size.seconds)
        for (
            name,
            kind,
        ), taken in times.items():  # calls: ms_1 and ms_p99_1; limits: floor_ms_1 and floor_p99_1
            result[name] |= {
                f"{kind}ms_{threads}": taken.ms,
                f"{kind or 'ms_'}p99_{threads}": taken.p99,
            }
    return result


class _Contender(ABC):
    """One implementation of one deformer, with poses to play."""

    def __init__(self, deformer: Deformer, bones: np.ndarray, controls: np.ndarray | None):
        self.deformer, self.bones = deformer, bones
        self.controls = controls if deformer.reads_controls else None

    def pose(self, i: int) -> tuple[np.ndarray, np.ndarray | None]:
        i %= len(self.bones)
        return self.bones[i], None if self.controls is None else self.controls[i]

    @abstractmethod
    def call(self, threads: int) -> Callable[[int], object]:
        """Plays pose i into memory that is there."""

    @abstractmethod
    def vertices(self) -> np.ndarray:
        """(T,V,3): every pose, played one by one."""

    def figures(self, wanted: np.ndarray, height: float) -> Iterator[tuple[str, float]]:
        yield (
            "max_pct",
            100 * float(np.linalg.norm(self.vertices() - wanted, axis=2).max()) / height,
        )


class _Ours(_Contender):
    def __init__(self, *given):
        super().__init__(*given)
        self.bytes = runtime.runtime_of(self.deformer).bytes
        self._out = np.empty((self.deformer.mesh.vertex_count, 3), np.float32)

    def call(self, threads):
        return lambda i: self.deformer.deform(*self.pose(i), threads=threads, out=self._out)

    def limits(self, threads: int) -> dict[str, Callable[[int], object]]:
        """What a call is held against: reading its bytes once, and its multiply-adds."""
        floor, work = (
            runtime.compiled.Floor(self.bytes, threads),
            self.deformer.cost()["multiply_adds"],
        )
        return {"floor_": lambda i: floor.read(), "arithmetic_": lambda i: floor.multiply_add(work)}

    def vertices(self):
        return np.stack([self.deformer.deform(*self.pose(i)) for i in range(len(self.bones))])

    def figures(self, wanted, height):
        yield "bytes", float(self.bytes)
        yield from super().figures(wanted, height)

    def crowd(self, size: _Size) -> dict[str, float]:
        """A pose of a hundred on one and two threads, in turns with single poses."""
        which = np.arange(_CROWD) % len(self.bones)
        bones, controls = self.bones[which], None if self.controls is None else self.controls[which]
        out = np.empty((_CROWD, self.deformer.mesh.vertex_count, 3), np.float32)
        calls = {
            f"crowd_ms_{n}": partial(
                lambda i, n: self.deformer.deform(bones, controls, threads=n, out=out), n=n
            )
            for n in (1, 2)
        }
        return {
            name: times.ms / _CROWD
            for name, times in take_turns(calls, size.blocks // 2, size.seconds).items()
        }

    def beside_a_neighbour(self, size: _Size) -> dict[str, float]:
        """Mean times while another process keeps one processor busy."""
        ready, stop = (multiprocessing.get_context("spawn").Event() for _ in range(2))
        neighbour = multiprocessing.get_context("spawn").Process(
            target=_keep_busy, args=(ready, stop), daemon=True
        )
        neighbour.start()
        ready.wait()
        try:
            calls = {f"busy_ms_{n}": self.call(n) for n in (1, 2)}
            return {
                name: times.ms
                for name, times in take_turns(calls, size.blocks, size.seconds).items()
            }
        finally:
            stop.set()
            neighbour.join()


def _keep_busy(ready, stop) -> None:
    ready.set()
    while not stop.is_set():
        sum(range(10000))


class _OnnxRuntime(_Contender):
    def __init__(self, *given):
        super().__init__(*given)
        from understudy.io.onnx import onnx_model

        self._model = onnx_model(self.deformer).SerializeToString()
        self._singles = [
            {"world_from_bone": np.ascontiguousarray(bones[None], np.float32)}
            | (
                {}
                if controls is None
                else {"controls": np.ascontiguousarray(controls[None], np.float32)}
            )
            for bones, controls in (self.pose(i) for i in range(len(self.bones)))
        ]

    def _session(self, threads: int, settings: dict[str, str]):
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        for name, value in settings.items():
            options.add_session_config_entry(name, value)
        return ort.InferenceSession(self._model, options, providers=["CPUExecutionProvider"])

    def _bound(self, session) -> Callable[[int], object]:
        """Inputs and output bound once for each pose, so that a call copies nothing it need not."""
        import onnxruntime as ort

        out = ort.OrtValue.ortvalue_from_shape_and_type(
            [1, self.deformer.mesh.vertex_count, 3], np.float32
        )
        bindings = []
        for inputs in self._singles:
            binding = session.io_binding()
            for name, values in inputs.items():
                binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(values))
            binding.bind_ortvalue_output("vertices", out)
            bindings.append(binding)
        return lambda i: session.run_with_iobinding(bindings[i % len(bindings)])

    def call(self, threads):
        """The fastest of its settings: flushing denormals, stopping to spin after a call, not
        spinning at all.
        """
        settings = (
            {},
            {"session.set_denormal_as_zero": "1"},
            {"session.force_spinning_stop": "1"},
            {"session.intra_op.allow_spinning": "0"},
        )
        tried = {
            str(n): self._bound(self._session(threads, chosen))
            for n, chosen in enumerate(settings[: 4 if threads > 1 else 2])
        }
        times = take_turns(tried, 3, 0.4)
        return tried[min(times, key=lambda name: times[name].ms)]

    def vertices(self):
        session = self._session(1, {})
        return np.concatenate([session.run(None, inputs)[0] for inputs in self._singles])


class _Torch(_Contender):
    def __init__(self, *given):
        super().__init__(*given)
        import torch

        from understudy.runtime.torch_deformer import TorchDeformer

        self._torch, self._module = torch, TorchDeformer(self.deformer)
        self._singles = [
            tuple(None if v is None else torch.from_numpy(v[None]) for v in self.pose(i))
            for i in range(len(self.bones))
        ]

    def call(self, threads):
        def play(i: int):
            if self._torch.get_num_threads() != threads:
                self._torch.set_num_threads(threads)
            return self._module(*self._singles[i % len(self._singles)])

        return play

    def vertices(self):
        return np.concatenate([self._module(*single).numpy() for single in self._singles])


def _findings(results: list[CaseResult]) -> Iterator[str]:
    """The ratios that the rows are there for."""
    row = {(r.case, r.method): r.figures for r in results}
    for case in dict.fromkeys(r.case for r in results):
        ours, half, ort, torch, rig = (row.get((case, m)) for m in (*OURS, *PEERS, "rig"))
        if ours:
            for n in (1, 2):
                parts = [_beside(ours, "floor", n)]
                parts += [
                    f"{ours[f'ms_{n}'] / peer[f'ms_{n}']:.2f} x {name}"
                    for name, peer in (("onnxruntime", ort), ("torch", torch))
                    if peer
                ]
                parts += [f"fp16 {half[f'ms_{n}'] / ours[f'ms_{n}']:.2f} x fp32"] if half else []
                yield f"{case}, {_threads(n)}: " + ", ".join(parts)
                if half:
                    yield f"{case}, {_threads(n)}: fp16 {_beside(half, 'floor', n)}"
            crowd = ", ".join(
                f"{ours[f'crowd_ms_{n}'] / ours[f'ms_{n}']:.2f} x a single pose on {n}"
                for n in (1, 2)
            )
            yield f"{case}: a pose of a crowd of {_CROWD} takes {crowd} thread(s)"
        if ours and "busy_ms_2" in ours:
            yield (
                f"{case}: beside a busy neighbour two threads take "
                f"{ours['busy_ms_2'] / ours['busy_ms_1']:.2f} x what one takes"
            )
        if ours and rig:
            yield f"{case}: {rig['ms_1'] / ours['ms_1']:.0f} x faster than the rig it stands in for"
    layers, few, dense = (row.get(("elephant", kind)) for kind in ("two_layer", "lbs-4", "lbs-all"))
    for kind, skin in (("two_layer", layers), ("lbs-4", few), ("lbs-all", dense)):
        for n in (1, 2) if skin else ():
            yield (
                f"elephant, {_threads(n)}: {kind} {_beside(skin, 'floor', n)}; "
                f"{_beside(skin, 'arithmetic', n)}"
            )
    if layers and few and dense:
        for n in (1, 2):
            relation = (
                f"{dense[f'ms_{n}'] / layers[f'ms_{n}']:.2f} x faster than dense, "
                f"{layers[f'ms_{n}'] / few[f'ms_{n}']:.2f} x the time of lbs-4"
            )
            yield f"elephant, {_threads(n)}: two_layer is {relation}"


def _threads(n: int) -> str:
    return f"{n} thread{'s' * (n > 1)}"


def _beside(ours: dict[str, float], limit: str, n: int) -> str:
    """A call against one of its limits."""
    return (
        f"{ours[f'ms_{n}'] / ours[f'{limit}_ms_{n}']:.2f} x the {limit}, p99 "
        f"{ours[f'ms_p99_{n}'] / ours[f'{limit}_p99_{n}']:.2f} x its p99"
    )
