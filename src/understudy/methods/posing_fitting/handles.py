"""Handles: hands, feet, head and pelvis of a tree, from its structure and its names.

The longest chains of bones that leave the trunk are limbs. They are found one after the other: each
adds the chain whose part that no other limb has is longest. The handle of a limb is the joint where
it branches (into fingers, toes, a face) or the last long bone before its end. Names decide only
what a limb is called, and which of several joints close to each other is meant.

Letters: B bones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.posing import Handle
from understudy.geometry.bone_motion import parents_first
from understudy.methods.posing_fitting.levers import Levers, upwards
from understudy.methods.posing_fitting.sides import side_of_name

_LIMB = 0.16  # of the size of the tree: shortest chain that is a limb
_SINGLE = 0.35  # the same for a limb of a single bone
_END = 0.16  # of the size: farthest from a handle to the tip of its limb
_FACE = 8  # children of a head whose face has bones
_MOST = 12
_MOVES = 5e-4  # share of the vertices that a limb moves at least
_NAMES = {
    "hand": re.compile(r"hand|wrist|palm", re.IGNORECASE),
    "foot": re.compile(r"foot|ankle|feet|paw|hoof", re.IGNORECASE),
    "head": re.compile(r"(?<!fore)head|skull", re.IGNORECASE),
}
_NOT = re.compile(r"toe|finger|thumb|index|pinky|ring|middle|eye|jaw|end$|tip$|nub$", re.IGNORECASE)
_PELVIS = re.compile(r"pelvis|hips?$|hip(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Tree:
    """Bones and what they follow: names, parents (B,) in any order, and rest places (B,3)."""

    names: tuple[str, ...]
    parents: np.ndarray
    place: np.ndarray

    @cached_property
    def sequence(self) -> np.ndarray:
        """All bones, parents before children, (B,)."""
        return parents_first(self.parents)

    @property
    def roots(self) -> np.ndarray:
        """The bones without a parent."""
        return np.flatnonzero(self.parents < 0)

    def below(self, top: int) -> np.ndarray:
        """Which bones are `top` or follow it, (B,) bool."""
        inside = np.zeros(len(self.parents), bool)
        inside[top] = True
        for b in self.sequence:
            inside[b] |= self.parents[b] >= 0 and inside[self.parents[b]]
        return inside


def pelvis_of(tree: Tree, levers: Levers) -> int:
    """Return the bone that moves the whole body: where the tree first branches into limbs."""
    is_pelvis = lambda b: _PELVIS.search(tree.names[b]) and side_of_name(tree.names[b]) is None
    roots = tree.roots
    roots = np.array([b for b in roots if is_pelvis(b)] or roots)
    bone = int(roots[levers.weight[roots].argmax()])
    below = _below(tree.parents)
    length = _lengths(tree)
    chain = length + _reaches(tree, length, np.zeros(len(length)))
    size = max(float(length.max()), 1e-12)
    while True:
        if is_pelvis(bone):
            return bone
        children = np.flatnonzero(tree.parents == bone)
        long = [int(c) for c in children if chain[c] > 0.25 * size]
        if len(long) != 1 or levers.weight[long[0]] < 0.9 * levers.weight[bone]:
            return bone
        # A first bone that hardly moves vertices of its own, such as one on the ground.
        if not below[long[0]]:
            return bone
        bone = long[0]


def find_handles(tree: Tree, levers: Levers, mesh: Mesh, pelvis: int) -> list[Handle]:
    """Return the handles, the pelvis first."""
    found = [Handle("pelvis", "pelvis", "middle", pelvis)]
    parents, place = tree.parents, tree.place
    length = _lengths(tree)
    reach = _reaches(tree, length, levers.reach)
    size = float(np.ptp(mesh.vertices, axis=0).max()) or 1.0
    inside = tree.below(pelvis) & (levers.weight > _MOVES * mesh.vertex_count)
    # Bones that move no vertices, such as targets of the rig's own IK, are not limbs.
    leaves = [b for b in np.flatnonzero(inside).tolist() if not (inside & (parents == b)).any()]
    taken = np.zeros(len(parents), bool)
    taken[pelvis] = True
    bones: list[int] = []
    while len(bones) < _MOST:
        added = {leaf: _free_length(parents, length, levers, leaf, taken) for leaf in leaves}
        leaf = max(added, key=lambda b: (added[b], -b), default=-1)
        if leaf < 0 or added[leaf] < _LIMB * size:
            break
        path = _path(parents, leaf, taken)
        taken[path] = True
        leaves.remove(leaf)
        if len(path) < 2 and added[leaf] < _SINGLE * size:
            continue
        handle = _handle_joint(tree, path, reach, size)
        if not any(_siblings(tree, handle, other) for other in bones):
            bones.append(handle)
        # Fingers and the bones of a face are no limbs of their own.
        below = tree.below(handle)
        leaves = [b for b in leaves if not below[b]]
    roles = _roles(tree, levers, mesh, bones, pelvis)
    names = {"pelvis"}
    for bone, role in zip(bones, roles):
        side = "middle" if role == "head" else _side(tree, place, mesh, bone, pelvis)
        label = role if role != "end" else tree.names[bone]
        name = f"{side} {label}" if side != "middle" and role != "end" else label
        if name in names:
            name = f"{name} {tree.names[bone]}"
        if name in names:
            continue
        names.add(name)
        found.append(Handle(name, role, side, bone))
    return found


def body_parts(
    tree: Tree, handles: list[Handle], pelvis: int
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return names of parts and the part (B,) of every bone: trunk, arms, hands, legs, head, ..."""
    parents = tree.parents
    bones = len(parents)
    own = {"hand": "arm", "foot": "leg", "head": "neck", "end": "limb"}
    passing = np.zeros(bones, int)  # handles at or below each bone
    for handle in handles:
        passing[upwards(parents, handle.bone)] += 1
    names = ["trunk"]
    part = np.zeros(bones, np.int32)
    for handle in handles:
        if handle.role == "pelvis":
            continue
        tip = handle.name
        side = "" if handle.side == "middle" else f"{handle.side} "
        limb = handle.name if handle.role == "end" else side + own[handle.role]
        for name in (limb, tip):
            if name not in names:
                names.append(name)
        part[tree.below(handle.bone)] = names.index(tip)
        alone = lambda b: passing[b] == 1 and b != pelvis
        part[[*takewhile(alone, upwards(parents, handle.bone)[1:])]] = names.index(limb)
    for b in tree.sequence:  # bones beside a chain belong to the part of their parent
        p = int(parents[b])
        if p >= 0 and part[b] == 0 and passing[b] == 0:
            part[b] = part[p]
    return tuple(names), part


