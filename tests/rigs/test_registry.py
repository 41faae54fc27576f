"""A rig by name: built in, `package.module:Class`, `path/to/rig.py:Class`; every wrong name."""

import sys
import textwrap

import numpy as np
import pytest

from understudy import InputError
from understudy.io import pose_store
from understudy.rigs import AnimatedRig, NamedRig, Rig, load_rig, registry, rig_names
from understudy.rigs.base import animation_curves, animation_names, name_of
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.registry import portable_name
from understudy.rigs.sampling import SamplePlan

# The least that a rig needs: no name, no animations; a module beside it, and no bones.
MINIMAL = """
    import numpy as np
    from {beside} import HEIGHT
    from understudy import ControlSpec, Mesh, Poses

    class Lid:
        skeleton = None

        def __init__(self, size=1.0):
            self.mesh = Mesh.from_faces(size * np.eye(3), [[0, 1, 2]])
            self.controls = ControlSpec(("open",), [0.0], [1.0])

        def evaluate(self, values):
            values = self.controls.check(values)
            moved = self.mesh.vertices + HEIGHT * values[:, :, None]
            return Poses(self.mesh, moved, control_spec=self.controls, controls=values)

    class NeedsAFile(Lid):
        def __init__(self, path):
            super().__init__()

    class NoControls:
        mesh, skeleton = Lid().mesh, None

    class ListOfPoints(Lid):
        def __init__(self):
            super().__init__()
            self.mesh = [[0, 0, 0]]

    def make():
        return Lid(2.0)

    number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with lid.py and a module that it imports, whose name no other test uses."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # loading a file appends its folder
    beside = f"beside_{abs(hash(tmp_path))}"
    (tmp_path / f"{beside}.py").write_text("HEIGHT = 2.0\n")
    (tmp_path / "lid.py").write_text(textwrap.dedent(MINIMAL.format(beside=beside)))
    return tmp_path


def test_the_built_in_rigs_are_known():
    assert {"human", "face", "tube"} <= set(rig_names())
    assert isinstance(load_rig("tube"), (Rig, NamedRig, AnimatedRig))


@pytest.mark.parametrize("name", ["human", "face"])
def test_a_character_that_is_not_installed_says_what_to_install(name, monkeypatch):
    monkeypatch.setattr(registry, "plugins", lambda group: {})
    assert registry.is_rig(name)
    with pytest.raises(InputError, match=r"understudy-characters.*pip install \./characters"):
        load_rig(name)


def test_a_class_in_a_file_needs_no_name_and_no_animations(folder, monkeypatch):
    monkeypatch.chdir(folder)
    rig = load_rig("lid.py:Lid")
    assert isinstance(rig, Rig)
    assert not isinstance(rig, AnimatedRig)
    assert name_of(rig) == "Lid"
    assert animation_names(rig) == ()
    with pytest.raises(InputError, match="'Lid' has no animations"):
        animation_curves(rig, "walk")
    assert rig.evaluate([[1.0]]).vertices.max() == 3


def test_two_rigs_each_with_a_module_of_the_same_name_beside_them(tmp_path, monkeypatch):
    """The second moved by the first's rules: `import` gives the module that it has already."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    files = []
    for height in (2.0, 5.0):
        home = tmp_path / str(height)
        (home / "parts_of_it").mkdir(parents=True)
        (home / "parts_of_it" / "size.py").write_text(f"HEIGHT = {height}\n")
        (home / "height_of_it.py").write_text("from parts_of_it.size import HEIGHT\n")
        (home / "lid.py").write_text(textwrap.dedent(MINIMAL.format(beside="height_of_it")))
        files.append(home / "lid.py")
    for file, height in [*zip(files, (2, 5)), *zip(files, (2, 5))]:
        assert load_rig(f"{file}:Lid").evaluate([[1.0]]).vertices.max() == 1 + height
    assert sys.path.count(str(files[0].parent)) == 1


def test_a_function_that_builds_a_rig(folder):
    assert load_rig(f"{folder}/lid.py:make").mesh.vertices.max() == 2


def test_a_class_of_a_module():
    assert name_of(load_rig("understudy.rigs.tube:TubeRig")) == "tube"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tub", "unknown rig 'tub'; did you mean 'tube'.*path/to/rig.py:Class"),
        ("lid.py", "say which class of the file is the rig, as in lid.py:Lid"),
        ("led.py:Lid", "there is no file led.py"),
        ("lid.py:Led", r"has no class 'Led' \(it has Lid, NeedsAFile, NoControls"),
        ("lid.py:NeedsAFile", "missing a required argument: 'path'.*give the arguments defaults"),
        ("lid.py:NoControls", "NoControls has no controls, no evaluate; a rig needs `mesh`"),
        ("lid.py:ListOfPoints", "mesh is a list, expected an understudy.Mesh"),
        ("lid.py:number", "names a int, expected a class"),
        ("nowhere.rigs:Lid", "there is no module 'nowhere'; give the path"),
        ("understudy.rigs.tube:Tub", "has no class 'Tub'.*TubeRig"),
    ],
)
def test_a_wrong_name_is_one_clear_sentence(folder, monkeypatch, text, message):
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=message):
        load_rig(text)


def test_an_error_inside_the_rig_file_keeps_its_type(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "broken.py").write_text("import not_a_module_anywhere\nclass Lid: pass\n")
    with pytest.raises(ModuleNotFoundError, match="not_a_module_anywhere"):
        load_rig("broken.py:Lid")


def test_worker_processes_load_the_file_and_the_store_records_its_name_alone(folder):
    text = f"{folder}/lid.py:Lid"
    poses = sample_poses(text, SamplePlan(80), folder / "s.zarr", processes=2, block=16)
    np.testing.assert_allclose(
        poses.read_poses(0, 80), load_rig(text).evaluate(poses.controls).vertices
    )
    assert pose_store.provenance(folder / "s.zarr")["rig"] == "lid.py:Lid"
    assert portable_name(text) == "lid.py:Lid"
    assert portable_name("C:\\rigs\\lid.py:Lid") == "lid.py:Lid"
    assert portable_name("studio.rigs:Hero") == "studio.rigs:Hero"


def test_an_interrupted_sample_of_a_file_rig_is_resumed(folder, monkeypatch):
    monkeypatch.chdir(folder)
    whole = sample_poses("lid.py:Lid", SamplePlan(60), "whole.zarr", block=16)
    sample_poses("lid.py:Lid", SamplePlan(60), "s.zarr", block=16)
    (folder / "s.zarr" / "vertices" / "done" / "2.json").unlink()
    resumed = sample_poses(f"{folder}/lid.py:Lid", SamplePlan(60), "s.zarr")
    np.testing.assert_array_equal(resumed.read_poses(0, 60), whole.read_poses(0, 60))
