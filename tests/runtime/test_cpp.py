"""The C++ library on its own, built into build/ as an engine would build it: its tests, plain and
under sanitizers, mutated files, the install, the example and the README.
"""

import ctypes
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cpp_builds import BUILD, ROOT, SANITIZED, build, clang_build, run, tool
from needs import missing
from parity import forged
from parity.kinds import KINDS, drivers
from sequence_builders import bending_strip

from understudy.core.levels_of_detail import level_of_detail
from understudy.core.mesh import Mesh
from understudy.core.parts import submesh
from understudy.core.version import __version__
from understudy.io.sequences import sequence_from_arrays
from understudy.methods import method_type

SOURCES = sorted(
    path
    for pattern in (
        "runtime/**/*.h",
        "runtime/**/*.cpp",
        "src/understudy/runtime/*.cpp",
        "benchmarks/src/**/*.h",
        "benchmarks/src/**/*.cpp",
    )
    for path in ROOT.glob(pattern)
) + sorted(ROOT.glob("examples/*.cpp"))
FILES = (
    "full-linear-direct-tanh", "full-dual_quaternion-virtual-relu", "full-linear-virtual-gelu",
    "controls-only", "wide", "wide-half",
    "sparse-dual", "skin-12", "dense", "two-layer-12", "masked", "masked-wide-packed",
    "wide-packed", "full-packed", "sparse-packed",
    "full-packed-virtual-dual", "side-by-side", "side-by-side-dual",
    "side-by-side-packed",
)  # fmt: skip


@pytest.fixture(scope="module")
def plain():
    return build(
        BUILD / "plain", ROOT / "runtime", "-DUNDERSTUDY_TESTS=ON", "-DUNDERSTUDY_EXAMPLES=ON"
    )


@pytest.fixture(scope="module")
def sanitized():
    return clang_build()


