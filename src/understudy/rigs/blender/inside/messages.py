"""Messages between the package and Blender, as described in bridge.py."""

import json
import os
import struct

import numpy as np


class Refused(Exception):
    """What is asked cannot be done; the text is for the user."""


def private_streams(mark):
    """The streams of messages; whatever else writes to stdout goes to stderr.

    mark  text that is written first: what came before it was not a message
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answers.write(mark.encode())
    answers.flush()
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return requests, answers


def read_message(stream):
    """The next header and its arrays; None at the end of the stream."""
    size = stream.read(8)
    if len(size) < 8:
        return None
    header = json.loads(stream.read(struct.unpack("<Q", size)[0]))
    arrays = {}
    for name, dtype, shape in header.pop("arrays", []):
        count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        arrays[name] = np.frombuffer(stream.read(count), dtype).reshape(shape)
    return header, arrays


def write_message(stream, header, arrays):
    packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header["arrays"] = [[name, a.dtype.str, list(a.shape)] for name, a in packed.items()]
    text = json.dumps(header).encode()
    stream.write(struct.pack("<Q", len(text)))
    stream.write(text)
    for array in packed.values():
        stream.write(array.tobytes())
    stream.flush()