def _lengths(tree: Tree) -> np.ndarray:
    """Return the distance of every bone from its parent, (B,); 0 for roots."""
    place, parents = tree.place, tree.parents
    steps = np.linalg.norm(place - place[np.maximum(parents, 0)], axis=1)
    return np.where(parents >= 0, steps, 0.0)


def _reaches(tree: Tree, length: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the longest way from each bone along its children, (B,), and `own` (B,) at its end."""
    reach = own.copy()
    for b in tree.sequence[::-1]:
        p = tree.parents[b]
        if p >= 0:
            reach[p] = max(reach[p], length[b] + reach[b])
    return reach


def _below(parents: np.ndarray) -> np.ndarray:
    """Return the number of children of every bone."""
    return np.bincount(parents[parents >= 0], minlength=len(parents))


def _path(parents: np.ndarray, leaf: int, taken: np.ndarray) -> list[int]:
    """Return the bones from a leaf up to the first that is taken, without it."""
    return [*takewhile(lambda b: not taken[b], upwards(parents, leaf))]


def _free_length(
    parents: np.ndarray, length: np.ndarray, levers: Levers, leaf: int, taken: np.ndarray
) -> float:
    """Return the length of a chain that no limb has yet, with the tip of its leaf."""
    path = _path(parents, leaf, taken)
    return float(length[path].sum() + (levers.reach[leaf] if path else 0.0))


def _handle_joint(tree: Tree, path: list[int], reach: np.ndarray, size: float) -> int:
    """Return the joint of a limb to drag; path: its bones, the leaf first."""
    names = tree.names
    named = [
        b
        for b in path
        if any(p.search(names[b]) for p in _NAMES.values()) and not _NOT.search(names[b])
    ]
    near = [b for b in path if reach[b] <= _END * size] or path[:1]
    both = [b for b in near if b in named] or named
    if both:
        return both[-1]
    children = _below(tree.parents)
    face = next((b for b in path if children[b] >= _FACE and reach[b] <= 2 * _END * size), None)
    if face is not None:
        return face
    most = max(children[b] for b in near)
    if most >= 3:
        return next(b for b in reversed(near) if children[b] == most)
    return near[-1]


def _siblings(tree: Tree, a: int, b: int) -> bool:
    """Return whether two bones are parts of one hand or foot: with one parent and one role."""
    role = lambda bone: next((r for r, p in _NAMES.items() if p.search(tree.names[bone])), "")
    return tree.parents[a] == tree.parents[b] and bool(role(a)) and role(a) == role(b)


def _roles(tree: Tree, levers: Levers, mesh: Mesh, bones: list[int], pelvis: int) -> list[str]:
    """Return the role of each handle: by its name, else by where it is at rest."""
    roles = []
    for bone in bones:
        name = tree.names[bone]
        roles.append(next((r for r, p in _NAMES.items() if p.search(name)), ""))
    up = "XYZ".index(mesh.up)
    place = tree.place[:, up]
    low, height = float(mesh.vertices[:, up].min()), mesh.height
    across = [k for k in range(3) if k != up]
    middle = tree.place[pelvis, across]
    off = lambda b: float(np.abs(tree.place[b, across] - middle).max())
    above = [b for b in bones if place[b] > low + 0.75 * height and off(b) < 0.1 * height]
    head = min(above, key=off, default=-1)
    for k, bone in enumerate(bones):
        below = tree.below(bone)
        lowest = min(levers.tip[below, up].min(), place[below].min())
        if roles[k]:
            continue
        if lowest < low + 0.1 * height and place[bone] < place[pelvis]:
            roles[k] = "foot"
        elif bone == head and "head" not in roles and len(bones) > 2:
            roles[k] = "head"
        else:
            roles[k] = "end"
    if roles.count("foot") == 1:  # a tail or a sting
        roles[roles.index("foot")] = "end"
    ends = [k for k, role in enumerate(roles) if role == "end"]
    if len(ends) == 2 and roles.count("foot") == 2 and "hand" not in roles:
        for k in ends:
            roles[k] = "hand"
    return roles


def _side(tree: Tree, place: np.ndarray, mesh: Mesh, bone: int, pelvis: int) -> str:
    """Return the side of a bone: by the names of its chain, else by its place.

    A character that looks along -Y (Z up) or +Z (Y up) has its left at positive x.
    """
    for b in takewhile(lambda b: b != pelvis, upwards(tree.parents, bone)):
        named = side_of_name(tree.names[b])
        if named is not None:
            return named
    off = place[bone, 0] - place[pelvis, 0]
    if abs(off) < 0.03 * mesh.height:
        return "middle"
    return "left" if off > 0 else "right"
