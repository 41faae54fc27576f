"""Pose stores that were damaged on purpose: each is one clear error, soon."""

import contextlib
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from bending_rig import BendingRig

from understudy.io.pose_store import store
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system.errors import FileError

HUGE = 10**15
SECONDS = 60


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "s.zarr"
    sample_poses(BendingRig, SamplePlan(20), path, processes=1, block=8)
    return path


def put(value, *keys, of="zarr.json"):
    """Change one entry of a JSON file of the store."""

    def change(path: Path) -> None:
        content = json.loads((path / of).read_text())
        inner = content["attributes"] if of == "zarr.json" else content
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        (path / of).write_text(json.dumps(content))

    return change


def text(content: str, of="zarr.json"):
    """Replace a file."""
    return lambda path: (path / of).write_text(content)


def fifo(of: str):
    """Put a pipe in the place of a file: who reads it waits for ever."""

    def change(path: Path) -> None:
        (path / of).unlink()
        os.mkfifo(path / of)

    return change


def of_array(value, key, name="vertices"):
    return put(value, key, of=f"{name}/zarr.json")


def grid(tile, name="vertices"):
    return of_array({"name": "regular", "configuration": {"chunk_shape": tile}}, "chunk_grid", name)


def codec(name, **options):
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    return of_array([*codecs, {"name": name, "configuration": options}], "codecs")


