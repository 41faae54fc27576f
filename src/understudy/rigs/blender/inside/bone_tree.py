"""One tree of the bones that deform a mesh, through the other bones of the rig.

In a control rig a deforming bone often hangs on a control, a mechanism or nothing, and constraints
carry it. Without a deforming bone as parent it follows the first that is found on the way up: the
constraints that carry a bone come before its parent, and a bone that a deforming one copies, or at
whose place it is, stands for it. What is left follows the root with the most bones.
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
    carriers  of each bone (constraint or "PARENT", bone): whose motion it has, the strongest first
    copied    bone -> those of the tree that copy its transform
    parents   those found so far, of bones of the tree
    """

    def __init__(self, armature, wanted):
        self.bones = armature.data.bones
        self.names = [bone.name for bone in depth_first(self.bones) if bone.name in wanted]
        self.carriers = {bone.name: carriers_of(bone) for bone in armature.pose.bones}
        self.copied, self.parents = {}, {}
        for name in self.names:
            parent = self.bones[name].parent
            if parent is not None and parent.name in wanted:
                self.parents[name] = parent.name
            for way, carrier in self.carriers[name]:
                if way == "COPY_TRANSFORMS":
                    self.copied.setdefault(carrier, []).append(name)

    def above(self, name):
        """The first bone of the tree on the way up from one, or None; none that follows it."""
        free = {other for other in self.names if name not in (other, *self.line_of(other))}
        seen = {name}
        waiting = [carrier for _, carrier in self.carriers[name]]
        for carrier in waiting:  # grows while it is read
            if carrier in seen:
                continue
            seen.add(carrier)
            found = [other for other in self.standing_for(carrier) if other in free]
            if found:
                return found[0]
            waiting.extend(other for _, other in self.carriers[carrier])
        return None

    def standing_for(self, carrier):
        """The bones of the tree that a bone of the rig stands for: first itself, then copies."""
        bone = self.bones[carrier]
        same = [name for name in self.names if same_place(self.bones[name], bone)]
        return [carrier, *self.copied.get(carrier, ()), *same]

    def line_of(self, name):
        """The bones that one follows, the nearest first."""
        while name in self.parents:
            name = self.parents[name]
            yield name


def carriers_of(pose_bone):
    """(constraint or "PARENT", bone) of the bones whose motion one has, the strongest first."""
    armature, found = pose_bone.id_data, []
    for constraint in reversed(pose_bone.constraints):
        if constraint.mute or constraint.influence < 0.5 or constraint.type not in COPIES:
            continue
        targets = [constraint]
        if constraint.type == "ARMATURE":
            targets = sorted(constraint.targets, key=lambda target: -target.weight)
        found += [
            (constraint.type, target.subtarget)
            for target in targets
            if target.target is armature and target.subtarget in armature.pose.bones
        ]
    return found + ([("PARENT", pose_bone.parent.name)] if pose_bone.parent else [])


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
