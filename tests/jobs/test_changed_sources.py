"""A source that was edited is never answered with what was learned from it before."""

import json
import os
import shutil
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bending_rig import BendingRig
from character_builders import hero
from command_line import run
from sequence_builders import bending_strip

from understudy import Mesh, Poses
from understudy.io.registry import ReadOptions, write_character
from understudy.io.sequences import write_obj
from understudy.io.vertex_cache import VertexCache
from understudy.io.vertex_caches import write_pc2
from understudy.jobs import learning, source
from understudy.jobs.fitting import live_rig
from understudy.jobs.folder import JobFolder
from understudy.jobs.learning import sample_rig
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system.errors import FileError, InputError, UnderstudyError

VERTICES, FACES, REST = bending_strip()
PLAN = SamplePlan(20)


def strip(edit: float) -> np.ndarray:
    """Frames of which one vertex is elsewhere in one."""
    vertices = VERTICES.copy()
    vertices[3, 5, 1] += edit
    return vertices


class Moved(BendingRig):
    """The same mesh, bones and controls, which it moves otherwise."""

    by = 2.0

    def evaluate(self, values):
        poses = super().evaluate(values)
        poses.vertices.flags.writeable = True
        poses.vertices[:, 0, 1] += self.by
        return poses


def frames(folder: Path, edit: float):
    mesh = Mesh.from_faces(REST, FACES)
    (folder / "frames").mkdir(exist_ok=True)
    for number, vertices in enumerate(strip(edit)):
        write_obj(folder / f"frames/strip_{number:03}.obj", mesh, vertices)
    return folder / "frames"


def pattern(folder: Path, edit: float):
    return f"{frames(folder, edit)}/strip_*.obj"


def npz(folder: Path, edit: float):
    np.savez(folder / "strip.npz", vertices=strip(edit), faces=FACES, rest=REST)
    return folder / "strip.npz"


def rest_elsewhere(folder: Path, edit: float):
    rest = REST.copy()
    rest[4, 2] += edit
    np.savez(folder / "strip.npz", vertices=strip(0), faces=FACES, rest=rest)
    return folder / "strip.npz"


def pose_store(folder: Path, edit: float):
    rig = Moved if edit else BendingRig
    sample_poses(rig, PLAN, folder / "s.zarr", processes=1, overwrite=True)
    return folder / "s.zarr"


def in_memory(folder: Path, edit: float):
    poses = BendingRig().evaluate(PLAN.values(BendingRig()))
    vertices = poses.vertices.copy()
    vertices[7, 7, 0] += edit
    return Poses(poses.mesh, vertices, name="mine")


def glb(folder: Path, edit: float):
    character = hero()
    weights = character.clips[0].shape_weights
    weights.flags.writeable = True
    weights[2, 1] += edit
    write_character(character, folder / "hero.glb")
    return folder / "hero.glb"


def gltf(folder: Path, edit: float):
    """The numbers are in a file of their own, which alone is changed."""
    whole = glb(folder, 0).read_bytes()
    (length,) = struct.unpack_from("<I", whole, 12)
    content = json.loads(whole[20 : 20 + length])
    content["buffers"][0]["uri"] = "hero.bin"
    (folder / "hero.gltf").write_text(json.dumps(content))
    data = bytearray(whole[28 + length :][: content["buffers"][0]["byteLength"]])
    weights = [c for c in content["animations"][0]["channels"] if c["target"]["path"] == "weights"]
    output = content["animations"][0]["samplers"][weights[0]["sampler"]]["output"]
    start = content["bufferViews"][content["accessors"][output]["bufferView"]].get("byteOffset", 0)
    struct.pack_into("<f", data, start, 0.25 + edit)
    (folder / "hero.bin").write_bytes(data)
    return folder / "hero.gltf"


def maya(folder: Path, edit: float):
    """The .xml says where the numbers are."""
    kind = '<cacheType Type="OneFile" Format="mcc"/><cacheTimePerFrame TimePerFrame="250"/>'
    channel = '<channel0 ChannelName="body" ChannelInterpretation="positions"/>'
    text = f"<Autodesk_Cache_File>{kind}<Channels>{channel}</Channels></Autodesk_Cache_File>"
    (folder / "strip.xml").write_text(text)
    chunk = lambda tag, data: struct.pack(">4sI", tag, len(data)) + data + b"\0" * (-len(data) % 4)
    number = lambda tag, value: chunk(tag, struct.pack(">i", value))
    group = lambda kind, data: struct.pack(">4sI", b"FOR4", 4 + len(data)) + kind + data
    head = chunk(b"VRSN", b"0.1\0") + number(b"STIM", 0) + number(b"ETIM", 0)
    data = group(b"CACH", head)
    for k, vertices in enumerate(strip(edit)):
        body = number(b"TIME", 250 * k) + chunk(b"CHNM", b"body\0")
        body += number(b"SIZE", len(vertices))
        data += group(b"MYCH", body + chunk(b"FVCA", vertices.astype(">f4").tobytes()))
    (folder / "strip.mc").write_bytes(data)
    np.savez(folder / "rest.npz", vertices=REST[None], faces=FACES, rest=REST)
    return folder / "strip.xml", ReadOptions(rest=folder / "rest.npz")