@pytest.fixture(scope="module")
def watched():
    return build(
        BUILD / "watched",
        ROOT / "runtime",
        "-DUNDERSTUDY_TESTS=ON",
        "-DUNDERSTUDY_SANITIZE=thread",
        *SANITIZED,
    )


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A build for 32-bit x86, under sanitizers."""
    source = tmp_path_factory.mktemp("narrow") / "a.cpp"
    source.write_text("#include <cerrno>\n#include <vector>\nint main() { return errno; }\n")
    flags = ("-m32", "-msse2", "-mfpmath=sse")
    compiler = shutil.which("g++") or shutil.which("clang++")
    command = [compiler, *flags, "-fsanitize=address", str(source), "-o", str(source) + ".out"]
    if compiler is None or subprocess.run(command, capture_output=True).returncode != 0:
        missing("no compiler for 32-bit x86 here; apt-get install g++-multilib")
    return build(
        BUILD / "narrow",
        ROOT / "runtime",
        "-DUNDERSTUDY_TESTS=ON",
        "-DUNDERSTUDY_FUZZ=ON",
        "-DUNDERSTUDY_SANITIZE=address,undefined",
        f"-DCMAKE_CXX_FLAGS={' '.join(flags)}",
        *SANITIZED,
    )


@pytest.fixture(scope="module")
def shared():
    """A shared library without threads of its own."""
    return build(
        BUILD / "shared",
        ROOT / "runtime",
        "-DBUILD_SHARED_LIBS=ON",
        "-DUNDERSTUDY_THREADS=OFF",
        "-DUNDERSTUDY_EXAMPLES=ON",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
    )


def textured():
    """A deformer whose mesh has seams of texture coordinates and normals, materials and parts."""
    deformer = KINDS["wide"]()
    mesh, rng = deformer.mesh, np.random.default_rng(0)
    corners, polygons = len(mesh.polygon_vertices), len(mesh.polygon_sizes)
    uvs = mesh.vertices[mesh.polygon_vertices, :2] / 10
    uvs[::7] += 1  # a seam at some corners
    normals = np.tile([0.0, 0.0, 1.0], (corners, 1))
    normals[::5] = [0.0, 1.0, 0.0]
    return replace(
        deformer,
        mesh=replace(
            mesh,
            corner_uvs=uvs,
            corner_normals=normals,
            materials=("skin", "unused", "cloth"),
            polygon_material=2 * rng.integers(0, 2, polygons),
            parts={"left": np.arange(5), "right": np.array([9, 7])},
        ),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name in FILES:
        KINDS[name]().save(folder / f"{name}.understudy")
    textured().save(folder / "textured.understudy")
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def clip_file(tmp_path_factory):
    vertices, faces, rest = bending_strip(8)
    path = tmp_path_factory.mktemp("clip") / "strip.understudy"
    method_type("ssdr")().fit(sequence_from_arrays(vertices, faces, rest=rest, name="strip")).save(
        path
    )
    return path


@pytest.mark.slow
def test_its_own_tests(plain, files, clip_file):
    assert f"{len(files) + 1} files" in run(plain / "test_runtime", *files, clip_file)


@pytest.mark.slow
def test_no_call_allocates(plain, files):
    assert f"no allocation in {len(files)} files" in run(plain / "test_allocations", *files)


@pytest.mark.slow
def test_its_own_tests_under_sanitizers(sanitized, files, clip_file):
    assert f"{len(files) + 1} files" in run(sanitized / "test_runtime", *files, clip_file)


@pytest.mark.slow
def test_no_thread_touches_what_another_writes(watched, files):
    command = [str(part) for part in (watched / "test_runtime", *files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in done.stderr:  # addresses are too random for it
        done = subprocess.run(
            ["setarch", os.uname().machine, "-R", *command],
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{len(files)} files" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "sanitized"])
def test_skins_of_any_length(kind, request):
    assert "instruction sets" in run(request.getfixturevalue(kind) / "test_skin")


@pytest.mark.slow
def test_the_fuzz_target_finds_nothing_in_a_short_time(sanitized, files, clip_file, tmp_path):
    """`make fuzz` runs it for longer."""
    for path in (*files, clip_file):
        shutil.copy(path, tmp_path)
    run(
        sanitized / "fuzz_reader",
        "-runs=3000",
        "-seed=1",
        "-timeout=60",
        "-malloc_limit_mb=256",
        f"-artifact_prefix={tmp_path}/",
        tmp_path,
        timeout=300,
    )


@pytest.mark.slow
def test_on_32_bits_under_sanitizers(narrow, files, clip_file, tmp_path):
    assert f"{len(files) + 1} files, portable" in run(narrow / "test_runtime", *files, clip_file)
    assert "1 instruction sets" in run(narrow / "test_skin")
    assert "mutated files" in run(narrow / "fuzz_reader", "N30", 2, *files, clip_file)
    path = tmp_path / "wrapping.understudy"
    path.write_bytes(forged.wrapping())
    assert run(narrow / "probe", path).startswith(("played", "refused"))


@pytest.mark.slow
@pytest.mark.parametrize("name", forged.HUNGRY)
def test_a_forged_file_takes_little_memory(plain, tmp_path, name):
    """Model and scratch take a small multiple of the file, or it is refused."""
    path = tmp_path / "forged.understudy"
    path.write_bytes(forged.HUNGRY[name]())
    _, peak, *_ = run(plain / "probe", path).split()
    assert int(peak) < (16 << 20) + 48 * path.stat().st_size


def test_a_large_file_of_another_kind_is_not_read(plain, tmp_path):
    path = tmp_path / "large"
    with open(path, "wb") as opened:
        opened.truncate(6 << 30)
    what, peak, said = run(plain / "probe", path).split(maxsplit=2)
    assert what == "refused"
    assert "not an understudy file" in said
    assert int(peak) < 1 << 20


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (forged.named(rb"a\\u0000b"), "zero character"),
        (forged.named(b"a\xff\xfeb"), "not valid UTF-8"),
        (forged.repeated_vertex(), "names a vertex twice"),
    ],
)
def test_a_forged_file_is_refused(plain, tmp_path, data, wrong):
    path = tmp_path / "forged.understudy"
    path.write_bytes(data)
    said = run(plain / "probe", path)
    assert said.startswith("refused")
    assert wrong in said


@pytest.mark.parametrize("flag", ["-ffast-math", "-ffinite-math-only"])
def test_fast_math_is_refused(flag):
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        missing("there is no C++ compiler here")
    for name in ("api", "archive", "dispatch", "kernels_portable", "pool"):
        source = ROOT / "runtime" / "src" / f"{name}.cpp"
        done = subprocess.run(
            [compiler, "-std=c++17", "-E", flag, source], capture_output=True, text=True
        )
        assert done.returncode != 0
        assert "must not be compiled with -ffast-math" in done.stderr


@pytest.mark.slow
def test_the_example_plays_a_clip(plain, clip_file):
    assert "8 frames of" in run(plain / "play_clip", clip_file, 2)
    assert "ms per frame" in run(plain / "play_clip", clip_file)
    wrong = subprocess.run([str(plain / "play_clip"), __file__], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "not an understudy file" in wrong.stderr


@pytest.mark.slow
def test_a_shared_library_without_threads(shared, clip_file):
    assert "8 frames of" in run(shared / "play_clip", clip_file, 2)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the symbols of an ELF file")
def test_the_shared_library_takes_memory_only_from_its_allocator(shared):
    """It exports its own functions alone, and uses neither exceptions nor `operator new`."""
    nm = shutil.which("nm") or missing("nm is not here; apt-get install binutils")
    library = shared / "libunderstudy.so"
    exported = re.findall(r" [TDBRVW] (\S+)", run(nm, "-D", "--defined-only", library))
    assert "understudy_deform" in exported
    assert [name for name in exported if not name.startswith("understudy_")] == []
    used = {name.split("@")[0] for name in run(nm, "-D", "-u", "-j", library).split()}
    assert "aligned_alloc" in used
    assert used & {"malloc", "calloc", "realloc", "_Znwm", "_Znam", "__cxa_throw"} == set()


@pytest.mark.slow
def test_a_render_mesh_has_the_corners_of_the_file(shared, tmp_path):
    """Every corner of every triangle has its vertex and texture coordinates; vertices are split
    only where corners differ.
    """
    deformer = textured()
    mesh = deformer.mesh
    deformer.save(tmp_path / "a.understudy")
    library = ctypes.CDLL(str(shared / "libunderstudy.so"))

    def call(name, *arguments, returns=ctypes.c_size_t):
        function = getattr(library, name)
        function.restype = returns
        return function(*arguments)

    def array(name, given, kind, count):
        at = call(name, given, returns=ctypes.POINTER(np.ctypeslib.as_ctypes_type(kind)))
        return np.ctypeslib.as_array(at, (count,))

    path = str(tmp_path / "a.understudy").encode()
    model = ctypes.c_void_p(
        call("understudy_load_file", path, None, ctypes.c_size_t(0), returns=ctypes.c_void_p)
    )
    made = ctypes.c_void_p(call("understudy_create_render_mesh", model, returns=ctypes.c_void_p))
    count = call("understudy_render_vertex_count", made)
    vertices = array("understudy_render_vertices", made, np.uint32, count)
    uvs = array("understudy_render_uvs", made, np.float32, 2 * count).reshape(-1, 2)
    indices = array(
        "understudy_render_indices", made, np.uint32, call("understudy_render_index_count", made)
    )
    ends = np.cumsum(mesh.polygon_sizes)
    fans = [
        [start, start + n, start + n + 1]
        for start, size in zip(ends - mesh.polygon_sizes, mesh.polygon_sizes)
        for n in range(1, size - 1)
    ]
    material = np.repeat(mesh.polygon_material, mesh.polygon_sizes - 2)
    corners = np.array(fans)[np.argsort(material, kind="stable")].reshape(-1)
    np.testing.assert_array_equal(vertices[indices], mesh.polygon_vertices[corners])
    np.testing.assert_array_equal(uvs[indices], mesh.corner_uvs[corners])
    distinct = np.unique(
        np.column_stack([mesh.polygon_vertices, mesh.corner_uvs, mesh.corner_normals]), axis=0
    )
    assert count == len(distinct)
    np.testing.assert_array_equal(vertices[: mesh.vertex_count], np.arange(mesh.vertex_count))
    assert (np.diff(vertices[mesh.vertex_count :].astype(int)) >= 0).all()
    assert call("understudy_submesh_count", made) == 2
    name = functools.partial(call, returns=ctypes.c_char_p)
    assert name("understudy_material_name", model, ctypes.c_size_t(2)) == b"cloth"
    assert name("understudy_part_name", model, ctypes.c_size_t(1)) == b"right"
    assert call("understudy_part_vertex_count", model, ctypes.c_size_t(0)) == 5
    call("understudy_free_render_mesh", made, returns=None)
    call("understudy_free_model", model, returns=None)


@pytest.mark.slow
def test_levels_of_detail_share_coefficients(shared, tmp_path):
    """Coefficients of the original drive a level of detail, as its own would."""
    library = ctypes.CDLL(str(shared / "libunderstudy.so"))
    pointer = lambda values: values.ctypes.data_as(ctypes.c_void_p)

    def call(name, *arguments, returns=ctypes.c_void_p):
        function = getattr(library, name)
        function.restype = returns
        return function(*arguments)

    def load(name, deformer):
        path = tmp_path / f"{name}.understudy"
        deformer.save(path)
        made = call("understudy_load_file", str(path).encode(), None, ctypes.c_size_t(0))
        model = ctypes.c_void_p(made)
        return model, ctypes.c_void_p(call("understudy_create_scratch", model, None))

    full = KINDS["wide-bounded"]()
    centres = Mesh(full.mesh.vertices[full.mesh.triangles].mean(axis=1), [], [])
    levels = {
        "subset": level_of_detail(full, submesh(full.mesh, np.arange(0, 30))),
        "projected": level_of_detail(full, centres),
    }
    bones, _ = drivers(full, 1)
    bones = np.ascontiguousarray(bones, np.float64)
    original, scratch = load("full", full)
    coefficients = np.empty(4096, np.float32)
    given = pointer(coefficients)
    assert not call("understudy_coefficients", original, scratch, pointer(bones), None, given)
    for name, level in levels.items():
        model, own = load(name, level)
        assert call("understudy_shares_coefficients", original, model, returns=ctypes.c_int) == 1
        got = np.empty((level.mesh.vertex_count, 3), np.float32)
        want = np.empty_like(got)
        assert not call("understudy_deform", model, own, pointer(bones), None, pointer(want), None)
        assert not call(
            "understudy_deform_coefficients", model, own, pointer(bones), given, pointer(got), None
        )
        np.testing.assert_array_equal(got, want)
        reference = level.deform_reference(bones)[0]
        np.testing.assert_allclose(got, reference, atol=1e-5 * full.mesh.height)
    net = replace(full.nets[0], biases=(full.nets[0].biases[0] + 1, *full.nets[0].biases[1:]))
    changed, _ = load("changed", replace(full, nets=(net, *full.nets[1:])))
    assert call("understudy_shares_coefficients", original, changed, returns=ctypes.c_int) == 0
    for bounds in (None, replace(full.bounds, high=full.bounds.high + 1)):
        other, _ = load("other", replace(full, bounds=bounds))
        assert call("understudy_shares_coefficients", original, other, returns=ctypes.c_int) == 0


def test_versions_agree():
    header = (ROOT / "runtime" / "include" / "understudy.h").read_text(encoding="utf-8")
    cmake = (ROOT / "runtime" / "CMakeLists.txt").read_text(encoding="utf-8")
    assert re.search(r'UNDERSTUDY_VERSION "(.*)"', header)[1] == __version__
    assert re.search(r"VERSION (\S+) LANGUAGES", cmake)[1] == __version__


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "shared"])
def test_an_engine_plays_a_character_without_allocations(kind, request, files, clip_file):
    built = request.getfixturevalue(kind)
    for path in (clip_file, *(path for path in files if path.stem in ("textured", "wide-packed"))):
        said = run(built / "engine", path)
        assert "100 frames of" in said
        assert "allocations per frame: 0" in said


def readme_blocks(language):
    text = (ROOT / "runtime" / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.slow
def test_an_engine_finds_the_installed_library_as_the_readme_says(plain, clip_file, tmp_path):
    """The README's CMake lines build the example; its C++ lines compile, link and play."""
    run(tool("cmake"), "--install", plain, "--prefix", tmp_path / "prefix")
    (lines, _), (snippet, posed) = readme_blocks("cmake"), readme_blocks("cpp")
    head, body = snippet.split("\n", 1)
    assert "understudy_free_scratch" in body
    body = body.replace("understudy_free_scratch", f"{posed}\nunderstudy_free_scratch", 1)
    arrays = "static double bones[12000], controls[1]; static float positions[9000], normals[9000];"
    (tmp_path / "snippet.cpp").write_text(
        f"#include <cstdio>\n{head}\n{arrays}\nint main() {{\n{body}}}\n", encoding="utf-8"
    )
    example = (ROOT / "examples" / "play_clip.cpp").as_posix()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(engine CXX)\n"
        f"add_executable(game {example})\nadd_executable(snippet snippet.cpp)\n{lines}"
        "target_link_libraries(snippet PRIVATE understudy::understudy)\n",
        encoding="utf-8",
    )
    built = build(tmp_path / "built", tmp_path, f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}")
    assert "8 frames of" in run(built / "game", clip_file)
    shutil.copy(clip_file, tmp_path / "hero.understudy")
    run(built / "snippet", cwd=tmp_path)


