"""Skin weights of the human on Rigify's deforming bones.

Trunk and limbs: those of the body's own bones, divided among the bones that Rigify makes of a limb.
Face: every vertex belongs to the nearest bone of its jaw or skull, and this is diffused along the
mesh, so that the lips and the lids stay apart.
"""

import numpy as np

DIFFUSIONS = 6
SKULL_M = 0.028  # farther from every bone of the face: the skull
LOWER = ("jaw", "special04", "oris01", "oris02", "oris06.L", "oris06.R", "oris07", "tongue")
LOWER_BONES = ("jaw", "jaw.L.001", "jaw.R.001", "chin", "chin.001", "chin.L", "chin.R", "lip.B")
BOTH_BONES = ("jaw.L", "jaw.R", "cheek.B")
# Rigify's bones of a limb -> the body's bones whose weights they share, half the blend in metres.
CHAINS = (
    (("spine", "spine.001", "spine.002", "spine.003"), ("root", "spine0"), 0.09),
    (("spine.004", "spine.005"), ("neck0",), 0.03),
    (("upper_arm.S", "upper_arm.S.001"), ("upperarm01.S", "upperarm02.S"), 0.04),
    (("forearm.S", "forearm.S.001"), ("lowerarm01.S", "lowerarm02.S"), 0.04),
    (("thigh.S", "thigh.S.001"), ("upperleg01.S", "upperleg02.S"), 0.06),
    (("shin.S", "shin.S.001"), ("lowerleg01.S", "lowerleg02.S"), 0.06),
    (("shoulder.S",), ("clavicle.S", "shoulder01.S"), 0),
    (("hand.S",), ("wrist.S",), 0),
    (("foot.S",), ("foot.S",), 0),
    (("toe.S",), tuple(f"toe{k}-" for k in range(1, 6)), 0),
    (("pelvis.S",), ("pelvis.S",), 0),
    (("breast.S",), ("breast.S",), 0),
    *(((f"palm.0{k}.S",), (f"metacarpal{k}.S",), 0) for k in range(1, 5)),
    *(
        ((f"{name}.0{part}.S",), (f"finger{k + 1}-{part}.S",), 0)
        for k, name in enumerate(("thumb", "f_index", "f_middle", "f_ring", "f_pinky"))
        for part in (1, 2, 3)
    ),
)


def human_weights(rig, body):
    """Bone name -> (V,) weights, symmetric, with sum one."""
    points = body["vertices"]
    names = [str(name) for name in body["bones"]]
    given = np.zeros((len(points), len(names)))
    given[body["weight_vertex"], body["weight_bone"]] = body["weight_value"]
    ends = {
        bone.name[4:]: (np.array(bone.head_local), np.array(bone.tail_local))
        for bone in rig.data.bones
        if bone.use_deform
    }
    found, left = {}, np.ones(len(names), bool)
    for targets, sources, blend in CHAINS:
        for side in ("L", "R") if targets[0].endswith(("S", "S.001")) else ("",):
            sided = lambda text, side=side: text.replace(".S", f".{side}") if side else text
            columns = [
                k
                for k, name in enumerate(names)
                if name.startswith(tuple(sided(source) for source in sources))
                and (not side or name.endswith(side))
            ]
            left[columns] = False
            total = given[:, columns].sum(axis=1)
            bones = [sided(target) for target in targets]
            shares = along(points, [ends[bone] for bone in bones], blend)
            for bone, share in zip(bones, shares):
                found[f"DEF-{bone}"] = total * share
    lower = np.array([name.startswith(LOWER) for name in names])
    head = given[:, left].sum(axis=1)
    is_lower = given[:, lower].sum(axis=1) > 0.5 * head
    faces = face_weights(points, body["quads"], ends, head > 0.01, is_lower)
    for bone, share in faces.items():
        found[f"DEF-{bone}"] = found.get(f"DEF-{bone}", 0) + head * share
    return symmetric(found, body["mirror"])


def along(points, bones, blend):
    """How much of each vertex belongs to each bone of a chain, by its place along the chain."""
    if len(bones) == 1:
        return [np.ones(len(points))]
    begun = [np.ones(len(points))]
    for (head, tail), (_, end) in zip(bones[1:], bones[:-1]):
        way = (tail - head) / np.linalg.norm(tail - head)
        t = np.clip(((points - end) @ way) / (2 * blend) + 0.5, 0, 1)
        begun.append(begun[-1] * t * t * (3 - 2 * t))
    begun.append(np.zeros(len(points)))
    return [here - beyond for here, beyond in zip(begun, begun[1:])]


def face_weights(points, quads, ends, is_head, is_lower):
    """Bone of the face -> (V,) shares of the head's weight."""
    prefix = ("forehead", "temple", "brow", "lid", "ear", "cheek", "nose", "lip", "jaw", "chin")
    bones = sorted(name for name in ends if name.startswith(prefix))
    low = [name.startswith("lip.B") or name in LOWER_BONES for name in bones]
    both = [name.startswith(BOTH_BONES) and name not in LOWER_BONES for name in bones]
    low, both = np.array(low), np.array(both)
    away = np.stack([segment_distance(points, *ends[name]) for name in bones], axis=1)
    allowed = both | np.where(is_lower[:, None], low, ~low)
    away[~allowed] = np.inf
    nearest = away.argmin(axis=1)
    labels = np.zeros((len(points), len(bones) + 1))
    skull = ~is_lower & (away.min(axis=1) > SKULL_M)
    # Far below the chin and inside the mouth the jaw itself carries the skin.
    nearest[is_lower & (away.min(axis=1) > SKULL_M)] = bones.index("jaw")
    labels[np.arange(len(points)), np.where(skull, len(bones), nearest)] = 1
    rows = np.flatnonzero(is_head)
    smooth = diffuse(labels[rows], quads, rows, len(points))
    shares = np.zeros_like(labels)
    shares[rows] = smooth
    return dict(zip([*bones, "spine.006"], shares.T))


def diffuse(values, quads, rows, count):
    """Average values (n,K) of some vertices with their neighbours, several times."""
    place = np.full(count, -1)
    place[rows] = np.arange(len(rows))
    edges = np.concatenate([quads[:, [k, (k + 1) % 4]] for k in range(4)])
    edges = place[edges]
    edges = edges[(edges >= 0).all(axis=1)]
    edges = np.unique(np.r_[edges, edges[:, ::-1]], axis=0)
    degree = np.maximum(np.bincount(edges[:, 0], minlength=len(rows)), 1)[:, None]
    for _ in range(DIFFUSIONS):
        total = np.zeros_like(values)
        np.add.at(total, edges[:, 0], values[edges[:, 1]])
        values = 0.5 * values + 0.5 * total / degree
    return values / values.sum(axis=1, keepdims=True)


def segment_distance(points, head, tail):
    """(V,) distances of points to a segment."""
    way = tail - head
    t = np.clip((points - head) @ way / (way @ way), 0, 1)
    return np.linalg.norm(points - head - t[:, None] * way, axis=1)


def symmetric(weights, mirror):
    """Weights that are the same on both sides, with sum one."""
    swapped = {name: other_side(name) for name in weights}
    both = {name: 0.5 * (w + weights[swapped[name]][mirror]) for name, w in weights.items()}
    both = {name: np.where(w > 1e-3, w, 0) for name, w in both.items()}
    total = sum(both.values())
    return {name: w / total for name, w in both.items()}


def other_side(name):
    """The name of the mirrored bone."""
    for here, there in ((".L", ".R"), (".R", ".L")):
        if name.endswith(here) or f"{here}." in name:
            return name.replace(here, there)
    return name
