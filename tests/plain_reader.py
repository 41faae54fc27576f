"""A reader and player of .understudy files, written from docs/file-format.md alone.

It imports nothing of understudy: what the page leaves out is missing here.
"""

import json
import math
import re
import struct

import numpy as np

TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4",
         "U8": "u1", "U16": "<u2", "BOOL": "?"}  # fmt: skip


def read(path):
    """The header and the arrays of a file, widened, by name."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    table, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    header = json.loads(table.pop("__metadata__")["understudy"])
    if header["format_version"] > 2:
        raise ValueError("a newer file")
    raw = {}
    for name, entry in table.items():
        first, last = entry["data_offsets"]
        raw[name] = np.frombuffer(body[first:last], TYPES[entry["dtype"]]).reshape(entry["shape"])
    found = {}
    for name, array in raw.items():
        if name.endswith(".steps"):
            steps = np.cumsum(array.reshape(-1), dtype=np.int64)
            found[name.removesuffix(".steps")] = steps.reshape(array.shape)
        elif f"{name}.grid" in raw:
            low, step = raw[f"{name}.grid"]
            found[name] = low + array.astype(np.float32) * step
        elif not name.endswith(".grid"):
            found[name] = array.astype(np.float32) if array.dtype == np.float16 else array
    return header, found


class Flat:
    """Takes numbers from the starts of flat arrays."""

    def __init__(self, arrays):
        self.arrays, self.at = arrays, {}

    def take(self, name, *shape):
        first = self.at.get(name, 0)
        self.at[name] = first + math.prod(shape)
        return self.arrays[name][first : self.at[name]].reshape(shape)

    def size(self, name):
        return int(self.take(name, 1)[0])


def inverse(m):
    linear = np.linalg.inv(m[..., :3])
    return np.concatenate([linear, -linear @ m[..., 3:]], axis=-1)


def product(a, b):
    moved = a[..., :3] @ b
    moved[..., 3] += a[..., 3]
    return moved


ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(0, a),
    "gelu": lambda a: a / 2 * (1 + np.vectorize(math.erf, otypes=[float])(a / math.sqrt(2))),
}


def coefficients(header, a, readings):
    """The coefficients of one pose."""
    x, flat = np.clip(readings, a["features.low"], a["features.high"]), Flat(a)
    count = max(a.get("nets.outputs", np.zeros(0)), default=-1) + 1
    c = np.zeros(count)
    for activation in header.get("nets.activations", ()):
        width = flat.size("nets.input_counts")
        value = x[flat.take("nets.inputs", width)]
        for layer in range(flat.size("nets.layer_counts")):
            if layer:
                value = ACTIVATIONS[activation](value)
            height = flat.size("nets.output_counts")
            bias = "nets.biases" if layer else "nets.first_biases"
            value = flat.take("nets.weights", height, len(value)) @ value + flat.take(bias, height)
        np.add.at(c, flat.take("nets.outputs", len(value)), value)
    if "bounds.low" in a:
        near = np.clip(readings, -1e15, 1e15)[a["bounds.features"]]
        e = (a["bounds.scale"][:, None] * (near[:, None] - a["bounds.centres"]) ** 2).sum(2).min(1)
        end = float(a["bounds.fade_end"]) ** 2
        s = np.clip((end - e) / (end - 1), 0, 1)
        fade = (3 * s**2 - 2 * s**3)[a["bounds.units"]].min(1, initial=1)
        c = np.clip(c, a["bounds.low"], a["bounds.high"]) * np.append(fade, 1)[a["bounds.group"]]
    return c


def bones_at(a, controls):
    """world_from_bone (B,3,4), of controls that determine all bones."""
    flat, low, high = Flat(a), a["posing.dof_low"], a["posing.dof_high"]
    x = (controls[a["posing.dof_channel"]] - (low + high) / 2) / ((high - low) / 2)
    motion = np.zeros((len(a["posing.parents"]), 12))
    for bone, degree in zip(a["posing.driver_bone"], a["posing.driver_degree"]):
        inputs = flat.take("posing.driver_inputs", flat.size("posing.driver_input_counts"))
        channels = flat.take("posing.driver_channels", flat.size("posing.driver_channel_counts"))
        q = np.clip(x[inputs], -1.25, 1.25) if degree >= 2 else x[inputs]
        terms, last = [(1.0, 0)], [(1.0, 0)]
        for _ in range(degree):
            last = [(m * q[k], k) for m, start in last for k in range(start, len(q))]
            terms += last
        rows = flat.take("posing.driver_coefficients", len(terms), len(channels))
        motion[bone, channels] += np.array([m for m, _ in terms]) @ rows
    done, rest = {-1: (np.eye(3), np.zeros(3))}, a["skeleton.world_from_bone"]
    result = np.zeros((len(motion), 3, 4))
    while len(done) <= len(motion):
        for b, parent in enumerate(a["posing.parents"].tolist()):
            if b in done or parent not in done:
                continue
            turn, place = done[parent]
            f, c = rotation(a["posing.axes"][b]), rotation(a["posing.reference"][b])
            angles = np.eye(3)
            for k in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))[
                a["posing.order"][b]
            ]:
                angles = angles @ rotation(np.clip(motion[b, k], -1000, 1000) * np.eye(3)[k])
            o = rest[b, :, 3] - (rest[parent, :, 3] if parent >= 0 else 0)
            place = place + turn @ (o + f @ motion[b, 3:6])
            turn = turn @ c @ f @ angles @ f.T
            p = motion[b, [6, 11, 10, 11, 7, 9, 10, 9, 8]].reshape(3, 3)
            result[b] = np.c_[turn @ (np.eye(3) + f @ p @ f.T) @ rest[b, :, :3], place]
            done[b] = turn, place
    return result


def rotation(vector):
    angle = np.linalg.norm(vector)
    x, y, z = vector / angle if angle > 0 else vector
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def times(a, b):
    """The product of quaternions, real part first."""
    real = a[:1] * b[:1] - a[1:] @ b[1:]
    return np.concatenate([real, a[:1] * b[1:] + b[:1] * a[1:] + np.cross(a[1:], b[1:])])


def quaternion(r):
    """The unit quaternion of a rotation: the eigenvector that it turns into itself."""
    xx, yy, zz = np.diag(r)
    rows = [
        [xx - yy - zz, 0, 0, 0],
        [r[0, 1] + r[1, 0], yy - xx - zz, 0, 0],
        [r[0, 2] + r[2, 0], r[1, 2] + r[2, 1], zz - xx - yy, 0],
        [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], xx + yy + zz],
    ]
    return np.roll(np.linalg.eigh(np.array(rows))[1][:, -1], 1)


def skinned(header, a, world, points):
    m = product(world, inverse(a["skeleton.world_from_bone"]))
    if "skin.virtual_index" in a:
        m = np.einsum("mj,mjab->mab", a["skin.virtual_weight"], m[a["skin.virtual_index"]])
    index, weight = a["skin.bone_index"], a["skin.weight"]
    if header["skin.blend"] == "linear":
        blended = np.einsum("vk,vkab->vab", weight, m[index])
        return np.einsum("vab,vb->va", blended[..., :3], points) + blended[..., 3]
    u, sigma, vt = np.linalg.svd(m[..., :3])
    sign = np.sign(np.linalg.det(u @ vt))
    u[..., 2], sigma[..., 2] = u[..., 2] * sign[:, None], sigma[..., 2] * sign
    stretch = np.swapaxes(vt, 1, 2) @ (sigma[..., None] * vt)
    real = np.array([quaternion(r) for r in u @ vt])
    dual = np.array([times(np.append(0, t), q) / 2 for t, q in zip(m[..., 3], real)])
    q, e = real[index], dual[index]
    near = np.where((q * q[:, :1]).sum(2) < 0, -weight, weight)[..., None]
    q, e = (near * q).sum(1), (near * e).sum(1)
    length = np.linalg.norm(q, axis=1, keepdims=True)
    q, e = q / length, e / length
    p = np.einsum("vk,vkab,vb->va", weight, stretch[index], points)
    p = p + 2 * np.cross(q[:, 1:], np.cross(q[:, 1:], p) + q[:, :1] * p)
    return p + 2 * (q[:, :1] * e[:, 1:] - e[:, :1] * q[:, 1:] + np.cross(q[:, 1:], e[:, 1:]))


def play(header, a, world, controls):
    """The vertices (V,3) of one pose; world (B,3,4) or None, controls (C,) or None."""
    if world is None and "posing.parents" in a:
        world = bones_at(a, controls)
    numbers = [np.zeros(0)]
    if world is not None:
        for b, (bone, parent) in enumerate(zip(world, a["skeleton.parents"])):
            above = world[max(parent, 0)]
            numbers.append((product(inverse(above), bone) if b else bone).ravel())
    if controls is not None:
        numbers.append(controls)
    c = coefficients(header, a, np.concatenate(numbers)[a["features.columns"]])
    mask = a.get("mask", np.ones(len(a["mesh.vertices"]), np.float32))
    points, flat = a["mesh.vertices"] + mask[:, None] * a.get("mean", np.zeros(3)), Flat(a)
    for shared in a.get("bases.shared", ()):
        n, p = flat.size("bases.vertex_counts"), flat.size("bases.component_counts")
        vertices = flat.take("bases.vertices", n)
        matrix = flat.take("bases.matrices", n if shared else 3 * n, p)
        if "mask" in a:
            matrix = matrix * np.repeat(mask[vertices], 1 if shared else 3)[:, None]
            if header["storage"] == "float16":
                matrix = matrix.astype(np.float16).astype(np.float32)
        read = c[flat.take("bases.coefficients", 3 if shared else 1, p)]
        added = (matrix @ read.T) if shared else (matrix @ read[0]).reshape(n, 3)
        points[vertices] += added
    return points if world is None else skinned(header, a, world, points)


def clip(header, a, number):
    """world_from_bone (F,B,3,4) of a clip."""
    if f"clip.{number}.keys" not in a:
        return a[f"clip.{number}.world_from_bone"]
    keys = a[f"clip.{number}.keys"]
    given = np.zeros((*keys.shape, 12))
    given[keys] = a[f"clip.{number}.values"]
    frames = np.arange(len(keys))
    for b, of in enumerate(keys.T):
        for i in range(12):
            given[:, b, i] = np.interp(frames, frames[of], given[of, b, i])
    return given.reshape(*keys.shape, 3, 4)


def names_of(page):
    """The names of the tables of the page."""
    return set(re.findall(r"^\| `([\w.#]+)` \|", page, flags=re.MULTILINE))
