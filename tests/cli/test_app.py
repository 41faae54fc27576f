"""The command line as a user meets it: the whole path, and every wrong turn."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from command_line import run

from understudy import Deformer
from understudy.cli import app as cli
from understudy.evaluation.metric_catalogue import size_text


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A sample of the tube and two stand-ins for it, made by the command line."""
    folder = tmp_path_factory.mktemp("work")
    cli.main(
        ["sample", "tube", "-o", str(folder / "tube.zarr"), "--count", "200", "--processes", "1"]
    )
    cli.main(
        [
            "fit",
            "fdda",
            str(folder / "tube.zarr"),
            "-o",
            str(folder / "fdda.understudy"),
            "--set",
            "epochs=20",
            "--set",
            "hidden=16,16",
        ]
    )
    cli.main(["fit", "lbs", str(folder / "tube.zarr"), "-o", str(folder / "lbs.understudy")])
    return folder


@pytest.mark.slow
def test_evaluate_prints_a_table_and_writes_json_and_a_report(work, capsys, tmp_path):
    code, out, _ = run(
        capsys,
        "evaluate",
        work / "fdda.understudy",
        "--rig",
        "tube",
        "--json",
        tmp_path / "a.json",
        "--report",
        tmp_path / "a.html",
    )
    assert code == 0
    assert "tube/wave" in out
    assert "cm" in out
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert {row["case"] for row in rows} == {"tube/wave", "tube/whip"}
    assert all(np.isfinite(row["ee"]) for row in rows)
    assert "<html" in (tmp_path / "a.html").read_text()


def test_compare_shows_both_and_one_animation_alone(work, capsys):
    code, out, _ = run(
        capsys,
        "compare",
        work / "fdda.understudy",
        work / "lbs.understudy",
        "--rig",
        "tube",
        "--animation",
        "wave",
    )
    assert code == 0
    assert "fdda" in out
    assert "lbs" in out
    assert "whip" not in out


def test_info_methods_ranges_and_version(work, capsys):
    shown = run(capsys, "info", work / "fdda.understudy")[1]
    assert "networks" in shown
    assert "degrees of freedom" in shown
    listed = run(capsys, "methods")[1]
    assert listed.index("two_layer") < listed.index("Baselines") < listed.index("k_largest")
    options = run(capsys, "methods", "fdda")[1]
    assert re.search(r"tau \(float; default 1.2\)\n +[a-z]", options)
    assert "seed (int; default 0)" in options
    assert "did you mean 'fdda'" in run(capsys, "methods", "fda")[2]
    assert '"bend_1" = [-50.0, 50.0]' in run(capsys, "controls", "tube")[1]
    assert re.match(r"\d+\.\d+", run(capsys, "--version")[1])


def test_info_and_compare_show_the_real_size_of_a_16_bit_file(work, capsys, tmp_path):
    read = {}
    for dtype in ("float32", "float16"):
        file = tmp_path / f"{dtype}.understudy"
        Deformer.load(work / "fdda.understudy").save(file, dtype)
        shown = run(capsys, "info", file)[1]
        assert f"{size_text(file.stat().st_size)}, {dtype}, 104 vertices" in shown
        read[dtype] = float(re.search(r"([\d.]+) kB read", shown)[1])
    assert read["float16"] < 0.7 * read["float32"]
    files = [tmp_path / f"{dtype}.understudy" for dtype in read]
    code, _, err = run(capsys, "compare", *files, "--json", tmp_path / "a.json")
    assert code == 0, err
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert {row["method"]: row["bytes"] for row in rows} == {
        file.stem: file.stat().st_size for file in files
    }
    assert rows[1]["bytes_read"] < 0.7 * rows[0]["bytes_read"]


