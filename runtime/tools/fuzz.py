"""Fuzzes the reader of files with libFuzzer, under sanitizers:

    python runtime/tools/fuzz.py BUILD SECONDS FILES ...

BUILD is a key of `BUILDS`; it needs clang (apt-get install clang libclang-rt-dev, and for `narrow`
g++-multilib). FILES are the first inputs, for example those of `python -m parity.kinds FOLDER`.
Inputs that reach new code are kept in build/fuzz/BUILD/corpus and used by the next run; an input
that fails is written to build/fuzz/BUILD, and the exit status is not 0.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

RUNTIME = Path(__file__).parents[1]
FUZZ = RUNTIME.parent / "build" / "fuzz"
# Sanitizers and flags of each build.
BUILDS = {
    "address": ("address,undefined", ""),
    "thread": ("thread", ""),
    "narrow": ("address,undefined", "-m32 -msse2 -mfpmath=sse"),
}


def main() -> None:
    """Build and run."""
    name, seconds, *files = sys.argv[1:]
    sanitizers, flags = BUILDS[name]
    folder, corpus = FUZZ / name, FUZZ / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, corpus)
    subprocess.run(
        [program("cmake"), "-S", RUNTIME, "-B", folder, "-G", "Ninja",
         f"-DCMAKE_MAKE_PROGRAM={program('ninja')}", "-DCMAKE_CXX_COMPILER=clang++",
         "-DUNDERSTUDY_FUZZ=ON", f"-DUNDERSTUDY_SANITIZE={sanitizers}",
         f"-DCMAKE_CXX_FLAGS={flags}", "-DCMAKE_BUILD_TYPE=Sanitized",
         "-DCMAKE_CXX_FLAGS_SANITIZED=-O1"],
        check=True,
    )  # fmt: skip
    subprocess.run([program("cmake"), "--build", folder, "--target", "fuzz_reader"], check=True)
    # Memory is bounded by a small multiple of the input, and no input takes long.
    limits = ("-timeout=60", "-malloc_limit_mb=256", "-rss_limit_mb=3000", "-print_final_stats=1")
    command = [folder / "fuzz_reader", f"-max_total_time={seconds}", *limits,
               f"-artifact_prefix={folder}/", corpus]  # fmt: skip
    if name == "thread":  # its addresses must not be random
        command = ["setarch", "-R", *command]
    environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"}
    sys.exit(subprocess.run([str(part) for part in command], env=environment).returncode)


def program(name: str) -> str:
    """Return a program of the build: the one beside this Python, else the system's."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name


if __name__ == "__main__":
    main()
