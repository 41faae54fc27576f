"""Rigs: the protocol, finding one by name, sampling poses, and the built-in tube."""

from understudy.rigs.base import AnimatedRig, NamedRig, PerturbableRig, Rig, animate
from understudy.rigs.registry import load_rig, rig_names

__all__ = ["AnimatedRig", "NamedRig", "PerturbableRig", "Rig", "animate", "load_rig", "rig_names"]
