"""The deformation stack of the human: bones and numeric controls -> mesh.

This is the slow, exact part that a stand-in approximates. For each pose, in the frame of the root,
so that neither the position nor the heading of the body affects rounding:

    1  d    = F g(pose)                  correctives: muscles, volume, slide, creases, twist,
                                         stretch, breath, expressions (correctives.py)
    2  x_i  = DQ_i(rest_i + d_i)         dual-quaternion skinning with the MakeHuman weights
    3  s    = S^n x,  v_i = s_i + A_i e_i    delta mush: e = (rest + d) - S^n (rest + d) is the
                                         detail before skinning; A_i is the rotation of DQ, blended
                                         with the smoothed weights S^n w
    4  v    = root applied to v

Scale is not part of the quaternions. Stretch enters with d as the linear field
sum_b w_b (s_b - 1) y_b y_b^T (x - h_b) in rest space, and each bone moves rigidly after that. The
signs of the quaternions agree along the hierarchy (each bone rotates by less than half a turn
against its parent), so the blend is one sparse product.

Delta mush is relative to the corrected rest pose: it smooths the artefacts of skinning and leaves
the correctives alone. The detail rotates with the bones, as in direct delta mush (Le and Lewis
2019), and not with tangents of the smoothed surface. In a closed fold (armpit, groin) these
tangents span no area, and the normal flips from frame to frame. S is half the vertex and half the
mean of its neighbours; n = 8.

Poses are processed in small batches laid out as (V,3,T), so that every step streams over contiguous
poses.

Letters: T poses, V vertices, B bones, K correctives.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import numpy as np
import scipy.sparse as sparse

from understudy.core.skeleton import Skeleton
from understudy.system import checks
from understudy_characters.human.anatomy import Anatomy
from understudy_characters.human.correctives import STAGES, CorrectiveBuilder, DriverInputs
from understudy_characters.human.correctives_face import add_face_correctives
from understudy_characters.human.correctives_hands_feet import add_hand_and_foot_correctives
from understudy_characters.human.correctives_limbs import add_limb_correctives
from understudy_characters.human.correctives_trunk import add_trunk_correctives
from understudy_characters.quaternion_blend import blend_quaternions, cross, rotate

ALL_STAGES = (*STAGES, "delta_mush")
SMOOTHING_ROUNDS = 8


class Deformation:
    """The deformation stack. `evaluate` maps bones and numeric controls to vertices."""

    def __init__(self, anatomy: Anatomy, skeleton: Skeleton):
        self._skeleton = skeleton
        self._frames = skeleton.world_from_bone[:, :, :3]
        self._heads = skeleton.world_from_bone[:, :, 3]
        builder = CorrectiveBuilder(anatomy, self._frames)
        add_limb_correctives(builder)
        add_trunk_correctives(builder)
        add_hand_and_foot_correctives(builder)
        add_face_correctives(builder)
        self._correctives = tuple(builder.correctives)
        self._strength = np.ones(len(self._correctives))
        self._delta_mush = True
        self._bones = builder.bones
        self._fields, self._stretching = self._with_stretch(anatomy, builder.matrix())
        self._rest = anatomy.vertices.astype(np.float32)
        self._weights = anatomy.weights.astype(np.float32)
        self._smoother = builder.smoother.astype(np.float32)
        self._smooth_weights = sparse.csr_matrix(self._smooth(self._weights.toarray()))
        bones = skeleton.bone_count
        at_rest = DriverInputs(
            self._bones, np.zeros((1, bones, 3)), np.ones((1, bones)), _AllZero()
        )
        self._at_rest = np.array(
            [c.driver(at_rest.seen_from(c.side)).item() for c in self._correctives]
        )

    def only(self, stages: Iterable[str]) -> Deformation:
        """The same stack with only some of `ALL_STAGES`, to study them; skinning always runs."""
        chosen = {checks.one_of(stage, "stage", ALL_STAGES) for stage in stages}
        other = copy(self)
        other._strength = np.array([float(c.stage in chosen) for c in self._correctives])
        other._delta_mush = "delta_mush" in chosen
        return other

    def _with_stretch(
        self, anatomy: Anatomy, fields: sparse.csr_matrix
    ) -> tuple[sparse.csr_matrix, np.ndarray]:
        """The fields with a column for each stretching bone appended, and these bones.

        The field of bone b is w_b y_b y_b^T (x - h_b).
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
        """Vertices (T,V,3) float32.

        world_from_bone  (T,B,3,4) float64
        numeric          numeric control -> (T,)
        """
        count = len(world_from_bone)
        stretch = np.linalg.norm(world_from_bone[..., :3, 1], axis=-1)
        rotation = world_from_bone[..., :3].copy()
        rotation[..., 1] /= stretch[..., None]
        since_rest = rotation @ np.swapaxes(self._frames, 1, 2)  # (T,B,3,3)
        root, origin = since_rest[:, 0].copy(), world_from_bone[:, 0, :, 3]
        since_rest = np.swapaxes(root, 1, 2)[:, None] @ since_rest
        heads = np.einsum("tji,tbj->tbi", root, world_from_bone[..., 3] - origin[:, None])
        quaternion, angles = self._quaternions(since_rest)
        inputs = DriverInputs(self._bones, angles, stretch, numeric)
        sides = {suffix: inputs.seen_from(suffix) for suffix in ("", ".L", ".R")}
        amounts = np.empty((len(self._correctives) + len(self._stretching), count), np.float32)
        for k, corrective in enumerate(self._correctives):
            amount = corrective.driver(sides[corrective.side]) - self._at_rest[k]
            amounts[k] = self._strength[k] * amount
        amounts[len(self._correctives) :] = stretch[:, self._stretching].T - 1.0

        shaped = (self._fields @ amounts).reshape(-1, 3, count)
        shaped += self._rest[:, :, None]
        # Each bone maps x to since_rest x + shift, in the frame of the root.
        shift = heads - np.einsum("tbij,bj->tbi", since_rest, self._heads)
        result = self._skin(shaped, quaternion, shift)
        if self._delta_mush:
            blend = blend_quaternions(self._smooth_weights, quaternion)
            detail = shaped - self._smooth(shaped)
            result = self._smooth(result) + rotate(detail, blend[:, 0], blend[:, 1:])
        vertices = np.einsum("tij,vjt->tvi", root.astype(np.float32), result, optimize=True)
        return (vertices + origin[:, None]).astype(np.float32)

    def _quaternions(self, since_rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Quaternions (T,B,4) w,x,y,z with signs that agree along the hierarchy, and joint angles.

        since_rest  (T,B,3,3) rotations since rest
        The angles (T,B,3) are flex, side and twist in degrees.
        """
        parents = self._skeleton.parents
        own = np.maximum(parents, 0)
        relative = np.swapaxes(since_rest[:, own], 2, 3) @ since_rest  # of a bone to its parent
        relative[:, parents < 0] = np.eye(3)
        local = _quaternion(relative)
        chained = local.copy()
        for b in range(1, len(parents)):
            chained[:, b] = _multiply(chained[:, parents[b]], local[:, b])
        in_bone = local.copy()
        in_bone[..., 1:] = np.einsum("bji,tbj->tbi", self._frames, local[..., 1:])
        return chained, np.rad2deg(_flex_side_twist(in_bone))

    def _skin(self, points: np.ndarray, quaternion: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Points (V,3,T) after dual-quaternion skinning; quaternion (T,B,4), shift (T,B,3)."""
        half = np.concatenate([np.zeros_like(shift[..., :1]), 0.5 * shift], axis=-1)
        dual = np.concatenate([quaternion, _multiply(half, quaternion)], axis=-1)
        blend = blend_quaternions(self._weights, dual)
        w, u, dw, du = blend[:, 0], blend[:, 1:4], blend[:, 4], blend[:, 5:8]
        moved = cross(u, du)
        moved += w[:, None] * du
        moved -= dw[:, None] * u
        moved *= 2.0
        moved += rotate(points, w, u)
        return moved

    def _smooth(self, field: np.ndarray) -> np.ndarray:
        """S^n applied to (V,...) float32."""
        flat = field.reshape(len(field), -1)
        for _ in range(SMOOTHING_ROUNDS):
            flat = self._smoother @ flat
        return flat.reshape(field.shape)


class _AllZero(dict[str, np.ndarray]):
    """Numeric controls at rest: all are zero."""

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
    """Rotation matrices (...,3,3) -> unit quaternions (...,4) w,x,y,z with w >= 0.

    Computed from the largest of the four squares, so that nothing cancels.
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
    """(...,3) radians of quaternions (...,4) in bone axes: swing about x and z, twist about y."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    long = np.sqrt(w * w + y * y)
    # swing = q * conj(twist), twist = (w, 0, y, 0) / long
    safe = np.maximum(long, 1e-12)
    sx, sz = (x * w + z * y) / safe, (z * w - x * y) / safe
    sine = np.sqrt(sx * sx + sz * sz)
    scale = np.where(sine > 1e-9, 2.0 * np.arctan2(sine, long) / np.maximum(sine, 1e-12), 2.0)
    return np.stack([sx * scale, sz * scale, 2.0 * np.arctan2(y, w)], axis=-1)
