"""`temporal_paper`: temporal deep skinning as published (Moutafidou, Toulatzis & Fudos).

1. Section 3: a network reads the trajectory of every vertex and returns the probability of every
   label. A vertex gets the six labels with the highest probabilities, normalised to sum to one. The
   labels that any vertex gets are the bones.
2. Section 3.2: transforms and weights are solved for in turn, five times, both by conjugate
   gradients on linear least squares. An extra equation per vertex asks its weights to sum to one.
   The bones of a vertex never change.

What the paper leaves open, and what is done here:
- The factor of the extra equation. It is large (`CONVEXITY`), so that the weights sum to one but
  for rounding; they are divided by their sum before the transforms are solved for.
- Section 2 says that weights are non-negative, Section 3.2 solves linear systems. Here negative
  weights are set to zero and the others solved for again, until none is negative.
- When conjugate gradients stop: at a relative residual of 1e-5 for transforms, 1e-8 for weights.
- The systems of different vertices share no unknown, nor do those of different frames. They are
  solved side by side, each with its own step lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.methods.base import Config, Method, Traits
from understudy.methods.decomposition.bones.classifier import (
    PUBLISHED_CHANNELS,
    checked_weights,
    highest_labels,
    long_enough,
    network_weights,
    networks_of,
    predict_labels,
    read_arrays,
    shapes,
    trajectories,
)
from understudy.methods.decomposition.solve import kernels
from understudy.methods.decomposition.solve.decompose import (
    deformer_from_bones,
    erms,
    skin_and_bones,
)
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    in_principal_directions,
    read_motion,
    with_exact_errors,
)
from understudy.methods.decomposition.solve.solves import RIDGE, fit_affine, solve_transforms
from understudy.rigs.base import Rig
from understudy.system import checks, tasks
from understudy.system.errors import FileError
from understudy.system.progress import SILENT, Progress

LinearSolver = Literal["direct", "conjugate_gradients"]

INFLUENCES = 6  # Section 3
ITERATIONS = 5  # Section 3.2
CONVEXITY = 100.0  # squared factor of the extra equation, in units of the mesh's radius
_TOLERANCE, _TRANSFORM_TOLERANCE = 1e-8, 1e-5  # relative residuals
_BLOCK = 4096  # vertices at a time


@dataclass(frozen=True)
class TemporalPaperConfig(Config):
    """Options of temporal_paper.

    network     which network predicts: lstm, cnn or hybrid; auto: lstm for animals, cnn for humans
    kind        what the network was trained on: animals or humans; auto: whichever explains the
                sequence better
    influences  number of bones per vertex
    reads       what the network reads. positions: as the file has them, and labels are numbers of
                bones, as published; `seed` selects among networks of several training seeds.
                normalised: as `temporal`, whose networks then predict
    trained     folder of networks that `understudy train temporal` wrote; none: those that come
                with the packages
    iterations  solves for weights and transforms
    solver      of transforms: direct, or conjugate_gradients as in the paper
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"normalised": {"reads": "normalised"}}

    network: Literal["auto", "lstm", "cnn", "hybrid"] = "auto"  # Section 4.2
    kind: Literal["auto", "animals", "humans"] = "auto"
    influences: int = INFLUENCES
    reads: Literal["positions", "normalised"] = "positions"  # Section 3.1
    trained: str | None = None
    iterations: int = ITERATIONS
    solver: LinearSolver = "conjugate_gradients"  # Section 3.2

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between(self.influences, "influences", 1)
        checks.between(self.iterations, "iterations", 1)


