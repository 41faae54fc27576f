"""USD files that are damaged, made to harm, or refer to other files: a clear error in seconds."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from character_builders import hero
from pxr import Usd
from usd_scenes import SCENE

from understudy.io.usd import read_usd, write_usd
from understudy.system.errors import FileError

TRIANGLE = """
def Mesh "M"
{
    int[] faceVertexCounts = [3]
    int[] faceVertexIndices = [0, 1, 2]
    point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
}
"""


REST = SCENE.split("\n", 1)[1]  # without the first line


def usda(text):
    return f"#usda 1.0\n{text}"


def errors(folder, *arguments):
    """What the reader says of the files in a folder, by name."""
    script = Path(__file__).parents[2] / "usd_fuzz.py"
    command = [sys.executable, str(script), str(folder), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


OTHER_FILES = [
    ('( subLayers = [@http://example.com/a.usda@] )\ndef "A" {}', "'http://example.com"),
    ('def "A" ( references = @/etc/passwd.usda@ ) {}', "only layers in its own folder"),
    ('def "A" ( payload = @../outside.usda@ ) {}', r"refers to '\.\./outside\.usda'"),
    ('def "A" ( references = @sub/../../outside.usda@ ) {}', "only layers in its own folder"),
    ('def "A" ( references = @link.usda@ ) {}', "only layers in its own folder"),
    ('def "A" ( references = @model.abc@ ) {}', "only layers in its own folder"),
    ('def "A" ( references = @./missing.usda@ ) {}', "which does not exist"),
    (
        'def "A" ( variantSet "v" = { "x" ( references = @/b.usda@ ) {} } ) {}',
        "cannot be read as USD|only layers",
    ),
    (
        'def "A" ( clips = { dictionary d = { asset[] assetPaths = [@../outside.usda@] } } ) {}',
        r"refers to '\.\./outside",
    ),
    (
        'def "A" ( clips = { dictionary d = { string templateAssetPath = "/abc/c.##.usd" } } ) {}',
        "only layers in its own folder",
    ),
]


def test_other_files_are_opened_only_from_its_own_folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "outside.usda").write_text(usda(TRIANGLE))
    for number, (text, _) in enumerate(OTHER_FILES):
        (folder / f"{number}.usda").write_text(usda(text))
    (folder / "link.usda").symlink_to(tmp_path / "outside.usda")
    said = errors(folder)
    for number, (_, message) in enumerate(OTHER_FILES):
        assert re.search(message, said[f"{number}.usda"]), said[f"{number}.usda"]


def test_files_of_its_own_folder_are_composed(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "m.usda").write_text(usda('( defaultPrim = "M" )' + TRIANGLE))
    (tmp_path / "a.usda").write_text(usda('def "A" ( payload = @./sub/m.usda@ ) {}'))
    assert list(read_usd(tmp_path / "a.usda").mesh.parts) == ["A"]


WRONG_SCENES = [
    ("( subLayers = [@./0.usda@] )", "cannot be read as USD|has no mesh"),
    ('def "A" ( references = </B> ) {}\ndef "B" ( references = </A> ) {}', "has no mesh|USD"),
    (TRIANGLE.replace("[3]", "[2000000000]"), "faceVertexCounts add up to 2000000000"),
    (TRIANGLE.replace("[3]", "[-3, 6]"), "negative number of corners"),
    (TRIANGLE.replace("0, 1, 2]", "0, 1, 7]"), "faceVertexIndices: index 7"),
    (TRIANGLE.replace("(1, 0, 0)", "(nan, 0, 0)"), "NaN or infinite"),
    ("( metersPerUnit = 0 )" + TRIANGLE, "metersPerUnit: expected a positive number"),
    ("( timeCodesPerSecond = 0 )" + SCENE.split(")", 1)[1], "frame rate"),
    (REST.replace("endTimeCode = 8", "").replace("8: (3", "8e9: (3"), "codes"),
    (REST.replace('"hip", "hip/knee/toe"]', '"hip", "toe"]'), "joint 'toe'"),
    (REST.replace("= [2, 4]", "= [2, 99]"), "pointIndices .* index 99"),
    (REST.replace("0, 2, 0] (", "0, 3, 0] ("), "joint indices: index 3"),
    (REST.replace("0.6, 0.4]", "0.6]"), "do not fit 5 points"),
    (REST.replace("(1, 0, 0, 1)),", "(1, 0, 0, 1))"), "cannot be read"),
    ('def "Nothing" {}', "has no mesh"),
]


def test_what_is_wrong_in_a_scene_is_named(tmp_path):
    for number, (text, _) in enumerate(WRONG_SCENES):
        (tmp_path / f"{number}.usda").write_text(usda(text))
    said = errors(tmp_path)
    for number, (_, message) in enumerate(WRONG_SCENES):
        assert re.search(message, said[f"{number}.usda"]), said[f"{number}.usda"]


def test_files_that_are_no_usd_or_claim_more_memory_than_there_is(tmp_path):
    for suffix in (".usd", ".usda", ".usdc", ".usdz"):
        (tmp_path / f"a{suffix}").write_bytes(b"PK\x03\x04 or something else" * 9)
    write_usd(hero(frames=2).with_clips([]), tmp_path / "huge.usdc")
    data = bytearray((tmp_path / "huge.usdc").read_bytes())
    contents = int.from_bytes(data[16:24], "little")
    tokens = int.from_bytes(data[contents + 24 : contents + 32], "little")
    data[tokens : tokens + 8] = (10 * 2**30).to_bytes(8, "little")
    (tmp_path / "huge.usdc").write_bytes(data)
    said = errors(tmp_path)
    assert len(said) == 5
    for text in said.values():
        assert re.search("cannot be read as USD|not a USD file", text)


def test_the_error_names_the_file(tmp_path):
    path = tmp_path / "a.usda"
    path.write_text(usda('def "A" ( references = @/etc/passwd.usda@ ) {}'))
    with pytest.raises(FileError, match=r"a\.usda: refers to '/etc/passwd.usda'"):
        read_usd(path)
    with pytest.raises(FileError, match=r"absent\.usda: cannot be read: No such file"):
        read_usd(tmp_path / "absent.usda")


@pytest.mark.slow
def test_damaged_files_end_in_a_character_or_an_error(tmp_path):
    (tmp_path / "scene.usda").write_text(SCENE)
    Usd.Stage.Open(str(tmp_path / "scene.usda")).Export(str(tmp_path / "scene.usdc"))
    write_usd(hero(frames=3), tmp_path / "hero.usdz")
    counts = errors(tmp_path, "100", "7")["counts"]
    assert "traceback" not in counts, counts
    # The library itself may crash or be stopped, which `read_usd` reports; it must be rare.
    assert counts["error"] + counts["character"] >= 90, counts
