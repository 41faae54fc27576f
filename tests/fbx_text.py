"""FBX files as text, of objects and connections."""

_HEAD = "; FBX 7.4.0 project file\nFBXHeaderExtension: {\n FBXVersion: 7400\n}\n"


def fbx(objects, connections):
    """A file: objects are texts of the functions below, connections are pairs (from, to)."""
    links = "".join(f'C: "OO",{child},{parent}\n' for child, parent in connections)
    text = f"{_HEAD}Objects: {{\n{''.join(objects)}}}\nConnections: {{\n{links}}}\n"
    return text.encode()


def triangle(number):
    """A mesh."""
    points, corners = "*9 { a: 0,0,0,1,0,0,0,1,0 }", "*3 { a: 0,1,-3 }"
    fields = f"Vertices: {points}\n PolygonVertexIndex: {corners}"
    return f'Geometry: {number}, "Geometry::", "Mesh" {{\n {fields}\n}}\n'


def node(number, kind="Mesh"):
    """A node; `kind` is "Null" if it shows nothing."""
    return f'Model: {number}, "Model::", "{kind}" {{\n}}\n'


def deformer(number, kind):
    """A "Skin", "BlendShape", "BlendShapeChannel" or "VertexCacheDeformer"."""
    weights = "FullWeights: *1 { a: 100 }\n" if kind == "BlendShapeChannel" else ""
    return f'Deformer: {number}, "Deformer::", "{kind}" {{\n{weights}}}\n'


def shape(number, name):
    """A blend shape of one vertex."""
    fields = "Indexes: *1 { a: 0 }\n Vertices: *3 { a: 1,0,0 }"
    return f'Geometry: {number}, "Geometry::{name}", "Shape" {{\n {fields}\n}}\n'


def cache(number, name):
    """A point cache in a file."""
    kinds = ("CacheFileName", "CacheAbsoluteFileName")
    lines = "".join(f'P: "{kind}", "KString", "XRefUrl", "", "{name}"\n' for kind in kinds)
    return f'Cache: {number}, "Cache::", "" {{\n Properties70: {{\n{lines} }}\n}}\n'
