"""`fit_skeleton`: a skeleton, a skin and an animation for the bones found in a sequence.

After Moutafidou et al. 2021, "Temporal Parameter-free Deep Skinning of Animated Meshes", section
4.3: disjoint clusters, joints between neighbouring clusters, a hierarchy, adjusted joints, and
rotations about them (there after Le & Deng 2012 and Avril et al. 2016).

Departures, and why:
- The hierarchy is the spanning tree over neighbouring patches whose joints fit the motion best
  (`joints`), so that disconnected parts of a mesh are connected too.
- Where bones with a patch each leave nothing visible (`local_bones`), the sequence is the motion of
  a rig: these are joined as they are (`local_skeleton`). The rest is about others.
- Rotations, root positions and joints are solved for together, by Gauss-Newton over all frames
  (`gauss_newton`). Solved in turn, a chain of bones converges very slowly, because every bone
  carries all its descendants.
- Weights and the rest shape are solved for again, in turn with the motion, by the solvers of `ssdr`
  (`skeleton_solve`). The rest shape is held to the mesh of the sequence.

The result is as artists expect it. Parents come before their children, the origin of a bone is its
joint, and +Y points along the bone (as in Blender). +Z points as far towards the front of the mesh
as possible, so that neighbouring bones have similar roll. Bones that are each other's mirror image
end in `_L` and `_R`, which Blender, Maya and engines take for the two sides. The character is
assumed to face along +Z if Y is up, and along -Y if Z is up, so that its left is at positive X.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.transforms import compose
from understudy.methods.decomposition.bones.bone_count import INVISIBLE, relative_error
from understudy.methods.decomposition.bones.local_bones import find_local_bones, patch_bones
from understudy.methods.decomposition.bones.locality import dominant_bone
from understudy.methods.decomposition.skeleton.articulation import JoinedFit, Tree
from understudy.methods.decomposition.skeleton.body import Body
from understudy.methods.decomposition.skeleton.joints import sliding
from understudy.methods.decomposition.skeleton.local_skeleton import join_local_bones
from understudy.methods.decomposition.skeleton.root_bone import BoneShapes, find_root
from understudy.methods.decomposition.skeleton.skeleton_solve import solve_skeleton
from understudy.methods.decomposition.solve.decompose import packed_skin
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    Normalisation,
    WeightSearch,
    read_motion,
    strongest,
)
from understudy.methods.decomposition.solve.solves import (
    nearest_rigid,
    no_weights,
    solve_weights,
)
from understudy.system import checks, tasks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

_MIN_LENGTH = 1e-6  # of the size of the skeleton; shorter bones have no direction of their own
_SAME = 0.04  # of the size: a mirrored joint this close to another is its counterpart
_MIDDLE = 0.02  # of the size: a joint this close to the plane of symmetry is in the middle
_SYMMETRIC = 0.6  # share of the joints that need a counterpart


@dataclass(frozen=True, eq=False)
class SkeletonFit:
    """A skeleton, its skin and its animation.

    skeleton         one root; the origin of a bone is its joint, +Y points along it
    skin             (V,K), linear blend
    rest             (V,3) the rest shape of the skin, close to the mesh of the sequence
    world_from_bone  (T,B,3,4) rigid transforms, the animation
    errors           root mean square error per coordinate, in model units, after each of the last
                     iterations
    """

    skeleton: Skeleton
    skin: Skin
    rest: np.ndarray
    world_from_bone: np.ndarray
    errors: tuple[float, ...]

    def deformer(self, poses: Poses, **about) -> Deformer:
        """Return the stand-in for `poses`; `about` are more fields, such as `method`."""
        return Deformer(
            mesh=replace(poses.mesh, vertices=self.rest),
            skeleton=self.skeleton,
            skin=self.skin,
            clips=poses.clips(self.world_from_bone),
            **about,
        )


def fit_skeleton(
    poses: Poses,
    weights: np.ndarray,
    world_from_rest: np.ndarray,
    *,
    influences: int | None = None,
    local: bool = False,
    progress: Progress = SILENT,
) -> SkeletonFit:
    """Return a skeleton for bones found in a sequence, with everything fitted to it again.

    weights          (V,B), non-negative, each row summing to one
    world_from_rest  (T,B,3,4) transforms of the bones; scale and shear are discarded
    influences       largest number of bones per vertex; None: as many as `weights` uses
    local            the number of bones is open: where bones with a patch of the mesh each leave
                     nothing visible, these are joined (`local_bones`)

    Nothing is random.
    """
    weights = checks.array(weights, "weights", (poses.vertex_count, None), np.float64)
    bones = weights.shape[1]
    world_from_rest = checks.array(
        world_from_rest, "world_from_rest", (poses.pose_count, bones, 3, 4), np.float64
    )
    if not bones:
        raise InputError("weights: expected at least one bone, got none")
    if (weights < 0).any() or not np.allclose(weights.sum(axis=1), 1, atol=1e-4):
        raise InputError("weights: each vertex needs non-negative weights that sum to one")
    if influences is None:
        influences = int((weights > 0).sum(axis=1).max())
    checks.between(influences, "influences", 1)
    motion, normalisation = read_motion(poses)
    order = normalisation.order
    solver_index = np.empty(poses.vertex_count, np.int64)
    solver_index[order] = np.arange(poses.vertex_count)
    triangles = solver_index[poses.mesh.triangles]
    rms = lambda error: normalisation.scale * motion.coordinate_rms(error)
    start = _rigid_fit(motion, weights[order], normalisation.from_world(world_from_rest))
    with tasks.one_blas_thread():
        found = _joined_patches(motion, start, triangles, influences, progress) if local else None
        if found is None or relative_error(motion, found.fit.error) > INVISIBLE:
            with progress.task(f"joining {bones} bones", 2) as bar:
                note = lambda error: f"ERMS {100 * rms(error):.3f}"
                patches = patch_bones(motion, start, triangles, influences)
                other = solve_skeleton(motion, patches, triangles, influences, bar, note).joined()
            # Patches are found on some of the frames: others may show what these do not.
            found = min((one for one in (found, other) if one), key=lambda one: one.fit.error)
    body = Body(found.rest[:, :3], triangles)
    skeleton, bone_order = _artist_skeleton(found, normalisation, poses.mesh.up, body)
    new_index = np.argsort(bone_order).astype(np.int32)
    skin = packed_skin(new_index[found.fit.index], found.fit.weight, order)
    solved = normalisation.to_world(found.fit.transforms)
    rest = np.empty((poses.vertex_count, 3))
    rest[order] = normalisation.scale * found.rest[:, :3] + normalisation.centre
    return SkeletonFit(
        skeleton,
        skin,
        rest,
        compose(solved[:, bone_order], skeleton.world_from_bone),
        tuple(rms(error) for error in found.errors),
    )


def _joined_patches(
    motion: Motion, start: Fit, triangles: np.ndarray, influences: int, progress: Progress
) -> JoinedFit | None:
    """Return a skeleton of bones with a patch each, from rigid bones `start`; None: none."""
    with progress.task("finding a bone for each part of the body", 2) as bar:
        places = min(influences, start.bones)
        fits = start.index.shape[1] <= places
        given = (start.index, start.weight) if fits else no_weights(motion)
        start = solve_weights(
            motion, start.transforms, given, WeightSearch(places, from_all=not fits)
        )
        bones = find_local_bones(motion, start, triangles, influences, sliding, bar.note)
        bar.advance()
        found = None if bones is None else join_local_bones(motion, bones, triangles)
        bar.advance()
    return found


def _rigid_fit(motion: Motion, weights: np.ndarray, transforms: np.ndarray) -> Fit:
    """Return a fit with the rotations nearest to `transforms` (3F,4B); weights (V,B)."""
    places = int((weights > 0).sum(axis=1).max())
    return Fit(nearest_rigid(transforms), *strongest(weights, places), motion.square)


def _artist_skeleton(
    found: JoinedFit, normalisation: Normalisation, up_axis: str, body: Body
) -> tuple[Skeleton, np.ndarray]:
    """Return the skeleton as artists expect it, and the solver's bone that each of its bones is."""
    shapes = _bone_shapes(found, body)
    centres, mass = shapes.centres, shapes.mass
    root, joint = find_root(found.tree, found.joints, shapes, up_axis)
    tree = found.tree.rooted_at(root)
    joints = found.tree.rooted_joints(found.joints, root, body.moved_inside(joint[None])[0])
    order = parents_first(tree, mass)
    new_index = np.argsort(order)
    parents = np.where(tree.parents < 0, -1, new_index[tree.parents])[order]
    frames = rest_frames(tree, joints, centres, mass, up_axis)[order]
    frames[..., 3] = normalisation.scale * frames[..., 3] + normalisation.centre
    names = bone_names(joints[order], parents, body.vertices)
    return Skeleton(names, parents, frames), order


