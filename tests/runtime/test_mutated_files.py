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
from parity import forged
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


def verdicts(files):
    """What four readers did with each file; they neither hang nor take much memory."""
    node = shutil.which("node") or missing("node is not here; apt-get install nodejs")
    script = HERE / "js" / "play_mutated.mjs"
    commands = {
        "numpy": (sys.executable, HERE / "play_mutated.py"),
        "cpp": (clang_build() / "mutated_files", "play"),
        "simd": (node, script, MODULE, "simd"),
        "portable": (node, script, MODULE, "portable"),
    }
    done = {}
    for name, command in commands.items():
        *done[name], peak = run(*command, *files, timeout=300).splitlines()
        assert len(done[name]) == len(files)
        assert int(peak) < MOST_MB
    return done


@pytest.mark.slow
def test_a_thousand_mutated_files(mutated):
    done = verdicts(mutated)
    count = 0
    for file, lines in zip(mutated, zip(*done.values())):
        words = [line.split()[0] for line in lines]
        assert len(set(words)) == 1, (file.name, lines)
        if words[0] == "played":
            compare(*(np.fromfile(f"{file}.{name}", "<f4") for name in done))
            count += 1
    assert count > 100
    assert COUNT - count > 100


@pytest.mark.slow
def test_keys_that_are_given_twice_are_refused_by_all(tmp_path):
    for name, make in forged.REPEATED.items():
        (tmp_path / f"{name}.understudy").write_bytes(make())
    sound = tmp_path / "sound.understudy"
    sound.write_bytes(forged.repeated(b'"mesh.vertices":', b""))
    for refused in verdicts([tmp_path / f"{name}.understudy" for name in forged.REPEATED]).values():
        for said in refused:
            assert said.startswith("refused")
            assert said.endswith("twice")
    assert {line for lines in verdicts([sound]).values() for line in lines} == {"played"}


def compare(reference, *others):
    """Raise unless vertices agree to 1e-5 of the largest number, or are not finite in all.

    Bones of 1e9 and more times the size of the character leave no digits for it. Numbers above 1e30
    count as not finite: near the largest ones, another order of the same sum overflows.
    """
    is_finite = np.abs(reference) < 1e30
    size = float(np.abs(reference[is_finite]).max(initial=0))
    for vertices in others:
        np.testing.assert_array_equal(np.abs(vertices) < 1e30, is_finite)
        if size > 1e9:
            continue
        np.testing.assert_allclose(vertices[is_finite], reference[is_finite], 0, 1e-5 * size)
