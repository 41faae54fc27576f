"""Work that several fits of the same poses share: skins and displacements.

Fits that run at once in threads of one process, as benchmarks over several seeds do, would compute
them once each. Nothing is kept alive: a result is shared as long as a fit holds it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


class Shared:
    """Results by what they were made of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[Any, ...], tuple[list[weakref.ref], weakref.ref]] = {}

    def get(self, sources: tuple[Any, ...], options: tuple[Any, ...], make: Callable[[], Made]):
        """What `make` returns, or what it returned before for the same sources and options.

        sources  objects, compared by identity
        options  values, compared by equality
        A second caller waits for the first.
        """
        key = (*map(id, sources), *options)
        with self._lock:
            if key in self._kept:
                before, made = self._kept[key]
                found = made()
                # The number of an object that is gone may be given to another.
                if found is not None and all(
                    ref() is source for ref, source in zip(before, sources)
                ):
                    return found
            found = make()
            self._kept = {k: entry for k, entry in self._kept.items() if entry[1]() is not None}
            self._kept[key] = [weakref.ref(source) for source in sources], weakref.ref(found)
            return found
