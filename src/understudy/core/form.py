"""The written form of a deformer: every array and header entry, declared once.

The reader and the writer of `.understudy` files, 16-bit files, the shares of bytes, the checks of
the C++ reader and the tables of docs/file-format.md come from `ENTRIES`. After a change of it
`runtime/tools/write_form.py` writes the last two again.

A name is PART.FIELD: a field of the noun that `Deformer` has as PART, or of the deformer itself.
Nouns in lists (nets, bases, clips, drivers, handles) are arrays with one item, or one run of items,
for each. A new field takes the next format version as its `since`: a file states the largest
version that its entries need, so that files without the field are still read by older readers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# The letters of axes. Small letters stand for a length of the array's own.
AXES = {
    "V": "vertices",
    "F": "polygons",
    "N": "corners of all polygons",
    "O": "named parts of the mesh",
    "B": "bones",
    "C": "controls",
    "K": "influences per vertex",
    "M": "virtual bones",
    "J": "bones per virtual bone",
    "X": "features",
    "G": "networks",
    "L": "layers of all networks",
    "A": "bases",
    "P": "coefficients",
    "R": "groups of coefficients that fade together",
    "U": "units: bones and controls that are compared with the training poses",
    "E": "features per unit",
    "S": "clips",
    "D": "degrees of freedom",
    "H": "handles",
    "Q": "drivers",
}
# What the bytes of an array are shown as, by the start of its name.
GROUPS = {
    "mesh": "mesh",
    "mean": "mesh",
    "held_out_error": "held-out error",
    "features": "networks",
    "nets": "networks",
    "clip": "clips",
}
ALWAYS = ("", "mesh", "features")  # parts that every file has
TEXTS = ("text", "texts", "object")  # entries of the header; everything else is an array


@dataclass(frozen=True)
class Entry:
    """One array or header entry.

    name     its name in the file; # stands for a number
    type     of an array float32, float64, int32 or bool; text, texts (a list) or object (JSON)
    axes     letters of `AXES`, or lengths; of texts too
    meaning  for the documentation
    narrow   how a 16-bit file stores it: "half" (16-bit floats), "grid" or "one grid" (16-bit whole
             numbers on a grid, one per column or one for all), "whole" (the narrowest type)
    needed   whether a file that has anything of its part must have it
    since    the format version that added it
    """

    name: str
    type: str
    axes: tuple[str | int, ...]
    meaning: str
    narrow: str = ""
    needed: bool = True
    since: int = 1

    @property
    def part(self) -> str:
        """What its name starts with, before the first dot; empty: nothing."""
        return self.name.partition(".")[0] if "." in self.name else ""

    @property
    def field(self) -> str:
        """What its name ends in."""
        return self.name.rpartition(".")[2]

    @property
    def group(self) -> str:
        """What its bytes are counted as."""
        start = self.name.partition(".")[0]
        return GROUPS.get(start, start)

    @property
    def in_header(self) -> bool:
        """Whether it stands in the header."""
        return self.type in TEXTS


def _optional(
    name: str, kind: str, axes: tuple[str | int, ...], meaning: str, narrow: str = ""
) -> Entry:
    return Entry(name, kind, axes, meaning, narrow, needed=False)


_WHOLE = "whole"
ENTRIES = (
    Entry("method", "text", (), "name of the method that made it"),
    Entry("storage", "text", (), '"float32" or "float16"'),
    Entry("training", "object", (), "errors on the training poses by name"),
    Entry("provenance", "object", (), "what it was made from; free of rules"),
    Entry("mesh.vertices", "float32", ("V", 3), "positions at rest", "grid"),
    Entry("mesh.polygon_sizes", "int32", ("F",), "corners of each polygon, 3 or more", _WHOLE),
    Entry("mesh.polygon_vertices", "int32", ("N",), "vertex of each corner", _WHOLE),
    _optional("mesh.corner_uvs", "float32", ("N", 2), "texture coordinates", "grid"),
    _optional("mesh.corner_normals", "float32", ("N", 3), "normals", "grid"),
    _optional("mesh.polygon_material", "int32", ("F",), "index of its material", _WHOLE),
    Entry("mesh.materials", "texts", ("m",), "names, distinct"),
    Entry("mesh.parts", "texts", ("O",), "names of sets of vertices"),
    Entry("mesh.part_sizes", "int32", ("O",), "vertices of each part", _WHOLE),
    Entry("mesh.part_vertices", "int32", ("n",), "vertices, part after part", _WHOLE),
    Entry("mesh.unit", "text", (), '"m", "cm", "mm", "in", "ft" or "unitless"'),
    Entry("mesh.up_axis", "text", (), '"Y", "Z" or "unknown"'),
    Entry("mesh.handedness", "text", (), '"right" or "left"'),
    _optional("mean", "float32", ("V", 3), "displacement at zero coefficients", "grid"),
    Entry("mask", "float32", ("V",), "0 to 1, scales correctives", needed=False, since=2),
    _optional("held_out_error", "float32", ("V",), "mean distance from poses that were kept out"),
    Entry("skeleton.names", "texts", ("B",), "names, distinct and not empty"),
    Entry("skeleton.parents", "int32", ("B",), "a bone before it, or -1: a root", _WHOLE),
    Entry("skeleton.world_from_bone", "float64", ("B", 3, 4), "transforms at rest, invertible"),
    Entry("controls.names", "texts", ("C",), "names, distinct and not empty"),
    Entry("controls.units", "texts", ("C",), 'for people: "deg", ""'),
    Entry("controls.low", "float64", ("C",), "the range that was learned: from"),
    Entry("controls.high", "float64", ("C",), "to"),
    Entry("controls.rest", "float64", ("C",), "values of the rest pose"),
    Entry("controls.limit_low", "float64", ("C",), "what the rig accepts: from, at most low"),
    Entry("controls.limit_high", "float64", ("C",), "to, at least high"),
    Entry("controls.numeric", "bool", ("C",), "whether it acts other than through bones"),
    Entry("skin.blend", "text", (), '"linear" or "dual_quaternion"'),
    Entry("skin.bone_index", "int32", ("V", "K"), "bones, or virtual bones if any", _WHOLE),
    Entry("skin.weight", "float32", ("V", "K"), "rows sum to one; may be negative", "one grid"),
    _optional("skin.virtual_index", "int32", ("M", "J"), "bones of virtual bones", _WHOLE),
    _optional("skin.virtual_weight", "float32", ("M", "J"), "weights of these; rows sum to one"),
    Entry("features.columns", "int32", ("X",), "which of the 12 B + C numbers of a pose", _WHOLE),
    Entry("features.low", "float32", ("X",), "the clamp: from; may be -infinity"),
    Entry("features.high", "float32", ("X",), "to; may be infinity"),
    Entry("nets.activations", "texts", ("G",), '"tanh", "relu" or "gelu"'),
    Entry("nets.layer_counts", "int32", ("G",), "layers of each network, 1 or more", _WHOLE),
    Entry("nets.input_counts", "int32", ("G",), "features that each network reads", _WHOLE),
    Entry("nets.output_counts", "int32", ("L",), "outputs of each layer, net after net", _WHOLE),
    Entry("nets.inputs", "int32", ("n",), "features that are read, net after net", _WHOLE),
    Entry("nets.outputs", "int32", ("n",), "coefficients that are added to", _WHOLE),
    Entry("nets.weights", "float32", ("n",), "(out, in) of each layer, row by row", "half"),
    Entry("nets.first_biases", "float32", ("n",), "of the first layer of each network"),
    Entry("nets.biases", "float32", ("n",), "of all later layers, net after net", "half"),
    Entry("bases.vertex_counts", "int32", ("A",), "vertices n of each basis", _WHOLE),
    Entry("bases.component_counts", "int32", ("A",), "components p of each basis", _WHOLE),
    Entry("bases.shared", "bool", ("A",), "whether one row serves x, y and z of a vertex"),
    Entry("bases.vertices", "int32", ("n",), "distinct within a basis", _WHOLE),
    Entry("bases.coefficients", "int32", ("n",), "p of each basis; shared: (3, p)", _WHOLE),
    Entry("bases.matrices", "float32", ("n",), "(3n, p) of each basis; shared: (n, p)", "half"),
    Entry("bounds.fade_end", "float64", (), "distance from which correctives are zero, above 1"),
    Entry("bounds.low", "float32", ("P",), "range of each coefficient: from"),
    Entry("bounds.high", "float32", ("P",), "to"),
    Entry("bounds.group", "int32", ("P",), "group of each coefficient; -1: it never fades"),
    Entry("bounds.units", "int32", ("R", "m"), "units of each group"),
    Entry("bounds.features", "int32", ("U", "E"), "features of each unit"),
    Entry("bounds.scale", "float32", ("U", "E"), "their scale, not negative"),
    Entry("bounds.centres", "float32", ("U", "m", "E"), "clusters of training poses of each unit"),
    Entry("clips.names", "texts", ("S",), "names, distinct and not empty"),
    Entry("clips.frame_rates", "float64", ("S",), "frames per second; 0: not known"),
    Entry("clips.start_frames", "int32", ("S",), "number of the first frame"),
    _optional("clip.#.world_from_bone", "float64", ("f", "B", 3, 4), "transforms of every frame"),
    _optional("clip.#.keys", "bool", ("f", "B"), "instead: whether a bone has a key in a frame"),
    _optional("clip.#.values", "float32", ("n", 12), "transforms of all keys", "grid"),
    Entry("posing.parents", "int32", ("B",), "-1: a root; not always parents first"),
    Entry("posing.axes", "float32", ("B", 3), "rotation vectors of the joints' axes"),
    Entry("posing.reference", "float32", ("B", 3), "rotation vectors of the joints at rest"),
    Entry("posing.order", "int32", ("B",), "0 to 5: xyz, xzy, yxz, yzx, zxy, zyx"),
    Entry("posing.parts", "texts", ("n",), "names of parts of the body, distinct"),
    Entry("posing.bone_part", "int32", ("B",), "part of each bone"),
    Entry("posing.mirror_axis", "int32", (), "axis that changes its sign; -1: not symmetric"),
    Entry("posing.mirror_bone", "int32", ("B",), "bone of the other side"),
    Entry("posing.mirror_control", "int32", ("C",), "control of the other side"),
    Entry("posing.dof_names", "texts", ("D",), "names, distinct and not empty"),
    Entry("posing.dof_bone", "int32", ("D",), "bone that it moves; -1: it is a control"),
    Entry("posing.dof_channel", "int32", ("D",), "channel of the bone, or control"),
    Entry("posing.dof_low", "float64", ("D",), "limits: from, radians or the mesh's unit"),
    Entry("posing.dof_high", "float64", ("D",), "to, above low"),
    Entry("posing.dof_rest", "float64", ("D",), "value at rest, within the limits"),
    Entry("posing.driver_bone", "int32", ("Q",), "bone of each driver"),
    Entry("posing.driver_degree", "int32", ("Q",), "degree of its polynomial, 0 to 7"),
    Entry("posing.driver_input_counts", "int32", ("Q",), "dofs that it reads, at most 16"),
    Entry("posing.driver_channel_counts", "int32", ("Q",), "channels that it adds to"),
    Entry("posing.driver_inputs", "int32", ("n",), "dofs, driver after driver"),
    Entry("posing.driver_channels", "int32", ("n",), "channels, distinct within a driver"),
    Entry("posing.driver_coefficients", "float32", ("n",), "(terms, channels) of each driver"),
    Entry("posing.handle_names", "texts", ("H",), "names, distinct and not empty"),
    Entry("posing.handle_roles", "texts", ("H",), '"hand", "foot", "head", "pelvis" or "end"'),
    Entry("posing.handle_sides", "texts", ("H",), '"left", "right" or "middle"'),
    Entry("posing.handle_bones", "int32", ("H",), "bone of each handle"),
    Entry("posing.errors", "object", (), "how exactly it poses: numbers by name"),
    Entry("posing.notes", "texts", ("n",), "for people"),
)
FORMAT_VERSION = max(entry.since for entry in ENTRIES)
_KNOWN = {entry.name: entry for entry in ENTRIES}


def entry_of(name: str) -> Entry | None:
    """Return the entry of a name; None: there is none.

    >>> entry_of("clip.12.values").axes
    ('n', 12)
    """
    known = re.sub(r"\.(0|[1-9][0-9]{0,8})\.", ".#.", name, count=1)
    return None if "#" in name else _KNOWN.get(known)


def entries_of(part: str) -> list[Entry]:
    """Return the entries whose names start with `part` and a dot; of "": those without a dot."""
    return [entry for entry in ENTRIES if entry.part == part]
