"""A deformer whose vertices follow one bone and one network each, as an ONNX graph.

This is what `fdda` makes: a rigid skin, one network and one basis per bone. The vertices of a bone
are one group, so a network's outputs go into its basis without being copied, a group is moved by
one matrix product, and vertices get their order by one selection at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis, Net, NetStack, stack_nets
from understudy.io.onnx.features import Readings
from understudy.io.onnx.graph import Graph, add_nets

# Bases of different sizes are padded to one size, by this much at most.
_MOST_PADDING = 1.3


class Group(NamedTuple):
    """The vertices of one bone that one network moves.

    net       the network
    basis     its basis
    bone      number of the bone
    vertices  (n,) the basis' vertices, then those of the bone that nothing else moves
    """

    net: Net
    basis: Basis
    bone: int
    vertices: np.ndarray


def rigid_groups(deformer: Deformer) -> list[Group] | None:
    """Return the groups of a deformer, the largest first; None: it does not consist of groups."""
    skin, nets, bases = deformer.skin, deformer.nets, deformer.bases
    if skin is None or skin.virtual is not None or skin.blend != "linear" or not nets:
        return None
    if deformer.bounds is not None:
        return None
    if not (np.count_nonzero(skin.weight, axis=1) == 1).all() or len(nets) != len(bases):
        return None
    if any(basis.shared or not basis.matrix.size for basis in bases):
        return None
    shapes = {(net.activation, *(len(bias) for bias in net.biases[:-1])) for net in nets}
    written = np.concatenate([net.outputs for net in nets])
    if len(shapes) > 1 or len(np.unique(written)) != len(written):
        return None
    strongest = np.abs(skin.weight).argmax(axis=1)[:, None]
    bone_of = np.take_along_axis(skin.bone_index, strongest, axis=1)[:, 0]
    by_output = {tuple(net.outputs.tolist()): net for net in nets}
    moved = np.zeros(deformer.mesh.vertex_count, bool)
    groups = []
    for basis in bases:
        net = by_output.pop(tuple(basis.coefficients.tolist()), None)
        bones = np.unique(bone_of[basis.vertices])
        if net is None or len(bones) != 1 or moved[basis.vertices].any():
            return None
        moved[basis.vertices] = True
        groups.append(Group(net, basis, int(bones[0]), basis.vertices.astype(np.int64)))
    # Vertices without a basis go with a group of their bone, at no cost but a row of zeros.
    for bone in np.unique(bone_of[~moved]).tolist():
        number = next((n for n, group in enumerate(groups) if group.bone == bone), None)
        if number is None:
            return None
        still = np.flatnonzero(~moved & (bone_of == bone))
        group = groups[number]
        groups[number] = group._replace(vertices=np.concatenate([group.vertices, still]))
    # In the order of the bones, which then need no selection, unless that wastes memory.
    groups.sort(key=lambda group: group.bone)
    if len(buckets(groups)) > 1:
        groups.sort(key=lambda group: -len(group.vertices))
    real = sum(group.basis.matrix.size for group in groups)
    sizes = [len(group.vertices) for group in groups]
    widest = max(len(group.basis.coefficients) for group in groups)
    padded = 3 * widest * sum(len(sizes[run]) * max(sizes[run]) for run in buckets(groups))
    return groups if padded <= 2 * _MOST_PADDING * real else None


def buckets(groups: list[Group]) -> list[slice]:
    """Return runs of groups; those of each run are padded to the largest of it."""
    result, start = [], 0
    for number in range(1, len(groups) + 1):
        sizes = [len(group.vertices) for group in groups[start:number]]
        if len(sizes) * max(sizes) > _MOST_PADDING * sum(sizes):
            result.append(slice(start, number - 1))
            start = number - 1
    return [*result, slice(start, len(groups))]


def add_groups(graph: Graph, deformer: Deformer, groups: list[Group]) -> None:
    """Add all of a deformer's nodes; the result is called `vertices`."""
    half = deformer.storage == "float16"
    runs = buckets(groups)
    nets = [group.net for group in groups]
    (stack,) = stack_nets(nets, deformer.features.count, deformer.coefficient_count)
    inputs = Readings(graph, deformer).of_nets(stack)
    width = stack.outputs.shape[1]
    # The rest shape becomes a component whose coefficient is one, if rows of both products are then
    # aligned. It would lose digits in 16 bits.
    has_rest = not half and width % 4 == 3
    if has_rest:
        stack = _with_one(stack)
    hidden = add_nets(graph, stack, inputs, half)
    matrices = _matrices(graph, deformer, [group.bone for group in groups])
    rest = deformer.mesh.vertices.astype(np.float64)
    rest = rest if deformer.mean is None else rest + deformer.mean
    rows, first = [], 0
    place = np.zeros((deformer.mesh.vertex_count, 3), np.int64)
    for bucket in runs:
        chosen = groups[bucket]
        count, height = len(chosen), padded_height(chosen)
        basis, at_rest = padded(chosen, width, height, rest)
        if has_rest:
            basis = np.concatenate([basis, at_rest.reshape(count, 1, -1)], axis=1)
        for n, group in enumerate(chosen):
            slot = first + 3 * n * height + np.arange(len(group.vertices))
            place[group.vertices] = slot[:, None] + height * np.arange(3)
        first += 3 * count * height
        own, bones = hidden, list(matrices)
        if len(runs) > 1:
            own = graph.cut(hidden, bucket.start, bucket.stop, 0)
            bones = [graph.cut(matrix, bucket.start, bucket.stop, 1) for matrix in matrices]
        moved = graph.op("MatMul", own, graph.weights(basis, half))
        rows.append(_skinned(graph, moved, at_rest, bones, has_rest))
    joined = graph.concat(rows, 1)
    # Much faster than `Gather`, which copies three numbers at a time.
    poses = graph.op("Shape", "world_from_bone", start=0, end=1)
    shape = graph.op("Concat", poses, graph.constant([1], np.int64), axis=0)
    index = graph.op("Expand", graph.constant(place.reshape(1, -1), np.int32), shape)
    picked = graph.op("GatherElements", joined, index, axis=1)
    shape = graph.constant([-1, deformer.mesh.vertex_count, 3], np.int64)
    graph.op("Reshape", picked, shape, output="vertices")


