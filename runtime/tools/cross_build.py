"""Builds the runtime and its tests with another compiler, most of them for another system, and runs
them, under emulation where that is needed:

    python runtime/tools/cross_build.py TARGET FILES ...

TARGET is a key of `TARGETS`. zig is the PyPI package `ziglang`; other compilers and the emulators
come from the system. FILES are deformers to test with, for example those of
`python -m parity.kinds FOLDER`.
"""

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

RUNTIME = Path(__file__).parents[1]
BUILD = RUNTIME.parent / "build" / "cross"
PROGRAMS = Path(sys.executable).parent
QEMU = ("qemu-aarch64-static", "qemu-aarch64")
WINE = ("wine64", "/usr/lib/wine/wine64", "wine")


@dataclass(frozen=True)
class Target:
    """How to build for a system and run its programs.

    system     the system and its processor, as CMake calls them
    compiler   a program that the system has, or zig's name of the system after "zig"
    emulators  programs that run the tests, the first one that is installed; none: none is needed
    packages   the Debian packages that have compiler and emulator
    """

    system: tuple[str, str]
    compiler: tuple[str, ...]
    emulators: tuple[str, ...]
    packages: str


TARGETS = {
    "clang": Target(("Linux", platform.machine()), ("clang++",), (), "clang"),
    "arm": Target(("Linux", "aarch64"), ("zig", "aarch64-linux-musl"), QEMU, "qemu-user-static"),
    "windows": Target(("Windows", "x86_64"), ("zig", "x86_64-windows-gnu"), WINE, "wine64"),
    "mingw": Target(("Windows", "x86_64"), ("x86_64-w64-mingw32-g++-posix",), WINE,
                    "g++-mingw-w64-x86-64-posix wine64"),
}  # fmt: skip


def main() -> None:
    """Build and run."""
    name, *files = sys.argv[1:]
    target = TARGETS[name]
    emulator = [found for found in map(shutil.which, target.emulators) if found][:1]
    has_compiler = target.compiler[0] == "zig" or shutil.which(target.compiler[0])
    if not has_compiler or (target.emulators and not emulator):
        sys.exit(f"compiler or emulator for {name} is missing; apt-get install {target.packages}")
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    toolchain = folder / "toolchain.cmake"
    toolchain.write_text(toolchain_of(target), encoding="utf-8")
    cmake = program("cmake")
    options = ("-DUNDERSTUDY_TESTS=ON", "-DCMAKE_BUILD_TYPE=Release",
               "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -g0")  # fmt: skip
    run(cmake, "-S", RUNTIME, "-B", folder, "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={program('ninja')}", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
        *options)  # fmt: skip
    run(cmake, "--build", folder)
    # wine prints what a system without a screen lacks
    environment = os.environ | {"WINEDEBUG": "-all", "WINEPREFIX": str(BUILD / "wine")}
    suffix = ".exe" if target.system[0] == "Windows" else ""
    for test, given in (("test_runtime", files), ("test_skin", []), ("test_allocations", files)):
        run(*emulator, folder / f"{test}{suffix}", *given, env=environment, timeout=1800)


def toolchain_of(target: Target) -> str:
    """Return CMake's description of a system and its compiler."""
    lines = [
        f"set(CMAKE_SYSTEM_NAME {target.system[0]})",
        f"set(CMAKE_SYSTEM_PROCESSOR {target.system[1]})",
    ]
    if target.emulators:  # programs need no libraries beside them
        lines.append("set(CMAKE_EXE_LINKER_FLAGS_INIT -static)")
    if target.compiler[0] != "zig":
        return "\n".join([*lines, f"set(CMAKE_CXX_COMPILER {target.compiler[0]})\n"])
    zig = f"{sys.executable};-m;ziglang"
    spaced = zig.replace(";", " ")
    lines += [
        f'set(CMAKE_CXX_COMPILER "{zig};c++;-target;{target.compiler[1]}")',
        # the archiver and the indexer are zig, too: the system's know its own files only
        f'set(CMAKE_CXX_ARCHIVE_CREATE "{spaced} ar qc <TARGET> <OBJECTS>")',
        f'set(CMAKE_CXX_ARCHIVE_FINISH "{spaced} ranlib <TARGET>")',
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)",
    ]
    return "\n".join([*lines, ""])


def program(name: str) -> str:
    """Return a program of the build: the one beside this Python, else the system's."""
    beside = PROGRAMS / name
    return str(beside) if beside.exists() else name


def run(*command: object, **options: object) -> None:
    """Run a program; end if it fails."""
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore


if __name__ == "__main__":
    main()
