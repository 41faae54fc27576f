"""How the controls of a rig move its bones: drivers of all bones, so that no rig is needed.

The motion of each bone relative to its parent depends on few controls. They are found by evidence:
of each bone of the rig that is a control, the linear and quadratic terms of its channels are tried,
and those that explain most of what is left are added one after the other. Then polynomials of
several shapes are fitted: of low degree in all inputs, and of higher degree in those that explain
most. The first that is good enough is taken, or the one that errs least on poses kept out.

Letters: T poses, B bones, C controls, D dofs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.poses import evenly
from understudy.core.posing import (
    MAX_INPUTS,
    MAX_TERMS,
    Dofs,
    Driver,
    products,
    term_count,
)
from understudy.geometry.bone_motion import CHANNELS, ORDERS, ROTATION, angles_of, rotation_of
from understudy.methods.posing_fitting.independent import KINDS, Study
from understudy.rigs.sampling import control_groups
from understudy.training.held_out import held_out_blocks

_GOOD = 5e-6  # of the height: vertices that are moved by less are right
_EXPLAINS = 0.015  # share of what is left that the controls of one bone must explain
_CHANCE = 4.0  # ... and this multiple of what they would explain by chance
_POSES_PER_TERM = 2
_SELECTION_POSES = 800
_BETTER = 0.9  # a polynomial with more terms must reduce the error to this share
_RIDGE = 1e-9
_TOGETHER = 3  # channels of one bone that are chosen together

Shape = tuple[tuple[tuple[int, ...], int], ...]  # polynomials (inputs, degree) that add up


def is_of_rig(spec: ControlSpec) -> bool:
    """Return whether controls are channels of bones, as those of a rig of Blender.

    >>> is_of_rig(ControlSpec(("arm.rot.x", "arm.rot.y", "smile"), [0] * 3, [1] * 3))
    True
    """
    return int(control_groups(spec).max(initial=-1)) + 1 < spec.count


def held_out(pose_count: int) -> np.ndarray:
    """Return which poses (T,) no driver is fitted to: many blocks, for samples of many controls."""
    return held_out_blocks(pose_count, pose_count, 8)


def in_order_of_controls(study: Study, spec: ControlSpec, values: np.ndarray) -> Study:
    """Return the study with the orders of rotation in which angles follow controls most linearly.

    A control rig turns most bones by three angles, in an order that the bones do not tell.
    """
    few = evenly(len(values), _SELECTION_POSES)
    live = spec.low < spec.high
    terms = np.concatenate([np.ones((len(few), 1)), values[few][:, live]], axis=1)
    joints = study.joints
    order, motion = joints.order.copy(), study.motion.copy()
    turned = np.empty((*motion.shape[:2], 3, 3))
    for number, axes in enumerate(ORDERS):
        own = joints.order == number
        turned[:, own] = rotation_of(motion[:, own, ROTATION], axes)
    left = []
    for axes in ORDERS:
        angles = angles_of(turned[few], axes).reshape(len(few), -1)
        square = (angles - terms @ _least_squares(terms, angles)) ** 2
        left.append(square.sum(axis=0).reshape(-1, 3).sum(axis=1))
    every = np.arange(len(order))
    best = np.argmin(left, axis=0)
    other = np.min(left, axis=0) < _BETTER * np.array(left)[order, every]
    order[other] = best[other]
    for number, axes in enumerate(ORDERS):
        own = other & (order == number)
        motion[:, own, ROTATION] = angles_of(turned[:, own], axes)
    return replace(study, joints=replace(joints, order=order), motion=motion)


def fit_from_controls(
    study: Study, spec: ControlSpec, values: np.ndarray
) -> tuple[Dofs, tuple[Driver, ...]]:
    """Return the controls that move bones as dofs, and the drivers of all bones.

    values  (T,C) of the controls, in the poses of `study`
    """
    fitter = _Fitter(spec, values)
    good = _GOOD * study.height
    parts: list[tuple[int, np.ndarray, Shape, list[np.ndarray]]] = []
    for bone in range(study.skeleton.bone_count):
        for kind, part in KINDS.items():
            lever = float(study.levers.near[kind][bone])
            motion = lever * study.motion[:, bone, part]
            moves = np.flatnonzero(np.abs(motion).max(axis=0) > 2 * good)
            if moves.size:
                shape, found = fitter.fit(motion[:, moves], good)
                channels = np.arange(CHANNELS)[part][moves]
                parts.append((bone, channels, shape, [rows / lever for rows in found]))
    used = sorted({c for *_, shape, _ in parts for inputs, _ in shape for c in inputs})
    dof_of = {control: dof for dof, control in enumerate(used)}
    drivers = [
        Driver(
            bone, channels, np.array([dof_of[c] for c in inputs], np.int32), degree, coefficients
        )
        for bone, channels, shape, found in parts
        for (inputs, degree), coefficients in zip(shape, found, strict=True)
    ]
    own = np.array(used, np.int64)
    low, high = spec.low[own], spec.high[own]
    dofs = Dofs(
        tuple(spec.names[c] for c in used),
        np.full(len(used), -1),
        own,
        low,
        high,
        np.clip(spec.rest[own], low, high),
    )
    return dofs, tuple(drivers)


class _Fitter:
    """Fits polynomials of controls to numbers of the same T poses.

    groups  controls of one bone each, at most `_TOGETHER`
    few     the poses in which the controls that matter are looked for
    basis   (few,n) orthonormal bases of the quadratic products of each group
    group   (n,) the group of each
    """

    def __init__(self, spec: ControlSpec, values: np.ndarray):
        live = spec.low < spec.high
        half = np.where(live, 0.5 * (spec.high - spec.low), 1.0)
        self.x = (values - 0.5 * (spec.low + spec.high)) / half
        self.learned = ~held_out(len(values))
        self.few = evenly(len(values), _SELECTION_POSES)
        number = control_groups(spec)
        self.groups: list[tuple[int, ...]] = []
        bases = [np.zeros((len(self.few), 0))]
        for group in range(int(number.max(initial=-1)) + 1):
            own = np.flatnonzero((number == group) & live)
            for start in range(0, len(own), _TOGETHER):
                some = own[start : start + _TOGETHER]
                terms = products(self.x[np.ix_(self.few, some)], 2)[:, 1:]
                bases.append(np.linalg.qr(terms - terms.mean(axis=0))[0])
                self.groups.append(tuple(some.tolist()))
        self.basis = np.concatenate(bases, axis=1)
        self.group = np.repeat(np.arange(len(self.groups)), [b.shape[1] for b in bases[1:]])

    def fit(self, y: np.ndarray, good: float) -> tuple[Shape, list[np.ndarray]]:
        """Return the polynomials whose sum predicts y (T,k), and the coefficients of each.

        good  root mean square error that is small enough
        """
        groups = self._select(y, good)
        best: tuple[float, Shape, list[np.ndarray]] | None = None
        for shape in _shapes(groups, int(self.learned.sum()) // _POSES_PER_TERM):
            found, error = self._solve(y, shape)
            if best is None or error < _BETTER * best[0]:
                best = (error, shape, found)
            if error <= good:
                break
        assert best is not None
        return best[1], best[2]

    def _select(self, y: np.ndarray, good: float) -> list[tuple[int, ...]]:
        """Return the groups that y depends on, those that explain most first."""
        y, x = y[self.few], self.x[self.few]
        count, left = len(y), y - y.mean(axis=0)
        sizes = np.array([len(group) for group in self.groups])
        chance = _CHANCE * np.bincount(self.group, minlength=len(sizes)) / count
        chosen: list[int] = []
        while (total := (left**2).sum()) > good**2 * count:
            square = ((self.basis.T @ left) ** 2).sum(axis=1) / total
            explained = np.bincount(self.group, square, len(sizes))
            explained[explained < np.maximum(chance, _EXPLAINS)] = 0
            explained[chosen] = 0
            explained[sizes[chosen].sum() + sizes > MAX_INPUTS] = 0
            if not explained.any():
                break
            chosen.append(int(explained.argmax()))
            terms = products(x[:, [c for group in chosen for c in self.groups[group]]], 2)
            left = y - terms @ _least_squares(terms, y)
        return [self.groups[group] for group in chosen]

    def _solve(self, y: np.ndarray, shape: Shape) -> tuple[list[np.ndarray], float]:
        """Return the coefficients of polynomials that add up, and the root mean square error.

        The error is the larger of that on poses kept out and that on the others.
        """
        columns = [products(self.x[:, inputs], degree) for inputs, degree in shape]
        terms = np.concatenate(columns, axis=1)
        solved = _least_squares(terms[self.learned], y[self.learned])
        square = ((y - terms @ solved) ** 2).sum(axis=1)
        parts = (square[self.learned], square[~self.learned])
        ends = np.cumsum([own.shape[1] for own in columns])[:-1]
        return np.split(solved, ends), max(float(np.sqrt(part.mean())) for part in parts)


def _shapes(groups: list[tuple[int, ...]], most: int) -> list[Shape]:
    """Return the sums of polynomials to try, from few terms to many, of at most `most` terms."""
    if not groups:
        return [(((), 0),)]
    first, two, every = (
        tuple(c for group in groups[:count] for c in group) for count in (1, 2, len(groups))
    )
    tried: list[Shape] = [
        ((every, 1),),
        ((every, 2),),
        ((every, 2), (first, 4)),
        ((every, 2), (first, 6), (two, 3)),
        ((every, 2), (first, 6), (two, 4)),
        ((every, 3), (first, 6)),
        ((every, 3), (two, 5), (first, 7)),
        ((two, 5), (first, 7)),
    ]
    sizes = lambda shape: [term_count(len(inputs), degree) for inputs, degree in shape]
    fits = lambda shape: max(sizes(shape)) <= MAX_TERMS and sum(sizes(shape)) <= most
    return [tried[0], *filter(fits, tried[1:])]


def _least_squares(terms: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the coefficients (n,k) of terms (T,n) that fit y (T,k).

    Slightly regularised: products that several polynomials have share their coefficient.
    """
    gram = terms.T @ terms
    scale = np.sqrt(np.diag(gram)) + 1e-30
    scaled = gram / scale[:, None] / scale
    scaled.flat[:: len(scaled) + 1] += _RIDGE
    solved: np.ndarray = np.linalg.solve(scaled, (terms.T @ y) / scale[:, None])
    return solved / scale[:, None]
