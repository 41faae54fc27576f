"""The whole decomposition of a motion into bones and skin weights.

Affine bones, `decompose` with rigid=False:
1. Express the motion in its principal directions, and take a sample of the vertices (`motion`).
2. Compute several starts, with a few alternating iterations each (`starts`).
3. Run all iterations from the two best starts, and keep the better result (`solves`).
4. Solve for the weights of all vertices, and run the last iterations on all of them.
5. Solve for the transforms of all frames.

Rigid bones cannot be combined over frames. Their starts are computed on a sample of vertices and
frames, and the last iterations run on all of them.

`decompose_to_error` searches for the smallest number of bones that reaches an error. A fit in the
solver's units becomes a skin, clips and a `Deformer` by the functions at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.geometry.skinning import float32_weights
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    Normalisation,
    in_principal_directions,
    with_exact_errors,
)
from understudy.methods.decomposition.solve.plan import RIGID, UNLIMITED, Plan
from understudy.methods.decomposition.solve.solves import (
    no_weights,
    solve_alternating,
    solve_transforms,
    solve_weights,
)
from understudy.methods.decomposition.solve.starts import (
    SPLIT_SHARES,
    affine_starts,
    extend_rows,
    rigid_start,
    rigid_transforms,
    without_and_with_clusters,
)

_VERTICES = 3000  # size of the sample that the first iterations of affine bones work on
_CONTINUED = 2  # starts that get all iterations
_LAST_DETAIL = 2e-3  # share of the squared error that the last iterations may ignore
# With unlimited influences, bones may drift far apart and cancel each other: the error is slightly
# lower, but the weights cannot be simplified. A weak pull towards the bones' own vertices prevents
# it.
_INDIVIDUAL = 3e-6
# The same pull for an exact skin, weaker: it only decides what the motion leaves open, such as how
# a flat patch stretches along its normal. Otherwise transforms may be too large to be stored well.
_WELL_DETERMINED = 1e-7
_RIGID_SWEEPS, _RIGID_ITERATIONS = 10, 8  # from affine to rigid bones


def decompose(motion: Motion, plan: Plan) -> Fit:
    """Return transforms (3F,4B) and weights for all vertices; rows are x, y, z of each frame."""
    affine_steps = len(SPLIT_SHARES) + _CONTINUED + 2 + 2 * (plan.clusters is not None)
    steps = 2 if plan.rigid else affine_steps
    with plan.progress.task(f"fitting {plan.bones} bones", steps) as bar:
        plan = replace(plan, bar=bar)
        if plan.individual is None:
            plan = replace(plan, individual=_INDIVIDUAL if plan.influences is None else 0.0)
        if plan.influences is None:
            plan = replace(plan, extension=UNLIMITED)
        elif plan.rigid:
            plan = replace(plan, extension=RIGID)
        return _decompose_rigid(motion, plan) if plan.rigid else _decompose_affine(motion, plan)


def decompose_to_error(motion: Motion, plan: Plan, reached: Callable[[float], bool]) -> Fit:
    """Return the fit with the fewest bones, up to `plan.bones`, that reaches an error.

    reached  whether a squared error is small enough

    The number of bones is doubled until it suffices, then found by bisection. If `plan.bones` are
    too few, the fit with that many is returned.
    """
    too_few, enough, best = 0, 1, None
    while best is None:
        fit = decompose(motion, replace(plan, bones=enough))
        if reached(fit.error) or enough >= plan.bones or fit.bones < enough:
            best = fit
        else:
            too_few, enough = enough, min(plan.bones, 2 * enough)
    if not reached(best.error):
        return best
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        fit = decompose(motion, replace(plan, bones=middle))
        if reached(fit.error):
            enough, best = middle, fit
        else:
            too_few = middle
    return best


def _decompose_affine(motion: Motion, plan: Plan) -> Fit:
    reduced, directions = in_principal_directions(motion)
    vertices = evenly(reduced.vertex_count, _VERTICES)
    sample = reduced.subset(vertices)
    leading, starts = affine_starts(motion, sample, directions, plan)
    fits = []
    for start in sorted(starts, key=lambda start: start.error)[:_CONTINUED]:
        fits.append(solve_alternating(leading, start, plan, plan.iterations))
        plan.bar.advance()
    fit = min(fits, key=lambda fit: fit.error)
    transforms = extend_rows(sample, fit, plan.individual or 0.0)
    detail = _LAST_DETAIL * fit.error * motion.vertex_count / len(vertices)
    return _last_iterations(motion, (reduced, directions), transforms, detail, plan)


def decompose_from(motion: Motion, plan: Plan, transforms: np.ndarray) -> Fit:
    """Return the fit that the iterations on all vertices reach from given affine transforms.

    transforms  (3F,4B), close to those of the result; `plan.bones` is not used

    For rigid bones, the affine ones are fitted first: they find the weights, which are what rigid
    bones lack.
    """
    with plan.progress.task(f"fitting {transforms.shape[1] // 4} bones to all vertices", 1) as bar:
        affine = replace(
            plan, bones=transforms.shape[1] // 4, bar=bar, individual=_WELL_DETERMINED, rigid=False
        )
        reduced, directions = in_principal_directions(motion)
        projected = np.ascontiguousarray(directions.T @ transforms)
        fit = _last_iterations(motion, (reduced, directions), projected, 0.0, affine)
        if not plan.rigid:
            return fit
        fit = replace(fit, transforms=rigid_transforms(motion, fit, _RIGID_SWEEPS))
        rigid = replace(affine, rigid=True, extension=RIGID)
        return with_exact_errors(
            motion, solve_alternating(motion, fit, rigid, _RIGID_ITERATIONS, thorough=False)
        )


def _last_iterations(
    motion: Motion,
    principal: tuple[Motion, np.ndarray],
    transforms: np.ndarray,
    detail: float,
    plan: Plan,
) -> Fit:
    """Return the fit after the iterations on all vertices.

    principal   the motion in its principal directions, and these directions
    transforms  (n,4B) in these directions
    detail      squared motion that the iterations may ignore
    """
    reduced, directions = principal
    leading = reduced.leading_rows(detail)
    fit = solve_weights(
        leading,
        np.ascontiguousarray(transforms[: leading.rows]),
        no_weights(leading),
        plan.search(thorough=True),
    )
    plan.record(fit.error)
    fit = solve_alternating(leading, fit, plan, plan.iterations // 3, record=plan.record)
    fit = replace(fit, transforms=directions[:, : leading.rows] @ fit.transforms)
    plan.bar.advance()
    fit = replace(fit, transforms=solve_transforms(motion, fit, plan.individual or 0.0))
    return with_exact_errors(motion, fit)


def _decompose_rigid(motion: Motion, plan: Plan) -> Fit:
    starts = [rigid_start(motion, one) for one in without_and_with_clusters(plan)]
    plan.bar.advance()
    search = plan.search(thorough=True)
    fits = [solve_weights(motion, transforms, no_weights(motion), search) for transforms in starts]
    fit = min(fits, key=lambda fit: fit.error)
    # The bones of every vertex have just been searched thoroughly; searching again within the few
    # iterations that follow costs more than it gains.
    fit = solve_alternating(motion, fit, plan, plan.iterations // 15, thorough=False)
    plan.bar.advance()
    return with_exact_errors(motion, fit)


def deformer_from_bones(
    poses: Poses,
    skin: Skin,
    world_from_bone: np.ndarray,
    method: str,
    training: Mapping,
    provenance: Mapping,
) -> Deformer:
    """Return a deformer of independent bones and the clips that `poses` consist of.

    The bones have no parents, and their rest transform is the identity.

    world_from_bone  (T,B,3,4) transforms from rest
    method           name of the method
    training         errors to store; counts of poses, bones and influences are added
    provenance       origin to store; version and name of the poses are added
    """
    bones = world_from_bone.shape[1]
    return Deformer(
        mesh=poses.mesh,
        skeleton=Skeleton(
            tuple(f"bone_{b}" for b in range(bones)),
            np.full(bones, -1),
            np.tile(np.eye(3, 4), (bones, 1, 1)),
        ),
        skin=skin,
        clips=poses.clips(world_from_bone),
        method=method,
        training={
            "poses": poses.pose_count,
            "bones": bones,
            "influences": skin.influences,
            **training,
        },
        provenance={"understudy": __version__, "poses": poses.name, **provenance},
    )


def skin_and_bones(fit: Fit, normalisation: Normalisation) -> tuple[Skin, np.ndarray]:
    """Return the skin in the mesh's order, and world_from_rest (T,B,3,4), of the bones in use."""
    used = np.unique(fit.index[fit.weight > 0])
    new_index = np.zeros(int(fit.index.max()) + 1, np.int32)
    new_index[used] = np.arange(len(used))
    skin = packed_skin(new_index[fit.index], fit.weight, normalisation.order)
    return skin, np.ascontiguousarray(normalisation.to_world(fit.transforms)[:, used])


def erms(error: float, motion: Motion, normalisation: Normalisation) -> float:
    """Return ERMS, in hundredths of a model unit, of a squared error of the solver."""
    return 100 * normalisation.scale * motion.coordinate_rms(error)


def packed_skin(index: np.ndarray, weight: np.ndarray, order: np.ndarray) -> Skin:
    """Return the solver's weights as a skin in the order of the mesh vertices.

    index   (V,K) bones and weight (V,K) of the solver's vertices
    order   (V,) the mesh vertex that each of them is

    The largest weight comes first and compensates for the rounding to float32. Places that no
    vertex uses are dropped.
    """
    largest_first = np.argsort(-weight, axis=1, kind="stable")
    index = np.take_along_axis(index, largest_first, axis=1)
    weight = np.take_along_axis(weight, largest_first, axis=1)
    places = max(1, int((weight > 0).sum(axis=1).max()))
    packed_index = np.empty((len(order), places), np.int32)
    packed_weight = np.empty((len(order), places), np.float32)
    packed_index[order] = np.where(weight > 0, index, 0)[:, :places]
    packed_weight[order] = float32_weights(weight[:, :places])
    return Skin(packed_index, packed_weight)
