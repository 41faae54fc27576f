"""Reads mutated files of each format under limits, and prints what came of them as JSON.

Each file must give what its format holds, of finite numbers, or an error of ours of at most 2 kB.
Anything else (another exception, a warning, a crash, 20 seconds, 1 GiB more address space) is odd:
the file is kept in `build/odd`, and the exit code is 1.
"""

import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from types import SimpleNamespace

import numpy as np

from fuzzing.limits import CHARACTERS, READS, address_space, frames, set_limits, start_clock
from fuzzing.mutations import mutated
from fuzzing.seeds import FORMATS, write_seeds
from understudy import Deformer
from understudy.core.character import Character
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.io.fbx import reading as fbx_reading
from understudy.io.fbx import worker
from understudy.io.usd import extract
from understudy.io.usd import reading as usd_reading
from understudy.system.errors import UnderstudyError

BATCH = 500  # files for each process
WEIGHTS = {"fbx": 0.3, "usd": 0.2}  # of the files; these are read in processes of their own
KEPT = Path(__file__).parents[2] / "build" / "odd"


def arrays_of(found):
    """Some arrays of what was read; clips of a character are played."""
    if isinstance(found, Mesh):
        return [found.vertices]
    if isinstance(found, Poses):
        bones = found.world_from_bone
        return [found.mesh.vertices, found.vertices[:2], np.zeros(0) if bones is None else bones]
    if isinstance(found, Deformer):
        return [found.mesh.vertices, *(clip.world_from_bone for clip in found.clips)]
    if isinstance(found, Character):
        with np.errstate(all="ignore"):  # numbers near the largest may overflow here
            shown = [
                found.evaluate(clip.world_from_bone[:2], clip.shape_weights[:2])
                for clip in found.clips[:2]
            ]
        assert all(each.shape[1:] == found.mesh.vertices.shape for each in shown)
        return [found.mesh.vertices]
    return [np.asarray(found.vertices)]


