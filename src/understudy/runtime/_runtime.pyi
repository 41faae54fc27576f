"""The compiled runtime: see native.cpp."""

from typing import Any, overload

import numpy as np

class Model:
    @overload
    def __init__(self, data: bytes) -> None: ...
    @overload
    def __init__(self, entries: dict[str, Any]) -> None: ...
    @property
    def bytes(self) -> int: ...
    def pose_bones(self, controls: np.ndarray, out: np.ndarray) -> bool: ...
    def gpu_counts(self) -> tuple[int, int, int, int, int, int]: ...
    def fill_gpu_arrays(
        self,
        rest: np.ndarray,
        entry_starts: np.ndarray,
        entries: np.ndarray,
        matrices: np.ndarray,
        influence_transforms: np.ndarray,
        influence_weights: np.ndarray,
    ) -> None: ...

class Pool:
    def __init__(self, threads: int) -> None: ...

class Scratch:
    def __init__(self, model: Model, pool: Pool) -> None: ...
    def play(
        self, world_from_bone: np.ndarray | None, controls: np.ndarray | None, positions: np.ndarray
    ) -> bool: ...
    def deform(
        self,
        world_from_bone: np.ndarray | None,
        controls: np.ndarray | None,
        positions: np.ndarray,
        normals: np.ndarray | None = None,
    ) -> bool: ...
    def coefficients(
        self, world_from_bone: np.ndarray | None, controls: np.ndarray | None, out: np.ndarray
    ) -> None: ...
    def distance_from_data(
        self, world_from_bone: np.ndarray | None, controls: np.ndarray | None
    ) -> float: ...
    def transforms(self, world_from_bone: np.ndarray | None, out: np.ndarray) -> None: ...

def instruction_set() -> str: ...
def select_instruction_set(name: str) -> bool: ...
