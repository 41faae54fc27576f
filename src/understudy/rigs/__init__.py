"""Rigs by name. A built-in rig is imported only when it is asked for."""

from __future__ import annotations

from understudy.core import checks
from understudy.rigs.base import Rig, animate

__all__ = ["Rig", "animate", "load_rig", "rig_names"]


def rig_names() -> tuple[str, ...]:
    """The built-in rigs."""
    return ("human", "face", "tube")


def load_rig(name: str) -> Rig:
    """A built-in rig by name: `human` (13,380 vertices, 163 bones), `face` (4,597 vertices, 77
    controls) or `tube` (tiny, for tests).
    """
    checks.one_of(name, "rig", rig_names())
    if name == "human":
        from understudy.rigs.human import HumanRig

        return HumanRig()
    if name == "face":
        from understudy.rigs.face import FaceRig

        return FaceRig()
    from understudy.rigs.tube import TubeRig

    return TubeRig()
