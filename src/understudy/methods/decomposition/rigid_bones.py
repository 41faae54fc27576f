"""How many rigid bones a skeleton needs.

`bone_count` counts affine bones, and no more than 3F/4 of them in F frames. Rigid bones explain
less each, and frames tell more of them apart: they have half as many unknowns. So if as many rigid
bones leave a visible error, more are fitted, by a third at a time, while each of them lowers the
error by more than the share gamma of `bone_count`. If nothing can be seen in the end, bones are
removed one by one while that stays so; else the motion is no skinning with rigid bones, and the
first fit is kept.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.poses import evenly
from understudy.methods.decomposition.alternating_solve import solve_alternating
from understudy.methods.decomposition.bone_count import GAMMA, INVISIBLE, MAX_BONES, relative_error
from understudy.methods.decomposition.decompose import decompose
from understudy.methods.decomposition.fit import Fit, with_exact_errors
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.plan import RIGID, Plan
from understudy.methods.decomposition.pruning import without_one_bone
from understudy.methods.decomposition.weight_solve import no_weights, solve_weights

# Joints add to the error, so that independent bones may leave half of what can be seen.
# Bones are added until they leave half of that, so that there are some to remove.
_SMALL, _OVERFIT = INVISIBLE / 2, INVISIBLE / 4
_GROWTH = 4 / 3
_MIN_VERTICES = 4  # of a bone
_SAMPLE = 800  # vertices that bones are added and removed on
_TRIES, _ITERATIONS = 3, 4  # bones whose removal is tried, and iterations after it
_LAST_ITERATIONS = 8  # on all vertices


def enough_rigid_bones(motion: Motion, fit: Fit, plan: Plan) -> Fit:
    """Return a rigid fit that leaves nothing visible, or `fit` if it does or if none is found.

    fit   of rigid bones
    plan  how to fit other numbers of bones
    """
    if relative_error(motion, fit.error) <= INVISIBLE:
        return fit
    sample = motion.subset(evenly(motion.vertex_count, _SAMPLE))
    plan = replace(plan, rigid=True, clusters=None, extension=RIGID)
    found, before = fit, relative_error(motion, fit.error)
    while before > _OVERFIT:
        bones = min(more_bones(found.bones), MAX_BONES, motion.vertex_count // _MIN_VERTICES)
        if bones <= found.bones:
            break
        more = decompose(sample, replace(plan, bones=bones))
        error = relative_error(sample, more.error)
        if not bones_pay((found.bones, before), (more.bones, error)):
            break
        found, before = more, error
    if found is fit or before > _SMALL:
        return fit
    return _on_all_vertices(motion, _pruned(sample, found, fit.bones, plan), plan)


def more_bones(bones: int) -> int:
    """Return the next larger number of bones to try.

    >>> more_bones(3), more_bones(20)
    (4, 27)
    """
    return int(np.ceil(_GROWTH * bones))


def bones_pay(fewer: tuple[int, float], more: tuple[int, float]) -> bool:
    """Return whether each added bone lowers the error by more than the share gamma.

    fewer, more  numbers of bones, and the error E that they leave

    >>> bones_pay((10, 2.0), (14, 1.0)), bones_pay((10, 2.0), (14, 1.9))
    (True, False)
    """
    (few, before), (many, after) = fewer, more
    return bool(np.log(before / max(after, 1e-6)) > GAMMA * (many - few))


def _pruned(sample: Motion, fit: Fit, fewest: int, plan: Plan) -> Fit:
    """Return the fit with as many bones removed as leaves its error small.

    fewest  a number that leaves more
    """
    while fit.bones > fewest + 1:
        for less in without_one_bone(sample, fit, plan.influences or fit.bones, _TRIES):
            less_plan = replace(plan, bones=less.bones)
            less = solve_alternating(sample, less, less_plan, _ITERATIONS, thorough=False)
            if relative_error(sample, less.error) <= _SMALL:
                break
        else:
            return fit
        fit = less
    return fit


def _on_all_vertices(motion: Motion, fit: Fit, plan: Plan) -> Fit:
    """Return the fit of all vertices, from a fit to a sample."""
    plan = replace(plan, bones=fit.bones)
    fit = solve_weights(motion, fit.transforms, no_weights(motion), plan.search(thorough=True))
    fit = solve_alternating(motion, fit, plan, _LAST_ITERATIONS, thorough=False)
    return with_exact_errors(motion, fit)
