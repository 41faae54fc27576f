"""Builds the runtime's tests for another system with zig and runs them under emulation:

    python runtime/tools/cross_build.py TARGET FILES ...

TARGET is a key of `TARGETS`. zig is the PyPI package `ziglang`; the emulator comes from the system.
FILES are deformers to test with, for example those of `python -m parity.kinds FOLDER`.
"""

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

RUNTIME = Path(__file__).parents[1]
BUILD = RUNTIME.parent / "build" / "cross"


@dataclass(frozen=True)
class Target:
    """How to build for a system and run its programs.

    triple    zig's name of the system
    emulator  programs that run its programs, the first one that is installed
    package   the Debian package that has the emulator
    """

    triple: str
    emulator: tuple[str, ...]
    package: str


TARGETS = {
    "arm": Target("aarch64-linux-musl", ("qemu-aarch64-static", "qemu-aarch64"),
                  "qemu-user-static"),
}  # fmt: skip


def main() -> None:
    """Build and run."""
    name, *files = sys.argv[1:]
    target = TARGETS[name]
    emulator = next(filter(None, map(shutil.which, target.emulator)), None)
    if emulator is None:
        sys.exit(f"no emulator for {name}; apt-get install {target.package}")
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)

    def compiled(source: Path) -> Path:
        """Compile one source; return the object."""
        made = folder / f"{source.stem}.o"
        library = source.parent.name == "src"
        flags = ("-fno-exceptions", "-fno-rtti") if library else ()
        zig("-target", target.triple, "-std=c++17", "-O2", "-g0", "-I", RUNTIME / "include", *flags,
            "-c", source, "-o", made)  # fmt: skip
        return made

    with ThreadPoolExecutor(2) as pool:
        library = list(pool.map(compiled, sorted(RUNTIME.glob("src/*.cpp"))))
    for program, given in (("test_runtime", files), ("test_skin", [])):
        test = compiled(RUNTIME / "tests" / f"{program}.cpp")
        path = folder / program
        zig("-target", target.triple, *library, test, "-o", path)
        subprocess.run([emulator, str(path), *given], check=True, timeout=900)


def zig(*arguments: object) -> None:
    """Run the compiler."""
    subprocess.run(
        [sys.executable, "-m", "ziglang", "c++", *(str(argument) for argument in arguments)],
        check=True,
    )


if __name__ == "__main__":
    main()
