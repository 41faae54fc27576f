"""Runs inside Blender: keeps one .blend file open and answers requests on stdin and stdout.

The files of this folder are self-contained. The package does not import them (bpy is GPL-licensed),
and they do not import the package. A message, in both directions, is

    8 bytes    length of the header, little-endian
    header     JSON; "arrays" lists [name, dtype, shape] of the arrays that follow
    arrays     their bytes, one after the other

The argument is a text that the first message comes after. From there on, nothing but messages goes
to stdout: what Blender prints there is sent to stderr. Requests:

    open      read the file; answers the files it links to
    choose    make meshes visible, stop their animation; answers mesh, bones, channels, actions
    channels  the channels that are set from now on, in order
    evaluate  values (n,C) -> vertices (n,V,3), bones (n,B,3,4)
    action    the values of the channels at every frame of an action
"""

import os
import signal
import sys
import traceback
from pathlib import Path

# The modules of this folder, and one thread for each Blender: several processes use the cores
# better than several threads. Blender counts the cores when it is imported.
sys.path.insert(0, str(Path(__file__).parent))
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
if CORES and __name__ == "__main__":
    os.sched_setaffinity(0, {min(CORES)})

from blend_file import open_file  # noqa: E402
from messages import Refused, private_streams, read_message, write_message  # noqa: E402
from open_rig import OpenRig  # noqa: E402


def resident_bytes():
    """The memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def answer(state, header, arrays):
    """The answer to one request: a header and arrays."""
    kind = header["request"]
    if kind == "open":
        state["trusted"] = bool(header["trust_scripts"])
        return open_file(header["file"], state["trusted"], header["moved"]), {}
    if kind == "choose":
        state["rig"] = OpenRig(header, state["trusted"])
        return state["rig"].describe()
    rig = state["rig"]
    if kind == "channels":
        rig.use(header["channels"])
        return {}, {}
    if kind == "evaluate":
        return {}, rig.evaluate(arrays["values"])
    if kind == "action":
        return {}, {"values": rig.action_values(header["name"])}
    raise Refused(f"unknown request {kind!r}")


def serve(requests, answers):
    """Answer requests until the stream ends."""
    state = {}
    while True:
        message = read_message(requests)
        if message is None:
            return
        header, arrays = message
        # Should Blender hang after its parent was killed, the system ends it.
        if hasattr(signal, "alarm"):
            signal.alarm(int(header.get("limit", 600)) + 30)
        try:
            result, out = answer(state, header, arrays)
        except Refused as problem:
            result, out = {"refused": str(problem)}, {}
        except Exception as problem:
            text = traceback.format_exc()
            result, out = {"failed": f"{type(problem).__name__}: {problem}", "trace": text}, {}
        result["resident"] = resident_bytes()
        write_message(answers, result, out)
        if hasattr(signal, "alarm"):
            signal.alarm(0)


if __name__ == "__main__":
    if CORES:
        os.sched_setaffinity(0, CORES)
    serve(*private_streams(sys.argv[-1] if len(sys.argv) > 1 else ""))
    # Without the clean-up of Blender, which takes time and can crash.
    os._exit(0)
