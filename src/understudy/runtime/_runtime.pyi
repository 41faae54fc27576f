"""The compiled runtime: see native.cpp."""

import numpy as np

class Model:
    def __init__(self, data: bytes) -> None: ...
    @property
    def bytes(self) -> int: ...

class Pool:
    def __init__(self, threads: int) -> None: ...

class Scratch:
    def __init__(self, model: Model, pool: Pool) -> None: ...
    def play(
        self,
        world_from_bone: np.ndarray | None,
        controls: np.ndarray | None,
        positions: np.ndarray,
    ) -> bool: ...
    def deform(
        self,
        world_from_bone: np.ndarray | None,
        controls: np.ndarray | None,
        positions: np.ndarray,
        normals: np.ndarray | None = None,
    ) -> bool: ...

class Floor:
    def __init__(self, bytes: int, threads: int) -> None: ...
    def read(self) -> float: ...
    def multiply_add(self, count: int) -> float: ...

def instruction_set() -> str: ...
