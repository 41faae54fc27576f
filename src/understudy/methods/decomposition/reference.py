"""The kernels of `_native/decompose.h` in NumPy: what the compiled ones are checked against, and
what runs where there was no compiler.
"""

from __future__ import annotations

import numpy as np

from understudy.geometry.simplex_qp import Hulls, Supports, gradients, nearest, settle, values

_BYTES = 2**26  # of residual products held at a time
_WORTH = 1e-9
_ROUNDING = 1e-14


def solve_weights(
    rest,
    targets,
    columns,
    index,
    weight,
    candidates: int,
    exchanges: int,
    from_all: bool,
    anchor,
    strength,
):
    bones = columns.shape[1] // 4
    index, weight, value = index.copy(), weight.copy(), np.empty(len(rest))
    at_once = max(1, _BYTES // (8 * bones * bones))
    for start in range(0, len(rest), at_once):
        part = slice(start, start + at_once)
        hulls = _hulls(
            rest[part],
            targets[part],
            columns,
            None if anchor is None else anchor[part],
            None if strength is None else strength[part],
        )
        now = _started(hulls, index[part], weight[part])
        every = np.arange(hulls.count)
        if from_all and index.shape[1] < bones:
            other = _improved(
                hulls,
                _reduced(hulls, nearest(hulls), index.shape[1]),
                index.shape[1],
                candidates,
                exchanges,
            )
            now = _improved(hulls, now, index.shape[1], candidates, exchanges)
            better = np.flatnonzero(values(hulls, every, other) < values(hulls, every, now))
            now.put(better, other.take(better))
        else:
            now = _improved(hulls, now, index.shape[1], candidates, exchanges)
        now = now.packed(index.shape[1])
        index[part], weight[part], value[part] = (
            now.index,
            now.weight,
            np.maximum(values(hulls, every, now), 0),
        )
    return index, weight, value


def design(rest, index, weight, bones: int) -> np.ndarray:
    result = np.zeros((len(rest), bones, 4))
    rows = np.arange(len(rest))
    for k in range(index.shape[1]):
        np.add.at(result, (rows, index[:, k]), weight[:, k, None] * rest)
    return result.reshape(len(rest), -1)


def normal_equations(rest, index, weight, motion, bones: int) -> tuple[np.ndarray, np.ndarray]:
    matrix = design(rest, index, weight, bones)
    return matrix.T @ matrix, matrix.T @ motion


def solve_positive(gram: np.ndarray, right: np.ndarray, ridge: float) -> np.ndarray:
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), right)


def rigid_sweeps(gram, cross, moving, transforms, sweeps: int) -> np.ndarray:
    transforms = transforms.copy()
    for _ in range(sweeps):
        for bone in np.flatnonzero(moving):
            own = slice(4 * bone, 4 * bone + 4)
            block = gram[own, own]
            mass = block[3, 3]
            if not mass > 0:
                continue
            before = transforms[:, :, own]
            left = cross[:, :, own] - transforms @ gram[:, own] + before @ block
            turn = (
                left[..., :3]
                - left[..., 3:] * (block[3, :3] / mass)
                + 1e-9 * np.trace(block[:3, :3]) * before[..., :3]
            )
            rotation = nearest_rotations(turn)
            shift = (left[..., 3] - rotation @ block[3, :3]) / mass
            transforms[:, :, own] = np.concatenate([rotation, shift[..., None]], axis=2)
    return transforms


def nearest_rotations(matrices: np.ndarray) -> np.ndarray:
    left, _, right = np.linalg.svd(matrices)
    flip = np.linalg.det(left) * np.linalg.det(right) < 0
    left[..., :, 2] *= np.where(flip, -1.0, 1.0)[..., None]
    return left @ right


def _hulls(rest, targets, columns, anchor, strength) -> Hulls:
    """R of every vertex: products of what each bone misses it by."""
    bones = columns.shape[1] // 4
    gram = (columns.T @ columns).reshape(bones, 4, bones, 4)
    products = np.einsum("bjck,vj,vk->vbc", gram, rest, rest, optimize=True)
    pull = np.einsum("vbj,vj->vb", (targets @ columns).reshape(-1, bones, 4), rest)
    square = np.einsum("vr,vr->v", targets, targets)
    if anchor is not None:
        products[:, np.arange(bones), np.arange(bones)] += strength[:, None]
        pull = pull + strength[:, None] * anchor
        square = square + strength * (anchor**2).sum(axis=1)
    scale = square + np.einsum("vbb->vb", products).max(axis=1)
    return Hulls(products - pull[:, :, None] - pull[:, None, :] + square[:, None, None], scale)


