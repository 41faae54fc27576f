"""The JavaScript package in Node: its own tests, and NumPy = WebAssembly for every kind of
deformer.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from needs import missing
from parity.kinds import KINDS, drivers
from sequence_builders import bending_strip

from understudy.core.version import __version__
from understudy.geometry.normals import vertex_normals
from understudy.io.sequences import sequence_from_arrays
from understudy.methods import method_type

JS = Path(__file__).parents[2] / "js"
HERE = Path(__file__).parent / "js"
MODULES = ("understudy.wasm", "understudy.simd.wasm")
POSES = 3


def node(*arguments, **environment):
    program = shutil.which("node")
    if program is None:
        missing("node is not here; apt-get install nodejs")
    done = subprocess.run(
        [program, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of every kind with drivers, and one with a clip."""
    path = tmp_path_factory.mktemp("js")
    for name, make in KINDS.items():
        deformer = make()
        deformer.save(path / f"{name}.understudy")
        for kind, values in zip(("bones", "controls"), drivers(deformer, POSES)):
            if values is not None:
                (path / f"{name}.{kind}").write_bytes(np.ascontiguousarray(values, "<f8").tobytes())
    vertices, faces, rest = bending_strip(8)
    sequence = sequence_from_arrays(vertices, faces, rest=rest, name="strip")
    method_type("ssdr")().fit(sequence).save(path / "strip.understudy")
    return path


def test_modules_are_built_from_the_sources():
    spec = importlib.util.spec_from_file_location("js_build", JS / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    try:
        found = build.fingerprint()
    except importlib.metadata.PackageNotFoundError:
        missing("ziglang is not here; pip install ziglang")
    built = (JS / "sources.sha256").read_text(encoding="utf-8").strip()
    assert found == built, "runtime/src has changed since js/*.wasm were built: run `make wasm`"


def test_the_package_is_small_and_complete():
    package = json.loads((JS / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == __version__
    assert set(MODULES) < set(package["files"])
    assert sum((JS / name).stat().st_size for name in package["files"]) < 330_000


def test_types_name_what_there_is(folder):
    """Every member of `Deformer` in the types exists, and the other way round."""
    types = (JS / "understudy.d.ts").read_text(encoding="utf-8")
    body = types.split("export interface Deformer {")[1].split("\n}")[0]
    named = set(re.findall(r"^\s+(?:readonly )?(\w+)[(:]", body, re.MULTILINE))
    found = node(
        "--input-type=module",
        "-e",
        f"""
import {{load}} from {(JS / "understudy.js").as_uri()!r};
import {{readFileSync}} from 'node:fs';
const hero = await load(readFileSync({str(folder / "wide.understudy")!r}));
const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(hero));
console.log(JSON.stringify([...Object.keys(hero), ...methods]));
""",
    )
    assert named == set(json.loads(found)) - {"constructor"}


@pytest.mark.slow
def test_its_own_tests(folder):
    node("--test", JS / "understudy.test.js", UNDERSTUDY_FILES=str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["simd", "portable"])
def test_it_gives_the_vertices_of_numpy(folder, variant):
    node(HERE / "play.mjs", JS / "understudy.js", variant, folder, *KINDS)
    for name, make in KINDS.items():
        deformer = make()
        want = deformer.deform_reference(*drivers(deformer, POSES))
        got, normals = (
            np.fromfile(folder / f"{name}.{kind}", "<f4").reshape(want.shape)
            for kind in ("positions", "normals")
        )
        size = max(deformer.mesh.height, float(np.ptp(deformer.mesh.vertices, axis=0).max()))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * size, err_msg=name)
        np.testing.assert_allclose(
            normals, vertex_normals(got, deformer.mesh.triangles), atol=2e-4, err_msg=name
        )
