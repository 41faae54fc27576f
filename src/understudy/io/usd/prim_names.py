"""Names of prims: ASCII letters, digits and underscores, so that every program reads them.

The original name is kept in the prim's custom data, and as its display name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from understudy.core.poses import distinct_names

NAME_KEY = "understudy:name"


def identifiers(names: Iterable[str], taken: Collection[str] = ()) -> list[str]:
    """Return a valid prim name for each name, all distinct and none of `taken`.

    >>> identifiers(["arm.L", "arm L", "2nd", "arm_L"])
    ['arm_L', 'arm_L_2', '_2nd', 'arm_L_3']
    """
    bases = [re.sub(r"[^A-Za-z0-9_]", "_", name) or "_" for name in names]
    bases = [f"_{base}" if base[0].isdigit() else base for base in bases]
    before = list(taken)
    return distinct_names([*before, *bases])[len(before) :]


def keep_name(prim: Any, name: str) -> None:
    """Store the original name of a `Usd.Prim`, if its own name differs."""
    if prim.GetName() != name:
        prim.SetCustomDataByKey(NAME_KEY, name)
        prim.SetDisplayName(name)


def original_name(prim: Any) -> str:
    """Return the name that a `Usd.Prim` was written for, else its own name."""
    kept = prim.GetCustomDataByKey(NAME_KEY)
    return kept if isinstance(kept, str) and kept else str(prim.GetName())