def pair(folder: Path, edit: float):
    character = hero()
    positions = character.evaluate_clip(character.clips[0])
    positions[3, 2, 1] += edit
    write_pc2(VertexCache(positions, np.arange(len(positions))), folder / "hero.pc2")
    if not edit:
        write_character(character.with_clips(character.clips[:1]), folder / "hero.glb")
    return folder / "hero.glb", ReadOptions(cache=folder / "hero.pc2", frame_offset=0)


def usd(folder: Path, edit: float):
    """The points are in a layer that the file names."""
    points = lambda frame: ", ".join(str(tuple(map(float, point))) for point in frame)
    samples = ", ".join(f"{k}: [{points(frame)}]" for k, frame in enumerate(strip(edit)[:4]))
    (folder / "points.usda").write_text(
        f'#usda 1.0\nover "Strip"\n{{\npoint3f[] points.timeSamples = {{ {samples} }}\n}}\n'
    )
    triangles = ", ".join(str(int(v)) for face in FACES for v in face)
    (folder / "strip.usda").write_text(
        "#usda 1.0\n( subLayers = [@./points.usda@]\n startTimeCode = 0\n endTimeCode = 3 )\n"
        f'def Mesh "Strip"\n{{\nint[] faceVertexCounts = {[len(face) for face in FACES]}\n'
        f"int[] faceVertexIndices = [{triangles}]\n}}\n"
    )
    return folder / "strip.usda"


RIG = """
from bending_rig import BendingRig
import helper

class Lid(BendingRig):
    name = "lid"  # {}
"""


def rig_file(folder: Path, edit: float):
    (folder / "helper.py").write_text("from helper_of_helper import VALUE\n")
    (folder / "helper_of_helper.py").write_text("VALUE = 1\n")
    (folder / "lid.py").write_text(RIG.format(edit))
    return f"{folder / 'lid.py'}:Lid"


def module_of_rig(folder: Path, edit: float):
    """A module that a module imports that the rig imports."""
    place = rig_file(folder, 0)
    (folder / "helper_of_helper.py").write_text(f"VALUE = {1 + edit}\n")
    return place


def rig_in_memory(folder: Path, edit: float):
    rig = BendingRig()
    vertices = rig.mesh.vertices.copy()
    vertices[0, 0] += edit
    rig.mesh = replace(rig.mesh, vertices=vertices)
    return rig


MAKERS = [
    frames,
    pattern,
    npz,
    rest_elsewhere,
    pose_store,
    in_memory,
    glb,
    gltf,
    maya,
    pair,
    usd,
    rig_file,
    module_of_rig,
    rig_in_memory,
]


def facts_of(made):
    place, options = made if isinstance(made, tuple) else (made, None)
    if isinstance(place, str) and ".py" in place:
        for file in Path(place.rpartition(":")[0]).parent.glob("*.py"):
            os.utime(file, (1, 1))  # the time of a file says nothing
    return source.read(place, options).facts


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_an_edited_source_is_another_one(tmp_path, make):
    if make is usd:
        pytest.importorskip("pxr")
    first = facts_of(make(tmp_path, 0.0))
    assert facts_of(make(tmp_path, 0.0)) == first  # written again, with other times
    folder = JobFolder(tmp_path / "out", "hero", first)
    folder.step("fit", [], lambda: None)
    second = facts_of(make(tmp_path, 0.125))
    with pytest.raises(InputError, match=r"the source has changed since .*--overwrite"):
        JobFolder(tmp_path / "out", "hero", second)
    assert str(tmp_path) not in json.dumps(first)


def test_every_module_of_a_package_belongs_to_its_rig(tmp_path, monkeypatch):
    """Also those that it imports by their place in the package, and several of one name."""
    monkeypatch.syspath_prepend(tmp_path)
    inner = tmp_path / "trust_studio" / "parts"
    inner.mkdir(parents=True)
    files = [folder / name for folder in (inner.parent, inner) for name in ("__init__.py", "a.py")]
    for file in files:
        file.write_text("")
    imports = "from . import a\nfrom trust_studio.parts import a as b\n"
    text = f"{imports}from bending_rig import BendingRig\nclass Lid(BendingRig): pass\n"
    (inner.parent / "rigs.py").write_text(text)
    seen = [facts_of("trust_studio.rigs:Lid")]
    for file in files:
        file.write_text("# edited")
        seen.append(facts_of("trust_studio.rigs:Lid"))
    assert len({json.dumps(facts) for facts in seen}) == 5
    assert list(seen[0]["content"])[-1] == "trust_studio/rigs.py"


