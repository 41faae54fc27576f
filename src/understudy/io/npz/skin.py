"""A skin out of a `.npz` file: weights that another program computed, for `understudy reduce`.

    rest              (V,3)               rest positions; or `vertices` (V,3)
    faces             (F,3) or (F,4)      polygons
    weights           (V,B)               dense skin weights, rows summing to one
    transforms        (T,B,3,4)           optional: example poses, each bone's rest-to-posed matrix
    vertices          (T,V,3)             optional: the true vertices of these poses

Bounded biharmonic weights and the like come as such arrays: they have no joints, so the bones are
at the origin and have no parents. `transforms` may also be (T,B,4,4).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.npz.archive import read_arrays
from understudy.io.npz.bone_matrices import as_3x4
from understudy.system import checks
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

_ARRAYS = ("rest", "faces", "weights", "transforms", "vertices")
_SUM_ERROR = 1e-3  # of the weights of a vertex, which are then scaled


def read_npz_skin(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Character:
    """Return the skin in a `.npz` file, with its example poses as a clip if it has any."""
    arrays = read_arrays(path, _ARRAYS)
    if "weights" not in arrays:
        raise InputError(
            f"{path}: has no array 'weights', so there is no skin to reduce; fit one first: "
            f"understudy fit lbs {path}"
        )
    if "faces" not in arrays:
        raise FileError(f"{path}: has no array 'faces'; a skin needs rest, faces and weights")
    vertices = arrays.get("vertices")
    rest = arrays.get("rest", vertices if vertices is not None and vertices.ndim == 2 else None)
    if rest is None:
        raise FileError(f"{path}: has no array 'rest' (V,3), the rest positions")
    rest = checks.array(rest, f"{path}: rest", (None, 3))
    faces = arrays["faces"]
    whole = np.issubdtype(faces.dtype, np.integer)
    if not whole or faces.ndim != 2 or faces.shape[1] not in (3, 4):
        raise FileError(f"{path}: faces: expected whole numbers (F,3) or (F,4), got {faces.shape}")
    mesh = Mesh.from_faces(rest, faces)
    weights = checks.array(arrays["weights"], f"{path}: weights", (len(rest), None), np.float64)
    total = weights.sum(axis=1)
    if not weights.shape[1] or np.abs(total - 1).max(initial=0) > _SUM_ERROR:
        raise FileError(
            f"{path}: weights: the weights of every vertex must sum to one; the sums are between "
            f"{total.min(initial=1):.4g} and {total.max(initial=1):.4g}"
        )
    bones = weights.shape[1]
    index = np.tile(np.arange(bones, dtype=np.int32), (len(rest), 1))
    skin = Skin(index, (weights / total[:, None]).astype(np.float32))
    place = np.tile(np.eye(3, 4), (bones, 1, 1))
    skeleton = Skeleton(tuple(f"bone{b}" for b in range(bones)), np.full(bones, -1), place)
    clips = () if "transforms" not in arrays else (_clip(path, arrays, bones, len(rest)),)
    return Character(mesh, skeleton, skin, clips=clips, name=Path(path).stem)


def _clip(path: str | Path, arrays: dict[str, np.ndarray], bones: int, count: int) -> CharacterClip:
    """The example poses of a skin."""
    transforms = as_3x4(arrays["transforms"], f"{path}: transforms", (None, bones))
    vertices = arrays.get("vertices")
    if vertices is not None and vertices.ndim == 3:
        what = f"{path}: vertices"
        vertices = checks.array(vertices, what, (len(transforms), count, 3))
    else:
        vertices = None
    return CharacterClip(
        "examples", transforms, np.zeros((len(transforms), 0), np.float32), vertices=vertices
    )
