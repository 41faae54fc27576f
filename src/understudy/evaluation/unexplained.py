"""Parts of a character that a stand-in does not follow, and why.

Methods learn vertices as a function of bones and controls. What moves vertices otherwise, such as a
deformer whose result is in the file as a vertex cache alone, cannot be learned from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses

_LARGE = 0.01  # mean error, as a fraction of the height
_OF_MOTION = 0.3  # mean error, as a fraction of the motion
_STILL = 1e-4  # motion of a bone, as a fraction of the height


@dataclass(frozen=True)
class Unexplained:
    """A part with a large error.

    part      its name; "": the whole mesh
    error     mean distance from the original, in the unit of the mesh
    fraction  of the height
    driven    whether a bone that carries it moves, or a control may act on it
    """

    part: str
    error: float
    fraction: float
    driven: bool

    def warning(self, unit: str, pose_count: int) -> str:
        """Return what to tell the user.

        pose_count  poses that were learned from
        """
        what = f"{self.part!r}" if self.part else "the mesh"
        unit = "model units" if unit == "unitless" else unit
        text = (
            f"Warning: {what} is off by {self.error:.3g} {unit} on average, "
            f"{100 * self.fraction:.2g} % of the height."
        )
        if not self.driven:
            return (
                f"{text} It moves, and none of its bones does: what moves it is neither a bone nor "
                "a control of this file, so it cannot be learned. Add what drives it as bones or "
                "controls, or use `understudy compress` on its vertices."
            )
        return (
            f"{text} Either {pose_count} poses are too few, or its shape does not follow from the "
            "bones and controls of this file."
        )


def unexplained_parts(poses: Poses, deformer: Deformer, error: np.ndarray) -> list[Unexplained]:
    """Return the parts whose error is large beside their motion, in the order of the mesh.

    poses     the original, which the error was measured on
    deformer  whose skin says which bones carry a part
    error     (V,) mean distance of each vertex
    """
    mesh = poses.mesh
    height = mesh.height
    result = []
    for name, vertices in (dict(mesh.parts) or {"": np.arange(mesh.vertex_count)}).items():
        mean = float(np.mean(error[vertices])) if len(vertices) else 0.0
        if not mean > _LARGE * height:
            continue
        true = poses.read_vertices(vertices).astype(np.float64)
        motion = np.linalg.norm(true - true.mean(axis=0), axis=2).mean()
        if mean > _OF_MOTION * motion:
            driven = _carrier_moves(poses, deformer, vertices)
            driven = driven or _control_acts(poses, deformer, vertices)
            result.append(Unexplained(name, mean, mean / height, driven))
    return result


def _carrier_moves(poses: Poses, deformer: Deformer, vertices: np.ndarray) -> bool:
    """Return whether a bone with weight on some vertices leaves its rest transform."""
    skin, skeleton = deformer.skin, deformer.skeleton
    if skin is None or skeleton is None or poses.skeleton is None or poses.world_from_bone is None:
        return False
    if skin.virtual_index is not None:
        return True
    used = np.unique(skin.bone_index[vertices][skin.weight[vertices] != 0]).tolist()
    names = list(poses.skeleton.names)
    bones = [names.index(skeleton.names[k]) for k in used if skeleton.names[k] in names]
    if not bones:
        return True
    change = poses.world_from_bone[:, bones] - poses.skeleton.world_from_bone[bones]
    reach = np.abs(change[..., :3]).max(initial=0.0) * poses.mesh.height
    shift = np.abs(change[..., 3]).max(initial=0.0)
    return bool(max(reach, shift) > _STILL * poses.mesh.height)


def _control_acts(poses: Poses, deformer: Deformer, vertices: np.ndarray) -> bool:
    """Return whether controls change and may act on some vertices.

    A deformer with bases says where its controls act; one without does not.
    """
    if poses.controls is None or not np.ptp(poses.controls, axis=0).any():
        return False
    if not deformer.bases:
        return True
    return any(bool(np.isin(basis.vertices, vertices).any()) for basis in deformer.bases)
