"""glTF 2.0: `.gltf` and `.glb` files of rigged characters, read and written as a `Character`.

`reader` and `writer` are the two ends. The rest of the folder: `document` (the JSON, checked),
`container` (bytes of a file and its buffers), `accessors` (typed arrays in buffers), `scene` (the
node hierarchy), `motion` (animation), `surfaces` (meshes), `binding` (bones and skins), `assembly`
(parts and morph targets together), `own_extras` (what our writer notes), `glb_file` (the binary
file), `split_vertices` and `joint_motion` (parts of the writer).

The JSON and the arrays are handled here and not by pygltflib: that package leaves accessors,
sparse arrays and every check of sizes to its caller, and those are nearly all of a reader that may
be given hostile files.
"""

from understudy.io.gltf.reader import read_gltf
from understudy.io.gltf.writer import write_glb

__all__ = ["read_gltf", "write_glb"]