def _bone_shapes(found: JoinedFit, body: Body) -> BoneShapes:
    """Return where the vertices of each bone are; the centres are inside the body."""
    fit, bones = found.fit, found.fit.bones
    bone, area = fit.index.reshape(-1), body.vertex_areas()
    mass = np.bincount(bone, (fit.weight * area[:, None]).reshape(-1), bones)
    # Squared weights: the vertices that a bone moves almost alone show best where it is.
    share = (fit.weight**2 * area[:, None]).reshape(-1)
    total = np.bincount(bone, share, bones)
    rest = np.repeat(body.vertices, fit.index.shape[1], axis=0)
    sums = np.stack([np.bincount(bone, share * rest[:, axis], bones) for axis in range(3)], axis=1)
    centres = np.where(total[:, None] > 0, sums / np.maximum(total, 1e-300)[:, None], found.joints)
    return BoneShapes(body, dominant_bone(fit), mass, body.moved_inside(centres))


def parents_first(tree: Tree, mass: np.ndarray) -> np.ndarray:
    """Return all bones (B,) level by level from the root, heavy branches first; mass (B,)."""
    depth = tree.descends.sum(axis=0)
    carried = tree.descends.astype(float) @ mass
    return np.lexsort((-carried, depth))


def rest_frames(
    tree: Tree, joints: np.ndarray, centres: np.ndarray, mass: np.ndarray, up_axis: str
) -> np.ndarray:
    """Return world_from_bone at rest (B,3,4): the origin at the joint, +Y along the bone.

    A bone points to the joint of its heaviest child, or without children to its centre (B,3).
    """
    bones = tree.bones
    carried = tree.descends.astype(float) @ mass
    tails = centres.copy()
    child = np.flatnonzero(tree.parents >= 0)
    child = child[np.argsort(carried[child], kind="stable")]  # the heaviest is written last
    tails[tree.parents[child]] = joints[child]
    along = tails - joints
    size = float(np.abs(centres - centres.mean(axis=0)).max()) or 1.0
    from_parent = joints - joints[tree.parents]
    from_parent[tree.root] = 0
    up = np.eye(3)["XYZ".index(up_axis)]
    front = np.array([0.0, 0.0, 1.0]) if up_axis == "Y" else np.array([0.0, -1.0, 0.0])
    for other in (centres - joints, from_parent, np.tile(up, (bones, 1))):
        short = np.linalg.norm(along, axis=1) < _MIN_LENGTH * size
        along[short] = other[short]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    facing = np.where((np.abs(along @ front) < 0.9)[:, None], front, up)
    side = np.cross(along, facing)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    return np.stack([side, along, np.cross(side, along), joints], axis=2)