MARKER = "vertices/done/0.json"
HOSTILE = {
    "count of -5": put(-5, "pose_count"),
    "count of 0": put(0, "pose_count"),
    "count of 1e15": put(HUGE, "pose_count"),
    "count of text": put("20", "pose_count"),
    "count of a fraction": put(20.5, "pose_count"),
    "count of true": put(True, "pose_count"),
    "count of 16": put(16, "pose_count"),
    "blocks of 0": put(0, "block"),
    "blocks of -1": put(-1, "block"),
    "blocks of 1": put(1, "block"),
    "blocks of null": put(None, "block"),
    "more poses, small blocks": lambda path: [put(HUGE, k)(path) for k in ("pose_count", "block")],
    "bytes of text": put("many", "bytes_per_pose"),
    "provenance of a list": put([], "belongs_to"),
    "a limit of stretch of NaN": put(float("nan"), "belongs_to", "stretch"),
    "a limit of stretch of text": put("0.1", "belongs_to", "stretch"),
    "a limit of stretch, no array": put(0.1, "belongs_to", "stretch"),
    "nouns of a list": put([1], "nouns"),
    "nouns of a number": put(7, "nouns"),
    "files of a number": put(7, "files"),
    "no mesh": put({}, "nouns"),
    "an unknown noun": put({}, "nouns", "dragon"),
    "a mesh of text": put("mesh", "nouns", "mesh"),
    "a mesh of one field": put({"words": {}, "arrays": [], "tables": {}}, "nouns", "mesh"),
    "arrays of numbers": put([1, 2], "nouns", "mesh", "arrays"),
    "arrays of text": put("vertices", "nouns", "mesh", "arrays"),
    "an array elsewhere": put(["../../vertices"], "nouns", "mesh", "arrays"),
    "tables of a list": put([], "nouns", "mesh", "tables"),
    "a table of numbers": put({"left": 3}, "nouns", "mesh", "tables", "parts"),
    "a table of a list": put({"left": [3]}, "nouns", "mesh", "tables", "parts"),
    "words of a list": put([], "nouns", "mesh", "words"),
    "an unknown word": put(1, "nouns", "mesh", "words", "__class__"),
    "a unit of a list": put([1], "nouns", "mesh", "words", "unit"),
    "names of a number": put(7, "nouns", "controls", "words", "names"),
    "names of lists": put([[1]] * 4, "nouns", "controls", "words", "names"),
    "no names": put([], "nouns", "controls", "words", "names"),
    "files of a list": put(["vertices"], "files"),
    "a file of text": put("1", "files", "mesh/vertices/c.0.0"),
    "a file of -1": put(-1, "files", "mesh/vertices/c.0.0"),
    "a file elsewhere": put(0, "files", "../secret"),
    "an absolute file": put(0, "files", "/dev/zero"),
    "a version of a list": put([1], "understudy_poses"),
    "attributes of a list": text('{"attributes": ["understudy_poses"]}'),
    "attributes of text": text('{"attributes": "understudy_poses"}'),
    "brackets without end": text("[" * 100_000),
    "tables without end": text('{"attributes":' * 100_000),
    "a number without end": text('{"attributes": {"understudy_poses": 1' + "0" * 10_000 + "}}"),
    "not UTF-8": lambda path: (path / "zarr.json").write_bytes(b"\xff\xfe{"),
    "a pipe": fifo("zarr.json"),
    "a marker of a list": text("[]", MARKER),
    "a marker of nothing": text("{}", MARKER),
    "a marker of text": text('{"vertices/c.0.0.0": "1"}', MARKER),
    "a marker elsewhere": text('{"../../x": 0}', MARKER),
    "a marker without end": text("[" * 100_000, MARKER),
    "a marker that is a pipe": fifo(MARKER),
    "vertices of another shape": of_array([20, 41, 3], "shape"),
    "vertices of 2 axes": of_array([20, 120], "shape"),
    "vertices without end": of_array([HUGE, HUGE, 3], "shape"),
    "vertices of -1": of_array([-1, 40, 3], "shape"),
    "vertices of text": of_array("float32", "shape"),
    "vertices of objects": of_array("object", "data_type"),
    "vertices of strings": of_array("string", "data_type"),
    "vertices of doubles": of_array("float64", "data_type"),
    "tiles without end": grid([7, HUGE, 3]),
    "tiles of 0": grid([0, 40, 3]),
    "tiles of text": grid("all"),
    "another codec": codec("gzip", level=5),
    "an unknown codec": codec("dragon"),
    "codecs of a number": of_array(5, "codecs"),
    "an array of nothing": text("null", "vertices/zarr.json"),
    "an array without end": text("[" * 100_000, "vertices/zarr.json"),
    "bones of another shape": of_array([20, 4, 3, 4], "shape", "world_from_bone"),
    "bones of tiles without end": grid([7, HUGE, 3, 4], "world_from_bone"),
    "controls without end": of_array([20, HUGE], "shape", "control_values"),
    "controls of other poses": of_array([10, 4], "shape", "control_values"),
    "a mesh without end": of_array([HUGE, 3], "shape", "mesh/vertices"),
    "a mesh of 600 MB": of_array([50_000_000, 3], "shape", "mesh/vertices"),
    "a mesh in tiles without end": grid([HUGE, 3], "mesh/vertices"),
    "a mesh of no vertices": of_array([0, 3], "shape", "mesh/vertices"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_store(whole, tmp_path, name):
    path = Path(shutil.copytree(whole, tmp_path / "s.zarr"))
    HOSTILE[name](path)
    # The sizes in the header are those of the changed files, as in a store made to do harm.
    header = path / "zarr.json"
    if header.is_file() and '"files": {' in header.read_text(errors="replace"):
        content = json.loads(header.read_text())
        files = content["attributes"]["files"]
        files |= {file: (path / file).stat().st_size for file in files if file.endswith(".json")}
        header.write_text(json.dumps(content))
    told: list[Exception] = []

    def use() -> None:
        try:
            for _ in store.open_poses(path).pose_blocks():
                pass
        except Exception as problem:
            told.append(problem)
        with contextlib.suppress(FileError):  # a changed marker is no harm: its poses are redone
            sample_poses(BendingRig, SamplePlan(20), path, processes=1, block=8)

    user = threading.Thread(target=use, daemon=True)  # one that waits for ever is left behind
    user.start()
    user.join(SECONDS)
    assert not user.is_alive(), "it is read without end"
    assert len(told) == 1, told
    assert isinstance(told[0], FileError), told
    assert len(str(told[0])) < 2000
