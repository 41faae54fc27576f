"""The jobs from a script: the same files as the commands, resumable, nothing done twice."""

import json
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from sequence_builders import bending_strip

from understudy import Deformer, jobs
from understudy.jobs import compressing, learning, measuring
from understudy.jobs.fitting import Fit
from understudy.methods.posing_fitting import fit as posing
from understudy.rigs import load_rig
from understudy.rigs.sampling import SamplePlan, gaussian
from understudy.system.errors import InputError, UnderstudyError
from understudy.system.progress import Progress, Task

SMALL = {"epochs": 8, "regions": 2, "hidden": (16,)}
TEXTS = ("--set", "epochs=8", "--set", "regions=2", "--set", "hidden=16")
RIG = """
from understudy.rigs.tube import TubeRig


class Hose(TubeRig):
    name = "hose"
"""


@pytest.fixture
def recorded():
    rig = load_rig("tube")
    return rig.evaluate(gaussian(rig.controls, 120, 0))


@pytest.fixture
def strip_file(tmp_path):
    vertices, faces, rest = bending_strip()
    np.savez(tmp_path / "bend.npz", vertices=vertices, faces=faces, rest=rest)
    return tmp_path / "bend.npz"


class Counted:
    """How often a function is called."""

    def __init__(self, monkeypatch, owner, name):
        real = getattr(owner, name)
        self.count = 0

        def counted(*arguments, **options):
            self.count += 1
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)


class StopAt(Progress):
    """Sends this process what Ctrl-C sends when a task is begun."""

    def __init__(self, label):
        self.label = label

    @contextmanager
    def task(self, label, total):
        if label.startswith(self.label):
            signal.raise_signal(signal.SIGINT)
        yield Task()


@pytest.mark.slow
def test_learn_gives_the_files_of_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = jobs.learn("tube", "script", options=SMALL, plan=SamplePlan(150), processes=1)
    command = ("learn", "tube", "-o", "command", "--count", "150", "--processes", "1", *TEXTS)
    code, out, err = run(capsys, *command)
    assert code == 0, err
    assert made.file == Path("script/tube.understudy")
    for name in ("tube.understudy", "lbs.understudy", "corrected_skin.understudy"):
        assert Path("script", name).read_bytes() == Path("command", name).read_bytes(), name
    assert [note for note in made.notes if note not in out] == []
    means = [row.figures["mean"] for row in made.measured.rows]
    rows = json.loads(Path("command/errors.json").read_text())["rows"]
    assert [row["mean"] for row in rows] == pytest.approx(means)
    assert made.export("onnx").sizes[0].startswith("script/tube.onnx: ")
    assert len(repr(made)) < 600
    assert "\n" not in repr(made.measured.rows)


@pytest.mark.slow
def test_an_interrupted_call_continues(tmp_path, recorded):
    with pytest.raises(KeyboardInterrupt):
        jobs.learn(recorded, tmp_path / "out", options=SMALL, progress=StopAt("measuring"))
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").glob("*.understudy")}
    assert len(before) == 2
    assert list(tmp_path.glob("**/*checkpoint*")) == []
    made = jobs.learn(recorded, tmp_path / "out", options=SMALL)
    for name, content in before.items():
        assert (tmp_path / "out" / name).read_bytes() == content
    assert made.deformer.training["poses"] == 102


@pytest.mark.slow
def test_the_joints_to_pose_with_are_looked_for_once(tmp_path, recorded, monkeypatch):
    looked = Counted(monkeypatch, posing, "fit_posing")
    jobs.learn(recorded, tmp_path / "out", options=SMALL)
    assert looked.count == 1
    assert Deformer.load(tmp_path / "out/lbs.understudy").posing is not None


@pytest.mark.slow
def test_a_rig_in_another_folder_stays_live(tmp_path, monkeypatch):
    """Its name is stored without its path, and the rig was looked for by that name."""
    (tmp_path / "rigs").mkdir()
    (tmp_path / "rigs/hose.py").write_text(RIG)
    monkeypatch.chdir(tmp_path)
    lessons = []
    real = Fit.run
    monkeypatch.setattr(Fit, "run", lambda fit, *a, **k: lessons.append(a[2]) or real(fit, *a, **k))
    jobs.learn("rigs/hose.py:Hose", "out", options=SMALL, plan=SamplePlan(60), processes=1)
    assert [type(rig).__name__ for rig in lessons] == ["Hose", "Hose"]


def test_a_sequence_is_read_fitted_and_measured_once(tmp_path, strip_file, monkeypatch):
    read = Counted(monkeypatch, jobs.source, "read_poses")
    again = Counted(monkeypatch, compressing, "read_poses")
    fitted = Counted(monkeypatch, compressing.Fit, "of")
    measured = [
        Counted(monkeypatch, compressing, "measure_deformers"),
        Counted(monkeypatch, measuring, "measure_deformers"),
    ]
    made = jobs.learn(strip_file, tmp_path / "out", options={"bones": 2})
    assert (read.count, again.count, fitted.count) == (1, 0, 1)
    assert [one.count for one in measured] == [1, 0]
    assert (tmp_path / "out/report.html").exists()
    assert made.measured.rows[0].figures["bytes"] == made.file.stat().st_size
    assert {"e", "mean"} <= made.deformer.training.keys()


def test_the_file_of_an_engine_is_fitted_once(tmp_path, strip_file, monkeypatch):
    fits = []
    for name in ("temporal", "ssdr"):
        kind = jobs.fitting.method_type(name)
        real = kind.fit
        monkeypatch.setattr(
            kind, "fit", lambda self, *a, real=real, **k: fits.append(self) or real(self, *a, **k)
        )
    done = jobs.compress(strip_file, tmp_path / "bend.glb", bones=2)
    assert [(fit.name, fit.config.skeleton, fit.config.influences) for fit in fits] == [
        ("temporal", True, 4)
    ]
    assert done.character.bone_count == 2
    assert done.bytes_after == (tmp_path / "bend.glb").stat().st_size