def _started(hulls: Hulls, index: np.ndarray, weight: np.ndarray) -> Supports:
    """The weights given, or the best single bone where there are none, at their best within their
    bones.
    """
    single = Supports.single(np.argmin(np.einsum("nbb->nb", hulls.products), axis=1))
    given = Supports(np.where(weight > 0, index, 0).astype(np.int64), weight.copy(), weight > 0)
    none = np.flatnonzero(~given.used.any(axis=1))
    given.put(none, single.take(none))
    return settle(hulls, np.arange(hulls.count), given.packed())


def _improved(
    hulls: Hulls, now: Supports, influences: int, candidates: int, exchanges: int
) -> Supports:
    """Bones in, and at K bones another out, while that lowers the value."""
    live = np.arange(hulls.count)
    for _ in range(exchanges):
        if not len(live):
            break
        held = now.take(live).packed()
        value = values(hulls, live, held)
        best, best_value = held.take(np.arange(len(live))), value.copy()
        ranked, able = _ranked(hulls, live, held, candidates)
        for column in range(ranked.shape[1]):
            rows = np.flatnonzero(able[:, column])
            for found, found_rows in _with(
                hulls, live, held, rows, ranked[rows, column], influences
            ):
                found_value = values(hulls, live[found_rows], found)
                better = found_value < best_value[found_rows]
                best.put(found_rows[better], found.take(better))
                best_value[found_rows[better]] = found_value[better]
        going = best_value < value - _WORTH * value - _ROUNDING * hulls.scale[live]
        now.put(live[going], best.take(going))
        live = live[going]
    return now


def _with(hulls: Hulls, live, held: Supports, rows, entering, influences: int):
    """The supports with one bone more, or, where those have more than K bones, each of them with
    another bone out; and whose they are.
    """
    if not len(rows):
        return
    wide = settle(hulls, live[rows], held.take(rows).add(entering)).packed()
    fits = wide.sizes <= influences
    yield wide.take(fits), rows[fits]
    over = np.flatnonzero(~fits)
    for place in range(wide.index.shape[1]):
        able = over[wide.used[over, place] & (wide.index[over, place] != entering[over])]
        if len(able):
            without = wide.take(able).drop(np.full(len(able), place))
            yield settle(hulls, live[rows[able]], without).packed(), rows[able]


def _ranked(hulls: Hulls, live, held: Supports, candidates: int) -> tuple[np.ndarray, np.ndarray]:
    """The bones (n,c) that lower the value most when walked towards in a straight line, best first,
    and which of them lower it at all.
    """
    slope, value = gradients(hulls, live, held)
    gap = value[:, None] - slope
    noise = _ROUNDING * hulls.scale[live][:, None]
    length = np.maximum(
        np.einsum("nbb->nb", hulls.products[live]) - 2 * slope + value[:, None], noise + 1e-290
    )
    gain = np.where(gap < length, gap**2 / length, 2 * gap - length)
    gain = np.where(gap > 1e-9 * value[:, None] + noise, gain, -1.0)
    inside = np.zeros(gain.shape, bool)
    np.logical_or.at(inside, (np.arange(len(live))[:, None], held.index), held.used)
    gain[inside] = -1.0
    order = np.argsort(-gain, axis=1, kind="stable")[:, :candidates]
    return order, np.take_along_axis(gain, order, axis=1) > 0


def _reduced(hulls: Hulls, now: Supports, influences: int) -> Supports:
    """Down to K bones, each time without the bone that is missed least."""
    now = now.packed()
    while (now.sizes > influences).any():
        rows = np.flatnonzero(now.sizes > influences)
        part, best_value, best = now.take(rows), np.full(len(rows), np.inf), now.take(rows)
        for place in range(part.index.shape[1]):
            able = np.flatnonzero(part.used[:, place])
            if len(able):
                without = settle(hulls, rows[able], part.take(able).drop(np.full(len(able), place)))
                value = values(hulls, rows[able], without)
                better = value < best_value[able]
                best.put(able[better], without.take(better))
                best_value[able[better]] = value[better]
        now.put(rows, best)
        now = now.packed()
    return now
