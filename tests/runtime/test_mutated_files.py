"""The same thousand mutated files for C++ under sanitizers, NumPy and WebAssembly: every one is
played or refused by all of them, and what is played is the same.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cpp_builds import ROOT, clang_build, run
from needs import missing
from parity.kinds import KINDS

COUNT = 1000
MOST_MB = 500  # of programs that play files of at most 0.3 MB
HERE = Path(__file__).parent
MODULE = ROOT / "js" / "understudy.js"


@pytest.fixture(scope="module")
def mutated(tmp_path_factory):
    """Mutated files of every kind, made by runtime/fuzz/mutate.h."""
    seeds, folder = tmp_path_factory.mktemp("seeds"), tmp_path_factory.mktemp("mutated")
    for name, make in KINDS.items():
        make().save(seeds / f"{name}.understudy")
    run(clang_build() / "mutated_files", "write", folder, COUNT, 1, *sorted(seeds.iterdir()))
    return [folder / f"{number}.understudy" for number in range(COUNT)]


def played(*command):
    """What a program did with each file; it neither hangs nor takes much memory."""
    *lines, peak = run(*command, timeout=300).splitlines()
    assert len(lines) == COUNT
    assert int(peak) < MOST_MB
    return lines


@pytest.mark.slow
def test_a_thousand_mutated_files(mutated):
    node = shutil.which("node") or missing("node is not here; apt-get install nodejs")
    script = HERE / "js" / "play_mutated.mjs"
    done = {
        "numpy": played(sys.executable, HERE / "play_mutated.py", *mutated),
        "cpp": played(clang_build() / "mutated_files", "play", *mutated),
        "simd": played(node, script, MODULE, "simd", *mutated),
        "portable": played(node, script, MODULE, "portable", *mutated),
    }
    count = 0
    for file, lines in zip(mutated, zip(*done.values())):
        verdicts = [line.split()[0] for line in lines]
        assert len(set(verdicts)) == 1, (file.name, lines)
        if verdicts[0] == "played":
            compare(*(np.fromfile(f"{file}.{name}", "<f4") for name in done))
            count += 1
    assert count > 100
    assert COUNT - count > 100


def compare(reference, *others):
    """Raise unless vertices agree to 1e-5 of the largest number, or are not finite in all.

    Bones of 1e9 and more times the size of the character leave no digits for it.
    """
    is_finite = np.isfinite(reference)
    size = float(np.abs(reference[is_finite]).max(initial=0))
    for vertices in others:
        np.testing.assert_array_equal(np.isfinite(vertices), is_finite)
        if size > 1e9:
            continue
        np.testing.assert_allclose(vertices[is_finite], reference[is_finite], 0, 1e-5 * size)