class TemporalPaper(Method[TemporalPaperConfig]):
    """Temporal deep skinning as published: bones and weights from a network, a few iterations."""

    name = "temporal_paper"
    traits = Traits(finds_bones=True, takes_sequences=True, baseline="temporal")
    Config = TemporalPaperConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Return a skin for the mesh of `poses`, with the motion of its bones as clips.

        A skeleton of the poses is ignored.
        """
        config = self.config
        motion, normalisation = read_motion(poses)
        # Provenance holds no paths: the folder's name alone.
        trained = None if config.trained is None else Path(config.trained).name
        with tasks.one_blas_thread():
            reduced, directions = in_principal_directions(motion)
            kind, start = self._start(poses, motion, reduced, normalisation.order)
            fit, errors = fit_as_published(
                reduced, *start, config.iterations, config.solver, progress
            )
            fit = with_exact_errors(motion, replace(fit, transforms=directions @ fit.transforms))
        curve = [erms(error, motion, normalisation) for error in [*errors[:-1], fit.error]]
        return deformer_from_bones(
            poses,
            *skin_and_bones(fit, normalisation),
            self.name,
            {"erms": curve[-1]},
            {
                "config": {**asdict(config), "trained": trained},
                "kind": kind,
                "erms_curve": curve,
            },
        )

    def _start(
        self, poses: Poses, motion: Motion, reduced: Motion, order: np.ndarray
    ) -> tuple[str, tuple[np.ndarray, np.ndarray]]:
        """Return the kind of network that explains most, and its bones and weights (V,K)."""
        config = self.config
        published = config.reads == "positions"
        paths = (
            published_trajectories(poses, order)
            if published
            else trajectories(motion, np.arange(motion.vertex_count))
        )
        found = []
        for kind, network in networks_of(config.kind, config.network):
            weights = (
                published_network(kind, network, config.seed, config.trained)
                if published
                else network_weights(kind, network, config.trained)
            )
            start = highest_labels(predict_labels(network, weights, paths), config.influences)
            found.append((fit_affine(reduced, *start).error, kind, start))
        _, kind, start = min(found, key=lambda one: one[0])
        return kind, start


def published_trajectories(poses: Poses, vertices: np.ndarray) -> np.ndarray:
    """Return what networks trained as published read: (n,F,3) float32, x, y, z in every frame.

    vertices  (n,) of the mesh
    """
    return long_enough(poses.read_vertices(vertices).transpose(1, 0, 2))


def published_network(
    kind: str, network: str, seed: int = 0, folder: str | None = None
) -> Mapping[str, np.ndarray]:
    """Return the float32 weights of a network trained as published.

    seed    of the training, modulo the number of seeds in the file
    folder  that `understudy train temporal --paper` wrote; None: the weights of the package
    """
    name = f"published_{kind}_{network}"
    place = resources.files("understudy_benchmarks.baselines").joinpath("trained")
    file = (place if folder is None else Path(folder)).joinpath(f"{name}.safetensors")
    if not file.is_file():
        raise FileError(
            f"{file}: no such file; write it with: understudy train temporal --paper "
            f"--out {folder or 'networks'}, and use it with --set trained={folder or 'networks'}"
        )
    arrays = read_arrays(file.read_bytes(), name)
    seeds = min((len(array) if array.ndim else 0 for array in arrays.values()), default=0)
    if not seeds:
        raise FileError(f"weights of {name}: they hold no seed; train the network again")
    one = {key: array[seed % seeds] for key, array in arrays.items()}
    return checked_weights(one, shapes(network, PUBLISHED_CHANNELS), network, name)


def fit_as_published(
    motion: Motion,
    index: np.ndarray,
    weight: np.ndarray,
    iterations: int = ITERATIONS,
    solver: LinearSolver = "conjugate_gradients",
    progress: Progress = SILENT,
) -> tuple[Fit, list[float]]:
    """Return the fit from given bones (V,K) and weights (V,K), and its squared errors.

    The errors are those of the given weights, then after each iteration.
    """
    bones = int(index.max()) + 1
    fit = Fit(np.zeros((motion.rows, 4 * bones)), index, weight, motion.square)
    transforms_of = solve_transforms if solver == "direct" else solve_by_conjugate_gradients
    solve = lambda fit: with_exact_errors(
        motion, replace(fit, transforms=transforms_of(motion, fit))
    )
    fit = solve(fit)
    errors = [fit.error]
    with progress.task(f"{iterations} iterations", iterations) as bar:
        for _ in range(iterations):
            fit = solve(replace(fit, weight=published_weights(motion, fit)))
            errors.append(fit.error)
            bar.advance()
    return fit, errors


def published_weights(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the weights (V,K) on the bones of `fit` that fit its transforms best."""
    by_bone = fit.transforms.reshape(motion.rows, fit.bones, 4).transpose(1, 2, 0)
    flat = np.ascontiguousarray(by_bone.reshape(4 * fit.bones, -1))
    products = (flat @ flat.T).reshape(fit.bones, 4, fit.bones, 4).transpose(0, 2, 1, 3).copy()
    result = np.empty_like(fit.weight)
    for start in range(0, motion.vertex_count, _BLOCK):
        block = slice(start, start + _BLOCK)
        index, rest = fit.index[block], motion.rest[block]
        cross = (motion.targets[block] @ flat.T).reshape(len(rest), fit.bones, 4)
        own = np.take_along_axis(cross, index[:, :, None].astype(np.int64), axis=1)
        right = np.einsum("vki,vi->vk", own, rest)
        pairs = products[index[:, :, None], index[:, None, :]]
        gram = np.einsum("vklij,vi,vj->vkl", pairs, rest, rest, optimize=True)
        result[block] = _non_negative(gram + CONVEXITY, right + CONVEXITY, fit.weight[block])
    return result / result.sum(axis=1, keepdims=True)


