"""Reading meshes and bones as Blender evaluates them."""

import numpy as np
from blend_file import GENERATIVE, armature_modifiers
from bone_tree import one_tree
from messages import Refused


class Shapes:
    """The meshes and the bones that deform them.

    scale  what coordinates are multiplied with
    bendy  joints between the segments of each bendy bone that are bones of their own
    """

    def __init__(self, meshes, armatures, scale, bendy):
        self.meshes, self.armatures, self.scale = meshes, armatures, scale
        self.topology = None
        self.find_bones(bendy)

    def find_bones(self, bendy):
        """Find the bones that deform the meshes, parents first."""
        wanted = {armature: set() for armature in self.armatures}
        for ob in self.meshes:
            used = used_groups(ob)
            for modifier in armature_modifiers(ob):
                bones = modifier.object.data.bones
                if modifier.use_bone_envelopes:
                    wanted[modifier.object] |= {b.name for b in bones if b.use_deform}
                wanted[modifier.object] |= {
                    name for name in used if name in bones and bones[name].use_deform
                }
            if ob.parent in wanted and ob.parent_type == "BONE":
                wanted[ob.parent].add(ob.parent_bone)
        names, parents, index, segments = [], [], [], []
        for armature in self.armatures:
            prefix = f"{armature.name}/" if len(self.armatures) > 1 else ""
            order = {bone.name: k for k, bone in enumerate(armature.data.bones)}
            at = {}
            for name, above in one_tree(armature, wanted[armature]):
                bone = armature.data.bones[name]
                at[name] = len(names)
                names.append(prefix + name)
                parents.append(-1 if above is None else at[above])
                index.append((self.armatures.index(armature), order[name]))
                segments.append(None)
                if bendy and bone.bbone_segments > 1:
                    for k in segment_joints(bone.bbone_segments, bendy):
                        names.append(f"{prefix}{name}.segment_{k}")
                        parents.append(at[name])
                        index.append(index[at[name]])
                        segments.append(k)
        self.segments = [
            (row, segment) for row, segment in enumerate(segments) if segment is not None
        ]
        self.bone_index = np.array(index, np.int64).reshape(-1, 2)
        self.bone_names, self.bone_parents = names, parents

    def read_bones(self, graph, rest=False):
        """world_from_bone (B,3,4) float64, as the armatures are evaluated now."""
        result = np.zeros((len(self.bone_index), 4, 4))
        poses = []
        for a, armature in enumerate(self.armatures):
            evaluated = armature.evaluated_get(graph)
            bones = evaluated.pose.bones
            flat = np.empty(16 * len(bones), np.float32)
            bones.foreach_get("matrix", flat)
            local = flat.reshape(-1, 4, 4).transpose(0, 2, 1).astype(np.float64)  # column-major
            rows = self.bone_index[:, 0] == a
            world = np.array(evaluated.matrix_world)
            result[rows] = world @ local[self.bone_index[rows, 1]]
            poses.append(bones)
        for row, segment in self.segments:
            a, k = self.bone_index[row]
            joint = poses[a][int(k)].bbone_segment_matrix(segment, rest=rest)
            result[row] = result[row] @ np.array(joint)
        result[:, :3, 3] *= self.scale
        return result[:, :3]

    def read_vertices(self, graph):
        """Vertices (V,3) float32 of all meshes in world space, as they are evaluated now."""
        parts = []
        sizes = []
        for ob in self.meshes:
            evaluated = ob.evaluated_get(graph)
            mesh = evaluated.data
            flat = np.empty(3 * len(mesh.vertices), np.float32)
            mesh.vertices.foreach_get("co", flat)
            world = np.array(evaluated.matrix_world)
            points = flat.reshape(-1, 3) @ world[:3, :3].T + world[:3, 3]
            parts.append((self.scale * points).astype(np.float32))
            sizes.append((len(mesh.vertices), len(mesh.polygons), len(mesh.loops)))
        if self.topology is None:
            self.topology = sizes
        elif sizes != self.topology:
            wrong = next(k for k, size in enumerate(sizes) if size != self.topology[k])
            ob = self.meshes[wrong]
            change = [m.name for m in ob.modifiers if m.type in GENERATIVE and m.show_viewport]
            raise Refused(
                f"{ob.name}: the number of vertices changes with the pose "
                f"({self.topology[wrong][0]}, then {sizes[wrong][0]}); disable the modifier that "
                f"changes it ({', '.join(change) or 'unknown'})"
            )
        return np.concatenate(parts)

    def surface(self, graph):
        """Polygons, UVs and materials of the evaluated meshes, as one mesh."""
        arrays = {name: [] for name in ("sizes", "corners", "uvs", "material", "counts")}
        materials = []
        with_uvs = all(
            ob.evaluated_get(graph).data.uv_layers.active is not None for ob in self.meshes
        )
        offset = 0
        for ob in self.meshes:
            mesh = ob.evaluated_get(graph).data
            polygons, corners = len(mesh.polygons), len(mesh.loops)
            sizes, slots = np.empty(polygons, np.int32), np.empty(polygons, np.int32)
            vertices = np.empty(corners, np.int32)
            mesh.polygons.foreach_get("loop_total", sizes)
            mesh.polygons.foreach_get("material_index", slots)
            mesh.loops.foreach_get("vertex_index", vertices)
            arrays["sizes"].append(sizes)
            arrays["corners"].append(vertices + offset)
            if with_uvs:
                uvs = np.empty(2 * corners, np.float32)
                mesh.uv_layers.active.data.foreach_get("uv", uvs)
                arrays["uvs"].append(uvs.reshape(-1, 2))
            names = [m.name if m is not None else ob.name for m in mesh.materials] or [ob.name]
            for name in names:
                if name not in materials:
                    materials.append(name)
            table = np.array([materials.index(name) for name in names], np.int32)
            arrays["material"].append(table[np.clip(slots, 0, len(table) - 1)])
            arrays["counts"].append(np.array([len(mesh.vertices)], np.int32))
            offset += len(mesh.vertices)
        joined = {name: np.concatenate(parts) for name, parts in arrays.items() if parts}
        return joined, materials

    def weights(self):
        """Bone weights of the vertices as arrays vertex, bone, weight, and how they are blended.

        None: something other than one armature modifier or a parent bone carries an object.
        """
        names = {}
        for row, (a, k) in enumerate(self.bone_index):  # a bone comes before its segments
            names.setdefault((int(a), self.armatures[a].data.bones[int(k)].name), row)
        found, preserve = [], []
        offset = 0
        for ob, (count, _, _) in zip(self.meshes, self.topology):
            modifiers = armature_modifiers(ob)
            if not modifiers and ob.parent in self.armatures and ob.parent_type == "BONE":
                bone = names.get((self.armatures.index(ob.parent), ob.parent_bone), -1)
                found += [(offset + k, bone, 1.0) for k in range(count) if bone >= 0]
            elif (
                len(modifiers) != 1
                or len(ob.data.vertices) != count
                or modifiers[0].use_bone_envelopes
            ):
                return None
            else:
                preserve.append(modifiers[0].use_deform_preserve_volume)
                a = self.armatures.index(modifiers[0].object)
                rows = [names.get((a, group.name), -1) for group in ob.vertex_groups]
                found += [
                    (offset + point.index, rows[group.group], group.weight)
                    for point in ob.data.vertices
                    for group in point.groups
                    if group.weight > 0 and rows[group.group] >= 0
                ]
            offset += count
        vertex, bone, weight = np.array(found, np.float64).reshape(-1, 3).T
        return {
            "weight_vertex": vertex.astype(np.int32),
            "weight_bone": bone.astype(np.int32),
            "weight_value": weight,
            "preserve_volume": np.array([bool(preserve) and all(preserve)]),
        }


def segment_joints(segments, wanted):
    """Which joints between the segments of a bendy bone are bones: at most `wanted`, evenly."""
    count = min(wanted, segments + 1)
    return sorted({round(k * segments / max(1, count - 1)) for k in range(count)})


def used_groups(ob):
    """Names of the vertex groups that have a weight above 0 somewhere."""
    names = [group.name for group in ob.vertex_groups]
    used = {g.group for v in ob.data.vertices for g in v.groups if g.weight > 0}
    return {names[k] for k in used if k < len(names)}
