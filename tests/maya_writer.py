"""Writes Maya caches, for the tests of what reads them."""

import struct

XML = """<?xml version="1.0"?>
<Autodesk_Cache_File>
  <cacheType Type="{kind}" Format="mcx"/>
  <cacheTimePerFrame TimePerFrame="250"/>
  <Channels>
    <channel0 ChannelName="body" ChannelInterpretation="positions"/>
    <channel1 ChannelName="body_n" ChannelInterpretation="normals"/>
  </Channels>
</Autodesk_Cache_File>
"""


def chunk(tag, data, wide):
    """A chunk of a Maya cache, padded."""
    align = 8 if wide else 4
    head = struct.pack(">4s4xQ", tag, len(data)) if wide else struct.pack(">4sI", tag, len(data))
    return head + data + b"\0" * (-len(data) % align)


def group(kind, content, wide):
    tag = b"FOR8" if wide else b"FOR4"
    size = 4 + len(content)
    head = struct.pack(">4s4xQ", tag, size) if wide else struct.pack(">4sI", tag, size)
    return head + kind + content


def maya_file(frames, start=750, wide=True, with_time=True, dtype=">f4", channels=("body",)):
    """The bytes of a Maya cache: frames (F,V,3) of every channel, from tick `start` on."""
    number = lambda tag, value: chunk(tag, struct.pack(">i", value), wide)
    result = group(
        b"CACH",
        chunk(b"VRSN", b"0.1\0", wide) + number(b"STIM", start) + number(b"ETIM", start),
        wide,
    )
    kind = b"FVCA" if dtype == ">f4" else b"DVCA"
    for index, frame in enumerate(frames):
        content = number(b"TIME", start + 250 * index) if with_time else b""
        for name in channels:
            sign = 1 if name == channels[0] else -1
            content += chunk(b"CHNM", name.encode() + b"\0", wide)
            content += number(b"SIZE", len(frame))
            content += chunk(kind, (sign * frame).astype(dtype).tobytes(), wide)
        result += group(b"MYCH", content, wide)
    return result
