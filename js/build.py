"""Builds the WebAssembly modules of this folder from `runtime/src`: `python js/build.py`.

The compiler is zig, from the PyPI package `ziglang`. `sources.sha256` records what they were built
from; `tests/runtime/test_js.py` fails if the sources have changed since.
"""

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
RUNTIME = HERE.parent / "runtime"
BUILD = HERE.parent / "build" / "wasm"
# Module, flags of every source, flags of the kernels: the loops in which a call spends its time.
MODULES = {
    "understudy.simd.wasm": (["-msimd128"], ["-O3"]),
    "understudy.wasm": ([], ["-O2"]),
}
FAST = ("affine", "batch", "deform")  # other sources that every call runs
KERNELS = {"understudy.simd.wasm": "kernels_simd128", "understudy.wasm": "kernels_portable"}
COMPILE = (
    "-target", "wasm32-wasi", "-std=c++17", "-fno-exceptions", "-fno-rtti",
    "-DUNDERSTUDY_NO_THREADS", "-DUNDERSTUDY_ONE_POSE", "-g0", "-Wall", "-Wextra",
    "-flto",
)  # fmt: skip
LINK = (
    "-target", "wasm32-wasi", "-mexec-model=reactor", "-nostdlib++", "-Wl,--strip-all",
    "-Wl,--gc-sections", "-Wl,-z,stack-size=262144",
)  # fmt: skip
EXPORTS = (
    "malloc", "free", "understudy_version", "understudy_instruction_set",
    "understudy_load_memory", "understudy_free_model", "understudy_create_scratch",
    "understudy_free_scratch", "understudy_vertex_count", "understudy_bone_count",
    "understudy_control_count", "understudy_reads_controls", "understudy_bone_name",
    "understudy_bone_parent", "understudy_control_name", "understudy_control_unit",
    "understudy_control_low", "understudy_control_high", "understudy_control_rest",
    "understudy_method", "understudy_unit", "understudy_up_axis", "understudy_handedness",
    "understudy_rest_bones", "understudy_rest_positions", "understudy_triangle_count",
    "understudy_triangles", "understudy_clip_count", "understudy_clip_name",
    "understudy_clip_frame_count", "understudy_clip_frame_rate", "understudy_clip_frame",
    "understudy_deform", "understudy_coefficients", "understudy_count_gpu_arrays",
    "understudy_is_bounded", "understudy_distance_from_data", "understudy_poses_bones",
    "understudy_pose_bones",
)  # fmt: skip


def sources() -> list[Path]:
    """Return the files that the modules are built from."""
    return sorted(
        path
        for pattern in ("src/*.cpp", "src/*.h", "include/*.h")
        for path in RUNTIME.glob(pattern)
    )


def fingerprint() -> str:
    """Return a hash of the sources, of this script and of the compiler's version."""
    digest = hashlib.sha256()
    for path in [*sources(), Path(__file__)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(version("ziglang").encode())
    return digest.hexdigest()


def build(name: str, folder: Path) -> Path:
    """Build the module `name` into `folder`; return its path."""
    flags, kernel_flags = MODULES[name]
    work = BUILD / name
    work.mkdir(parents=True, exist_ok=True)

    def compiled(source: Path) -> Path:
        """Compile one source; return the object."""
        made = work / f"{source.stem}.o"
        is_kernel = source.stem.startswith("kernels_")
        own = kernel_flags if is_kernel else ["-O2"] if source.stem in FAST else ["-Oz"]
        zig(*COMPILE, *flags, *own, "-c", source, "-o", made)
        return made

    chosen = [
        source
        for source in RUNTIME.glob("src/*.cpp")
        if source.stem == KERNELS[name] or not source.stem.startswith("kernels_")
    ]
    with ThreadPoolExecutor(4) as pool:
        objects = list(pool.map(compiled, chosen))
    exports = [f"-Wl,--export={export}" for export in EXPORTS]
    zig(*LINK, *exports, *sorted(objects), "-o", folder / name)
    return folder / name


def zig(*arguments: object) -> None:
    """Run the compiler."""
    subprocess.run(
        [sys.executable, "-m", "ziglang", "c++", *(str(argument) for argument in arguments)],
        check=True,
    )


def main() -> None:
    """Build all modules into this folder."""
    for name in MODULES:
        path = build(name, HERE)
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    (HERE / "sources.sha256").write_text(fingerprint() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
