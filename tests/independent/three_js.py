"""glTF files evaluated by three.js in Node and checked by Khronos' validator.

three.js applies morph targets, skins and animation by itself, so it is an independent witness of
what a file shows. `make test` installs it (`tests/node`).
"""

import io
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import needs
import numpy as np
from scipy.spatial import KDTree

FOLDER = Path(__file__).parents[1] / "node"


@dataclass(frozen=True)
class Shown:
    """One primitive as three.js shows it.

    node       index of its node
    name       of its node
    vertex     (n,) the vertex of the character, from our attribute _VERTEX; -1: not our file
    used       (n,) whether a triangle uses it
    positions  (T,n,3) at all times of all requests
    """

    node: int
    name: str
    vertex: np.ndarray
    used: np.ndarray
    positions: np.ndarray


def require_node() -> None:
    """Skip or fail the test where Node or its packages are missing."""
    if shutil.which("node") is None:
        needs.missing("node is not installed; get it from Debian (nodejs, npm)")
    if not (FOLDER / "node_modules" / "three").is_dir():
        needs.missing("three.js is not installed: make node, or npm ci in tests/node")


def evaluate(path, requests) -> list[Shown]:
    """Return the primitives of a file, with their positions.

    requests  [(clip name or None, times in seconds), ...]; None: without animation
    """
    require_node()
    with tempfile.TemporaryDirectory() as folder:
        # Key times have 32 bits: a frame on a key must not be evaluated just before it.
        wanted = [
            {"clip": clip, "times": [float(np.float32(time)) for time in times]}
            for clip, times in requests
        ]
        (Path(folder) / "request.json").write_text(json.dumps(wanted), encoding="utf-8")
        _node("evaluate_glb.mjs", path, Path(folder) / "out", Path(folder) / "request.json")
        about = json.loads((Path(folder) / "out.json").read_text(encoding="utf-8"))
        data = np.fromfile(Path(folder) / "out.bin", "<f4")
    frames = sum(len(times) for _, times in requests)
    counts = [mesh["vertices"] for mesh in about["meshes"]]
    heads, at = [], 0
    for count in counts:
        heads.append((data[at : at + count], data[at + count : at + 2 * count]))
        at += 2 * count
    result = []
    for mesh, count, (vertex, used) in zip(about["meshes"], counts, heads):
        positions = data[at : at + frames * count * 3].reshape(frames, count, 3)
        at += frames * count * 3
        numbers = np.rint(vertex).astype(int)
        result.append(Shown(mesh["node"], mesh["name"], numbers, used > 0, positions))
    assert at == len(data)
    return result


def vertices_of(path, requests, vertex_count) -> np.ndarray:
    """Return the vertices (T,V,3) of a file that our writer made, in the order of our mesh.

    A vertex that is split in the file must be at one place; anything else is an error.
    """
    frames = sum(len(times) for _, times in requests)
    result = np.full((frames, vertex_count, 3), np.nan, np.float32)
    for shown in evaluate(path, requests):
        assert (shown.vertex >= 0).all(), "the file has no attribute _VERTEX"
        before = result[:, shown.vertex]
        apart = np.nanmax(np.abs(before - shown.positions), initial=0.0)
        size = np.ptp(shown.positions, axis=(0, 1)).max()
        assert apart <= 1e-5 * max(size, 1e-9), f"copies of a vertex are {apart} apart"
        result[:, shown.vertex] = shown.positions
    assert not np.isnan(result).any(), "a vertex of the mesh is not in the file"
    return result


def clip_requests(character, frames=None):
    """Return requests for every clip of a character that our writer wrote.

    frames  indices of frames; None: all
    """
    return [
        (
            clip.name,
            np.asarray(range(clip.frame_count) if frames is None else frames) / clip.frame_rate,
        )
        for clip in character.clips
    ]


def assert_agrees(path, character, tolerance=1e-4, frames=6) -> float:
    """Fail unless three.js shows a file of any program as `character`, read from it, says.

    Vertices are matched by their paths through some frames of every clip: every vertex of one side
    must have one of the other within `tolerance` of the size. Returns the largest distance found,
    relative to the size.
    """
    requests, ours = [], []
    for clip in character.clips:
        chosen = np.unique(np.linspace(0, clip.frame_count - 1, frames).astype(int))
        # The name of the reader for the pose of a file without animation.
        name = None if clip.name == "default" else clip.name
        requests.append((name, (clip.start_frame + chosen) / clip.frame_rate))
        ours.append(character.evaluate(clip.world_from_bone[chosen], clip.shape_weights[chosen]))
    if not character.clips:
        requests.append((None, [0.0]))
        ours.append(character.mesh.vertices[None])
    shown = evaluate(path, requests)
    theirs = np.concatenate([part.positions[:, part.used] for part in shown], axis=1)
    by_vertex = lambda array: array.transpose(1, 0, 2).reshape(array.shape[1], -1)
    a, b = by_vertex(np.concatenate(ours)), by_vertex(theirs)
    size = float(np.ptp(theirs, axis=(0, 1)).max())
    apart = max(KDTree(a).query(b)[0].max(), KDTree(b).query(a)[0].max()) / size
    assert apart < tolerance, f"{path}: {apart:.2g} of the size apart"
    return apart


