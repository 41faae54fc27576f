"""Where a deformer comes from, as its `provenance` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from understudy.core.deformer import Deformer

_SAMPLE = "sample"
UNMOVED = "unmoved"  # in the provenance of poses: kind -> names of bones, controls that never move


def with_source(deformer: Deformer, made_by: Mapping[str, Any]) -> Deformer:
    """`deformer` with the provenance of the poses it was fitted to."""
    return replace(deformer, provenance={**deformer.provenance, _SAMPLE: dict(made_by)})


def sample_of(deformer: Deformer) -> Mapping[str, Any]:
    """The provenance of the poses that a deformer was fitted to; empty: the file does not say."""
    sample = deformer.provenance.get(_SAMPLE)
    return sample if isinstance(sample, Mapping) else {}


def rig_of(deformer: Deformer) -> str | None:
    """The rig that a deformer was learned from, as `load_rig` takes it; None: it does not say."""
    rig = sample_of(deformer).get("rig")
    return rig if isinstance(rig, str) and rig else None


def parts_left_out(deformer: Deformer) -> tuple[str, ...]:
    """The parts of the original that a deformer was fitted without."""
    names = sample_of(deformer).get("without_parts")
    return tuple(str(name) for name in names) if isinstance(names, list) else ()