def bone_names(joints: np.ndarray, parents: np.ndarray, vertices: np.ndarray) -> tuple[str, ...]:
    """Return a name for every bone of a skeleton.

    joints    (B,3) at rest
    parents   (B,), each before its children; the first is the root
    vertices  (V,3) of the mesh

    >>> joints = np.array([[0.0, 0, 0], [0, 1, 0], [1, 2, 0], [-1, 2, 0]])
    >>> bone_names(joints, np.array([-1, 0, 1, 1]), 3 * joints)
    ('root', 'bone_1', 'bone_2_L', 'bone_2_R')
    """
    mirror = mirrored(joints, parents, vertices)
    names, number = [""] * len(joints), 0
    for bone in range(len(joints)):
        if names[bone]:
            continue
        if parents[bone] < 0:
            names[bone] = "root"
            continue
        number += 1
        other = int(mirror[bone])
        if other in (-1, bone):
            names[bone] = f"bone_{number}"
        else:
            left, right = (bone, other) if joints[bone, 0] > joints[other, 0] else (other, bone)
            names[left], names[right] = f"bone_{number}_L", f"bone_{number}_R"
    return tuple(names)


def mirrored(joints: np.ndarray, parents: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Return the bone (B,) that mirrors each across the YZ plane of the mesh, -1 where none does.

    A bone in the middle mirrors itself. Without symmetry, all are -1.
    """
    bones, size = len(joints), float(np.linalg.norm(np.ptp(vertices, axis=0))) or 1.0
    plane = float(vertices[:, 0].min() + vertices[:, 0].max()) / 2
    depth = np.zeros(bones, np.int64)
    for bone in range(bones):
        depth[bone] = depth[parents[bone]] + 1 if parents[bone] >= 0 else 0
    image = joints * [-1, 1, 1] + [2 * plane, 0, 0]
    away = np.linalg.norm(image[:, None] - joints, axis=2) + np.where(
        depth[:, None] == depth, 0.0, size
    )
    nearest = np.argmin(away, axis=1)
    mutual = (nearest[nearest] == np.arange(bones)) & (away.min(axis=1) < _SAME * size)
    central = np.abs(joints[:, 0] - plane) < _MIDDLE * size
    found = np.where(mutual, nearest, np.where(central, np.arange(bones), -1))
    sided = found != np.arange(bones)
    enough = (found >= 0).mean() >= _SYMMETRIC and (sided & (found >= 0)).any()
    return found if enough else np.full(bones, -1)