@pytest.mark.parametrize(
    "command", [command.__name__.replace("_", "-") for command, _ in cli.COMMANDS]
)
def test_help_teaches(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"Example:\n  {'  '}understudy {command}" in out


def test_the_help_of_modes_is_complete(capsys):
    text = " ".join(run(capsys, "sample", "--help")[1].split())
    assert "one table [NAME] for each, with `weight = 3`" in text
    assert "a table [NAME.ranges] with lines `control = [low, high]`" in text


def test_the_same_fit_gives_the_same_bytes(work, capsys, tmp_path):
    arguments = (
        "fit",
        "fdda",
        work / "tube.zarr",
        "-o",
        tmp_path / "again.understudy",
        "--set",
        "epochs=20",
        "--set",
        "hidden=16,16",
    )
    assert run(capsys, *arguments)[0] == 0
    assert (tmp_path / "again.understudy").read_bytes() == (work / "fdda.understudy").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["again.understudy"]


def wrong_turns(work, tmp):
    (tmp / "text.understudy").write_text("hello, this is not a deformer")
    whole = (work / "fdda.understudy").read_bytes()
    (tmp / "cut.understudy").write_bytes(whole[: len(whole) // 2])
    store, fdda = work / "tube.zarr", work / "fdda.understudy"
    return [
        (("evaluate", tmp / "none.understudy"), "none.understudy: no such file"),
        (("evaluate", tmp / "text.understudy"), "not an understudy file"),
        (("evaluate", tmp / "cut.understudy"), "truncated"),
        (("evaluate", fdda, "--rig", "human"), "104 vertices.*13380"),
        (("evaluate", fdda, "--rig", "tub"), "unknown rig 'tub'; did you mean 'tube'"),
        (("evaluate", fdda, "--rig", "tube", "--animation", "wav"), "did you mean 'wave'"),
        (
            ("fit", "fda", store, "-o", tmp / "x.understudy"),
            "unknown method 'fda'; did you mean 'fdda'",
        ),
        (("fit", "fdda", tmp / "none.zarr", "-o", tmp / "x.understudy"), "none.zarr"),
        (
            ("fit", "fdda", store, "-o", tmp / "x.understudy", "--set", "epoch=3"),
            "did you mean 'epochs'",
        ),
        (
            ("fit", "fdda", store, "-o", tmp / "x.understudy", "--set", "epochs"),
            "expected name=value",
        ),
        (
            ("fit", "fdda", store, "-o", tmp / "x.understudy", "--set", "epochs=many"),
            "expected int, got 'many'",
        ),
        (
            ("fit", "fdda", store, "-o", tmp / "text.understudy" / "x", "--set", "epochs=1"),
            "cannot be written",
        ),
        (("sample", "tube", "-o", store, "--count", "300"), "count"),
        (("sample", "tube", "-o", tmp / "y.zarr", "--around", "wve"), "did you mean 'wave'"),
        (
            ("sample", "tube", "-o", tmp / "y.zarr", "--ranges", tmp / "none.toml"),
            "no such ranges file",
        ),
        (
            ("fit", store, "fdda", "-o", tmp / "x.understudy"),
            r"the method comes first, then the source: understudy fit fdda .*tube\.zarr",
        ),
        (("fit", store, store, "-o", tmp / "x.understudy"), "the first argument is the method"),
        (("fit", "fdda", store, "-o", tmp / "x.glb"), r"write a .understudy file, then"),
        (
            ("fit", "fdda", store, "-o", tmp / "x.understudy", "--set", "tau=1", "--set", "tau=2"),
            "given twice",
        ),
        (("sample", "tube", "-o", tmp / "y"), r"ends in .zarr; use y.zarr"),
        (("export", fdda, tmp / "x.xyz"), r"ends in '.xyz'; use .*.understudy, .onnx"),
    ]


@pytest.mark.parametrize("number", range(21))
def test_every_wrong_turn_is_one_clear_line_and_leaves_nothing(work, capsys, tmp_path, number):
    arguments, message = wrong_turns(work, tmp_path)[number]
    before = sorted(tmp_path.iterdir())
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert re.search(message, err), err
    assert "Traceback" not in err
    assert sorted(p for p in tmp_path.iterdir() if not p.name.startswith(".")) == before


@pytest.mark.slow
def test_ctrl_c_keeps_the_training_and_the_same_command_ends_with_the_same_bytes(work, tmp_path):
    options = ["--set", "hidden=256,256", "--set", "epochs=500"]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads wait for each other on a busy machine
    command = lambda out: [
        sys.executable,
        "-m",
        "understudy",
        "fit",
        "fdda",
        str(work / "tube.zarr"),
        "-o",
        str(out),
        *options,
    ]
    out, straight = tmp_path / "slow.understudy", tmp_path / "straight.understudy"
    checkpoint = tmp_path / "slow.understudy.checkpoint"
    for seconds in (0.5, 2, 8, 32):  # on a busy machine the first epoch may end late
        process = subprocess.Popen(command(out), stderr=subprocess.PIPE, text=True, env=alone)
        for line in process.stderr:
            if line.startswith("training"):  # the line that says it starts
                break
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "run the same command again" in err
        assert not out.exists()
        if checkpoint.exists():
            break
    assert checkpoint.exists()
    for file in (out, straight):
        done = subprocess.run(command(file), capture_output=True, text=True, timeout=300, env=alone)
        assert done.returncode == 0, done.stderr
    assert not checkpoint.exists()
    assert out.read_bytes() == straight.read_bytes()


def test_ctrl_c_inside_an_import_ends_with_the_same_exit_code(tmp_path):
    (tmp_path / "interrupted.py").write_text(
        "from understudy.cli import app\n"
        "app.app = lambda *_, **__: exec('raise KeyboardInterrupt')\n"
        "app.main()\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 130, done.stderr
    assert "run the same command again" in done.stderr


def test_an_option_out_of_range_is_one_clear_line(work, capsys, tmp_path):
    for setting, message in (
        ("seed=-1", "seed"),
        ("hidden=-4", "hidden"),
        ("device=gpu", "device"),
        ("input_error=nan", "input_error"),
    ):
        code, _, err = run(
            capsys,
            "fit",
            "fdda",
            work / "tube.zarr",
            "-o",
            tmp_path / "x.understudy",
            "--set",
            setting,
        )
        assert code == 2
        assert message in err
    assert list(tmp_path.iterdir()) == []
