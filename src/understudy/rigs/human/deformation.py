"""The deformation stack: bones and numeric controls -> mesh. This is the slow, exact part that an
understudy learns to stand in for.

For each pose, in the root's frame (so that neither the place nor the heading of the body touches
the rounding):

    1  d      = F g(pose)                        sculpts: muscles, volume, slide, creases, twist,
       stretch, breath, expressions (sculpt.py)
    2  x_i    = DQ_i(rest_i + d_i)               dual-quaternion skinning with the MakeHuman weights
    3  s      = S^n x,   v_i = s_i + A_i e_i     delta mush: e = (rest + d) - S^n (rest + d) is the
       fine detail before skinning,
                                                 A_i turns it: the rotation of DQ, blended with the
                                                 smoothed weights S^n w
    4  v      = root applied to v

Scale is kept out of the quaternions (two phases): stretch enters with d as the linear field sum_b
w_b (s_b - 1) y_b y_b^T (x - h_b) in rest space, and the rigid part of each bone carries the rest.
Signs of the quaternions are made equal along the hierarchy (each bone against its parent turns by
less than a half turn), so the blend is one sparse product.

Delta mush is relative to the sculpted rest shape, so it evens out what skinning does at the joints
and leaves the sculpts alone. Detail turns with the bones, as in direct delta mush (Le and Lewis
2019), not with tangents of the smoothed surface: in a closed fold (armpit, groin) those span no
area, and their normal, with the detail on it, flips from one moment to the next. S is half vertex,
half mean of the neighbours; n = 8.

Memory: poses go through in small batches laid out (V,3,T), so every step streams over contiguous
poses.

Letters: T poses, V vertices, B bones, K sculpts.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import numpy as np
import scipy.sparse as sparse

from understudy.core import checks
from understudy.core.skeleton import Skeleton
from understudy.rigs.human.anatomy import Anatomy
from understudy.rigs.human.sculpt import STAGES, Bench, Readings
from understudy.rigs.human.sculpts_extremities import sculpt_extremities
from understudy.rigs.human.sculpts_face import sculpt_face
from understudy.rigs.human.sculpts_limbs import sculpt_limbs
from understudy.rigs.human.sculpts_trunk import sculpt_trunk
from understudy.rigs.quaternion_blend import blended, cross, turned

ALL_STAGES = (*STAGES, "mush")
MUSH_ROUNDS = 8


class Deformation:
    """(world_from_bone (T,B,3,4), numeric controls) -> vertices (T,V,3)."""

    def __init__(self, anatomy: Anatomy, skeleton: Skeleton):
        self._skeleton = skeleton
        self._frames = skeleton.world_from_bone[:, :, :3]
        self._heads = skeleton.world_from_bone[:, :, 3]
        bench = Bench(anatomy, self._frames)
        sculpt_limbs(bench)
        sculpt_trunk(bench)
        sculpt_extremities(bench)
        sculpt_face(bench)
        self.sculpts = tuple((stage, name) for stage, name, _, _, _ in bench.entries)
        self._strength = np.ones(len(self.sculpts))
        self._mush = True
        fields, self._drivers = bench.matrix()
        self._bones = bench.bones
        self._fields, self._stretching = self._with_stretch(anatomy, fields)
        self._rest = anatomy.vertices.astype(np.float32)
        self._weights = anatomy.weights.astype(np.float32)
        self._smoother = bench.smoother.astype(np.float32)
        self._smooth_weights = sparse.csr_matrix(self._smooth(self._weights.toarray()))
        names = skeleton.names
        resting = Readings(
            self._bones, np.zeros((1, len(names), 3)), np.ones((1, len(names))), _AllZero()
        )
        self._at_rest = np.array(
            [driver(resting.on(suffix)).item() for driver, suffix in self._drivers]
        )

    def only(self, stages: Iterable[str]) -> Deformation:
        """The same stack with only some of `ALL_STAGES` at work: to see what each does. Skinning
        itself always runs.
        """
        chosen = {checks.one_of(stage, "stage", ALL_STAGES) for stage in stages}
        other = copy(self)
        other._strength = np.array([float(stage in chosen) for stage, _ in self.sculpts])
        other._mush = "mush" in chosen
        return other

    def _with_stretch(
        self, anatomy: Anatomy, fields: sparse.csr_matrix
    ) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Append one column per stretching bone: w_b y_b y_b^T (x - h_b), the first phase of
        two-phase scaling.
        """
        bones = np.array(
            [
                b
                for b, name in enumerate(anatomy.bone_names)
                if name.startswith(
                    ("upperarm", "lowerarm", "upperleg", "lowerleg", "spine", "neck")
                )
            ]
        )
        weight = anatomy.weights[:, bones].toarray()
        y = self._frames[bones, :, 1]
        along = np.einsum("vbi,bi->vb", anatomy.vertices[:, None] - self._heads[bones], y)
        columns = np.einsum("vb,bi->vib", weight * along, y).reshape(-1, len(bones))
        return sparse.hstack(
            [fields, sparse.csr_matrix(columns.astype(np.float32))], format="csr"
        ), bones

    def evaluate(self, world_from_bone: np.ndarray, numeric: dict[str, np.ndarray]) -> np.ndarray:
        """(T,B,3,4) float64, name -> (T,) -> vertices (T,V,3) float32."""
        count = len(world_from_bone)
        stretch = np.linalg.norm(world_from_bone[..., :3, 1], axis=-1)
        rotation = world_from_bone[..., :3].copy()
        rotation[..., 1] /= stretch[..., None]
        turn = rotation @ np.swapaxes(self._frames, 1, 2)  # rest to pose, (T,B,3,3)
        root_turn, root_place = turn[:, 0].copy(), world_from_bone[:, 0, :, 3]
        turn = np.swapaxes(root_turn, 1, 2)[:, None] @ turn
        place = np.einsum("tji,tbj->tbi", root_turn, world_from_bone[..., 3] - root_place[:, None])
        quaternion, angles = self._quaternions(turn)
        readings = Readings(self._bones, angles, stretch, numeric)
        sides = {suffix: readings.on(suffix) for suffix in ("", ".L", ".R")}
        amounts = np.empty((len(self._drivers) + len(self._stretching), count), np.float32)
        for k, (driver, suffix) in enumerate(self._drivers):
            amounts[k] = self._strength[k] * (driver(sides[suffix]) - self._at_rest[k])
        amounts[len(self._drivers) :] = stretch[:, self._stretching].T - 1.0

        shaped = (self._fields @ amounts).reshape(-1, 3, count)
        shaped += self._rest[:, :, None]
        # each bone's rigid map x -> turn x + shift, in the root's frame with the root's head at the
        # origin
        shift = place - np.einsum("tbij,bj->tbi", turn, self._heads)
        result = self._skin(shaped, quaternion, shift)
        if self._mush:
            blend = blended(self._smooth_weights, quaternion)
            result = self._smooth(result) + turned(
                shaped - self._smooth(shaped), blend[:, 0], blend[:, 1:]
            )
        vertices = np.einsum("tij,vjt->tvi", root_turn.astype(np.float32), result, optimize=True)
        return (vertices + root_place[:, None]).astype(np.float32)

    def _quaternions(self, turn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotations since rest (T,B,3,3) -> quaternions (T,B,4) w,x,y,z with signs equal along the
        hierarchy, and angles (T,B,3) in degrees.
        """
        parents = self._skeleton.parents
        own = np.maximum(parents, 0)
        relative = (
            np.swapaxes(turn[:, own], 2, 3) @ turn
        )  # parent to child, in the child's rest axes of the world
        relative[:, parents < 0] = np.eye(3)
        local = _quaternion(relative)
        chained = local.copy()
        for b in range(1, len(parents)):
            chained[:, b] = _multiply(chained[:, parents[b]], local[:, b])
        in_bone = local.copy()
        in_bone[..., 1:] = np.einsum("bji,tbj->tbi", self._frames, local[..., 1:])
        return chained, np.rad2deg(_flex_side_twist(in_bone))

    def _skin(self, points: np.ndarray, quaternion: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Dual-quaternion skinning: points (V,3,T), quaternion (T,B,4), shift (T,B,3) ->
        (V,3,T).
        """
        half = np.concatenate([np.zeros_like(shift[..., :1]), 0.5 * shift], axis=-1)
        blend = blended(
            self._weights, np.concatenate([quaternion, _multiply(half, quaternion)], axis=-1)
        )
        w, u, dw, du = blend[:, 0], blend[:, 1:4], blend[:, 4], blend[:, 5:8]
        moved = cross(u, du)
        moved += w[:, None] * du
        moved -= dw[:, None] * u
        moved *= 2.0
        moved += turned(points, w, u)
        return moved

    def _smooth(self, field: np.ndarray) -> np.ndarray:
        """S^n applied to (V,...) float32."""
        flat = field.reshape(len(field), -1)
        for _ in range(MUSH_ROUNDS):
            flat = self._smoother @ flat
        return flat.reshape(field.shape)


class _AllZero(dict):
    """Numeric controls at rest: every one is zero."""

    def __missing__(self, name: str) -> np.ndarray:
        return np.zeros(1)


def _multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quaternion product (...,4)."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [aw * bw - ax * bx - ay * by - az * bz, aw * bx + ax * bw + ay * bz - az * by,
         aw * by - ax * bz + ay * bw + az * bx, aw * bz + ax * by - ay * bx + az * bw], axis=-1,
    )  # fmt: skip


