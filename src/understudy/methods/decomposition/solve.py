"""The whole decomposition: a start from groups, then rounds, first on a sample of the vertices and
then on all of them.

Rounds find the nearest valley, so what counts is where they start. Rounds with two influences, then
more than K, then K lead to clearly better valleys than K from the beginning: bones first settle
where they alone explain something. Momentum carries rounds over flat stretches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.errors import InputError
from understudy.core.poses import evenly
from understudy.core.progress import SILENT, Progress, Task
from understudy.methods.decomposition import clusters
from understudy.methods.decomposition.alternating_solve import (
    Fit,
    Search,
    affine_bones,
    nearest_rigid,
    predict,
    rigid_bones,
    with_weights,
)
from understudy.methods.decomposition.motion import Motion, in_principal_directions
from understudy.methods.decomposition.pruning import pruned

_SAMPLE = 3000  # vertices that the first rounds work on
_RIGID_SAMPLE, _RIGID_FRAMES = (
    1500,
    32,
)  # vertices and frames that the first rounds of rigid bones work on
_SHARES = (
    0.25,
    0.1,
)  # of a group that a split takes: as many starts, besides that from rigid bones
_GO_ON = 2  # starts that are the best after a few rounds and get all of them
# What may be left out: of the squared motion at the start, of the groups' squared error in the
# first rounds, of the squared error in the last
_START_DETAIL, _DETAIL, _LAST_DETAIL = 1e-6, 1e-4, 2e-3
_MOMENTUM, _MOST_MOMENTUM = 0.5, 0.98
_SWEEPS = 3  # over the rigid bones in one round
_ANEW = 10  # rounds after which every vertex's bones are searched from all bones down
# So many rounds that lower the squared error by less than this share end them. While they lower it
# by the share below, more than planned are made, up to so many times: rigid bones gain little by
# it; with influences unlimited an exact skin may be about to be found.
_RECENT, _STILL = 5, 3e-4
_MOST_TIMES, _MOST_TIMES_RIGID = 8, 3
_FALLING, _FALLING_RIGID, _FALLING_FREELY = 1e-2, 2e-2, 2e-3
# With influences unlimited, bones may wander far off and cancel each other: a little lower an
# error, and weights that nothing can simplify.
_ALONE = 3e-6
_QUICK_SAMPLE, _QUICK_ROUNDS, _QUICK_DETAIL = 800, 25, 1e-8
_SETTLE = 4  # times that guessed groups are fitted and chosen again
_NO_BAR = Task()


@dataclass(frozen=True)
class Plan:
    """What to solve for.

    bones   at least one
    locked  (R,4L) bones that stay
    guess   groups to start from besides our own: some vertices (n,) and the number of each one's
            group (n,); more or fewer groups than bones will do
    smooth  see `rounds.with_weights`
    note    told each round's squared error; what it answers is shown beside the progress bar
    on_all  of affine bones: told the squared error at the start and after each of the last rounds,
            which are on all vertices
    falling while the squared error falls by this share over a few rounds, more are made than
    planned `bar`, `most_times`, `alone` (see `rounds.affine_bones`) and, but for affine bones of
    few influences, `falling` are set by `decompose`.
    """

    bones: int
    influences: int | None = 4
    rigid: bool = False
    rounds: int = 60
    locked: np.ndarray | None = None
    guess: tuple[np.ndarray, np.ndarray] | None = None
    smooth: Callable | None = None
    note: Callable[[float], str | None] = lambda error: None
    on_all: Callable[[float], object] = lambda error: None
    progress: Progress = SILENT
    bar: Task = _NO_BAR
    falling: float = _FALLING
    most_times: int = _MOST_TIMES
    alone: float = 0.0

    def __post_init__(self):
        if self.locked is not None and self.guess is not None:
            raise InputError(
                "locked and guess: a guess does not know of bones that stay; give one of them"
            )

    @property
    def locked_count(self) -> int:
        return 0 if self.locked is None else self.locked.shape[1] // 4


def decompose(motion: Motion, plan: Plan) -> Fit:
    """Bones (3F,4B) and weights for every vertex of `motion`, whose rows are x, y, z of frame after
    frame.
    """
    with plan.progress.task(
        f"fitting {plan.bones} bones",
        2 if plan.rigid else len(_SHARES) + _GO_ON + 2 + 2 * (plan.guess is not None),
    ) as bar:
        plan = replace(plan, bar=bar)
        if plan.influences is None:
            plan = replace(plan, falling=_FALLING_FREELY, alone=_ALONE)
        elif plan.rigid:
            plan = replace(plan, falling=_FALLING_RIGID, most_times=_MOST_TIMES_RIGID)
        return _rigid(motion, plan) if plan.rigid else _affine(motion, plan)


def _affine(motion: Motion, plan: Plan) -> Fit:
    reduced, directions = in_principal_directions(motion)
    sample = evenly(reduced.vertex_count, _SAMPLE)
    few = reduced.some(sample)
    strong, starts = _starts(motion, few, directions, plan)
    fits = []
    for start in sorted(starts, key=lambda start: start.error)[:_GO_ON]:
        fits.append(_rounds(strong, start, plan, plan.rounds))
        plan.bar.advance()
    fit = min(fits, key=lambda fit: fit.error)
    fit = replace(fit, columns=_all_rows(few, fit, directions, plan))
    strong = reduced.strongest(_LAST_DETAIL * fit.error * motion.vertex_count / len(sample))
    fit = with_weights(
        strong,
        np.ascontiguousarray(fit.columns[: strong.rows]),
        *no_weights(strong),
        _search(plan, thorough=True),
        plan.smooth,
    )
    plan.on_all(fit.error)
    last = replace(plan, note=lambda error: (plan.on_all(error), plan.note(error))[1])
    fit = _rounds(strong, fit, last, plan.rounds // 3, plan.smooth)
    fit = replace(fit, columns=directions[:, : strong.rows] @ fit.columns)
    if plan.locked is not None:
        fit.columns[:, : plan.locked.shape[1]] = plan.locked
    plan.bar.advance()
    return measured(
        motion, replace(fit, columns=affine_bones(motion, fit, _moving(fit, plan), plan.alone))
    )


def _starts(
    motion: Motion, few: Motion, directions: np.ndarray, plan: Plan
) -> tuple[Motion, list[Fit]]:
    """The strongest rows of `few`, a sample in principal directions, and affine fits to them after
    some rounds each.

    From groups of vertices, split in different ways or guessed, and from rigid bones: with few
    frames, those alone lead near an exact skin.
    """
    locked = None if plan.locked is None else directions.T @ plan.locked
    groups = [_groups(few, locked, plan, share) for share in _SHARES]
    if plan.guess is not None:
        groups.append(_guessed(few, motion, plan, lambda some: some.turned(directions)))
    strong = few.strongest(_DETAIL * min(start.error for start in groups))
    starts = []
    for start in groups:
        starts.append(
            _staged(
                strong,
                replace(start, columns=np.ascontiguousarray(start.columns[: strong.rows])),
                plan,
                plan.rounds // 5,
            )
        )
        plan.bar.advance()
    for one in _guessing_or_not(plan):
        columns = np.ascontiguousarray(
            directions[:, : strong.rows].T @ _rigid_start(motion, one).columns
        )
        start = with_weights(strong, columns, *no_weights(strong), _search(plan, thorough=True))
        starts.append(_rounds(strong, start, plan, plan.rounds // 5))
        plan.bar.advance()
    return strong, starts


def _guessing_or_not(plan: Plan) -> tuple[Plan, ...]:
    """The plan without its guess, and with it where it has one."""
    return (replace(plan, guess=None),) if plan.guess is None else (replace(plan, guess=None), plan)


def _guessed(motion: Motion, whole: Motion, plan: Plan, rows_of: Callable[[Motion], Motion]) -> Fit:
    """The groups of `plan.guess`, as many as there are to be bones, taken up by all vertices of
    `motion`.

    rows_of: the rows of `motion` from those of `whole`, which the guess numbers its vertices by
    """
    vertices, label = plan.guess
    few = rows_of(whole.some(vertices))
    label = np.unique(label, return_inverse=True)[1].astype(np.int32)[:, None]
    fit = Fit(
        np.zeros((few.rows, 4 * (int(label.max()) + 1))), label, np.ones(label.shape), few.square
    )
    fit = clusters.settled(few, fit, _SETTLE)
    fit = (
        pruned(few, fit, plan.bones, 1)
        if fit.bones > plan.bones
        else clusters.grown(few, fit, plan.bones)
    )
    return clusters.settled(motion, clusters.chosen(motion, fit.columns), _SETTLE)


def plain_rounds(
    motion: Motion,
    fit: Fit,
    influences: int,
    count: int,
    solver: str = "direct",
    progress: Progress = SILENT,
) -> tuple[Fit, list[float]]:
    """Rounds as the papers make them, transformations and then weights, without samples or
    momentum: the fit, and the squared error at the start and after each round.
    """
    search = _search(Plan(fit.bones, influences))
    errors = [fit.error]
    with progress.task(f"{count} rounds", count) as bar:
        for _ in range(count):
            after = with_weights(
                motion, affine_bones(motion, fit, solver=solver), fit.index, fit.weight, search
            )
            fit = after if after.error <= fit.error else fit
            errors.append(fit.error)
            bar.advance()
    return fit, errors


def _rigid(motion: Motion, plan: Plan) -> Fit:
    starts = [_rigid_start(motion, one).columns for one in _guessing_or_not(plan)]
    plan.bar.advance()
    fits = [
        with_weights(
            motion, columns, *no_weights(motion), _search(plan, thorough=True), plan.smooth
        )
        for columns in starts
    ]
    fit = min(fits, key=lambda fit: fit.error)
    # Every vertex's bones were searched from all bones down just now; to do so again before these
    # few rounds end costs more than it gains.
    fit = _rounds(
        motion, fit, plan, plan.rounds // 15, plan.smooth, anew=plan.most_times * plan.rounds
    )
    plan.bar.advance()
    return measured(motion, fit)


def _rigid_start(motion: Motion, plan: Plan) -> Fit:
    """Rigid bones (3F,4B) from rounds on a sample of the vertices and of the frames."""
    plan = replace(plan, rigid=True)
    sample, frames = (
        evenly(motion.vertex_count, _RIGID_SAMPLE),
        evenly(motion.rows // 3, _RIGID_FRAMES),
    )
    rows = (3 * frames[:, None] + np.arange(3)).reshape(-1)
    every, few = motion.some(sample), motion.some(sample, rows)
    locked = None if plan.locked is None else plan.locked[rows]
    if plan.guess is None:
        reduced, directions = in_principal_directions(few)
        fit = _groups(reduced, None if locked is None else directions.T @ locked, plan, _SHARES[0])
    else:
        fit = _guessed(
            few, motion, plan, lambda some: some.some(np.arange(some.vertex_count), rows)
        )
    fit = replace(fit, columns=_turned(few, fit, locked, plan, sweeps=1))
    fit = _staged(few, fit, plan, plan.rounds // 12)
    return replace(fit, columns=_turned(every, fit, plan.locked, plan, sweeps=4 * _SWEEPS))


class Quick:
    """Quick affine fits to a sample of the vertices, to tell how the error falls with the number of
    bones.
    """

    def __init__(self, motion: Motion, influences: int, rounding: float = 0.0):
        """rounding: see `motion.Frame`; a motion that is no more than that is none."""
        self._motion, self._influences = motion, influences
        reduced, self._directions = in_principal_directions(motion)
        few = reduced.some(evenly(reduced.vertex_count, _QUICK_SAMPLE))
        paths = motion.targets.reshape(motion.vertex_count, -1, 3)
        self._total = (
            float(((paths - paths.mean(axis=1, keepdims=True)) ** 2).sum()) / motion.vertex_count
        )
        self._moves = self._total > motion.rows * rounding**2
        self._strong = few.strongest(_QUICK_DETAIL * self._total * few.vertex_count)

    def left(self, bones: int) -> float:
        """The share (root of squares) that `bones` bones leave of the motion about each vertex's
        mean.
        """
        if not self._moves:
            return 0.0
        strong = self._strong
        if bones == 1:
            fit = clusters.one_bone(strong)
        else:
            plan = Plan(
                bones,
                self._influences,
                rigid=True,
                falling=_FALLING_RIGID,
                most_times=_MOST_TIMES_RIGID,
            )
            columns = np.ascontiguousarray(
                self._directions[:, : strong.rows].T @ _rigid_start(self._motion, plan).columns
            )
            plan = replace(plan, rigid=False, most_times=1, bones=columns.shape[1] // 4)
            fit = with_weights(strong, columns, *no_weights(strong), _search(plan, thorough=True))
            fit = _rounds(strong, fit, plan, _QUICK_ROUNDS)
        return float(np.sqrt(max(fit.error, 0.0) / (strong.vertex_count * self._total)))


def measured(motion: Motion, fit: Fit) -> Fit:
    """The fit with its squared errors as they are, nothing left out and no smoothness added."""
    return replace(fit, value=((motion.targets - predict(motion, fit)) ** 2).sum(axis=1))


def decompose_to_error(motion: Motion, plan: Plan, reached: Callable[[float], bool]) -> Fit:
    """The fewest bones, up to `plan.bones`, whose squared error satisfies `reached`: doubled until
    it does, then halved between.
    """
    few, many, best = plan.locked_count, max(1, plan.locked_count), None
    while best is None:
        fit = decompose(motion, replace(plan, bones=many))
        if reached(fit.error) or many >= plan.bones or fit.bones < many:
            best = fit
        else:
            few, many = many, min(plan.bones, 2 * many)
    if not reached(best.error):
        return best
    while many - few > 1:
        middle = (few + many) // 2
        fit = decompose(motion, replace(plan, bones=middle))
        if reached(fit.error):
            many, best = middle, fit
        else:
            few = middle
    return best


def bones_for_weights(motion: Motion, weights: np.ndarray, plan: Plan) -> Fit:
    """The best bones for given weights (V,B)."""
    count, bones = weights.shape
    index = np.tile(np.arange(bones, dtype=np.int32), (count, 1))
    still = np.tile(np.eye(3, 4), (motion.rows // 3, bones)).reshape(motion.rows, -1)
    fit = Fit(still, index, np.ascontiguousarray(weights), motion.square)
    columns = affine_bones(motion, fit)
    if plan.rigid:
        fit = replace(fit, columns=nearest_rigid(columns, np.ones(bones, bool), columns))
        columns = rigid_bones(motion, fit, 20 * plan.rounds)
    return measured(motion, replace(fit, columns=columns))


def rigid_rounds(motion: Motion, start: Fit, influences: int, count: int) -> Fit:
    """So many rounds with rigid bones, from rigid bones (3F,4B) and weights that are there
    already.
    """
    if start.index.shape[1] > influences:
        start = with_weights(
            motion, start.columns, *no_weights(motion), Search(influences, from_all=True)
        )
    return measured(
        motion,
        _rounds(
            motion,
            start,
            Plan(start.bones, influences, rigid=True, falling=_FALLING_RIGID, most_times=1),
            count,
        ),
    )


def _groups(motion: Motion, locked: np.ndarray | None, plan: Plan, share: float) -> Fit:
    """The start (see `clusters`), on the strongest rows; the bones are then fitted to all rows."""
    strong = motion.strongest(_START_DETAIL * float(motion.square.sum()))
    fit = (
        clusters.one_bone(strong)
        if locked is None
        else clusters.chosen(strong, np.ascontiguousarray(locked[: strong.rows]))
    )
    fit = clusters.grown(strong, fit, plan.bones, plan.locked_count, share)
    columns = np.zeros((motion.rows, 4 * fit.bones))
    columns[: strong.rows] = fit.columns
    if locked is not None:
        columns[:, : locked.shape[1]] = locked
    return clusters.chosen(
        motion, affine_bones(motion, replace(fit, columns=columns), _moving(fit, plan))
    )


def _all_rows(motion: Motion, fit: Fit, directions: np.ndarray, plan: Plan) -> np.ndarray:
    """Bones on all rows for the weights found on the strongest."""
    columns = np.zeros((motion.rows, 4 * fit.bones))
    columns[: len(fit.columns)] = fit.columns
    if plan.locked is not None:
        columns[:, : plan.locked.shape[1]] = directions.T @ plan.locked
    return affine_bones(motion, replace(fit, columns=columns), _moving(fit, plan), plan.alone)


def _turned(
    motion: Motion, fit: Fit, locked: np.ndarray | None, plan: Plan, sweeps: int
) -> np.ndarray:
    """Rigid bones on all rows for the weights given: the rotations nearest to the affine bones,
    then some sweeps.
    """
    moving = _moving(fit, plan)
    still = np.tile(np.eye(3, 4), (motion.rows // 3, fit.bones))
    if locked is not None:
        still[:, : locked.shape[1]] = locked
    columns = affine_bones(motion, replace(fit, columns=still), moving)
    return rigid_bones(
        motion, replace(fit, columns=nearest_rigid(columns, moving, still)), sweeps, moving
    )


def _staged(motion: Motion, fit: Fit, plan: Plan, count: int) -> Fit:
    """Rounds with two influences, then with two more than K, then with K."""
    last = fit.bones if plan.influences is None else min(plan.influences, fit.bones)
    between = 4 if plan.influences is None else last + 2
    if last > 2:
        fit = _rounds(motion, fit, replace(plan, influences=2), count)
        if between < fit.bones:
            fit = _rounds(motion, fit, replace(plan, influences=between), count)
    if fit.index.shape[1] > last:
        fit = with_weights(motion, fit.columns, *no_weights(motion), _search(plan, thorough=True))
    return _rounds(motion, fit, plan, count)


def _rounds(
    motion: Motion, fit: Fit, plan: Plan, count: int, smooth=None, anew: int = _ANEW
) -> Fit:
    """Weights and bones in turn, with momentum: each round starts a little beyond where the last
    one led. A step that raises the error is undone.
    """
    moving = _moving(fit, plan)
    before, momentum = None, _MOMENTUM
    fit = with_weights(motion, fit.columns, fit.index, fit.weight, _search(plan), smooth)
    errors = [fit.error]
    for number in range(plan.most_times * count):
        search = _search(plan, thorough=number % anew == anew - 1)
        found = (
            rigid_bones(motion, fit, _SWEEPS, moving)
            if plan.rigid
            else affine_bones(motion, fit, moving, plan.alone)
        )
        beyond = found if before is None else found + momentum * (found - before)
        if plan.rigid and before is not None:
            beyond = nearest_rigid(beyond, moving, found)
        after = with_weights(motion, beyond, fit.index, fit.weight, search, smooth)
        before, momentum = found, min(_MOST_MOMENTUM, 1.1 * momentum)
        if after.error > fit.error:
            before, momentum = None, 0.5 * momentum
            after = with_weights(motion, found, fit.index, fit.weight, search, smooth)
        fit = after if after.error <= fit.error else fit
        plan.bar.note(plan.note(fit.error) or "")
        errors.append(fit.error)
        least = _STILL if number + 1 < count else plan.falling
        if (
            number >= min(_RECENT, count - 1)
            and fit.error >= (1 - least) * errors[-1 - _RECENT if len(errors) > _RECENT else 0]
        ):
            break
    return fit


def _search(plan: Plan, thorough: bool = False) -> Search:
    if plan.influences is None:
        return Search(None, candidates=1, exchanges=12)
    return Search(plan.influences, candidates=2, exchanges=3, from_all=thorough)


def _moving(fit: Fit, plan: Plan) -> np.ndarray:
    return np.arange(fit.bones) >= plan.locked_count


def no_weights(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Index and weight (V,1) of nothing: where the solver of weights is to begin from the bones
    alone.
    """
    return np.zeros((motion.vertex_count, 1), np.int32), np.zeros((motion.vertex_count, 1))
