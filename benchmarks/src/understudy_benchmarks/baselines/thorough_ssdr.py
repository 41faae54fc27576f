"""`ssdr` with as many starts and iterations of affine bones as `temporal`, without its networks.

The two additional starts are clusters around distant trajectories: what `temporal` gains beside
this is what its networks bring.
"""

from __future__ import annotations

from dataclasses import replace

from understudy.core.poses import evenly
from understudy.methods.decomposition.solve.motion import Motion
from understudy.methods.decomposition.solve.plan import (
    THOROUGH,
    THOROUGH_ITERATIONS,
    InitialClusters,
    Plan,
)
from understudy.methods.decomposition.ssdr import Ssdr
from understudy_benchmarks.baselines.fesam import distant_seeds, nearest_seed

_SAMPLE = 1000  # vertices of the additional clusters, as many as `temporal` labels


class ThoroughSsdr(Ssdr):
    """`ssdr` with the starts and iterations of `temporal`."""

    def plan(self, motion: Motion) -> Plan:
        """Return what to solve for, with clusters around distant trajectories."""
        plan = super().plan(motion)
        vertices = evenly(motion.vertex_count, _SAMPLE)
        sample = motion.subset(vertices)
        seeds = distant_seeds(sample, min(plan.bones, len(vertices)))
        return replace(
            plan,
            clusters=InitialClusters(vertices, nearest_seed(sample, seeds)),
            iterations=max(plan.iterations, THOROUGH_ITERATIONS),
            extension=THOROUGH,
        )
