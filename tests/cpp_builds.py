"""Builds of the C++ runtime in build/runtime-tests, for tests."""

import functools
import shutil
import subprocess
import sys
from pathlib import Path

from needs import missing

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "runtime-tests"
# Sanitizers find the same at -O1, and compiling takes a third of the time.
SANITIZED = ("-DCMAKE_BUILD_TYPE=Sanitized", "-DCMAKE_CXX_FLAGS_SANITIZED=-O1")
# The library is always built so; here its tests are, too.
PLAIN_CPP = "-fno-exceptions -fno-rtti"


def run(*command, **options):
    """Run a program; return what it printed."""
    # By a shell: a program's memory counts that of the process that starts it.
    shell = ["sh", "-c", '"$@"; exit $?', "sh"]
    done = subprocess.run(
        [*shell, *(str(part) for part in command)], capture_output=True, text=True, **options
    )
    assert done.returncode == 0, (
        f"{' '.join(map(str, command))[:3000]}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return done.stdout


def tool(name):
    """A program of the build: the one beside this Python, else the system's."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        missing(f"{name} is not here; pip install cmake ninja brings it")
    return found


def build(folder, source, *options):
    """Configure and build; return the folder."""
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        missing("there is no C++ compiler here")
    run(
        tool("cmake"),
        "-S",
        source,
        "-B",
        folder,
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
        *options,
    )
    run(tool("cmake"), "--build", folder)
    return folder


@functools.cache
def clang_build():
    """A build by clang without exceptions and RTTI, under the address and undefined-behaviour
    sanitizers, with libFuzzer; return its folder.
    """
    compiler = shutil.which("clang++") or missing("clang is not here; apt-get install clang")
    BUILD.mkdir(parents=True, exist_ok=True)
    source = BUILD / "empty_fuzz_target.cpp"
    source.write_text(
        'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n'
    )
    command = [compiler, "-fsanitize=fuzzer,address", source, "-o", source.with_suffix(".out")]
    if subprocess.run(command, capture_output=True).returncode != 0:
        missing("clang has no sanitizers here; apt-get install libclang-rt-dev")
    return build(
        BUILD / "clang",
        ROOT / "runtime",
        f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_CXX_FLAGS={PLAIN_CPP}",
        "-DUNDERSTUDY_TESTS=ON",
        "-DUNDERSTUDY_FUZZ=ON",
        "-DUNDERSTUDY_SANITIZE=address,undefined",
        *SANITIZED,
    )
