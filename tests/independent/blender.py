"""What Blender shows of a file: its own importers, its own evaluation.

`evaluate` opens a GLB, FBX, USD or Alembic file in a real Blender, plays a clip and returns the
vertices of every mesh object in world space, in the axes and the unit of the mesh they are compared
with. `disagreement` compares them with `Character.evaluate_clip`.

Blender's importers keep the vertices of FBX, USD and Alembic in order. A GLB has split vertices
where UVs or normals differ; there each vertex is matched with the nearest one at rest, and where
several are in one place, with the one whose motion is nearest.

One Blender is started at the first use and serves all files until the tests end. This file is also
the script that runs in it.
"""

import atexit
import json
import queue
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048, "unitless": 1.0}


@dataclass(frozen=True)
class Seen:
    """One mesh object as Blender shows it: vertices (F,V,3) and rest (V,3)."""

    vertices: np.ndarray
    rest: np.ndarray


def evaluate(path, frames, mesh, *, clip=None, frame_rate=30.0, timeout=60):
    """Return what Blender shows at some frames, {object name: Seen}.

    path        .glb, .gltf, .fbx, .usd, .usda, .usdc or .abc
    frames      numbers of frames at `frame_rate`; empty: rest shapes only
    mesh        a `Mesh`, whose up axis and unit the result has
    clip        name of the animation to play; None: the one that the importer makes active
    """
    request = {
        "path": str(Path(path).absolute()),
        "frames": [float(frame) for frame in frames],
        "clip": clip,
        "frame_rate": frame_rate,
    }
    answer, arrays = _ask(request, timeout)
    # Alembic has no unit, and Blender reads its numbers as they are.
    metres = 1.0 if Path(path).suffix.lower() == ".abc" else METRES[mesh.unit]
    # Blender's Z-up as Y-up: x, z, -y.
    turn = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]]) if mesh.up == "Y" else np.eye(3)
    place = lambda points: points.astype(np.float64) @ turn.T / metres
    return {
        name: Seen(place(arrays[f"{number}_vertices"]), place(arrays[f"{number}_rest"]))
        for number, name in enumerate(answer["objects"])
    }


def disagreement(path, character, clip=None, frames=None):
    """Return the largest distance between Blender and `Character.evaluate_clip`, over the size.

    clip    name of a clip of `character`; None: its first
    frames  indices of frames to compare; None: all
    """
    playing = character.clips[0] if clip is None else character.clip(clip)
    chosen = np.arange(playing.frame_count) if frames is None else np.asarray(frames)
    expected = character.evaluate_clip(playing)[chosen].astype(np.float64)
    # Animations of glTF start at time 0.
    start = 0 if Path(path).suffix.lower() in (".glb", ".gltf") else playing.start_frame
    seen = evaluate(
        path,
        chosen + start,
        character.mesh,
        clip=playing.name,
        frame_rate=playing.frame_rate,
    )
    return max(distances(seen, character.mesh, expected).values()) / size(character.mesh)


def distances(seen, mesh, expected):
    """Return the largest distance of each part, {name: distance}, in the unit of the mesh.

    seen      what `evaluate` returned
    mesh      its parts are the objects of the file; without parts, all objects together
    expected  (F,V,3), the vertices of `mesh` in the same frames
    """
    parts = dict(mesh.parts) or {"": np.arange(mesh.vertex_count)}
    result = {}
    for name, vertices in parts.items():
        objects = [
            each for key, each in seen.items() if not mesh.parts or plain(key) == plain(name)
        ]
        assert objects, f"Blender has no object {name!r}; it has {list(seen)}"
        got = np.concatenate([each.vertices for each in objects], axis=1)
        rest = np.concatenate([each.rest for each in objects])
        want = expected[:, vertices]
        if len(rest) != len(vertices):
            want = want[:, _matches(got, rest, want, mesh.vertices[vertices].astype(np.float64))]
        result[name] = float(np.linalg.norm(got - want, axis=2).max())
    return result


def size(mesh):
    """Return the longest side of the mesh at rest."""
    return float(np.ptp(mesh.vertices, axis=0).max())


def plain(name):
    """Return a name as every format writes it: other characters than letters and digits as _."""
    return "".join(c if c.isalnum() else "_" for c in name)


def _matches(got, rest, want, ours):
    """Return for each vertex of Blender the vertex of ours, (n,); every one of ours must occur.

    got, rest   (F,n,3) and (n,3), Blender's
    want, ours  (F,v,3) and (v,3)
    """
    from scipy.spatial import cKDTree

    length = np.ptp(ours, axis=0).max()
    tree = cKDTree(ours)
    distance, nearest = tree.query(rest)
    assert distance.max() < 1e-4 * length, f"rest shapes differ by {distance.max() / length:.1e}"
    result = nearest.copy()
    for vertex, near in enumerate(tree.query_ball_point(rest, 1e-5 * length)):
        if len(near) > 1:
            apart = np.linalg.norm(want[:, near] - got[:, vertex, None], axis=2).max(axis=0)
            result[vertex] = near[int(apart.argmin())]
    # Vertices of ours in the same place at rest and in every frame may stand for one another.
    missing = np.setdiff1d(np.arange(len(ours)), result)
    if len(missing):
        key = lambda i: np.concatenate([ours[i], want[:, i].ravel()])
        found = cKDTree(np.array([key(i) for i in np.unique(result)]))
        apart = found.query(np.array([key(i) for i in missing]))[0].max()
        assert apart < 1e-3 * length, f"{len(missing)} vertices of the mesh are not in the file"
    return result


