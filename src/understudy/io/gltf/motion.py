"""The motion of a glTF file's nodes and morph weights, sampled at every frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.errors import FileError
from understudy.geometry.transforms import compose
from understudy.io.gltf.accessors import Budget
from understudy.io.gltf.scene import Scene
from understudy.io.gltf.timing import Frames, frames_of
from understudy.io.gltf.tracks import Animation, Track
from understudy.io.gltf.trs import compose_trs

MAX_FRAMES = 200_000


@dataclass(frozen=True)
class SampledAnimation:
    """One animation at its frames.

    name     of the animation
    frames   which times they are
    globals  node -> (F,3,4), or (1,3,4) if it does not move
    weights  node -> (F,S) weights of the morph targets of its mesh, where they are animated
    """

    name: str
    frames: Frames
    globals: dict[int, np.ndarray]
    weights: dict[int, np.ndarray]


def animation_frames(animation: Animation, frame_rate: float | None) -> Frames:
    """Return the frames of an animation; those of our own files are as they were written.

    frame_rate  frames per second; None: as the file has it
    """
    found = frames_of([track.times for track in animation.tracks], frame_rate)
    ours = animation.extras
    if ours is None:
        return found
    rate, start = ours.number("frame_rate"), int(ours.number("start_frame"))
    count = ours.integer("frame_count", below=MAX_FRAMES + 1)
    last = max(float(track.times[-1]) for track in animation.tracks)
    if not 0 < rate < 1e6 or abs(start) > 1e9 or not count:
        return found
    if abs(last - (count - 1) / rate) > 0.5 / rate and last > 0:
        return found  # another program has changed the keys
    if frame_rate is None:
        return Frames(0.0, count, float(rate), start)
    count = int(np.ceil((count - 1) / rate * frame_rate - 0.01)) + 1
    return Frames(0.0, max(1, count), float(frame_rate), round(start / rate * frame_rate))


def sample(
    animation: Animation, scene: Scene, wanted: set[int], frame_rate: float | None, budget: Budget
) -> SampledAnimation:
    """Return an animation at its frames.

    wanted      nodes whose transforms are needed
    frame_rate  frames per second; None: as the file has it
    """
    frames = animation_frames(animation, frame_rate)
    what = f"animation {animation.name!r}"
    if frames.count > MAX_FRAMES:
        raise FileError(
            f"{budget.where}: {what} lasts {frames.count / frames.frame_rate:,.0f} s, which is "
            f"{frames.count:,} frames at {frames.frame_rate:g} frames per second; at most "
            f"{MAX_FRAMES:,} are read: choose a lower frame rate or leave it out"
        )
    by_node: dict[int, dict[str, Track]] = {}
    for track in animation.tracks:
        by_node.setdefault(track.node, {})[track.path] = track
    times = frames.times
    value = lambda track: track.sample(times, frames.snapped(track.times))
    needed = _with_ancestors(scene, wanted)
    result: dict[int, np.ndarray] = {}
    for node in scene.order:
        if node not in needed:
            continue
        local = scene.locals[node][None]
        tracks = by_node.get(node, {})
        if tracks.keys() & {"translation", "rotation", "scale"}:
            budget.take(frames.count * 96, what)
            trs = [part[None] for part in scene.rest_trs(node)]
            for place, path in enumerate(("translation", "rotation", "scale")):
                if path in tracks:
                    trs[place] = value(tracks[path])
            local = compose_trs(*(np.broadcast_to(p, (len(times), p.shape[1])) for p in trs))
        parent = scene.parents[node]
        if parent >= 0:
            budget.take(max(len(local), len(result[parent])) * 96, what)
            local = compose(result[parent], local)
        result[node] = local
    weights = {}
    for node, tracks in by_node.items():
        if "weights" in tracks:
            budget.take(frames.count * tracks["weights"].values.shape[-1] * 8, what)
            weights[node] = value(tracks["weights"])
    kept = {node: result[node] for node in wanted}
    if any(not np.isfinite(moved).all() for moved in kept.values()):
        raise FileError(f"{budget.where}: {what}: the transforms of its nodes overflow")
    return SampledAnimation(animation.name, frames, kept, weights)


def _with_ancestors(scene: Scene, nodes: set[int]) -> set[int]:
    """Return nodes and all nodes above them."""
    result = set(nodes)
    for node in reversed(scene.order):
        if node in result and scene.parents[node] >= 0:
            result.add(scene.parents[node])
    return result
