"""What `bench face` and its ablations share: fitting a deformer, and the figures of its row."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.evaluation.measure import deformer_figures
from understudy.methods import config_from_text, method_type
from understudy.system.progress import Progress
from understudy_benchmarks.face_data import Subject

_REPEATS = 20


def fit_deformer(
    method: str, subject: Subject, options: Mapping[str, str], progress: Progress
) -> Deformer:
    """Fit a method to the sample of a subject; options as for `--set`."""
    kind = method_type(method)
    config = config_from_text(kind.Config, options)
    return kind(config).fit(subject.sample, rig=subject.rig, progress=progress)


def deformer_row(deformer: Deformer, sample: Poses) -> dict[str, float]:
    """The figures of a deformer: size, validation errors of its networks, time of one pose."""
    figures = deformer_figures(deformer)
    for name in ("mse_differential", "mse_anchors"):
        if name in deformer.training:
            figures[name] = deformer.training[name]
    one = sample.take(np.arange(1))
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        deformer.deform(one.world_from_bone, one.controls)
        times.append(time.perf_counter() - started)
    return {**figures, "ms": 1e3 * min(times)}