def forked(run):
    """A `subprocess` whose `run` forks this process: imports take longer than small files.

    run  (command, input) -> exit code
    """

    def start(command, input=b"", timeout=60, **_):
        output = tempfile.TemporaryFile()  # noqa: SIM115 (the child writes to it)
        child = os.fork()
        if not child:
            code = 97
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                start_clock(0)
                warnings.simplefilter("default")
                gc.disable()  # as the reader of FBX has it
                code = run(command, input)
                sys.stderr.flush()
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            os._exit(code)
        end = time.monotonic() + timeout
        while not (done := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                output.close()
                raise TimeoutExpired(command, timeout)
            time.sleep(0.001)
        code = os.waitstatus_to_exitcode(done[1])
        with output:
            output.seek(0)
            said = output.read().decode("utf-8", "replace")
        if code == 97:
            raise AssertionError(f"the process that reads it ended with\n{said[-2000:]}")
        return CompletedProcess(command, code, "", said)

    return SimpleNamespace(run=start, TimeoutExpired=TimeoutExpired, DEVNULL=None)


def prepare():
    """Read FBX and USD files in forks of this process, whose address space is larger."""
    import ufbx  # noqa: F401

    used = address_space()
    fbx_reading._LIBRARIES = extract._LIBRARIES = used
    fbx_reading.subprocess = forked(lambda command, _: worker.main(json.loads(command[-1])))
    usd_reading.subprocess = forked(lambda _, request: extract.run(json.loads(request)))


def read_one(path, sound, rng, record):
    """Read one file and record what came of it; what is odd is raised."""
    read = rng.choice(READS.get(path.suffix, CHARACTERS))
    if read is frames:
        shutil.copyfile(sound, path.with_name(f"frame_1{path.suffix}"))
    try:
        found = read(path)
        for array in arrays_of(found):
            assert np.isfinite(array).all(), "numbers that are not finite"
        record["read"] += 1
    except UnderstudyError as problem:
        text = str(problem)
        assert len(text.encode("utf-8", "replace")) <= 2000, "a long message"
        assert "enough memory" not in text, text
        record["refused"] += 1
        record["messages"].add(text.partition(path.name)[2][:40])


def batch(seeds, kind, numbers, seed, folder, report):
    """Read the mutated files of these numbers; the report is of all, or of those before a crash."""
    set_limits()
    record = {"read": 0, "refused": 0, "messages": set(), "slowest": 0.0, "odd": []}
    for number in numbers:
        rng = random.Random(f"{seed} {kind} {number}")
        sound = rng.choice(seeds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that are given twice
            data = mutated(sound.read_bytes(), sound.suffix, rng)
        path = folder / f"mutated_2{sound.suffix}"
        path.write_bytes(data)
        if sound.suffix == ".xml":
            for sibling in sound.parent.glob(f"{sound.stem}.mc*"):
                shutil.copyfile(sibling, path.with_suffix(sibling.suffix))
        for layer in sound.parent.glob(f"{sound.stem}.anim.*"):
            shutil.copyfile(layer, folder / layer.name)
        (folder / "number").write_text(f"{number} {path.name}")
        before = time.process_time()
        start_clock()
        try:
            read_one(path, sound, rng, record)
        except BaseException as problem:
            start_clock(0)
            text = "".join(traceback.format_exception(problem)[-6:])[-3000:]
            record["odd"].append([number, sound.name, text])
            KEPT.mkdir(parents=True, exist_ok=True)
            (KEPT / f"{kind}_{seed}_{number}{path.suffix}").write_bytes(data)
        start_clock(0)
        record["slowest"] = max(record["slowest"], time.process_time() - before)
        for file in folder.glob("*_[12].*"):
            file.unlink()
    record["messages"] = sorted(record["messages"])
    usage = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    record["peak_mb"] = max(resource.getrusage(of).ru_maxrss >> 10 for of in usage)
    report.write_text(json.dumps(record))


def fuzz(seeds, kind, count, seed, folder):
    """Read `count` mutated files of one format, in batches; return what came of them."""
    total = {"files": count, "read": 0, "refused": 0, "messages": 0, "slowest": 0.0, "peak_mb": 0}
    odd, messages, start = [], set(), 0
    while start < count:
        report = folder / "report.json"
        report.unlink(missing_ok=True)
        end = min(start + BATCH, count)
        child = os.fork()
        if not child:
            try:
                batch(seeds, kind, range(start, end), seed, folder, report)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0 if report.exists() else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            number, name = (folder / "number").read_text().split()
            odd.append([int(number), name, f"the process ended with {status}"])
            KEPT.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, KEPT / f"{kind}_{seed}_{number}{Path(name).suffix}")
            start = int(number) + 1
            continue
        record = json.loads(report.read_text())
        for key in ("read", "refused"):
            total[key] += record[key]
        for key in ("slowest", "peak_mb"):
            total[key] = max(total[key], record[key])
        messages |= set(record["messages"])
        odd += record["odd"]
        start = end
    return total | {"messages": len(messages), "odd": odd}


def main(count, seed, formats):
    """Read `count` files of the formats; print a record for each."""
    prepare()
    share = count / sum(WEIGHTS.get(kind, 1) for kind in formats)
    result = {}
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "seeds").mkdir()
        (Path(place) / "work").mkdir()
        seeds = write_seeds(Path(place) / "seeds", formats)
        for kind in filter(seeds.__contains__, formats):  # FBX needs real files
            files = round(share * WEIGHTS.get(kind, 1))
            result[kind] = fuzz(seeds[kind], kind, files, seed, Path(place) / "work")
            sys.stderr.write(
                f"{kind}: {json.dumps(result[kind] | {'odd': len(result[kind]['odd'])})}\n"
            )
    sys.stdout.write(json.dumps(result))
    return any(record["odd"] for record in result.values())


if __name__ == "__main__":
    if os.environ.get("PXR_WORK_THREAD_LIMIT") != "1":  # threads take address space
        os.environ |= dict.fromkeys(
            ("PXR_WORK_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"
        )
        os.execv(sys.executable, [sys.executable, "-m", "fuzzing", *sys.argv[1:]])
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or FORMATS))
