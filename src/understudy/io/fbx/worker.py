"""Reads one FBX file with ufbx and writes its arrays to a `.npz`: run as a program, never imported.

`understudy.io.fbx` runs it as `python -P worker.py REQUEST`, because ufbx is C code that
reads files of unknown origin: a crash, an endless loop or a huge allocation ends this process and
not the caller's. It imports NumPy and ufbx only. REQUEST is JSON:

    source   the FBX file
    target   the `.npz` to write
    memory   bytes of address space, or 0: no limit
    seconds  of processor time
    bytes    that all arrays together may take
    rate     frames per second, or 0: the rate of the file
    takes    names; empty: all

A problem with the file is one line on the standard error, and exit code 3.
"""

import gc
import json
import os
import sys

import numpy as np

_KEPT: list = []
_WRONG_FILE = 3
# What ufbx calls a map, and what a `Texture` of it is called; "": it has none.
PBR_MAPS = {
    "base_color": "base_colour",
    "base_factor": "",
    "roughness": "roughness",
    "metalness": "metalness",
    "normal_map": "normal",
    "ambient_occlusion": "occlusion",
    "emission_color": "emission",
    "emission_factor": "",
    "opacity": "opacity",
}
# Warnings of ufbx after which a part of the mesh or of its motion is a guess.
_DAMAGE = ("DUPLICATE_OBJECT_ID", "INDEX_CLAMPED", "MISSING_GEOMETRY_DATA", "TRUNCATED_ARRAY")


def kept(value):
    """Return `value`, which is never released.

    ufbx 0.0.5 returns elements, such as nodes and meshes, without counting the reference, so
    that the second release of an element would free it while it is in use.
    """
    _KEPT.append(value)
    return value


def all_kept(values):
    """Return a list of ufbx and its elements, which are never released."""
    return [kept(value) for value in kept(values)]


class FileProblem(Exception):
    """What is wrong with the file, in words for its user."""


def main(request):
    """Read the file and write its arrays."""
    import ufbx

    if request["memory"]:
        set_limits(request["memory"], request["seconds"])
    try:
        scene = kept(ufbx.load_file(request["source"], strict=True, load_external_files=False))
        refuse_damage(kept(scene.metadata))
        arrays, header = read_scene(scene)
        read_takes(scene, request, arrays, header)
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        need_room(arrays, request)
    except (ufbx.UfbxError, FileProblem, MemoryError) as problem:
        text = str(problem) or "it needs too much memory for its size"
        if text == "Failed to load":  # all that ufbx says of a broken structure
            text = "its structure is broken: the file is damaged or incomplete"
        print(text.splitlines()[0], file=sys.stderr, flush=True)
        return _WRONG_FILE
    with open(request["target"], "wb") as file:
        np.savez(file, **arrays)
    return 0


def refuse_damage(metadata):
    """Raise if ufbx mended the file: what it put in place of the damage is a guess."""
    for warning in all_kept(metadata.warnings):
        if kept(warning.type).name in _DAMAGE:
            more = f", {warning.count} times" if warning.count > 1 else ""
            raise FileProblem(f"the file is damaged: {warning.description}{more}")