def test_a_rig_is_what_its_files_say_now(tmp_path, monkeypatch):
    """Python takes a compiled file for that of a source of the same second and size."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    rig, helper = tmp_path / "trust_rig.py", tmp_path / "trust_helper.py"

    def found(own, other):
        rig.write_text(
            "from bending_rig import BendingRig\nfrom trust_helper import VALUE\n"
            f"class Lid(BendingRig): name = f'{own}{{VALUE}}'\n"
        )
        helper.write_text(f"VALUE = {other}\n")
        for file in (rig, helper):
            os.utime(file, (1, 1))
        sys.modules.pop("trust_helper", None)  # as in another process
        return source.read(f"{rig}:Lid").rig.name

    assert [found(1, 1), found(2, 1), found(2, 2)] == ["11", "21", "22"]


def test_animations_of_a_blender_file_belong_to_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "load_asked", lambda *_: BendingRig())
    blend, walk = tmp_path / "hero.blend", tmp_path / "walk.blend"
    seen = []
    for text in ("a", "b"):
        blend.write_text("rig")
        walk.write_text(text)
        options = source.BlenderOptions(animations=(str(walk),))
        seen.append(source.read(blend, blender=options).facts["content"])
    assert seen[0] != seen[1]


def test_facts_are_of_what_was_read(tmp_path, monkeypatch):
    """A file that is replaced while it is read."""
    place, real = npz(tmp_path, 0.0), source.read_poses
    before = source.read(place).facts

    def replaced(*arguments, **options):
        npz(tmp_path, 0.5)
        return real(*arguments, **options)

    monkeypatch.setattr(source, "read_poses", replaced)
    assert source.read(place).facts != before


def test_a_cut_output_is_made_again(tmp_path):
    made = []

    def work(folder, name, text="whole"):
        file = folder.path / name
        folder.step(name, [file], lambda: made.append(name) or (file.write_text(text) and None))

    for name in ("cut", "changed", "gone", "kept"):
        work(JobFolder(tmp_path / "out", "hero", {}), name)
    (tmp_path / "out/cut").write_text("who")
    (tmp_path / "out/changed").write_text("whale")
    (tmp_path / "out/gone").unlink()
    made.clear()
    for name in ("cut", "changed", "gone", "kept"):
        work(JobFolder(tmp_path / "out", "hero", {}), name)
    assert made == ["cut", "changed", "gone"]
    assert (tmp_path / "out/cut").read_text() == "whole"


def test_a_rig_that_moves_otherwise_is_not_learned_from_the_poses_of_another(tmp_path):
    """In memory: nothing but what it does tells it from the other."""
    sampled = lambda rig, **options: sample_rig(
        source.read(rig),
        JobFolder(tmp_path / "out", "hero", {"same": 1}, **options),
        PLAN,
        (),
        processes=1,
    )
    sampled(BendingRig())
    sampled(BendingRig())
    with pytest.raises(FileError, match=r"moves vertex 0 by 2\.0 cm elsewhere .*--overwrite"):
        sampled(Moved())
    # Without the store, the poses that the finished steps were made from tell.
    shutil.rmtree(tmp_path / "out/poses.zarr")
    with pytest.raises(InputError, match=r"what the rig does has changed since .vertices.* --over"):
        sampled(Moved())
    lesson = sampled(Moved(), overwrite=True)
    assert np.array_equal(lesson.poses.read_poses(0, 1)[0, 0], _first(Moved()))


def _first(rig):
    return rig.evaluate(PLAN.values(rig)[:1]).vertices[0, 0]


def test_a_cut_pose_store_of_a_job_is_completed(tmp_path, monkeypatch):
    folder = lambda: JobFolder(tmp_path / "out", "hero", {"same": 1})
    work = lambda: sample_rig(source.read(BendingRig()), folder(), PLAN, (), processes=1)
    before = work().poses.read_poses(0, 20)
    tile = tmp_path / "out/poses.zarr/vertices/c.0.0.0"
    tile.write_bytes(tile.read_bytes()[:100])
    assert np.array_equal(work().poses.read_poses(0, 20), before)
    monkeypatch.setattr(learning, "sample_poses", None)
    work()


@pytest.mark.slow
def test_the_command_refuses_and_offers_to_start_anew(tmp_path, capsys):
    command = ("learn", frames(tmp_path, 0.0), "-o", tmp_path / "out", "--set", "bones=2")
    assert run(capsys, *command)[0] == 0
    first = (tmp_path / "out/frames.understudy").read_bytes()
    frames(tmp_path, 0.125)
    code, _, told = run(capsys, *command)
    told = " ".join(told.split())
    assert code == 2
    assert "the source has changed since (vertices). Use another folder, or --overwrite" in told
    assert (tmp_path / "out/frames.understudy").read_bytes() == first
    assert run(capsys, *command, "--overwrite")[0] == 0
    assert (tmp_path / "out/frames.understudy").read_bytes() != first


def test_a_fit_refuses_the_rig_that_its_poses_do_not_come_from(tmp_path):
    """The store is complete, and the rig by its name is loaded again to be asked."""
    poses = sample_poses(BendingRig, PLAN, tmp_path / "s.zarr", processes=1)
    made_by = {"rig": "bending"}
    assert live_rig(BendingRig(), made_by, poses) is not None
    with pytest.raises(UnderstudyError, match=r"moves vertex 0 by 2\.0 cm elsewhere than in 's'"):
        live_rig(Moved(), made_by, poses)