def _quaternion(m: np.ndarray) -> np.ndarray:
    """Rotation matrices (...,3,3) -> unit quaternions (...,4) w,x,y,z with w >= 0, from the largest
    of the four squares (no cancellation).
    """
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    x, y, z = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    xx, yy, zz = (1.0 - trace + 2.0 * m[..., k, k] for k in range(3))
    xy, xz, yz = (
        m[..., 0, 1] + m[..., 1, 0],
        m[..., 0, 2] + m[..., 2, 0],
        m[..., 1, 2] + m[..., 2, 1],
    )
    rows = np.stack(
        [1.0 + trace, x, y, z, x, xx, xy, xz, y, xy, yy, yz, z, xz, yz, zz], axis=-1
    ).reshape(*trace.shape, 4, 4)
    best = np.argmax(np.stack([1.0 + trace, xx, yy, zz], axis=-1), axis=-1)
    q = np.take_along_axis(rows, best[..., None, None], axis=-2)[..., 0, :]
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    return np.where(q[..., :1] < 0, -q, q)


def _flex_side_twist(q: np.ndarray) -> np.ndarray:
    """Quaternions (...,4) in bone axes -> (...,3) radians: swing about x, swing about z, twist
    about y.
    """
    w, x, y, z = np.moveaxis(q, -1, 0)
    long = np.sqrt(w * w + y * y)
    # swing = q * conj(twist), twist = (w, 0, y, 0) / long
    safe = np.maximum(long, 1e-12)
    sx, sz = (x * w + z * y) / safe, (z * w - x * y) / safe
    sine = np.sqrt(sx * sx + sz * sz)
    scale = np.where(sine > 1e-9, 2.0 * np.arctan2(sine, long) / np.maximum(sine, 1e-12), 2.0)
    return np.stack([sx * scale, sz * scale, 2.0 * np.arctan2(y, w)], axis=-1)
