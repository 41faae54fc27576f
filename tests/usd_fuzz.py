"""Many hostile USD files, each read in a process of its own.

    python usd_fuzz.py FOLDER              reads each file; prints the error of each by name
    python usd_fuzz.py FOLDER COUNT SEED   damages the files COUNT times; prints how that ended

Importing USD takes longer than reading a small file, so this process imports it once and forks.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from understudy.io.nouns import unpacked
from understudy.io.usd import extract, reading

SECONDS = 20


def damaged(data: bytes, rng) -> bytes:
    """Bytes changed, removed, repeated, cut off, or overwritten with large numbers."""
    array = np.frombuffer(data, np.uint8).copy()
    kind = int(rng.integers(6))
    at = int(rng.integers(len(array)))
    if kind == 0:
        return data[:at]
    if kind == 1:
        array[rng.integers(len(array), size=int(rng.integers(1, 8)))] = rng.integers(256)
    elif kind == 2:
        place = rng.integers(len(array), size=int(rng.integers(1, 40)))
        array[place] ^= (1 << rng.integers(0, 8, size=len(place))).astype(np.uint8)
    elif kind == 3:
        end = min(len(array), at + int(rng.integers(1, 64)))
        return data[:at] + data[end:]
    elif kind == 4:
        end = min(len(array), at + int(rng.integers(1, 64)))
        return data[:end] + data[at:]
    else:
        huge = [2**31 - 1, 2**40, 2**63 - 1, 2**64 - 1, 0][int(rng.integers(5))]
        value = np.frombuffer(np.uint64(huge).tobytes(), np.uint8)
        array[at : at + 8] = value[: len(array[at : at + 8])]
    return array.tobytes()


def outcome(path: Path, folder: Path) -> str:
    """How reading one file ended: "character", "error", a signal, "slow" or "traceback"."""
    result, report = folder / "result.npz", folder / "report.json"
    for file in (result, report):
        file.unlink(missing_ok=True)
    request = {"path": str(path), "clips": [], "meshes": [], "frame_rate": None}
    request |= {"result": str(result), "report": str(report)}
    child = os.fork()
    if not child:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        if not os.environ.get("USD_FUZZ_SHOW"):
            os.dup2(quiet, 2)
        os._exit(extract.run(request))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.002)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "slow"
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    if os.WEXITSTATUS(status) == 0:
        arrays = reading.read_arrays(result, reading.array_names(result))
        unpacked(arrays, reading.Character)
        return "character"
    return "error" if report.exists() and json.loads(report.read_text()) else "traceback"


def said(path: Path, folder: Path) -> str:
    """The error of a file; else how reading it ended."""
    how = outcome(path, folder)
    return json.loads((folder / "report.json").read_text()) if how == "error" else how


def main() -> None:
    """Read the files of a folder, as they are or damaged."""
    folder = Path(sys.argv[1])
    sources = sorted(file for file in folder.iterdir() if file.suffix.startswith(".usd"))
    if len(sys.argv) == 2:
        print(json.dumps({file.name: said(file, folder) for file in sources}))
        return
    count, seed = int(sys.argv[2]), int(sys.argv[3])
    rng = np.random.default_rng(seed)
    counts: Counter = Counter()
    odd = []
    work = folder / "work"
    work.mkdir(exist_ok=True)
    for number in range(count):
        source = sources[number % len(sources)]
        path = work / f"damaged{source.suffix}"
        path.write_bytes(damaged(source.read_bytes(), rng))
        how = outcome(path, work)
        counts[how] += 1
        if how in ("traceback", "slow"):
            odd.append(number)
            (folder / f"odd_{number}{source.suffix}").write_bytes(path.read_bytes())
    print(json.dumps({"counts": counts, "odd": odd}))


if __name__ == "__main__":
    main()