def _non_negative(gram: np.ndarray, right: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return non-negative x (V,K) of gram x = right; negative ones become zero one set at a time.

    gram   (V,K,K), right (V,K)
    start  (V,K) where conjugate gradients start
    """
    free = np.ones(start.shape, bool)
    values = start
    for _ in range(start.shape[1]):
        multiply = lambda x, free=free: np.einsum("vkl,vl->vk", gram, x) * free
        values = _conjugate_gradients(multiply, right * free, values * free)
        negative = values < 0
        if not negative.any():
            break
        # The last weight of a vertex stays.
        negative &= (free & ~negative).any(axis=1, keepdims=True)
        free &= ~negative
    return np.maximum(values, 0) + 1e-30


def _conjugate_gradients(
    multiply: Callable[[np.ndarray], np.ndarray], right: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Return x (V,K) of many small systems by conjugate gradients, side by side."""
    values, residual = start.copy(), right - multiply(start)
    direction, size = residual.copy(), np.einsum("vk,vk->v", residual, residual)
    small = _TOLERANCE**2 * np.einsum("vk,vk->v", right, right)
    for _ in range(2 * start.shape[1]):
        going = size > small
        if not going.any():
            break
        image = multiply(direction)
        curvature = np.einsum("vk,vk->v", direction, image)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=going & (curvature > 0))
        values += step[:, None] * direction
        residual -= step[:, None] * image
        previous, size = size, np.einsum("vk,vk->v", residual, residual)
        ratio = np.divide(size, previous, out=np.zeros_like(size), where=going & (previous > 0))
        direction = residual + ratio[:, None] * direction
    return values


def solve_by_conjugate_gradients(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the same as `solve_transforms`, by conjugate gradients, all columns at once.

    The preconditioner is the inverse of the 4x4 diagonal block of each bone.
    """
    bones = fit.bones
    gram, cross = kernels.normal_equations(
        motion.rest, fit.index, fit.weight, motion.targets, bones
    )
    ridge = RIDGE * np.trace(gram) / len(gram) + 1e-300
    start = fit.transforms.T
    right = cross + ridge * start
    gram = gram + ridge * np.eye(len(gram))
    every = np.arange(bones)
    blocks = np.linalg.pinv(gram.reshape(bones, 4, bones, 4)[every, :, every, :], hermitian=True)
    precondition = lambda left: (blocks @ left.reshape(bones, 4, -1)).reshape(left.shape)
    result, residual = start.copy(), right - gram @ start
    direction = precondition(residual)
    size = np.einsum("nr,nr->r", residual, direction)
    tolerance = _TRANSFORM_TOLERANCE**2 * np.einsum("nr,nr->r", right, precondition(right))
    for _ in range(len(gram)):
        if (size <= tolerance).all():
            break
        image = gram @ direction
        curvature = np.einsum("nr,nr->r", direction, image)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0)
        result += step * direction
        residual -= step * image
        preconditioned = precondition(residual)
        previous, size = size, np.einsum("nr,nr->r", residual, preconditioned)
        ratio = np.divide(size, previous, out=np.zeros_like(size), where=previous > 0)
        direction = preconditioned + ratio * direction
    return np.ascontiguousarray(result.T)
