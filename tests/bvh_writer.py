"""Writes the motion of a skeleton as BVH, for the tests of what reads it."""

import warnings
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from understudy import CharacterClip, Clip, Skeleton
from understudy.geometry.transforms import compose


def write_bvh(skeleton: Skeleton, clip: Clip | CharacterClip, path: str | Path) -> None:
    """Write the motion of a skeleton; bones must not scale or shear.

    The joints have the axes of the world at rest, so reading the file again gives other rest
    rotations and the same motion since rest. A clip without frame rate gets 30 frames per second.
    """
    root = skeleton.parents < 0
    rest = skeleton.world_from_bone[:, :, 3]
    offset = np.where(root[:, None], rest, rest - rest[np.maximum(skeleton.parents, 0)])
    position, angles = _local_motion(skeleton, clip.world_from_bone)
    size = max(float(np.abs(rest).max(initial=0)), 1e-12)
    moves = root | (np.abs(position - offset).max(axis=(0, 2)) > 1e-6 * size)
    columns = [
        np.concatenate([position[:, b], angles[:, b]], axis=1) if moves[b] else angles[:, b]
        for b in _depth_first(skeleton.parents)
    ]
    lines = ["HIERARCHY", *_written(skeleton, offset, moves), "MOTION"]
    lines += [f"Frames: {clip.frame_count}", f"Frame Time: {1 / (clip.frame_rate or 30.0):.9g}"]
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(lines) + "\n")
        np.savetxt(file, np.concatenate(columns, axis=1), fmt="%.9g")


def _local_motion(skeleton: Skeleton, world_from_bone: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each joint in its parent and its angles about Z, X, Y: (F,B,3) each."""
    moved = compose(world_from_bone, skeleton.bone_from_world)[..., :3]
    assert np.abs(np.swapaxes(moved, -1, -2) @ moved - np.eye(3)).max(initial=0) < 1e-3
    root, above = skeleton.parents < 0, np.maximum(skeleton.parents, 0)
    turn = Rotation.from_matrix(moved.reshape(-1, 3, 3)).as_matrix().reshape(moved.shape)
    outer = np.where(root[:, None, None], np.eye(3), turn[:, above])
    place = world_from_bone[..., 3]
    place = place - np.where(root[:, None], 0, place[:, above])
    position = np.einsum("fbji,fbj->fbi", outer, place)
    local = np.swapaxes(outer, -1, -2) @ turn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two of the three angles are not unique somewhere
        angles = Rotation.from_matrix(local.reshape(-1, 3, 3)).as_euler("ZXY", degrees=True)
    return position, angles.reshape(position.shape)


def _depth_first(parents: np.ndarray) -> list[int]:
    """Return the bones in the order of a hierarchy: each before its children, which follow it."""
    children: dict[int, list[int]] = {}
    for bone, parent in enumerate(parents):
        children.setdefault(int(parent), []).append(bone)
    order: list[int] = []
    stack = list(reversed(children.get(-1, [])))
    while stack:
        bone = stack.pop()
        order.append(bone)
        stack.extend(reversed(children.get(bone, [])))
    return order


def _written(skeleton: Skeleton, offset: np.ndarray, moves: np.ndarray) -> list[str]:
    """Return the lines of the hierarchy."""
    lines: list[str] = []
    open_: list[int] = []
    has_child = set(skeleton.parents.tolist())

    def close(parent: int) -> None:
        while open_ and open_[-1] != parent:
            open_.pop()
            lines.append("\t" * len(open_) + "}")

    for bone in _depth_first(skeleton.parents):
        parent = int(skeleton.parents[bone])
        close(parent)
        indent = "\t" * len(open_)
        name = " ".join(skeleton.names[bone].split()).replace("{", "(").replace("}", ")")
        lines += [f"{indent}{'ROOT' if parent < 0 else 'JOINT'} {name or 'joint'}", indent + "{"]
        numbers = " ".join(f"{value:.9g}" for value in offset[bone])
        lines.append(f"{indent}\tOFFSET {numbers}")
        turns = "Zrotation Xrotation Yrotation"
        channels = f"6 Xposition Yposition Zposition {turns}" if moves[bone] else f"3 {turns}"
        lines.append(f"{indent}\tCHANNELS {channels}")
        if bone not in has_child:
            end = "\t" * (len(open_) + 1)
            lines += [f"{end}End Site", f"{end}{{", f"{end}\tOFFSET 0 0 0", f"{end}}}"]
        open_.append(bone)
    close(-1)
    while open_:
        open_.pop()
        lines.append("\t" * len(open_) + "}")
    return lines