class _Server:
    """A Blender that answers requests until its input ends."""

    def __init__(self):
        from understudy.io.blender import find_blender

        self.folder = tempfile.TemporaryDirectory(prefix="blender-tests-")
        self.process = subprocess.Popen(
            find_blender().command(Path(__file__).absolute(), self.folder.name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = queue.Queue()
        self.count = 0
        threading.Thread(target=self._read, daemon=True).start()
        atexit.register(self.close)

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def ask(self, request, timeout):
        """Return the answer to one request, with its arrays."""
        self.count += 1
        request["number"] = self.count
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        printed = []
        while True:
            line = self.lines.get(timeout=timeout)
            if line is None:
                raise RuntimeError(f"Blender ended at {request}:\n{''.join(printed[-20:])}")
            if line.strip() == f"answer {self.count}":
                break
            printed.append(line)
        answered = Path(self.folder.name) / f"{self.count}.json"
        answer = json.loads(answered.read_text())
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}\n{''.join(printed[-20:])}")
        with np.load(answered.with_suffix(".npz")) as packed:
            return answer, dict(packed)

    def close(self):
        """End Blender."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.folder.cleanup()


_server = None


def _ask(request, timeout):
    global _server
    if _server is None or _server.process.poll() is not None:
        _server = _Server()
    return _server.ask(request, timeout)


# From here on: what runs inside Blender.


def _import(path):
    suffix = Path(path).suffix.lower()
    if suffix == ".fbx":
        bpy.ops.wm.fbx_import(filepath=path, anim_offset=0.0)
    elif suffix in (".glb", ".gltf"):
        bpy.ops.import_scene.gltf(filepath=path, merge_vertices=False)
    elif suffix in (".usd", ".usda", ".usdc", ".usdz"):
        bpy.ops.wm.usd_import(filepath=path, apply_unit_conversion_scale=True)
    elif suffix == ".abc":
        bpy.ops.wm.alembic_import(filepath=path, as_background_job=False)
    else:
        raise ValueError(f"no importer for {path}")


def _play(clip):
    """Make `clip` the active animation of everything."""
    names = [action.name for action in bpy.data.actions]
    fits = lambda name: name == clip or clip in name.split("|") or name.startswith(f"{clip}_")
    if not any(map(fits, names)):
        if len({name.split("|")[-1] for name in names}) > 1:
            raise ValueError(f"no action is called {clip!r}; there are {names}")
        return
    owners = [*bpy.data.objects, *bpy.data.shape_keys]
    for owner in owners:
        data = owner.animation_data
        if data is None:
            continue
        for track in data.nla_tracks:
            track.mute = True
        data.action = None
        for action in filter(lambda action: fits(action.name), bpy.data.actions):
            data.action = action
            slots = [s for s in action.slots if s.target_id_type in (owner.id_type, "UNSPECIFIED")]
            named = [s for s in slots if s.identifier[2:] == owner.name]
            if not slots:
                data.action = None
                continue
            data.action_slot = (named or slots)[0]
            break


def _vertices(target, depsgraph):
    """World-space vertices of an evaluated object."""
    shown = target.evaluated_get(depsgraph)
    mesh = shown.data
    points = np.empty(3 * len(mesh.vertices), np.float32)
    mesh.vertices.foreach_get("co", points)
    world = np.array(shown.matrix_world)
    return points.reshape(-1, 3).astype(np.float64) @ world[:3, :3].T + world[:3, 3]


def _rest(target):
    points = np.empty(3 * len(target.data.vertices), np.float32)
    target.data.vertices.foreach_get("co", points)
    world = np.array(target.matrix_world)
    return points.reshape(-1, 3).astype(np.float64) @ world[:3, :3].T + world[:3, 3]


def _answer(request):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    whole = max(1, round(request["frame_rate"]))
    scene.render.fps, scene.render.fps_base = whole, whole / request["frame_rate"]
    _import(request["path"])
    # Importers leave the range of shape keys at 0 to 1, to which Blender clamps their weights.
    for key in (key for keys in bpy.data.shape_keys for key in keys.key_blocks):
        key.slider_min, key.slider_max = -10.0, 10.0
    # USD and Alembic have one timeline, which is active already.
    if request["clip"] is not None and Path(request["path"]).suffix in (".fbx", ".glb", ".gltf"):
        _play(request["clip"])
    scene.frame_set(scene.frame_current)
    used = [o for o in bpy.data.objects if o.type == "MESH" and scene.objects.get(o.name)]
    # The glTF importer adds an icosphere that it draws bones with.
    used = [o for o in used if not any("glTF_not_exported" in c.name for c in o.users_collection)]
    names, arrays = [o.name for o in used], {}
    arrays = {f"{number}_rest": _rest(target) for number, target in enumerate(used)}
    frames = [[] for _ in used]
    for frame in request["frames"]:
        scene.frame_set(int(np.floor(frame)), subframe=frame - np.floor(frame))
        depsgraph = bpy.context.evaluated_depsgraph_get()
        for of_object, target in zip(frames, used):
            of_object.append(_vertices(target, depsgraph))
    for number, of_object in enumerate(frames):
        arrays[f"{number}_vertices"] = np.array(of_object).reshape(len(of_object), -1, 3)
    return {"objects": names, "frame_rate": scene.render.fps / scene.render.fps_base}, arrays


def _serve(folder):
    for line in sys.stdin:
        request = json.loads(line)
        stem = Path(folder) / str(request["number"])
        try:
            answer, arrays = _answer(request)
        except Exception as problem:
            answer, arrays = {"error": f"{type(problem).__name__}: {problem}"}, {}
        np.savez(stem.with_suffix(".npz"), **arrays)
        stem.with_suffix(".json").write_text(json.dumps(answer))
        print(f"\nanswer {request['number']}", flush=True)


if __name__ == "__main__":
    import bpy

    _serve(sys.argv[-1])
