"""The implementations that `bench runtime` compares, each with one deformer and poses to play."""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.features import raw_features
from understudy.io.onnx import onnx_model
from understudy.runtime import native
from understudy.runtime.timing import Call, take_turns
from understudy_benchmarks._floor import Floor
from understudy_benchmarks.onnx_nets import onnx_nets_inputs, onnx_nets_model

CROWD = 100  # poses of a crowd


class Contender(ABC):
    """One implementation of one deformer, with poses to play.

    bones     (T,B,3,4) float64
    controls  (T,C) float64, or None
    """

    def __init__(self, deformer: Deformer, bones: np.ndarray, controls: np.ndarray | None):
        self.deformer, self.bones = deformer, bones
        self.controls = controls if deformer.reads_controls else None

    def pose(self, i: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Bones and controls of pose i; i may count on beyond the number of poses."""
        i %= len(self.bones)
        return self.bones[i], None if self.controls is None else self.controls[i]

    @abstractmethod
    def call(self, threads: int) -> Call:
        """A function that plays pose i into preallocated memory."""

    @abstractmethod
    def vertices(self) -> np.ndarray:
        """(T,V,3): all poses, played one by one."""

    def figures(self, reference: np.ndarray, height: float) -> dict[str, float]:
        """max_pct: largest distance from reference vertices (T,V,3), in % of the height."""
        distance = np.linalg.norm(self.vertices() - reference, axis=2)
        return {"max_pct": 100 * float(distance.max()) / height}


class Understudy(Contender):
    """The compiled runtime of this package, called through `Deformer.deform`."""

    def __init__(self, deformer: Deformer, bones: np.ndarray, controls: np.ndarray | None):
        super().__init__(deformer, bones, controls)
        packed = native.runtime_of(deformer)
        if packed is None:
            raise RuntimeError("the compiled runtime is missing")  # `run` has checked it
        self.bytes = packed.bytes
        self._out = np.empty((deformer.mesh.vertex_count, 3), np.float32)

    def call(self, threads: int) -> Call:
        return lambda i: self.deformer.deform(*self.pose(i), threads=threads, out=self._out)

    def limits(self, threads: int) -> dict[str, Call]:
        """What bounds a call: reading its bytes once, and its multiply-adds."""
        floor = Floor(self.bytes, threads, native.compiled.instruction_set())
        multiply_adds = self.deformer.cost()["multiply_adds"]
        return {
            "floor_": lambda i: floor.read(),
            "arithmetic_": lambda i: floor.multiply_add(multiply_adds),
        }

    def vertices(self) -> np.ndarray:
        return np.stack([self.deformer.deform(*self.pose(i)) for i in range(len(self.bones))])

    def figures(self, reference: np.ndarray, height: float) -> dict[str, float]:
        return {"bytes": float(self.bytes), **super().figures(reference, height)}

    def crowd(self, blocks: int, seconds: float) -> dict[str, float]:
        """crowd_ms_1 and crowd_ms_2: the time per pose in a call with `CROWD` poses."""
        which = np.arange(CROWD) % len(self.bones)
        bones, controls = self.bones[which], None if self.controls is None else self.controls[which]
        out = np.empty((CROWD, self.deformer.mesh.vertex_count, 3), np.float32)
        play = lambda i, threads: self.deformer.deform(bones, controls, threads=threads, out=out)
        calls: dict[str, Call] = {f"crowd_ms_{n}": partial(play, threads=n) for n in (1, 2)}
        return {name: t.ms / CROWD for name, t in take_turns(calls, blocks, seconds).items()}

    def beside_busy_process(self, blocks: int, seconds: float) -> dict[str, float]:
        """busy_ms_1 and busy_ms_2: the times while another process occupies one core."""
        context = multiprocessing.get_context("spawn")
        ready, stop = context.Event(), context.Event()
        neighbour = context.Process(target=_keep_busy, args=(ready, stop), daemon=True)
        neighbour.start()
        ready.wait()
        try:
            calls = {f"busy_ms_{n}": self.call(n) for n in (1, 2)}
            return {name: times.ms for name, times in take_turns(calls, blocks, seconds).items()}
        finally:
            stop.set()
            neighbour.join()


def _keep_busy(ready, stop) -> None:
    ready.set()
    while not stop.is_set():
        sum(range(10000))


class OnnxRuntime(Contender):
    """ONNX Runtime on the exported graph of the whole deformer."""

    # Settings that may make it faster; the last two matter with several threads only.
    _SETTINGS: tuple[dict[str, str], ...] = (
        {},
        {"session.set_denormal_as_zero": "1"},
        {"session.force_spinning_stop": "1"},
        {"session.intra_op.allow_spinning": "0"},
    )

    def __init__(self, deformer: Deformer, bones: np.ndarray, controls: np.ndarray | None):
        super().__init__(deformer, bones, controls)
        self._model = self._graph().SerializeToString()
        self._inputs = [self._input(i) for i in range(len(bones))]

    def _graph(self) -> Any:
        """The graph as an `onnx.ModelProto`."""
        return onnx_model(self.deformer)

    def _input(self, i: int) -> dict[str, np.ndarray]:
        bones, controls = self.pose(i)
        given = {"world_from_bone": np.ascontiguousarray(bones[None], np.float32)}
        if controls is not None:
            given["controls"] = np.ascontiguousarray(controls[None], np.float32)
        return given

    def _session(self, threads: int, settings: dict[str, str]) -> Any:
        import onnxruntime as ort  # optional dependency

        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        # One pose at a time: what depends on the number of poses is worked out in advance.
        options.add_free_dimension_override_by_name("poses", 1)
        for name, value in settings.items():
            options.add_session_config_entry(name, value)
        return ort.InferenceSession(self._model, options, providers=["CPUExecutionProvider"])

    def _bound(self, session: Any) -> Call:
        """A call with inputs and output bound in advance, so that it copies no more than needed."""
        import onnxruntime as ort  # optional dependency

        (result,) = session.get_outputs()
        shape = session.run(None, self._inputs[0])[0].shape
        out = ort.OrtValue.ortvalue_from_shape_and_type(list(shape), np.float32)
        bindings = []
        for inputs in self._inputs:
            binding = session.io_binding()
            for name, values in inputs.items():
                binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(values))
            binding.bind_ortvalue_output(result.name, out)
            bindings.append(binding)
        return lambda i: session.run_with_iobinding(bindings[i % len(bindings)])

    def call(self, threads: int) -> Call:
        """The fastest of several settings, found by a short measurement."""
        settings = self._SETTINGS[: 4 if threads > 1 else 2]
        tried = {n: self._bound(self._session(threads, s)) for n, s in enumerate(settings)}
        times = take_turns(tried, 3, 0.4)
        return tried[min(times, key=lambda n: times[n].ms)]

    def vertices(self) -> np.ndarray:
        session = self._session(1, {})
        return np.concatenate([session.run(None, inputs)[0] for inputs in self._inputs])


class OnnxNets(OnnxRuntime):
    """ONNX Runtime on a plain graph of the networks and bases alone, given their inputs."""

    def _graph(self) -> Any:
        return onnx_nets_model(self.deformer)

    def _input(self, i: int) -> dict[str, np.ndarray]:
        bones, controls = self.pose(i)
        own = None if controls is None else controls[None]
        raw = raw_features(self.deformer.skeleton, bones[None], own, 1)
        features = self.deformer.features
        read = np.clip(raw[:, features.columns], features.low, features.high)
        return onnx_nets_inputs(self.deformer, read)

    def figures(self, reference: np.ndarray, height: float) -> dict[str, float]:
        return {}  # its result is not vertices


class Torch(Contender):
    """The torch module of the same deformer."""

    def __init__(self, deformer: Deformer, bones: np.ndarray, controls: np.ndarray | None):
        super().__init__(deformer, bones, controls)
        import torch  # optional dependency

        from understudy.runtime.torch_deformer import TorchDeformer  # needs torch

        self._torch, self._module = torch, TorchDeformer(deformer)
        self._inputs = [
            tuple(None if v is None else torch.tensor(v[None]) for v in self.pose(i))
            for i in range(len(bones))
        ]

    def call(self, threads: int) -> Call:
        def play(i: int) -> object:
            if self._torch.get_num_threads() != threads:
                self._torch.set_num_threads(threads)
            return self._module(*self._inputs[i % len(self._inputs)])

        return play

    def vertices(self) -> np.ndarray:
        return np.concatenate([self._module(*single).numpy() for single in self._inputs])


PEERS: dict[str, Callable[[Deformer, np.ndarray, np.ndarray | None], Contender]] = {
    "onnxruntime": OnnxRuntime,
    "onnxruntime-nets": OnnxNets,
    "torch": Torch,
}
