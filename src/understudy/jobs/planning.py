"""Which poses `learn` and `compare` sample where the user gives no plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from understudy.jobs.split import split_animations
from understudy.rigs.base import ExternalRig, Rig
from understudy.rigs.sampling import SamplePlan, read_modes

POSES = 3000
_SHARE = 0.5  # of the poses, around animations
_CALM = 0.2  # the least share of its way from rest that a pose goes
_CROWD = 3  # bones or other groups of controls that may deform one place of the mesh at once
_STRETCH = 0.02  # of the edges


def plan_for(
    rig: Rig,
    count: int,
    seed: int,
    held_out: Sequence[str] = (),
    *,
    around: Sequence[str] = (),
    modes: str | Path | None = None,
    active: float | None = None,
) -> SamplePlan:
    """Return the plan that suits a rig.

    count     number of poses
    held_out  animations that are measured on: none of the poses is near them
    around    animations to sample around instead of those that are chosen
    modes     file of modes; `read_modes`
    active    share of the controls that are moved at once; None: chosen

    Who writes a rig in Python says which ranges are natural. Those of a rig of another program are
    guesses: half of its poses lie around its own animations, few bones deform one place of the mesh
    at once, and no pose stretches many edges.
    """
    plan = SamplePlan(count, seed)
    if isinstance(rig, ExternalRig):
        split = split_animations(rig, held_out)
        plan = replace(
            plan,
            animation_share=_SHARE if split.around else 0.0,
            animations=split.around,
            until=split.until,
            crowd=_CROWD,
            calm=_CALM,
            stretch=_STRETCH,
        )
    if around:
        plan = replace(plan, animation_share=_SHARE, animations=tuple(around), until=1.0)
    if modes is not None:
        plan = replace(plan, modes=read_modes(modes, rig.controls))
    return plan if active is None else replace(plan, active=active)
