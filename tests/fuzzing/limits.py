"""Reads files, each in a process of its own with limits, and says how that ended.

    PYTHONPATH=tests python -m fuzzing.limits FILE...

prints JSON: name -> [outcome, seconds, MB].

The outcome is "read", the text of our error, or "odd: " and what else happened.
"""

import json
import os
import resource
import signal
import sys
import warnings
from pathlib import Path

from understudy import Deformer
from understudy.io.registry import (
    read_cache,
    read_character,
    read_mesh,
    read_poses,
    read_sequence,
    read_skinned,
)
from understudy.system.errors import UnderstudyError

ROOM, SECONDS = 2**30, 20  # bytes of address space more than there were, and of processor time


def frames(path):
    """A sequence of two frames: the sound file `frame_1` beside the path, and the path."""
    return read_sequence([path.with_name(f"frame_1{path.suffix}"), path])


READS = {
    ".npz": (read_poses, read_cache, read_mesh, read_skinned),
    ".obj": (read_mesh, read_mesh, frames),
    ".ply": (read_mesh, read_mesh, frames),
    ".understudy": (Deformer.load,),
    **dict.fromkeys((".mdd", ".pc2", ".mcx", ".mc", ".xml"), (read_cache,)),
}
CHARACTERS = (read_character,)


class Slow(BaseException):
    """A reader takes too long."""


def address_space():
    """The bytes of address space of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def set_limits():
    """Limit the memory of this process, and let warnings and `start_clock` raise."""
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + ROOM, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _late)


def start_clock(seconds=SECONDS):
    """Raise `Slow` after so many seconds of processor time; 0: never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _late(*_):
    raise Slow


def outcome(path):
    """How reading one file ends."""
    try:
        READS.get(path.suffix, CHARACTERS)[0](path)
    except UnderstudyError as problem:
        return str(problem)
    except BaseException as problem:
        return f"odd: {type(problem).__name__}: {problem}"[:300]
    return "read"


def limited(path):
    """How reading one file in a process of its own ends, and the seconds and megabytes it takes."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        set_limits()
        start_clock()
        text = outcome(path)
        start_clock(0)
        os.write(write_end, text.encode("utf-8", "replace"))
        os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status, usage = os.wait4(child, 0)
    if status:
        text = f"odd: the process ended with {os.waitstatus_to_exitcode(status)}"
    return [text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]


if __name__ == "__main__":
    sys.stdout.write(json.dumps({Path(name).name: limited(Path(name)) for name in sys.argv[1:]}))
