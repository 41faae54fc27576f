"""Levels of detail: a deformer for a coarser mesh, with the networks of the original.

Each vertex of the coarse mesh is a blend of up to three vertices of the original, its parents. Its
displacement is the blend of theirs, so bases and mean are blended; its skin weights are the blend
of theirs. Features and networks stay as they are, and so do the number and the coefficients of the
bases: coefficients that were computed once drive every level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.system.fit_packages import sparse as sp  # first: says what is missing

# isort: split
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis
from understudy.core.noun import Noun
from understudy.core.skin import Skin
from understudy.geometry.inside import closest_points
from understudy.geometry.skinning import sparse_to_influences, weight_matrix
from understudy.system import checks
from understudy.system.errors import InputError

_SAME = 1e-6  # of the height: vertices that are closer are the same


@dataclass(frozen=True, eq=False, repr=False)
class Parents(Noun):
    """The vertices of an original that each vertex of a coarse mesh blends.

    index   (n,3) int32, vertices of the original
    weight  (n,3) float64; each row sums to one

    >>> Parents.subset([4, 2]).blended(np.arange(5.0)[:, None]).tolist()
    [[4.0], [2.0]]
    """

    index: np.ndarray
    weight: np.ndarray

    def __post_init__(self):
        put = self._keep
        put("weight", checks.array(self.weight, "weights of parents", (None, 3), np.float64))
        put("index", checks.index(self.index, "parents", 2**31, self.weight.shape))
        off = np.abs(self.weight.sum(axis=1) - 1)
        if (off > 1e-6).any():
            raise InputError(
                f"weights of parents: row {int(off.argmax())} does not sum to one; give "
                f"barycentric weights"
            )

    @staticmethod
    def subset(kept: np.ndarray | list[int]) -> Parents:
        """Return the parents of vertices that are vertices of the original: kept (n,)."""
        index = np.repeat(np.asarray(kept).reshape(-1, 1), 3, axis=1)
        return Parents(index, np.tile([1.0, 0, 0], (len(index), 1)))

    @property
    def is_subset(self) -> bool:
        """Whether every vertex is a vertex of the original."""
        return bool((self.weight[:, 0] == 1).all())

    def matrix(self, vertex_count: int) -> sp.csr_matrix:
        """Return the weights as a matrix, (n,V)."""
        made = weight_matrix(self.index, self.weight, vertex_count).copy()  # changed in place
        made.eliminate_zeros()
        return made

    def blended(self, values: np.ndarray) -> np.ndarray:
        """Return values (...,V,d) of the original at the vertices of the coarse mesh, (...,n,d)."""
        if self.is_subset:
            return values[..., self.index[:, 0], :]
        parts = (self.weight[:, k, None] * values[..., self.index[:, k], :] for k in range(3))
        return sum(parts, np.zeros(()))


def find_parents(mesh: Mesh, coarse: Mesh) -> Parents:
    """Return the parents of the vertices of `coarse`: vertices of `mesh` at the same place, else
    the corners of the closest triangle.
    """
    if not len(mesh.triangles):
        raise InputError("the original mesh has no polygons to project a level of detail onto")
    triangle, weight = closest_points(coarse.vertices, mesh.vertices, mesh.triangles)
    index = mesh.triangles[triangle]
    # A corner that is at the same place as the vertex replaces the triangle.
    first = np.argmax(weight, axis=1)
    row = np.arange(len(index))
    corner = index[row, first]
    off = np.linalg.norm(mesh.vertices[corner].astype(np.float64) - coarse.vertices, axis=1)
    same = off <= _SAME * mesh.height
    index = np.where(same[:, None], corner[:, None], index)
    weight = np.where(same[:, None], np.array([1.0, 0, 0]), weight)
    return Parents(index, weight)


def level_of_detail(deformer: Deformer, coarse: Mesh, parents: Parents | None = None) -> Deformer:
    """Return the deformer of a coarser mesh, with the networks of `deformer`.

    coarse   its rest shape, in the unit and axes of the original; those of the file are kept
    parents  of its vertices; None: `find_parents`

    The skin has at most as many influences as the original's. A deformer in 16 bits stays so.
    """
    deformer = deformer.folded
    mesh = deformer.mesh
    parents = find_parents(mesh, coarse) if parents is None else parents
    count = len(parents.index)
    checks.same_count(count, coarse.vertex_count, "vertices", "the parents", "the coarse mesh")
    checks.index(parents.index, "parents", mesh.vertex_count, parents.index.shape)
    matrix = parents.matrix(mesh.vertex_count)
    error = deformer.held_out_error
    if error is not None:
        error = parents.blended(error[:, None])[:, 0]
    made = replace(
        deformer,
        mesh=_with_names(coarse, mesh, parents),
        skin=None if deformer.skin is None else _blended_skin(deformer, parents, matrix),
        bases=tuple(_blended_basis(basis, matrix) for basis in deformer.bases),
        mean=None if deformer.mean is None else parents.blended(deformer.mean),
        held_out_error=error,
        storage=deformer.storage if parents.is_subset else "float32",
    )
    return made if made.storage == deformer.storage else made.half()


def _with_names(coarse: Mesh, mesh: Mesh, parents: Parents) -> Mesh:
    """The coarse mesh with the unit, the axes and the parts of the original."""
    main = parents.index[np.arange(len(parents.index)), np.argmax(parents.weight, axis=1)]
    parts = {name: np.flatnonzero(np.isin(main, part)) for name, part in mesh.parts.items()}
    return replace(
        coarse,
        parts={name: part for name, part in parts.items() if len(part)},
        unit=mesh.unit,
        up_axis=mesh.up_axis,
        handedness=mesh.handedness,
    )


def _blended_skin(deformer: Deformer, parents: Parents, matrix: sp.csr_matrix) -> Skin:
    """The skin of the coarse mesh: the largest of the blended weights."""
    _, skin = deformer.need_skin()
    if parents.is_subset:
        kept = parents.index[:, 0]
        return replace(skin, bone_index=skin.bone_index[kept], weight=skin.weight[kept])
    rows = weight_matrix(skin.bone_index, skin.weight, int(skin.bone_index.max()) + 1)
    blended = sp.csr_matrix(matrix @ rows.astype(np.float64))
    index, weight = (part[:, : skin.influences] for part in sparse_to_influences(blended))
    return replace(skin, bone_index=index, weight=weight / weight.sum(axis=1, keepdims=True))


def _blended_basis(basis: Basis, matrix: sp.csr_matrix) -> Basis:
    """The basis of the coarse mesh. It may move no vertex: then it keeps its coefficients."""
    own = sp.csr_matrix(matrix[:, basis.vertices])
    vertices = np.flatnonzero(np.diff(own.indptr))
    each = 1 if basis.shared else 3
    components = basis.matrix.shape[1]
    values = basis.matrix.reshape(len(basis.vertices), each * components)
    rows = np.asarray(own[vertices] @ values).reshape(each * len(vertices), components)
    return replace(basis, vertices=vertices, matrix=rows)
