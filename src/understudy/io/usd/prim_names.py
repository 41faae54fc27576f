"""Names of prims: ASCII letters, digits and underscores, so that every program reads them.

The original name is kept in the prim's custom data, and as its display name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

NAME_KEY = "understudy:name"


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return a valid prim name for each name, all distinct and none of `taken`.

    >>> identifiers(["arm.L", "arm L", "2nd", "arm_L"])
    ['arm_L', 'arm_L_2', '_2nd', 'arm_L_3']
    """
    used = set(taken)
    result = []
    for name in names:
        base = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
        base = f"_{base}" if base[0].isdigit() else base
        found, number = base, 1
        while found in used:
            number += 1
            found = f"{base}_{number}"
        used.add(found)
        result.append(found)
    return result


def keep_name(prim: Any, name: str) -> None:
    """Store the original name of a `Usd.Prim`, if its own name differs."""
    if prim.GetName() != name:
        prim.SetCustomDataByKey(NAME_KEY, name)
        prim.SetDisplayName(name)


def original_name(prim: Any) -> str:
    """Return the name that a `Usd.Prim` was written for, else its own name."""
    kept = prim.GetCustomDataByKey(NAME_KEY)
    return kept if isinstance(kept, str) and kept else str(prim.GetName())
