"""BVH (Biovision hierarchy): a skeleton and its motion, as motion capture has them.

A joint has an offset from its parent and rotation channels in any order; a rotation is the product
of the channels' rotations, the first one outermost. All joints have the axes of the world at rest.
The position channels of a root replace its offset. Those of other joints replace it in files of
most programs and are added to it in some; what keeps the joint nearer to its offset is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from understudy.core.character import Character, CharacterClip
from understudy.core.mesh import Mesh
from understudy.core.poses import distinct_names
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.transforms import world_from_local
from understudy.io.budget import Budget
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.numbers import of_file, read_bytes, read_numbers
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

_CHANNELS = {f"{axis}{kind}" for axis in "xyz" for kind in ("position", "rotation")}
_JOINT, _TRANSFORM = 5000, 6 * 96  # bytes, with copies on the way
_RATES = (24000 / 1001, 30000 / 1001, 60000 / 1001, *range(1, 1001))


@dataclass
class _Joint:
    """A joint: its channels are columns of the motion, in their order."""

    name: str
    parent: int
    offset: np.ndarray | None = None
    channels: list[str] = field(default_factory=list)


def read_bvh(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Character:
    """Return a `.bvh` file as a character: its mesh has one vertex at every joint, no polygons.

    It is one clip at the rate of the file.
    """
    path = Path(path)
    with of_file(path, "cannot be read as BVH: "):
        data = read_bytes(path)
        head, _, tail = data.partition(b"MOTION")
        joints = _hierarchy(head.decode("utf-8", "replace"))
        budget = Budget(path, len(data))
        budget.take(len(joints) * _JOINT, "joints")
        rate, values = _motion(tail, sum(len(joint.channels) for joint in joints))
        budget.take(len(values) * len(joints) * _TRANSFORM, "the motion")
        parents = np.array([joint.parent for joint in joints], np.int32)
        names = distinct_names([joint.name or "joint" for joint in joints])
        offsets = np.array([joint.offset for joint in joints])
        rest = np.tile(np.eye(3, 4), (len(joints), 1, 1))
        rest[:, :, 3] = offsets
        rest = world_from_local(rest, parents)
        moved = world_from_local(_local(joints, offsets, values), parents)
        skeleton = Skeleton(tuple(names), parents, rest)
        clip = CharacterClip(path.stem or "motion", moved, np.zeros((len(moved), 0)), rate)
        points = rest[:, :, 3]
        mesh = Mesh(points, np.zeros(0, np.int32), np.zeros(0, np.int32), up_axis="unknown")
        skin = Skin.rigid(np.arange(skeleton.bone_count))
        return Character(mesh, skeleton, skin, clips=(clip,), name=clip.name)


def _hierarchy(text: str) -> list[_Joint]:
    """Return the joints of a file, parents first, in the order of their channels."""
    joints: list[_Joint] = []
    above: list[int] = []  # the joints whose braces are open; -1: an end site
    waiting: int | None = None  # what the next brace opens
    for line in text.replace("{", "\n{\n").replace("}", "\n}\n").splitlines():
        words = line.split()
        kind = words[0].upper() if words else ""
        if kind in ("ROOT", "JOINT"):
            parent = above[-1] if above else -1
            if (kind == "ROOT") != (not above) or (above and parent < 0):
                raise InputError(f"{line.strip()[:60]!r} is in the wrong place")
            joints.append(_Joint(" ".join(words[1:]), parent))
            waiting = len(joints) - 1
        elif kind == "END":
            waiting = -1
        elif kind == "{":
            if waiting is None:
                raise InputError("a brace opens without a joint")
            above.append(waiting)
            waiting = None
        elif kind == "}":
            if not above:
                raise InputError("a brace closes that was not opened")
            above.pop()
        elif kind in ("OFFSET", "CHANNELS"):
            if not above:
                raise InputError(f"{kind} stands outside of a joint")
            if above[-1] >= 0:
                _describe(joints[above[-1]], kind, words[1:])
        elif kind not in ("", "HIERARCHY"):
            raise InputError(f"unexpected text {line.strip()[:60]!r}")
    if above or not joints:
        raise InputError("the hierarchy is not complete" if above else "it has no joints")
    for joint in joints:
        if joint.offset is None:
            raise InputError(f"joint {joint.name!r} has no OFFSET")
    return joints


def _describe(joint: _Joint, kind: str, words: list[str]) -> None:
    """Set the offset or the channels of a joint."""
    if kind == "OFFSET":
        if joint.offset is not None:
            raise InputError(f"joint {joint.name!r} has OFFSET twice")
        if len(words) != 3:
            raise InputError(f"joint {joint.name!r}: OFFSET has {len(words)} numbers, expected 3")
        try:
            joint.offset = checks.finite(np.array(words, np.float64), f"offset of {joint.name!r}")
        except ValueError:
            raise InputError(f"expected numbers, got {' '.join(words)[:60]!r}") from None
        return
    count = int(words[0]) if words and words[0].isdecimal() and len(words[0]) < 3 else -1
    channels = [word.lower() for word in words[1:]]
    if count != len(channels) or len(set(channels)) != count or not set(channels) <= _CHANNELS:
        raise InputError(f"joint {joint.name!r}: CHANNELS {' '.join(words)[:80]} makes no sense")
    if joint.channels:
        raise InputError(f"joint {joint.name!r} has CHANNELS twice")
    joint.channels = channels


def _motion(text: bytes, width: int) -> tuple[float, np.ndarray]:
    """Return the frame rate, and the values (F, width) of all channels."""
    head, _, rest = text.lstrip().partition(b"\n")
    second, _, numbers = rest.lstrip().partition(b"\n")
    words, time = head.split(), second.split(b":")
    if len(words) != 2 or words[0].lower() != b"frames:" or not words[1].isdigit():
        raise InputError(f"expected 'Frames: count' after MOTION, got {head[:60]!r}")
    if len(time) != 2 or time[0].strip().lower() != b"frame time":
        raise InputError(f"expected 'Frame Time: seconds', got {second[:60]!r}")
    step = _numbers(time[1])
    if len(step) != 1 or not 1e-5 < step[0] < 1e5:
        raise InputError(f"expected a frame time in seconds, got {time[1][:60]!r}")
    values = _numbers(numbers)
    count = int(words[1][:12])
    if count < 1 or width < 1 or count * width != len(values):
        raise InputError(
            f"{count} frames of {width} channels need {count * width} numbers, the file has "
            f"{len(values)}"
        )
    rate = 1.0 / float(step[0])
    # Frame times are written with few digits: 0.033333 is 30 frames per second.
    near = min(_RATES, key=lambda known: abs(known - rate))
    rate = float(near) if abs(1 / near - step[0]) < 1e-6 + 1e-5 * step[0] else rate
    return rate, checks.finite(values, "the motion").reshape(count, width)


def _numbers(text: bytes) -> np.ndarray:
    """Return every number in `text`, (n,) float64."""
    try:
        return read_numbers(text)
    except ValueError:
        raise InputError(f"expected numbers, got {text.strip()[:60]!r}") from None


def _local(joints: list[_Joint], offsets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return parent_from_bone (F,B,3,4)."""
    result = np.tile(np.eye(3, 4), (len(values), len(joints), 1, 1))
    result[..., 3] = offsets
    alike: dict[tuple[bool, tuple[str, ...]], list[int]] = {}
    for number, joint in enumerate(joints):
        alike.setdefault((joint.parent < 0, tuple(joint.channels)), []).append(number)
    ends = np.cumsum([len(joint.channels) for joint in joints])
    for (is_root, channels), some in alike.items():
        columns = (ends[some] - len(channels))[:, None] + np.arange(len(channels))
        given = np.full((len(values), len(some), 3), np.nan)
        turned = [k for k, channel in enumerate(channels) if not channel.endswith("position")]
        for k, channel in enumerate(channels):
            if k not in turned:
                given[..., "xyz".index(channel[0])] = values[:, columns[:, k]]
        if len(turned) < len(channels):
            result[..., 3][:, some] = _placed(given, offsets[some], is_root)
        if turned:
            axes = "".join(channels[k][0].upper() for k in turned)
            angles = values[:, columns[:, turned]]  # (F,n,k)
            turn = Rotation.from_euler(axes, angles.reshape(-1, len(turned)), degrees=True)
            result[..., :3][:, some] = turn.as_matrix().reshape(*angles.shape[:2], 3, 3)
    return result


def _placed(given: np.ndarray, offsets: np.ndarray, is_root: bool) -> np.ndarray:
    """Return the places of joints (F,n,3): position channels (F,n,3), NaN where there are none."""
    replaced = np.where(np.isfinite(given), given, offsets)
    if is_root:
        return replaced
    added = np.where(np.isfinite(given), given, 0) + offsets
    middle = lambda places: np.linalg.norm(np.median(places, axis=0) - offsets, axis=-1)
    return np.where((middle(replaced) <= middle(added))[:, None], replaced, added)