def validator_issues(path) -> list[dict]:
    """Return what Khronos' validator has to say: code, message, severity (0 error, 1 warning)."""
    require_node()
    return json.loads(_node("validate_glb.mjs", path))["issues"]["messages"]


def assert_valid(path) -> None:
    """Fail unless a file has neither errors nor warnings."""
    found = [issue for issue in validator_issues(path) if issue["severity"] <= 1]
    assert not found, found[:5]


def _node(script, *arguments) -> str:
    """Return what a script of tests/node prints."""
    done = subprocess.run(
        ["node", str(FOLDER / script), *(str(Path(a).resolve()) for a in arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=FOLDER,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


PAGE = """<!doctype html><body style="margin:0"><canvas id="c"></canvas>
<script type="importmap">{"imports": {"three": "/three/build/three.module.js",
 "three/addons/": "/three/examples/jsm/"}}</script>
<script type="module">
import * as THREE from "three";
import { GLTFLoader } from "three/addons/loaders/GLTFLoader.js";
import { RoomEnvironment } from "three/addons/environments/RoomEnvironment.js";
window.show = async (time) => {
  const gltf = await new GLTFLoader().loadAsync("/model");
  const renderer = new THREE.WebGLRenderer({ canvas: c, preserveDrawingBuffer: true });
  renderer.setSize(480, 480);
  const scene = new THREE.Scene();
  scene.background = new THREE.Color(0x8899aa);
  scene.environment =
    new THREE.PMREMGenerator(renderer).fromScene(new RoomEnvironment(), 0.04).texture;
  const sun = new THREE.DirectionalLight(0xffffff, 2);
  sun.position.set(1, 2, 3);
  scene.add(sun, gltf.scene);
  if (gltf.animations.length) {
    const mixer = new THREE.AnimationMixer(gltf.scene);
    mixer.clipAction(gltf.animations[0]).play();
    mixer.setTime(time);
  }
  scene.updateMatrixWorld(true);
  gltf.scene.traverse((o) => { if (o.isSkinnedMesh) { o.skeleton.update(); } });
  const box = new THREE.Box3();
  gltf.scene.traverse((o) => { if (o.isMesh) { box.expandByObject(o, true); } });
  const size = box.getSize(new THREE.Vector3()).length(), at = box.getCenter(new THREE.Vector3());
  const camera = new THREE.PerspectiveCamera(35, 1, size / 100, size * 10);
  camera.position.copy(at).add(new THREE.Vector3(0.5, 0.35, 1).multiplyScalar(size * 1.5));
  camera.lookAt(at);
  renderer.render(scene, camera);
  window.done = true;
};
</script>"""


def picture(browser, path, time=0.5) -> np.ndarray:
    """Return what three.js draws of a `.glb`, with all its materials: (480,480,3) uint8.

    browser  of `chromium.chromium`
    time     seconds into its first animation
    """
    require_node()
    kinds = {".js": "text/javascript"}

    def answer(route):
        asked = route.request.url.removeprefix("http://local")
        if asked == "/":
            route.fulfill(body=PAGE, content_type="text/html")
        elif asked == "/model":
            route.fulfill(body=Path(path).read_bytes(), content_type="model/gltf-binary")
        else:
            file = FOLDER / "node_modules" / asked.lstrip("/")
            if not file.is_file():
                route.fulfill(status=404)
            else:
                route.fulfill(body=file.read_bytes(), content_type=kinds.get(file.suffix, ""))

    page = browser.new_page(viewport={"width": 480, "height": 480})
    wrong = []
    page.on("pageerror", lambda problem: wrong.append(str(problem)))
    try:
        page.route("http://local/**", answer)
        page.goto("http://local/")
        page.wait_for_function("window.show")
        page.evaluate(f"show({time})")
        data = page.screenshot()
    finally:
        page.close()
    assert not wrong, wrong
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
