"""The largest number of bones that the decomposition methods take, and why."""

from __future__ import annotations

from understudy.system import checks
from understudy.system.errors import InputError

MAX_BONES = 1000


def check_bone_count(bones: int) -> None:
    """Raise unless there is at least one bone and no more than the solver can handle.

    All bones are solved together. Their normal equations are a dense matrix of (4 bones)^2 numbers,
    which every iteration factorises: 128 MB and some seconds at 1,000 bones, growing with the
    square and the cube of the number.
    """
    checks.between(bones, "bones", 1)
    if bones > MAX_BONES:
        raise InputError(
            f"bones: at most {MAX_BONES}, got {bones}. All bones are solved together, and memory "
            "and time grow with the square and the cube of their number; use fewer bones, or fit "
            "parts of the mesh that move apart one by one"
        )
