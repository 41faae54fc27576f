"""One tree of the bones that deform a mesh, through the other bones of the rig.

In a control rig a deforming bone often hangs on a control, a mechanism or nothing, and constraints
carry it. Without a deforming bone as parent it follows the first that is found on the way up: the
constraints that carry a bone come before its parent, and a bone that is at the place of a deforming
one stands for it. What is left follows the root with the most bones.
"""

COPIES = ("COPY_TRANSFORMS", "ARMATURE", "CHILD_OF", "COPY_LOCATION")
SAME_PLACE = 0.02  # of its length: farthest joint of a bone that stands for another
SAME_WAY = 0.9  # cosine between them


def one_tree(armature, wanted):
    """(name, name of its parent or None) of the bones in `wanted`, each after its parent."""
    rig = Rig(armature, wanted)
    parents = rig.parents
    for name in rig.names:
        found = None if name in parents else rig.above(name)
        if found:
            parents[name] = found
    bones = dict.fromkeys(rig.names, 1)
    for name in rig.names:
        for other in rig.line_of(name):
            bones[other] += 1
    roots = [name for name in rig.names if name not in parents]
    main = max(roots, key=bones.get, default=None)
    parents |= {name: main for name in roots if name != main}
    children = {}
    for name in rig.names:
        children.setdefault(parents.get(name), []).append(name)
    result = [(name, None) for name in children.get(None, ())]
    for name, _ in result:  # grows while it is read
        result.extend((child, name) for child in children.get(name, ()))
    return result


class Rig:
    """The bones of an armature.

    names     those of the tree, in the order of the file, each after its parent in the file
    carriers  of each bone: those whose motion it has, the strongest first
    parents   those found so far, of bones of the tree
    """

    def __init__(self, armature, wanted):
        self.bones = armature.data.bones
        self.names = [bone.name for bone in depth_first(self.bones) if bone.name in wanted]
        self.carriers = {bone.name: carriers_of(bone) for bone in armature.pose.bones}
        direct = {name: self.bones[name].parent for name in self.names}
        self.parents = {
            name: bone.name for name, bone in direct.items() if bone and bone.name in wanted
        }

    def above(self, name):
        """The first bone of the tree on the way up from one, or None; none that follows it."""
        free = [other for other in self.names if name not in (other, *self.line_of(other))]
        waiting, seen = list(self.carriers[name]), {name}
        for carrier in waiting:  # grows while it is read
            if carrier in seen:
                continue
            seen.add(carrier)
            if carrier in free:
                return carrier
            bone = self.bones[carrier]
            for other in free:
                if same_place(self.bones[other], bone):
                    return other
            waiting.extend(self.carriers[carrier])
        return None

    def line_of(self, name):
        """The bones that one follows, the nearest first."""
        while name in self.parents:
            name = self.parents[name]
            yield name


def carriers_of(pose_bone):
    """The bones whose motion one has: by its last constraints first, then its parent."""
    armature, found = pose_bone.id_data, []
    for constraint in reversed(pose_bone.constraints):
        if constraint.mute or constraint.influence < 0.5 or constraint.type not in COPIES:
            continue
        targets = [constraint]
        if constraint.type == "ARMATURE":
            targets = sorted(constraint.targets, key=lambda target: -target.weight)
        found += [target.subtarget for target in targets if target.target is armature]
    parent = [pose_bone.parent.name] if pose_bone.parent else []
    return [name for name in found if name in armature.pose.bones] + parent


def same_place(bone, carrier):
    """Whether two bones start at one place and point the same way, at rest."""
    apart = (bone.head_local - carrier.head_local).length
    along = (bone.tail_local - bone.head_local).normalized()
    other = (carrier.tail_local - carrier.head_local).normalized()
    return apart <= SAME_PLACE * bone.length and along.dot(other) >= SAME_WAY


def depth_first(bones):
    """Bones, each before its children, in the order of the file."""
    stack = [bone for bone in reversed(bones) if bone.parent is None]
    while stack:
        bone = stack.pop()
        yield bone
        stack.extend(reversed(bone.children))
