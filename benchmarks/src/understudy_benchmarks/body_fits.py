"""The approximations of `bench body`: which options each row has, and how it is fitted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.evaluation.measure import Approximation, deform_poses, deformer_figures
from understudy.jobs import fit
from understudy.methods.base import config_from_text
from understudy.methods.correctives.skins import best_bone_skin
from understudy.methods.fdda import FddaConfig
from understudy.methods.lbs import Lbs, LbsConfig
from understudy.methods.registry import method_type
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors
from understudy.rigs.sampling import SIGMA, SamplePlan
from understudy.system.progress import Progress
from understudy_benchmarks import Request
from understudy_benchmarks.baselines import rotational_regression, wpsd
from understudy_benchmarks.isolation import isolated
from understudy_benchmarks.samples import SIGMA_EQUATION_8, sampled
from understudy_benchmarks.seeds import at_once
from understudy_characters.human import HumanRig

METHODS = (
    "corrected_skin",
    "fdda", "fdda-noclamp", "fdda-tight", "fdda-open", "fdda-adamw", "fdda-paper", "fdda-paper-eq8",
    "differential", "local", "differential-paper-early",
    "linear", "lbs-4", "lbs-all", "lbs-4-ontest", "lbs-all-ontest",
    "rotational_regression-2", "rotational_regression-15", "rotational_regression-2-ontest",
    "rotational_regression-15-ontest",
    "wpsd-10", "wpsd-50", "wpsd-100", "wpsd-10-ontest", "wpsd-50-ontest", "wpsd-100-ontest",
)  # fmt: skip
FOR_GPU = ("differential-paper-early",)
TRAINED = tuple(
    name for name in METHODS if name.startswith(("corrected", "fdda", "differential", "local"))
)
# What a plain run fits to each subject; the order of METHODS.
DEFAULT_METHODS = {
    "skeleton": tuple(
        name
        for name in METHODS
        if name not in (*FOR_GPU, "fdda-noclamp", "fdda-tight", "fdda-open", "lbs-4-ontest")
    ),
    "human": ("corrected_skin", "fdda", "fdda-noclamp", "fdda-tight", "fdda-open", "differential"),
}
# Rows that are another row's networks with other clamps.
_CLAMPED = ("fdda-noclamp", "fdda-tight")
_RIGID_POSES = 1000
# Clips that were shown before; the options of `differential` were chosen with them in view.
SEEN_CLIPS = ("02_01", "10_01", "13_29")
# Every fifteenth of the other clips of the selection, taken by their place in it.
UNSEEN_CLIPS = ("09_01", "63_01", "126_03")

# A fitted row: what is measured, and the figures that belong to it.
Row = tuple[Approximation, dict[str, float]]


@dataclass(frozen=True)
class Size:
    """The work of a `--quick`, a plain and a `--full` run.

    poses           of the sample
    fdda            options of fdda
    clips           CMU clips to measure on; None: all
    baseline_poses  poses that rotational regression and pose space deformation are fitted to
    over_k          whether the curve over the number of influences is measured
    differential    options of differential
    corrected_skin  options of corrected_skin
    seconds         that the times of one pose are measured for
    """

    poses: int
    fdda: dict[str, str]
    clips: tuple[str, ...] | None
    baseline_poses: int
    over_k: bool
    differential: dict[str, str] = field(default_factory=dict)
    corrected_skin: dict[str, str] = field(default_factory=dict)
    seconds: float = 20.0


# A body has more parts that move independently than a face, and its rig takes ten times as long to
# evaluate. Its largest errors are at poses outside the sampled range (a stretched, lifted leg);
# less weight decay and more epochs reduce them.
_BODY_NETS = {
    "regions": "64", "anchors": "0.01", "input_poses": "8", "basis_error": "0.01",
    "max_components": "120", "batch_size": "256",
    "weight_decay": "0.3", "epochs": "100", "anchor_epochs": "100",
}  # fmt: skip
# What of these concerns the optimiser, and the defaults of `differential`, for `fdda-adamw`.
_ADAMW = {
    "learning_rate": "0.004", "loss": "mixed", "activation": "gelu",
    **{name: _BODY_NETS[name] for name in ("batch_size", "weight_decay", "epochs")},
}  # fmt: skip
SIZES = {
    "quick": Size(
        400,
        {"epochs": "40"},
        (),
        200,
        False,
        {**_BODY_NETS, "epochs": "4", "anchor_epochs": "4", "input_poses": "1"},
        {"epochs": "20", "input_poses": "1"},
        1.0,
    ),
    "default": Size(5000, {}, (*SEEN_CLIPS, *UNSEEN_CLIPS), 1000, True, _BODY_NETS),
    "full": Size(
        10000,
        {"epochs": "300"},
        None,
        2000,
        True,
        {**_BODY_NETS, "epochs": "150", "anchor_epochs": "150"},
    ),
}


def method_and_options(name: str, size: Size) -> tuple[str, dict[str, str]]:
    """The method of a row that is a deformer, and its options as for `--set`."""
    plain = {
        option: value
        for option, value in size.differential.items()
        if not option.startswith("anchor")
    }
    return {
        "corrected_skin": ("corrected_skin", size.corrected_skin),
        "fdda": ("fdda", size.fdda),
        "fdda-open": ("fdda", {**size.fdda, "skin_rings": "0", "seam_rings": "0"}),
        "fdda-adamw": ("fdda", {**_ADAMW, **size.fdda}),
        "fdda-paper": ("fdda", {"preset": "paper", **size.fdda}),
        "fdda-paper-eq8": ("fdda", {"preset": "paper", **size.fdda}),
        "differential": ("differential", size.differential),
        "local": ("local", plain),
        "differential-paper-early": ("differential", {"preset": "paper-early"}),
        "lbs-4": ("lbs", {"influences": "4", "max_poses": "none"}),
        "lbs-all": ("lbs", {"influences": "none", "max_poses": "none"}),
    }[name]


class SkeletonRig(HumanRig):
    """The human with every control at rest that acts other than through bones.

    Section 4.1 of the FDDA paper: "for each tested animation, we turned off all face controls".
    Methods that read bones alone cannot follow them.
    """

    def __init__(self) -> None:
        super().__init__()
        spec = self.controls
        self.controls = replace(
            spec,
            low=np.where(spec.numeric, spec.rest, spec.low),
            high=np.where(spec.numeric, spec.rest, spec.high),
        )

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        """Control curves (T,C) and frame rate of `walk` or `kick`."""
        values, frame_rate = super().animation(name)
        return self.bones_only(values), frame_rate

    def bones_only(self, values: np.ndarray) -> np.ndarray:
        """Control values (T,C) with the other controls at rest."""
        return np.where(self.controls.numeric, self.controls.rest, values)


class BodyFits:
    """The approximations of all rows of a subject; `-ontest` rows are fitted again on each case.

    subject  human or skeleton, see `SUBJECTS`
    """

    def __init__(
        self,
        subject: str,
        request: Request,
        size: Size,
        methods: Sequence[str],
        progress: Progress,
    ):
        self.subject, self.rig = subject, SUBJECTS[subject]()
        self.request, self.size, self.progress = request, size, progress
        self.sample = self._sampled("poses", SIGMA)
        self._eq8 = (
            self._sampled("poses-eq8", SIGMA_EQUATION_8)
            if any(name.endswith("-eq8") for name in methods)
            else None
        )
        # The seam is measured along the same borders for every method: those of fdda's groups.
        self.labels = best_bone_skin(self.sample, FddaConfig.tau)[1]
        self.deformers: dict[str, Deformer] = {}
        self._rows: dict[str, list[Row]] = {}
        self._weights: np.ndarray | None = None
        self._fit(methods)

    def rows(self, name: str, poses: Poses) -> list[Row]:
        """The approximations of a row to measure on a case with these poses, one per seed.

        Empty where an `-ontest` row needs more poses than the case has.
        """
        if name.endswith("-ontest"):
            kind, _, number = name.removesuffix("-ontest").rpartition("-")
            if kind == "wpsd" and int(number) > poses.pose_count:
                return []
            return [self._baseline(kind, number, poses)]
        if name in _CLAMPED:
            return self._clamped(name)
        return self._rows[name]

    def _sampled(self, name: str, sigma: float) -> Poses:
        plan = SamplePlan(
            self.request.poses or self.size.poses, seed=self.request.seed, sigma=sigma
        )
        return sampled(SUBJECTS[self.subject], plan, self._file(f"{name}.zarr"), self.progress)

    def _file(self, name: str) -> Path:
        """A file of this subject in the folder of the benchmark."""
        prefix = "" if self.subject == "human" else f"{self.subject}-"
        return self.request.out / f"{prefix}{name}"

    def _fit(self, methods: Sequence[str]) -> None:
        """Fit every row that is fitted to the sample."""
        wanted = [name for name in methods if not name.endswith("-ontest")]
        if set(wanted) & set(_CLAMPED) and "fdda" not in wanted:
            wanted.append("fdda")
        runs = [
            (name, self.request.seed + k)
            for name in wanted
            if name not in _CLAMPED
            for k in range(self.request.seeds if name in TRAINED else 1)
        ]
        made = at_once([partial(self._row, *run) for run in runs], self.request.jobs)
        for (name, _), row in zip(runs, made):
            self._rows.setdefault(name, []).append(row)

    def _row(self, name: str, seed: int) -> Row:
        kind, _, number = name.rpartition("-")
        if kind in ("rotational_regression", "wpsd"):
            return self._baseline(kind, number, self._few(self.size.baseline_poses))
        figures: dict[str, float] = {}
        if name == "linear":
            bones = best_bone(rigid_errors(self.sample, self._thin(_RIGID_POSES)))
            deformer = Deformer(
                self.sample.mesh,
                self.sample.skeleton,
                self.sample.control_spec,
                Skin.rigid(bones),
                method=name,
            )
        else:
            deformer, figures = self._deformer(name, seed)
        if seed == self.request.seed:
            self.deformers[name] = deformer
        figures = {**deformer_figures(deformer), **_network_sizes(deformer), **figures}
        return deform_poses(deformer), figures

    def _deformer(self, name: str, seed: int) -> tuple[Deformer, dict[str, float]]:
        """Fit one of our methods; the first seed is written to a file beside the sample."""
        method, options = method_and_options(name, self.size)
        options = {"seed": str(seed), **options}
        if name in TRAINED:
            options |= {"device": self.request.device, **self.request.options}
        suffix = "" if seed == self.request.seed else f"-seed{seed}"
        file = self._file(f"{name}{suffix}.understudy")
        eq8 = name.endswith("-eq8")
        store = self._file("poses-eq8.zarr" if eq8 else "poses.zarr")
        if store.exists() and self.request.jobs == 1:
            took = isolated(_fit_file, method, store, file, options, self.progress)
            return Deformer.load(file), {"fit_s": took.seconds, "peak_mb": took.peak_mb}
        sample = self._eq8 if eq8 and self._eq8 is not None else self.sample
        kind = method_type(method)
        started = time.perf_counter()
        fitting = kind(config_from_text(kind.Config, options))
        deformer = fitting.fit(sample, rig=SUBJECTS[self.subject](), progress=self.progress)
        return deformer, {"fit_s": time.perf_counter() - started}

    def _clamped(self, name: str) -> list[Row]:
        figures = self._rows["fdda"][0][1]
        fdda = self.deformers["fdda"]
        deformer = _unclamped(fdda) if name == "fdda-noclamp" else _tight(fdda)
        self.deformers[name] = deformer
        return [(deform_poses(deformer), figures)]

    def _baseline(self, kind: str, number: str, poses: Poses) -> Row:
        """A baseline fitted to `poses` in this process."""
        started = time.perf_counter()
        figures: Mapping[str, float] = {}
        deform: Approximation
        if kind == "lbs":
            influences = None if number == "all" else int(number)
            deformer = Lbs(LbsConfig(influences=influences, max_poses=None)).fit(poses)
            deform, figures = deform_poses(deformer), deformer_figures(deformer)
        elif kind == "rotational_regression":
            deform = rotational_regression.fit(poses, bones=int(number)).deform
        else:
            if self._weights is None:
                inputs = wpsd.network_inputs(self.sample, self.rig, self.labels)
                self._weights = inputs / inputs.sum(axis=1, keepdims=True)
            deform = wpsd.fit(
                poses, examples=int(number), weights=self._weights, bones=self.labels
            ).deform
        return deform, {**figures, "fit_s": time.perf_counter() - started}

    def _few(self, most: int) -> Poses:
        """At most `most` poses of the sample."""
        return self.sample.take(self._thin(most))

    def _thin(self, most: int) -> np.ndarray:
        return evenly(self.sample.pose_count, most)


SUBJECTS: dict[str, type[HumanRig]] = {"skeleton": SkeletonRig, "human": HumanRig}


def _fit_file(
    method: str, poses: Path, out: Path, options: dict[str, str], progress: Progress
) -> None:
    """Fit a method and write its file; runs in its own process, to measure its peak memory."""
    fit(method, poses, out, options=options, progress=progress)


def _network_sizes(deformer: Deformer) -> dict[str, float]:
    """Table 1 of the FDDA paper: number of networks, and components and input bones on average."""
    if deformer.skeleton is None or not deformer.nets:
        return {}
    unit = deformer.features.columns // 12
    bones = [len(np.unique(unit[net.inputs])) for net in deformer.nets]
    return {
        "networks": float(len(deformer.nets)),
        "mean_components": float(np.mean([len(net.outputs) for net in deformer.nets])),
        "mean_inputs": float(np.mean(bones)),
    }


def _unclamped(deformer: Deformer) -> Deformer:
    """The same deformer with features that are not clamped."""
    wide = np.full(deformer.features.count, np.inf, np.float32)
    return replace(deformer, features=replace(deformer.features, low=-wide, high=wide))


def _tight(deformer: Deformer) -> Deformer:
    """fdda with its features clamped to the exact training range."""
    margin = deformer.provenance["config"]["clamp_margin"]
    inside = margin / (1 + 2 * margin) * (deformer.features.high - deformer.features.low)
    return replace(
        deformer,
        features=replace(
            deformer.features,
            low=deformer.features.low + inside,
            high=deformer.features.high - inside,
        ),
    )
