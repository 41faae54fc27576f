"""`bench web`: the time of one pose in WebAssembly, beside the compiled runtime, on one thread.

Cases are those of `bench runtime` with the same names. Methods:

    wasm           the JavaScript package in Node, with SIMD
    wasm-portable  the same without SIMD
    native         the compiled runtime with AVX2, or what the processor has instead

Methods take turns, in blocks of calls. `ms_1` is the lowest of the block medians, `ms_p99_1` the
99th percentile of all calls, `max_pct` the largest distance from the NumPy reference in % of the
height.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import numpy as np

from understudy.core.deformer import Deformer
from understudy.evaluation.result import CaseResult
from understudy.runtime import native
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import Progress
from understudy.viewer.page import javascript_package
from understudy_benchmarks import Outcome, Request, runtime, runtime_cases

METHODS = ("wasm", "wasm-portable", "native")
CASES = ("human", "face", "tigress")
_VARIANTS = {"wasm": "simd", "wasm-portable": "portable"}
_POSES = 16
_WARM_CALLS = 400  # engines compile functions again once they have run often
_PLAYER = Path(__file__).with_name("web_player.mjs")


@dataclass(frozen=True)
class _Size:
    """Blocks of each method, seconds of each block."""

    blocks: int
    seconds: float


SIZES = {"quick": _Size(6, 0.2), "default": _Size(20, 1.0), "full": _Size(40, 2.0)}


@dataclass(frozen=True)
class Played:
    """A deformer with poses.

    bones      (T,B,3,4) float64
    controls   (T,C) float64, or None
    reference  (T,V,3), the vertices of NumPy
    """

    deformer: Deformer
    bones: np.ndarray
    controls: np.ndarray | None
    reference: np.ndarray


def run(request: Request, progress: Progress) -> Outcome:
    """Return the rows of `bench web`."""
    methods = tuple(
        checks.one_of(name, "method of bench web", METHODS) for name in request.methods or METHODS
    )
    cases = tuple(
        checks.one_of(name, "case of bench web", CASES) for name in request.cases or CASES
    )
    if native.compiled is None and "native" in methods:
        raise InputError(
            "bench web compares with the compiled runtime, but understudy was installed without a "
            "compiler; install it again with a C++ compiler, or leave out the method native"
        )
    results: list[CaseResult] = []
    notes: list[str] = []
    with progress.task("timing", len(cases)) as bar:
        for case in cases:
            rows, sets = _rows(case, _played(case, request), methods, SIZES[request.size])
            results += rows
            notes += _findings(case, rows, sets)
            bar.advance()
    return Outcome(results, "cm", notes)


def _played(case: str, request: Request) -> Played:
    bones: np.ndarray
    controls: np.ndarray | None
    if case == "human":
        deformer, (bones, controls) = runtime.human(request, runtime.SIZES[request.size])
    else:
        deformer = runtime.CHARACTERS[case](request.seed)
        bones, controls = runtime_cases.random_poses(deformer, _POSES, request.seed)
    return Played(deformer, bones, controls, deformer.deform_reference(bones, controls))


class _Contender(ABC):
    """One implementation: `times` plays poses and returns the milliseconds of each call."""

    instruction_set: str
    max_pct: float

    @abstractmethod
    def times(self, count: int) -> np.ndarray:
        """Return (count,) milliseconds."""


class _Native(_Contender):
    """The compiled runtime, with AVX2 where the processor has it."""

    def __init__(self, played: Played):
        self._played = played
        self._best = native.compiled.instruction_set()
        self._out = np.empty((played.deformer.mesh.vertex_count, 3), np.float32)
        native.compiled.select_instruction_set("avx2")
        self.instruction_set = native.compiled.instruction_set()
        vertices = np.stack([self._play(i).copy() for i in range(len(played.bones))])
        self.max_pct = _max_pct(vertices, played)
        native.compiled.select_instruction_set(self._best)

    def _play(self, i: int) -> np.ndarray:
        i %= len(self._played.bones)
        controls = None if self._played.controls is None else self._played.controls[i]
        self._played.deformer.deform(self._played.bones[i], controls, threads=1, out=self._out)
        return self._out

    def times(self, count: int) -> np.ndarray:
        native.compiled.select_instruction_set(self.instruction_set)
        marks = np.empty(count + 1)
        marks[0] = time.perf_counter()
        for i in range(count):
            self._play(i)
            marks[i + 1] = time.perf_counter()
        native.compiled.select_instruction_set(self._best)
        return np.diff(marks) * 1e3


class _Node(_Contender):
    """The JavaScript package in a Node process; see web_player.mjs."""

    def __init__(self, variant: str, played: Played, folder: Path):
        program = shutil.which("node")
        if program is None:
            raise InputError("bench web needs Node 18 or newer; install it, for example by nvm")
        played.deformer.save(folder / "hero.understudy")
        for name, values in (("bones", played.bones), ("controls", played.controls)):
            given = np.zeros(0) if values is None else np.ascontiguousarray(values, "<f8")
            (folder / name).write_bytes(given.tobytes())
        self.process = subprocess.Popen(
            [program, str(_PLAYER), str(javascript_package()), variant, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.instruction_set = self._line()
        vertices = np.fromfile(folder / "positions", "<f4").reshape(played.reference.shape)
        self.max_pct = _max_pct(vertices, played)

    def times(self, count: int) -> np.ndarray:
        stdin: IO[str] | None = self.process.stdin
        if stdin is None:
            raise RuntimeError("the player has no input")
        stdin.write(f"{count}\n")
        stdin.flush()
        return np.array(json.loads(self._line()))

    def _line(self) -> str:
        line = self.process.stdout.readline().strip() if self.process.stdout else ""
        if not line:
            raise RuntimeError(f"the Node process ended with status {self.process.wait()}")
        return line

    def end(self) -> None:
        """End the process."""
        self.process.communicate()


def _rows(
    case: str, played: Played, methods: tuple[str, ...], size: _Size
) -> tuple[list[CaseResult], dict[str, str]]:
    """Return the rows of one case, and the instruction set of each method."""
    with ExitStack() as stack:
        contenders: dict[str, _Contender] = {}
        for method in methods:
            if method == "native":
                contenders[method] = _Native(played)
                continue
            folder = Path(stack.enter_context(TemporaryDirectory()))
            node = _Node(_VARIANTS[method], played, folder)
            stack.callback(node.end)
            contenders[method] = node
        counts = {}
        for method, contender in contenders.items():
            contender.times(_WARM_CALLS)
            one = float(np.median(contender.times(10)))
            counts[method] = int(np.clip(size.seconds * 1e3 / one, 5, 2000))
        taken: dict[str, list[np.ndarray]] = {method: [] for method in contenders}
        for _ in range(size.blocks):
            for method, contender in contenders.items():
                taken[method].append(contender.times(counts[method]))
        rows = [
            CaseResult(
                case,
                method,
                {
                    "ms_1": min(float(np.median(block)) for block in blocks),
                    "ms_p99_1": float(np.percentile(np.concatenate(blocks), 99)),
                    "max_pct": contenders[method].max_pct,
                },
            )
            for method, blocks in taken.items()
        ]
        return rows, {name: contender.instruction_set for name, contender in contenders.items()}


def _max_pct(vertices: np.ndarray, played: Played) -> float:
    distance = np.linalg.norm(vertices - played.reference, axis=2)
    return 100 * float(distance.max()) / played.deformer.mesh.height


def _findings(case: str, rows: list[CaseResult], sets: dict[str, str]) -> Iterator[str]:
    """Yield sentences with the ratios that the rows are for."""
    figures = {row.method: row.figures for row in rows}
    if "native" not in figures:
        return
    for method in _VARIANTS:
        if method in figures:
            ratio = figures[method]["ms_1"] / figures["native"]["ms_1"]
            yield f"{case}: {method} takes {ratio:.2f} x the time of native ({sets['native']})"