def padded_height(groups: list[Group]) -> int:
    """Return how many vertices the padded bases of a run have.

    A multiple of four: products are faster if their rows are aligned.
    """
    return -(-max(len(group.vertices) for group in groups) // 4) * 4


def padded(
    groups: list[Group], width: int, height: int, rest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bases of groups, (G,width,3 height), and their vertices at rest, (G,3,height).

    rest  (V,3), the mean displacement included

    All x come first, then y, then z: then a bone's matrix is applied to long rows.
    """
    basis = np.zeros((len(groups), width, 3, height), np.float32)
    at_rest = np.zeros((len(groups), 3, height), np.float32)
    for own, points, group in zip(basis, at_rest, groups):
        components = len(group.basis.coefficients)
        table = group.basis.matrix.T.reshape(components, -1, 3)
        own[:components, :, : table.shape[1]] = np.swapaxes(table, 1, 2)
        points[:, : len(group.vertices)] = rest[group.vertices].T
    return basis.reshape(len(groups), width, 3 * height), at_rest


def _matrices(graph: Graph, deformer: Deformer, bones: list[int]) -> tuple[str, str]:
    """Add the transforms of some bones since rest: linear parts (T,G,3,3) and shifts (T,G,3,1)."""
    skeleton, _ = deformer.need_skin()
    rest = np.tile(np.eye(4), (skeleton.bone_count, 1, 1))
    rest[:, :3] = skeleton.bone_from_world
    world = "world_from_bone"
    if bones != list(range(skeleton.bone_count)):
        world = graph.gather(world, bones, 1)
        rest = rest[bones]
    matrices = graph.op("MatMul", world, graph.constant(rest))
    return graph.cut(matrices, 0, 3, 3), graph.cut(matrices, 3, 4, 3)


def _with_one(stack: NetStack) -> NetStack:
    """Return networks with one more output, which is always one."""
    weights = [*stack.weights[:-1], np.pad(stack.weights[-1], ((0, 0), (0, 0), (0, 1)))]
    biases = [*stack.biases[:-1], np.pad(stack.biases[-1], ((0, 0), (0, 1)), constant_values=1)]
    return stack._replace(weights=weights, biases=biases)


def _skinned(
    graph: Graph, moved: str, at_rest: np.ndarray, matrices: list[str], has_rest: bool
) -> str:
    """Add vertices at_rest (G,3,H) that are displaced and moved by their bones, (T,3 G H).

    moved     (G,T,3H) displacements, x then y then z; has_rest: with the rest shape
    matrices  linear parts (T,G,3,3) and shifts (T,G,3,1)
    """
    points = graph.reshape(graph.transpose(moved, 1, 0, 2), [-1, *at_rest.shape])
    if not has_rest:
        points = graph.op("Add", points, graph.constant(at_rest))
    points = graph.op("Add", graph.op("MatMul", matrices[0], points), matrices[1])
    return graph.reshape(points, [-1, at_rest.size])
