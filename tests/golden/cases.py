"""Some sixty small fits, by name: what a commit that only moves code must leave as it is.

Every method of the registry with its `quick` options on every kind of source that its traits allow,
and variants of the options that lead through code of their own.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from bending_rig import BendingRig
from builders import chain_skeleton, grid_mesh, random_motion
from jointed_arm import arm
from sequence_builders import bending_strip
from two_tubes import DressedTube

from understudy import Deformer, Poses, Skin
from understudy.io.sequences import sequence_from_arrays
from understudy.jobs import fitting
from understudy.methods.base import Method, config_from_text
from understudy.methods.correctives.storage import stored
from understudy.methods.posing_fitting import with_posing
from understudy.methods.registry import method_names, method_type
from understudy.rigs.registry import load_rig
from understudy.rigs.sampling import gaussian


class Sources:
    """The poses of all cases, each made when it is first asked for."""

    @cached_property
    def tube_rig(self):
        return load_rig("tube")

    @cached_property
    def bending_rig(self):
        return BendingRig()

    @cached_property
    def dressed_rig(self):
        return DressedTube()

    @cached_property
    def tube(self) -> Poses:
        return self.tube_rig.evaluate(gaussian(self.tube_rig.controls, 120, seed=0))

    @cached_property
    def bending(self) -> Poses:
        return self.bending_rig.evaluate(gaussian(self.bending_rig.controls, 60, seed=0))

    @cached_property
    def dressed(self) -> Poses:
        return self.dressed_rig.evaluate(gaussian(self.dressed_rig.controls, 60, seed=1))

    @cached_property
    def controls(self) -> Poses:
        """Poses of the tube without its bones."""
        return replace(self.tube, skeleton=None, world_from_bone=None)

    @cached_property
    def strip(self) -> Poses:
        vertices, faces, rest = bending_strip()
        noise = 0.01 * np.random.default_rng(0).normal(size=vertices.shape)
        return sequence_from_arrays(vertices + noise, faces, rest)

    @cached_property
    def arm(self) -> Poses:
        return arm(blend=0.2, noise=0.003)[0]

    @cached_property
    def dense(self) -> tuple[Poses, Deformer]:
        """A strip in motion; every vertex has all seven bones, with different weights."""
        mesh, skeleton = grid_mesh(30, 7), chain_skeleton(7)
        reach = np.exp(-2 * (mesh.vertices[:, :1] - np.linspace(0, 2, 7)) ** 2) + 0.05
        weights = reach * (1 + 0.1 * np.sin(3 * mesh.vertices[:, 1:2] * np.arange(7)))
        weights /= weights.sum(axis=1, keepdims=True)
        skin = Skin(np.tile(np.arange(7), (len(weights), 1)), weights.astype(np.float32))
        deformer = Deformer(mesh, skeleton, skin=skin)
        bones = random_motion(skeleton, 10, size=0.3)
        return Poses(mesh, deformer.deform_reference(bones), skeleton, bones), deformer


Fit = Callable[[Sources], tuple[Deformer, Poses]]


def _fit(method: str, source: str, rig: bool = False, **options: object) -> Fit:
    """A fit with the `quick` options of a method and some more; the rig is the source's own."""

    def fit(sources: Sources) -> tuple[Deformer, Poses]:
        poses = getattr(sources, source)
        live = getattr(sources, f"{source}_rig") if rig else None
        return _method(method, **options).fit(poses, rig=live), poses

    return fit


def _method(name: str, **options: object) -> Method:
    kind = method_type(name)
    given = {option: str(value) for option, value in options.items()}
    return kind(config_from_text(kind.Config, {**kind.traits.quick, **given}))


def _then(change: Callable[[Deformer, Poses], Deformer], fit: Fit) -> Fit:
    """A fit, and what is made of its deformer."""

    def both(sources: Sources) -> tuple[Deformer, Poses]:
        deformer, poses = fit(sources)
        return change(deformer, poses), poses

    return both


def _reduced(method: str, **options: object) -> Fit:
    """The reduction of a skin that exists."""

    def fit(sources: Sources) -> tuple[Deformer, Poses]:
        poses, deformer = sources.dense
        return _method(method, **options).reduce(deformer, poses.world_from_bone), poses

    return fit


def _parts(method: str, **errors: float) -> Fit:
    """A fit of the dressed tube with an error of its own for some parts."""

    def fit(sources: Sources) -> tuple[Deformer, Poses]:
        with tempfile.TemporaryDirectory() as folder:  # its parts have checkpoints
            job = fitting.Fit.of(
                method, Path(folder, "a.understudy"), method_type(method).traits.quick
            )
            return job.fit_parts(sources.dressed, errors), sources.dressed

    return fit


