"""ufbx's own evaluation of an FBX file, run as a program: FILE TAKE SECONDS OUT.npy.

It writes the world positions of all meshes, in their order. See `understudy.io.fbx.worker` for why
nothing is released.
"""

import gc
import os
import sys

import numpy as np
import ufbx

gc.disable()
KEPT = []


def kept(value):
    KEPT.append(value)
    return value


if __name__ == "__main__":
    scene = kept(ufbx.load_file(sys.argv[1]))
    stack = next(s for s in (kept(s) for s in kept(scene.anim_stacks)) if s.name == sys.argv[2])
    now = kept(scene.evaluate(kept(stack.anim), float(sys.argv[3]), evaluate_skinning=True))
    found = []
    for mesh in (kept(mesh) for mesh in kept(now.meshes)):
        points = np.array(memoryview(kept(kept(mesh.skinned_position).values)))
        if mesh.skinned_is_local:
            world = np.array(kept(kept(mesh.instances)[0]).geometry_to_world)
            points = points @ world[:3] + world[3]
        found.append(points)
    np.save(sys.argv[4], np.concatenate(found))
    os._exit(0)
