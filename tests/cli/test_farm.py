"""A sampling job in chunks: any order, failures and retries give the store of one machine."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_line import run
from store_files import contents

from understudy.io import pose_store as store
from understudy.rigs.chunk_sampling import Chunk, sample_chunk
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system.errors import FileError, InputError

BIN = Path(sys.executable).parent
PLAN = SamplePlan(60, seed=4)
BLOCK = 10
# Fails once, at the end of a block, if a file beside it says so.
RIG = """
from pathlib import Path
from bending_rig import BendingRig

class Lid(BendingRig):
    calls = 0

    def evaluate(self, values):
        fuse = Path(__file__).with_name("fuse")
        Lid.calls += 1
        if Lid.calls == 3 and fuse.exists():  # after the poses that tell the rig, and a block
            fuse.unlink()
            raise RuntimeError("the licence server does not answer")
        return super().evaluate(values)
"""


@pytest.fixture
def rig(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "bending_rig.py", tmp_path)
    (tmp_path / "lid.py").write_text(RIG)
    return f"{tmp_path / 'lid.py'}:Lid"


@pytest.fixture
def whole(rig, tmp_path):
    """The store that one machine writes."""
    sample_poses(rig, PLAN, tmp_path / "whole.zarr", processes=1, block=BLOCK)
    return contents(tmp_path / "whole.zarr")


def test_chunks_share_the_blocks():
    for total, count in ((6, 4), (40, 40), (157, 3), (5, 5), (1, 1)):
        shares = [Chunk(n, count).blocks(total) for n in range(1, count + 1)]
        assert [k for share in shares for k in share] == list(range(total))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("text", ["3", "0/4", "5/4", "a/4", "1/0", "-1/4", "1/4/5"])
def test_wrong_chunks(text):
    with pytest.raises(InputError, match="chunk"):
        Chunk.from_text(text)


def test_any_order_gives_the_same_store_and_says_what_is_left(rig, whole, tmp_path):
    left = []
    for number in (3, 1, 4, 2):
        done = sample_chunk(
            rig, PLAN, tmp_path / "s.zarr", Chunk(number, 4), processes=1, block=BLOCK
        )
        left.append((done.sampled, done.left, done.chunks_left))
    assert left == [(10, 50, (1, 2, 4)), (10, 40, (2, 4)), (20, 20, (2,)), (20, 0, ())]
    assert contents(tmp_path / "s.zarr") == whole
    again = sample_chunk(rig, PLAN, tmp_path / "s.zarr", Chunk(2, 4), block=BLOCK)
    assert (again.sampled, again.share) == (0, 20)


def test_chunks_at_the_same_time_make_one_store(rig, whole, tmp_path):
    # Chunk 2 runs twice, as a farm does that takes a slow machine for a dead one.
    problems = []

    def work(number):
        try:
            sample_chunk(rig, PLAN, tmp_path / "s.zarr", Chunk(number, 3), 1, block=BLOCK)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert contents(tmp_path / "s.zarr") == whole
    assert not list(tmp_path.glob(".*"))  # drafts of those that came second


def test_what_a_killed_chunk_leaves_is_removed_at_the_end(rig, whole, tmp_path):
    path = tmp_path / "s.zarr"
    sample_chunk(rig, PLAN, path, Chunk(1, 2), 1, block=BLOCK)
    (path / "vertices/c.0.0123.partial").write_bytes(b"half")
    (tmp_path / ".s.zarr.0123.partial").mkdir()
    sample_chunk(rig, PLAN, path, Chunk(2, 2), 1, block=BLOCK)
    assert contents(path) == whole
    assert not list(tmp_path.glob(".s.zarr*"))


def test_another_job_in_the_same_store_is_refused(rig, tmp_path):
    sample_chunk(rig, PLAN, tmp_path / "s.zarr", Chunk(1, 2), 1, block=BLOCK)
    with pytest.raises(FileError, match="plan seed 4 there, 5 now"):
        sample_chunk(rig, SamplePlan(60, seed=5), tmp_path / "s.zarr", Chunk(2, 2), block=BLOCK)
    with pytest.raises(InputError, match="at most 6, or for smaller blocks"):
        sample_chunk(rig, PLAN, tmp_path / "s.zarr", Chunk(1, 7), block=BLOCK)


def test_a_store_without_compression_is_read_and_continued(rig, tmp_path, monkeypatch):
    import zarr

    path = tmp_path / "old.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(zarr.codecs, "BloscCodec", lambda **_: zarr.codecs.Crc32cCodec())
        sample_chunk(rig, PLAN, path, Chunk(1, 2), 1, block=BLOCK)
    assert "blosc" not in (path / "vertices/zarr.json").read_text()
    sample_chunk(rig, PLAN, path, Chunk(2, 2), 1, block=BLOCK)
    new = sample_poses(rig, PLAN, tmp_path / "new.zarr", processes=1, block=BLOCK)
    assert "blosc" in (tmp_path / "new.zarr/vertices/zarr.json").read_text()
    assert (store.open_poses(path).read_poses(0, 60) == new.read_poses(0, 60)).all()


def test_commands(rig, whole, capsys, tmp_path):
    common = (rig, "-o", tmp_path / "s.zarr", "--count", 60, "--seed", 4, "--block", BLOCK)
    code, out, _ = run(capsys, "sample", *common, "--chunk", "2/2")
    assert code == 0
    assert "chunk 2/2: 30 poses sampled. 30 of 60 poses are left: chunk 1." in out
    code, _, error = run(capsys, "sample", *common, "--chunk", "2/2", "--overwrite")
    assert (code, "--overwrite cannot be combined with --chunk" in error) == (2, True)
    code, _, error = run(capsys, "farm-job", rig, "-o", tmp_path / "job", "--nonsense", 3)
    assert (code, "--nonsense" in error) == (2, True)
    code, _, error = run(capsys, "farm-job", rig, "-o", tmp_path / "job", "--chunk", "1/2")
    assert (code, "but this one" in error) == (2, True)
    code, _, error = run(capsys, "farm-job", rig, "-o", tmp_path / "job", "--chunks", 99)
    assert (code, "5000 poses are 40 blocks" in error) == (2, True)
    code, out, _ = run(capsys, "sample", *common, "--chunk", "1/2")
    assert "The store is complete: 60 poses." in out
    assert contents(tmp_path / "s.zarr") == whole


@pytest.mark.slow
def test_open_job_description_runs_the_template(rig, tmp_path, capsys):
    """The real `openjd run`: chunks in any order, one fails and is retried."""
    (tmp_path / "ranges.toml").write_text("bend = [0, 5]\n")
    words = ("--count", "60", "--seed", "4", "--block", "10", "--ranges", tmp_path / "ranges.toml")
    command = ("--command", BIN / "understudy")
    code, _, error = run(
        capsys, "farm-job", rig, "-o", tmp_path / "job", "--chunks", 3, *words, *command
    )
    assert code == 0, error
    values = json.loads((tmp_path / "job/parameter_values.json").read_text())["parameterValues"]
    parameters = [w for v in values for w in ("-p", f"{v['name']}={v['value']}")]

    def openjd(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [BIN / "openjd", words[0], str(tmp_path / "job/template.json"), *words[1:]],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    assert openjd("check").returncode == 0
    (tmp_path / "fuse").touch()  # the second request of the first task fails
    chunk = lambda *numbers: json.dumps([{"Chunk": number} for number in numbers])
    failed = openjd("run", *parameters, "--step", "Sample", "--tasks", chunk(3, 1))
    assert failed.returncode, failed.stdout
    assert "licence server" in failed.stdout
    made = tmp_path / "job/Lid.zarr"
    assert store.missing_blocks(made) == [0, 1, 2, 3, 5]  # the finished block of chunk 3 is kept
    for words in (("--tasks", chunk(2, 3)), ("--tasks", chunk(1))):
        done = openjd("run", *parameters, "--step", "Sample", *words)
        assert done.returncode == 0, done.stdout
    whole = sample_poses(
        rig, PLAN, tmp_path / "w.zarr", 1, ranges=tmp_path / "ranges.toml", block=BLOCK
    )
    assert whole.pose_count == 60
    assert contents(made) == contents(tmp_path / "w.zarr")
    done = openjd("run", *parameters, "--step", "Check")
    assert done.returncode == 0, done.stdout
    assert "60 poses of" in done.stdout
    assert contents(made) == contents(tmp_path / "w.zarr")