def set_limits(memory, seconds):
    """Limit the address space and the processor time of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def need_room(arrays, request):
    """Raise if the arrays are more than the caller takes."""
    size = sum(array.nbytes for array in arrays.values())
    if size > request["bytes"]:
        raise FileProblem(f"it has {size >> 20} MB of arrays, which is too much for its size")


def read_scene(scene):
    """Return the arrays and the header of everything that does not move."""
    settings = kept(scene.settings)
    metadata = kept(scene.metadata)
    nodes = all_kept(scene.nodes)
    parents = [kept(node.parent) for node in nodes]
    arrays = {
        "node_parent": np.array([-1 if p is None else p.typed_id for p in parents], np.int64),
        "node_to_world": np.array([matrix(node.node_to_world) for node in nodes]),
        "geometry_to_node": np.array([matrix(node.geometry_to_node) for node in nodes]),
        "node_is_bone": np.array([kept(node.bone) is not None for node in nodes], bool),
    }
    header = {
        "nodes": [node.name for node in nodes],
        "axes": [int(axis) for axis in kept(settings.axes)],
        "unit_meters": settings.unit_meters,
        "frame_rate": settings.frames_per_second,
        "application": kept(metadata.latest_application).name,
        "meshes": [],
        "skins": 0,
        "shapes": [],
        "caches": [],
        "notes": [],
    }
    arrays["bind_to_world"] = bind_poses(scene, len(nodes))
    read_materials(scene, arrays, header)
    for mesh in all_kept(scene.meshes):
        read_mesh(mesh, arrays, header)
    for what in ("constraints", "nurbs_surfaces"):
        count = len(getattr(scene, what))
        if count:
            header["notes"].append(f"{count} {what.replace('_', ' ')}: not read")
    if not header["meshes"]:
        raise FileProblem("it has no mesh")
    return arrays, header


def read_materials(scene, arrays, header):
    """Add the materials and their textures."""
    number = {}
    header["materials"], header["textures"] = [], []

    def texture(found):
        """Return the number of a texture of one file."""
        files = all_kept(found.file_textures)
        if not files:
            return None
        if len(files) > 1:
            header["notes"].append(
                f"texture {found.name}: of {len(files)} layers the first is read"
            )
        one = files[0]
        if one.typed_id not in number:
            number[one.typed_id] = len(header["textures"])
            # Textures of one file have one image.
            content = f"image{one.file_index if one.has_file else f'_{one.typed_id}'}"
            if not len(arrays.get(content, b"")):
                arrays[content] = np.frombuffer(bytes(one.content), np.uint8)
            header["textures"].append(
                {
                    "name": one.name,
                    "content": content,
                    "relative": one.relative_filename,
                    "absolute": one.absolute_filename,
                    "uv_set": one.uv_set,
                    "clamp": [kept(wrap).name == "CLAMP" for wrap in (one.wrap_u, one.wrap_v)],
                }
            )
        return number[one.typed_id]

    for material in all_kept(scene.materials):
        header["materials"].append(read_material(material, texture))


def read_material(material, texture):
    """Return what to tell of one material; texture: gives the number of a texture, or None."""
    maps = kept(material.pbr)
    of = {name: kept(getattr(maps, name)) for name in PBR_MAPS}
    image = {name: kept(each.texture) for name, each in of.items() if each.texture_enabled}
    shown = {PBR_MAPS[n]: texture(found) for n, found in image.items() if found is not None}
    shown = {slot: number for slot, number in shown.items() if slot and number is not None}
    vector = lambda name: list(kept(of[name].value_vec4))
    value = lambda name, default: vector(name)[0] if of[name].has_value else default

    colour = lambda name: [value(f"{name}_factor", 1.0) * part for part in vector(f"{name}_color")]
    opacity = kept(kept(material.props).find_prop("Opacity"))
    visible = value("opacity", 1.0) if opacity is None else kept(opacity.value_vec4)[0]
    return {
        "name": material.name,
        "base_colour": [*colour("base")[:3], min(max(visible, 0.0), 1.0)],
        "emission": colour("emission")[:3],
        "metallic": value("metalness", 0.0),
        "roughness": value("roughness", 1.0),
        "factors": [value("base_factor", 1.0), value("emission_factor", 1.0)],
        "double_sided": kept(kept(material.features).double_sided).enabled,
        "textures": shown,
    }


def bind_poses(scene, count):
    """Return the transforms (N,3,4) of the nodes in the bind poses of the file; NaN: in none."""
    found = np.full((count, 3, 4), np.nan)
    for pose in all_kept(scene.poses):
        if pose.is_bind_pose:
            for place in all_kept(pose.bone_poses):
                found[kept(place.bone_node).typed_id] = matrix(place.bone_to_world)
    return found


def read_mesh(mesh, arrays, header):
    """Add the arrays of one mesh and of what deforms it."""
    number = len(header["meshes"])
    add = lambda name, values: arrays.__setitem__(f"mesh{number}_{name}", values)
    add("vertices", vectors(mesh.vertices, 3))
    add("faces", np.array([tuple(face) for face in mesh.faces], np.int64).reshape(-1, 2))
    add("indices", whole(mesh.vertex_indices))
    add("face_material", whole(mesh.face_material))
    sets, colours = all_kept(mesh.uv_sets), all_kept(mesh.color_sets)
    read = [("normal", 3, kept(mesh.vertex_normal))]
    more = [(f"TEXCOORD_{n}", 2, kept(s.vertex_uv)) for n, s in enumerate(sets)]
    more += [(f"COLOR_{n}", 4, kept(s.vertex_color)) for n, s in enumerate(colours)]
    for name, width, attribute in read + more:
        if attribute.exists:
            add(name, vectors(attribute.values, width))
            add(f"{name}_index", whole(attribute.indices))
    instances = all_kept(mesh.instances)
    # A node may have materials of its own in place of those of its mesh.
    materials = [[material.name for material in all_kept(node.materials)] for node in instances]
    skins = all_kept(mesh.skin_deformers)
    if len(skins) > 1:
        name = header["nodes"][instances[0].typed_id] if instances else mesh.name
        header["notes"].append(f"{name}: of its {len(skins)} skins the first is read")
    header["meshes"].append(
        {
            "name": mesh.name,
            "nodes": [node.typed_id for node in instances],
            "materials": materials,
            "uv_sets": [each.name for each in sets],
            "sets": [name for name, _, _ in more],
            "skin": header["skins"] if skins else -1,
        }
    )
    if skins:
        read_skin(skins[0], arrays, header)
    for blend in all_kept(mesh.blend_deformers):
        for channel in all_kept(blend.channels):
            read_channel(number, channel, arrays, header)
    for cache in all_kept(mesh.cache_deformers):
        file = kept(cache.file)
        if file is not None:
            header["caches"].append(
                {
                    "mesh": number,
                    "channel": cache.channel,
                    "relative": file.relative_filename,
                    "absolute": file.absolute_filename,
                }
            )


def read_skin(skin, arrays, header):
    """Add the clusters of one skin."""
    number = header["skins"]
    header["skins"] += 1
    clusters = all_kept(skin.clusters)
    bones = [kept(cluster.bone_node) for cluster in clusters]
    arrays[f"skin{number}_bone"] = np.array(
        [-1 if bone is None else bone.typed_id for bone in bones], np.int64
    )
    for name in ("geometry_to_bone", "bind_to_world"):
        found = [matrix(getattr(cluster, name)) for cluster in clusters]
        arrays[f"skin{number}_{name}"] = np.array(found).reshape(-1, 3, 4)
    lengths = [len(cluster.vertices) for cluster in clusters]
    join = lambda found, kind: np.concatenate([np.zeros(0, kind), *found])
    arrays[f"skin{number}_cluster"] = np.repeat(np.arange(len(clusters)), lengths)
    arrays[f"skin{number}_vertex"] = join([whole(c.vertices) for c in clusters], np.int64)
    arrays[f"skin{number}_weight"] = join([reals(c.weights) for c in clusters], np.float64)
    shares = [vertex.dq_weight for vertex in skin.vertices]
    arrays[f"skin{number}_dq"] = np.array(shares, np.float64)


def read_channel(mesh, channel, arrays, header):
    """Add the targets of one blend channel: several if it has in-between shapes."""
    for key, frame in enumerate(all_kept(channel.keyframes)):
        shape = kept(frame.shape)
        number = len(header["shapes"])
        offsets = vectors(shape.position_offsets, 3)
        scale = reals(shape.offset_weights)
        if len(scale):
            offsets = offsets * scale[:, None]
        arrays[f"shape{number}_vertex"] = whole(shape.offset_vertices)
        arrays[f"shape{number}_offset"] = offsets
        header["shapes"].append(
            {
                "mesh": mesh,
                "channel": channel.typed_id,
                "key": key,
                "name": channel.name or shape.name,
                "shape": shape.name,
                "target": frame.target_weight,
                "weight": frame.effective_weight,
                "last": key == len(channel.keyframes) - 1,
            }
        )


def read_takes(scene, request, arrays, header):
    """Add the node transforms and shape weights of every frame of the takes that are wanted."""
    rate = request["rate"] or header["frame_rate"]
    header["takes"], header["rate"] = [], rate
    if not 0 < rate < 1e5:
        raise FileProblem(f"its frame rate is {rate:g}")
    stacks = all_kept(scene.anim_stacks)
    header["take_names"] = [stack.name for stack in stacks]
    nodes = relevant_nodes(arrays, header)
    arrays["sampled_nodes"] = nodes
    budget = request["bytes"] // 96
    for stack in stacks:
        if request["takes"] and stack.name not in request["takes"]:
            continue
        begin, end, keys = time_range(stack)
        first, last = np.ceil(begin * rate - 1e-3), np.floor(end * rate + 1e-3)
        if not (np.isfinite([first, last]).all() and abs(first) < 2**31 and abs(last) < 2**31):
            raise FileProblem(f"the take {stack.name!r} lasts from {begin:g} s to {end:g} s")
        count = int(max(last - first, 0)) + 1
        shapes = len(header["shapes"])
        budget -= count * (len(nodes) + shapes // 12 + 1)  # a transform is twelve numbers
        if budget < 0:
            raise FileProblem(
                f"the take {stack.name!r} lasts from {begin:g} s to {end:g} s, {count} frames of "
                f"{len(nodes)} nodes and {shapes} shapes: too much to sample"
            )
        number = len(header["takes"])
        moved, weights = sample(scene, stack, (first + np.arange(count)) / rate, nodes, header)
        arrays[f"take{number}_node_to_world"] = moved
        arrays[f"take{number}_shape_weight"] = weights
        header["takes"].append({"name": stack.name, "start": int(first), "keys": keys})


def time_range(stack):
    """Return the first and last second of a take, and whether it animates anything.

    A take that states no range lasts from its first key to its last one.
    """
    values = [value for layer in all_kept(stack.layers) for value in all_kept(layer.anim_values)]
    curves = [curve for value in values for curve in all_kept(value.curves)]
    curves = [curve for curve in curves if curve is not None and len(kept(curve.keyframes))]
    begin, end = stack.time_begin, stack.time_end
    if curves and not end > begin:
        begin = min(curve.min_time for curve in curves)
        end = max(curve.max_time for curve in curves)
    return begin, end, bool(curves)


def relevant_nodes(arrays, header):
    """Return the nodes that can move a mesh or are bones, with their ancestors, as indices."""
    parents = arrays["node_parent"]
    wanted = np.array(arrays["node_is_bone"])
    for mesh in header["meshes"]:
        wanted[mesh["nodes"]] = True
    for number in range(header["skins"]):
        bones = arrays[f"skin{number}_bone"]
        wanted[bones[bones >= 0]] = True
    for node in range(len(parents) - 1, -1, -1):  # parents come before their children
        if wanted[node] and parents[node] >= 0:
            wanted[parents[node]] = True
    return np.flatnonzero(wanted)


def sample(scene, stack, times, nodes, header):
    """Return the transforms (F,N,3,4) of `nodes` and the shape weights (F,S) at `times`."""
    anim = kept(stack.anim)
    moved = np.empty((len(times), len(nodes), 3, 4))
    weights = np.empty((len(times), len(header["shapes"])))
    places = [(shape["channel"], shape["key"]) for shape in header["shapes"]]
    for frame, time in enumerate(times):
        now = kept(scene.evaluate(anim, float(time)))
        found = kept(now.nodes)
        for place, node in enumerate(nodes):
            moved[frame, place] = matrix(kept(found[int(node)]).node_to_world)
        channels = kept(now.blend_channels)
        for number, (channel, key) in enumerate(places):
            keys = kept(kept(channels[channel]).keyframes)
            weights[frame, number] = kept(keys[key]).effective_weight
        now.free()
    return moved, weights


def matrix(columns):
    """Return a matrix of ufbx, four columns, as (3,4)."""
    return np.array(columns).T


def vectors(values, width):
    """Return a list of vectors as an array (n, width)."""
    return np.array(memoryview(kept(values)), np.float64).reshape(-1, width)


def whole(values):
    """Return a list of whole numbers as an array (n,)."""
    return np.array(list(kept(values)), np.int64)


def reals(values):
    """Return a list of numbers as an array (n,)."""
    return np.array(list(kept(values)), np.float64)


if __name__ == "__main__":
    gc.disable()  # it counts references too: see `kept`
    code = main(json.loads(sys.argv[1]))
    sys.stderr.flush()
    # Nothing is released: see `kept`.
    os._exit(code)
