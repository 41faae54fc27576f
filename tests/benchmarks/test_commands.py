"""The commands that the benchmarks add to the command line."""

import pytest
from command_line import run


@pytest.mark.parametrize("command", ["bench", "data", "train"])
def test_help_teaches(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"Example:\n    understudy {command} " in out
    assert ("--threads" in out) == (command != "data")
    assert f"  {command} " in run(capsys, "--help")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "bodi"), "unknown benchmark 'bodi'; did you mean 'body'"),
        (("bench", "body", "--quick", "--full"), "give one of them"),
        (("benhc", "body"), "unknown command 'benhc'; did you mean 'bench'"),
    ],
)
def test_a_wrong_turn_is_one_clear_line(capsys, arguments, message):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_train_temporal_writes_a_network_and_keeps_one_that_is_there(capsys, tmp_path):
    ask = (
        "train",
        "temporal",
        "-o",
        tmp_path,
        "--generated",
        "--networks",
        "cnn",
        "--kinds",
        "humans",
        "--epochs",
        1,
        "--device",
        "cpu",
    )
    code, text, errors = run(capsys, *ask)
    assert code == 0, errors
    assert "humans cnn: 60 animations, 1 epochs, loss" in text
    written = (tmp_path / "humans_cnn.safetensors").read_bytes()
    assert "exists, kept" in run(capsys, *ask)[1]
    assert (tmp_path / "humans_cnn.safetensors").read_bytes() == written
    code, _, errors = run(capsys, "train", "temporl", "-o", tmp_path)
    assert code == 2
    assert "did you mean 'temporal'" in errors
    code, _, errors = run(capsys, "train", "temporal", "-o", tmp_path, "--data", tmp_path)
    assert code == 2
    assert "holds no characters" in errors