def test_fetch_content_takes_the_root_as_the_readme_says(tmp_path):
    """It defines the target that the other tests build; nothing is compiled again."""
    example = (ROOT / "examples" / "play_clip.cpp").as_posix()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(engine CXX)\n"
        f"add_executable(game {example})\n{readme_blocks('cmake')[1]}"
    )
    options = (
        f"-DFETCHCONTENT_SOURCE_DIR_UNDERSTUDY={ROOT}",
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
    )
    run(tool("cmake"), "-S", tmp_path, "-B", tmp_path / "built", "-G", "Ninja", *options)
    said = run(tool("ninja"), "-C", tmp_path / "built", "-n", "game")
    assert "kernels_avx2.cpp" in said
    assert "executable game" in said


@pytest.mark.parametrize("kind", ["Release", "RelWithDebInfo", "MinSizeRel", "Debug", "Shipping"])
def test_kernels_are_fast_in_every_configuration(kind, tmp_path):
    options = (
        f"-DCMAKE_BUILD_TYPE={kind}",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
    )
    run(tool("cmake"), "-S", ROOT / "runtime", "-B", tmp_path, "-G", "Ninja", *options)
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    last = {
        Path(one["file"]).stem: re.findall(r" (-O\S*)", one["command"])[-1:] for one in commands
    }
    kernels = {name: flag for name, flag in last.items() if name.startswith("kernels_")}
    assert len(kernels) == 5
    assert set(map(tuple, kernels.values())) == {("-O3",)}
    if kind in ("Release", "RelWithDebInfo"):
        assert set(map(tuple, last.values())) == {("-O3",)}


@pytest.mark.slow
def test_find_package_fails_where_the_prefix_is_not_given(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(engine CXX)\n" + readme_blocks("cmake")[0]
    )
    done = subprocess.run(
        [tool("cmake"), "-S", tmp_path, "-B", tmp_path / "built"], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "understudyConfig.cmake" in done.stderr


@pytest.mark.slow
def test_sources_are_formatted():
    for path in SOURCES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) <= 100, f"{path.relative_to(ROOT)}:{number} has {len(line)} columns"
    beside = Path(sys.executable).with_name("clang-format")
    if beside.exists():
        run(beside, "--dry-run", "-Werror", *SOURCES)


@pytest.mark.slow
def test_the_header_is_plain_c(tmp_path):
    compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        missing("there is no C compiler here")
    (tmp_path / "a.c").write_text(
        '#include "understudy.h"\nint main(void) { return UNDERSTUDY_FORMAT_VERSION; }\n'
    )
    run(
        compiler,
        "-std=c99",
        "-Wall",
        "-Werror",
        "-pedantic",
        "-I",
        ROOT / "runtime" / "include",
        "-c",
        tmp_path / "a.c",
        "-o",
        os.devnull,
    )