def _methods(**traits: bool) -> list[str]:
    """The methods whose traits have the given values."""
    return [
        name
        for name in method_names()
        if all(getattr(method_type(name).traits, key) == value for key, value in traits.items())
    ]


def _bones(method: str) -> dict[str, int]:
    """Few bones, where a method can be told: what is exact with many differs by rounding alone."""
    return {"bones": 5} if "bones" in method_type(method).Config.__dataclass_fields__ else {}


_NETWORKS = {"epochs": 4, "hidden": "16,16"}
_PAPER = {**_NETWORKS, "preset": "paper"}
_SPACE = {**_PAPER, "anchor_epochs": 4, "regions": 1}

CASES: dict[str, Fit] = {
    **{f"{name}: tube": _fit(name, "tube", rig=True, **_bones(name)) for name in method_names()},
    **{f"{name}: no rig": _fit(name, "bending") for name in _methods(asks_rig=True)},
    **{f"{name}: controls": _fit(name, "controls") for name in _methods(controls_suffice=True)},
    **{
        f"{name}: sequence": _fit(name, "strip", **_bones(name))
        for name in _methods(takes_sequences=True)
    },
    **{f"{name}: skin": _reduced(name) for name in _methods(reduces_skin=True)},
    **{f"{name}: shells": _fit(name, "dressed") for name in ("lbs", "fdda", "corrected_skin")},
    "lbs: one influence": _fit("lbs", "tube", influences=1),
    "lbs: posing": _then(with_posing, _fit("lbs", "tube")),
    "fdda: paper": _fit("fdda", "tube", **_PAPER),
    "fdda: options": _fit(
        "fdda", "tube", activation="gelu", loss="mixed", controls="all", inputs="data"
    ),
    "fdda: components": _fit("fdda", "bending", basis_error=0.01, max_components=3, **_NETWORKS),
    "fdda: parts": _parts("fdda", sleeve=0.01),
    "fdda: 16 bits": _then(
        lambda found, poses: stored(found, "auto", poses),
        _fit("fdda", "tube", bounded=False, **_NETWORKS),
    ),
    "differential: paper": _fit("differential", "tube", **_SPACE),
    "differential: paper-early": _fit("differential", "tube", **_SPACE | {"preset": "paper-early"}),
    "differential: metric": _fit("differential", "tube", metric="differential", **_NETWORKS),
    "differential: anchors": _fit("differential", "bending", anchor_nets="single", **_NETWORKS),
    "differential: parts": _parts("differential", sleeve=0.01),
    "local: vertices": _fit("local", "tube", loss_space="vertices", regions=1, **_NETWORKS),
    "corrected_skin: skin": _fit("corrected_skin", "tube", skin="blended", storage="float32"),
    "corrected_skin: options": _fit(
        "corrected_skin", "tube", linear=True, optimizer="sgd", features="all", guard=False
    ),
    "corrected_skin: components": _fit(
        "corrected_skin", "tube", networks=1, patience=3, **_NETWORKS
    ),
    "corrected_skin: parts": _parts("corrected_skin", sleeve=0.01, dust=0.01),
    "pca_regression: components": _fit("pca_regression", "bending", components=3, ridge=0.1),
    "auto: error": _fit("auto", "bending", max_error="1%"),
    "auto: bytes": _fit("auto", "tube", max_bytes="20kB"),
    "auto: bytes of a sequence": _fit("auto", "strip", max_bytes="15kB"),
    "temporal_paper: direct": _fit("temporal_paper", "strip", solver="direct"),
    "temporal_paper: normalised": _fit("temporal_paper", "arm", preset="normalised"),
    "temporal: skeleton": _fit("temporal", "arm", bones="none", skeleton=True),
    "temporal: arm": _fit("temporal", "arm", bones="none", influences=2),
    "ssdr: error": _fit("ssdr", "arm", error=20),
    "ssdr: rigid": _fit("ssdr", "arm", bones=4, transforms="rigid", individual=0.01),
    "fesam: paper": _fit("fesam", "strip", preset="paper", bones=3),
    "two_layer: paper": _fit("two_layer", "strip", preset="paper", bones=4),
    "two_layer: error": _fit("two_layer", "arm", error=0.01, bones=4),
    "two_layer: detail": _reduced("two_layer", per_vertex=2, bones_per_virtual=3, order="index"),
}