def test_compress_gives_the_file_of_the_command(tmp_path, strip_file, capsys):
    with pytest.raises(KeyboardInterrupt):
        jobs.compress(
            strip_file, tmp_path / "script.understudy", bones=2, progress=StopAt("measuring")
        )
    assert list(tmp_path.iterdir()) == [strip_file]
    done = jobs.compress(strip_file, tmp_path / "script.understudy", bones=2)
    assert len(repr(done)) < 600
    command = ("compress", strip_file, "-o", tmp_path / "command.understudy", "--bones", 2)
    code, _, err = run(capsys, *command)
    assert code == 0, err
    assert done.file.read_bytes() == (tmp_path / "command.understudy").read_bytes()


@pytest.mark.slow
def test_compare_gives_the_files_of_the_command(tmp_path, recorded, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        jobs.compare("tube", "script", methods=["lbs"], plan=SamplePlan(60),
                     progress=StopAt("measuring"))  # fmt: skip
    kept = Path("script/lbs.understudy").stat().st_mtime_ns
    done = jobs.compare("tube", "script", methods=["lbs"], plan=SamplePlan(60))
    assert done.files["lbs"].stat().st_mtime_ns == kept
    code, _, err = run(capsys, "compare", "tube", "-o", "command", "--methods", "lbs",
                       "--count", 60)  # fmt: skip
    assert code == 0, err
    assert done.files["lbs"].read_bytes() == Path("command/lbs.understudy").read_bytes()


def test_training_reports_numbers(recorded):
    seen = []

    class Kept(Progress):
        @contextmanager
        def task(self, label, total):
            task = Task()
            task.figures = lambda **figures: seen.append(figures)
            yield task

    kind = jobs.fitting.method_type("fdda")
    kind(kind.Config(epochs=3, hidden=(8,))).fit(recorded, progress=Kept())
    assert [figures["epoch"] for figures in seen] == [1, 2, 3]
    assert seen[-1]["training_loss"] < seen[0]["training_loss"]


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ("none.npz", {}, "none.npz"),
        ("tube", {"method": "fddda"}, "did you mean 'fdda'"),
        ("tube", {"method": "fdda", "options": {"epoch": 3}}, "did you mean 'epochs'"),
        ("tube", {"options": {"epoch": 3}}, "did you mean 'epochs'"),
        (type(load_rig("tube")), {}, "is a class; give a rig that was built, TubeRig()"),
        (np.zeros((3, 4)), {}, "has no mesh"),
        ([], {}, "nothing to read"),
        (["tube", "human"], {}, "a rig is learned alone"),
        ("tubee", {}, "did you mean 'tube'"),
        ("rig.py", {}, "say which class of the file is the rig"),
        ("tube", {"progress": print}, "progress: expected Progress, got the function print"),
        ("tube", {"options": "epochs=3"}, r"expected Mapping\[str, Any\] | None, got 'epochs=3'"),
        ("tube", {"option": {}}, "unknown argument of learn 'option'; did you mean 'options'"),
        ("tube", {"parts": {"hand": 1}}, "parts: expected PartOptions | None, got {'hand': 1}"),
        ("tube", {"parts": jobs.PartOptions(("hand",))}, "part 'hand': the mesh has no named"),
        ("tube", {"held_out": "wave"}, r"held_out: expected Sequence\[str\], got 'wave'"),
        ("tube", {"held_out": ["waves"]}, "did you mean 'wave'"),
        ("tube", {"count": 10.5}, "count: expected int, got 10.5"),
        ("tube", {"method": "ssdr"}, "ssdr finds bones of its own"),
    ],
)
def test_what_cannot_be_learned_is_said_before_any_work(
    source, options, says, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(learning, "sample_poses", None)
    with pytest.raises(UnderstudyError, match=says):
        jobs.learn(source, "out", **options)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: jobs.compress(load_rig("tube"), "x.understudy"), "sequence: .*got a TubeRig"),
        (lambda: jobs.compress(np.zeros((3, 4, 3)), "x.understudy"), "got an array of shape"),
        (lambda: jobs.compress("a.npz", "x.understudy", bones="8"), "bones: expected int | None"),
        (lambda: jobs.compare("tube", "out", methods="fdda"), "methods: expected Sequence"),
        (lambda: jobs.compare("tube", "out", methods=["temporal"]), "temporal finds bones"),
        (lambda: jobs.compare("tube", "out", held_out=["waves"]), "did you mean 'wave'"),
        (lambda: jobs.read(np.zeros(3)), "has no mesh"),
        (lambda: jobs.learning_curve("fdda", "tube", "out"), "no recorded poses to hold out"),
    ],
)
def test_wrong_calls_of_other_jobs_are_refused_before_any_work(call, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=says):
        call()
    assert list(tmp_path.iterdir()) == []


def test_a_stand_in_with_bones_of_its_own_is_not_measured_on_a_rig(tmp_path, recorded):
    kind = jobs.fitting.method_type("ssdr")
    kind(kind.Config(bones=2, iterations=1)).fit(recorded).save(tmp_path / "found.understudy")
    with pytest.raises(InputError, match="has 2 bones, the rig 'tube' has 3"):
        jobs.evaluate([tmp_path / "found.understudy"], rig="tube")


def test_a_rig_in_memory_is_learned(tmp_path):
    made = jobs.learn(load_rig("tube"), tmp_path, method="lbs", plan=SamplePlan(40))
    assert made.file == tmp_path / "tube.understudy"
    assert made.measured.trial.title == "tube"
