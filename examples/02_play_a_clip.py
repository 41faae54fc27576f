"""Play a clip with the compiled runtime: frame by frame as an engine does, then all at once.

`play_clip.cpp` is the same in C++.

    python examples/02_play_a_clip.py
"""

import time

import numpy as np

from understudy.methods import method_type
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian

rig = load_rig("tube")
deformer = method_type("lbs")().fit(rig.evaluate(gaussian(rig.controls, 100, seed=0)))
clip = rig.evaluate(gaussian(rig.controls, 60, seed=1))

# Frame by frame, into an existing array: the call allocates nothing. You choose the threads.
vertices = np.empty((deformer.mesh.vertex_count, 3), np.float32)
started = time.perf_counter()
for bones in clip.world_from_bone:
    deformer.deform(bones, threads=1, out=vertices)
each = (time.perf_counter() - started) / clip.pose_count

# A crowd or a whole clip: each weight is read once for many poses. Normals are optional.
started = time.perf_counter()
frames, normals = deformer.deform(clip.world_from_bone, normals=True)
together = (time.perf_counter() - started) / clip.pose_count

error = np.linalg.norm(frames - clip.vertices, axis=2).mean()
print(
    f"{clip.pose_count} frames of {deformer.mesh.vertex_count} vertices: {1e3 * each:.3f} ms per "
    f"frame one by one, {1e3 * together:.3f} ms together"
)
print(f"mean error {error:.4f} {deformer.mesh.unit}; normals {normals.shape}")
