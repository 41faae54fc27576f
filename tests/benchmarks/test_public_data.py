"""`understudy data`: original downloads become sequences of the data folder."""

import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from sequence_builders import bending_strip

from understudy import FileError, InputError
from understudy.cli import app as cli
from understudy.io.registry import read_sequence
from understudy_benchmarks import public_data
from understudy_benchmarks.real_data import data_folder


def write_obj(path, vertices, faces):
    lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in vertices]
    lines += ["f " + " ".join(str(corner + 1) for corner in face) for face in faces]
    path.write_text("\n".join(lines) + "\n")


def as_download(folder, vertices, faces, rest):
    folder.mkdir()
    for number, frame in enumerate(vertices, start=1):
        write_obj(folder / f"strip-{number:02d}.obj", frame, faces)
    write_obj(folder / "strip-reference.obj", rest, faces)
    (folder / "readme.txt").write_text("no mesh")
    return folder


@pytest.fixture
def strip(tmp_path):
    """A source, its download as a folder, and its arrays on the grid."""
    vertices, faces, rest = bending_strip(12)
    faces = np.concatenate([np.asarray(faces)[:, [0, 1, 2]], np.asarray(faces)[:, [0, 2, 3]]])
    on_grid = lambda values: (np.round(np.asarray(values, float) * 2**12) / 2**12).astype("f4")
    arrays = {"vertices": on_grid(vertices), "rest": on_grid(rest), "faces": faces}
    source = public_data.Source(
        "strip", "us", "", "the strip", r"strip-\d+\.obj", r"strip-reference\.obj",
        (12, len(rest)), 12, public_data.digest_of(arrays), "any",
    )  # fmt: skip
    return source, as_download(tmp_path / "strip", vertices, faces, rest), arrays


def packed(folder, kind):
    archive = folder.parent / f"strip.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as out:
            for file in folder.iterdir():
                out.write(file, f"any/folder/{file.name}")
    else:
        with tarfile.open(archive, "w:gz") as out:
            out.add(folder, "../strip")
    return archive


@pytest.mark.parametrize("kind", ["folder", "zip", "tgz"])
def test_a_download_becomes_the_sequence(strip, tmp_path, kind):
    source, folder, arrays = strip
    download = folder if kind == "folder" else packed(folder, kind)
    lines = public_data.convert(source, download, tmp_path / "data")
    assert "the arrays that the tables were measured on" in lines[-1]
    poses = read_sequence(tmp_path / "data" / "sequences" / "strip.npz")
    np.testing.assert_array_equal(poses.vertices, arrays["vertices"])
    np.testing.assert_array_equal(poses.mesh.vertices, arrays["rest"])
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        {"strip", "data"} | ({download.name} - {"strip"})
    )


def test_another_digest_is_reported_and_the_file_written(strip, tmp_path):
    source, folder, _ = strip
    lines = public_data.convert(replace(source, digest="0" * 64), folder, tmp_path / "data")
    assert "differs from 0000" in lines[-1]
    assert (tmp_path / "data" / "sequences" / "strip.npz").is_file()


def test_the_digest_ignores_the_order_of_faces_and_their_first_corner(strip):
    arrays = strip[2]
    turned = {**arrays, "faces": np.roll(arrays["faces"][::-1], 1, axis=1)}
    assert public_data.digest_of(turned) == strip[0].digest
    flipped = {**arrays, "faces": arrays["faces"][:, ::-1]}
    assert public_data.digest_of(flipped) != strip[0].digest
    moved = {**arrays, "rest": arrays["rest"] + 1}
    assert public_data.digest_of(moved) != strip[0].digest


def test_wrong_downloads_are_refused(strip, tmp_path, monkeypatch):
    source, folder, _ = strip
    convert = lambda download, what=source: public_data.convert(what, download, tmp_path / "data")
    with pytest.raises(FileError, match="no such file or folder"):
        convert(tmp_path / "none.zip")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(FileError, match=r"expected a \.zip"):
        convert(tmp_path / "text.zip")
    broken = packed(folder, "zip")
    data = bytearray(broken.read_bytes())
    data[60:90] = bytes(30)
    (tmp_path / "broken.zip").write_bytes(data)
    with pytest.raises((FileError, InputError)):
        convert(tmp_path / "broken.zip")
    with pytest.raises(FileError, match="expected the files of the strip"):
        convert(folder, replace(source, rest="none"))
    with pytest.raises(InputError, match="has 13 frames"):
        convert(folder, replace(source, count=(13, source.count[1])))
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as out:
        out.writestr("a/strip-01.obj", "v 0 0 0\n")
        out.writestr("b/strip-01.obj", "v 0 0 0\n")
    with pytest.raises(FileError, match="occurs twice"):
        convert(tmp_path / "twice.zip")
    monkeypatch.setattr(public_data, "_MAX_BYTES", 100)
    with pytest.raises(FileError, match="more than"):
        convert(broken)
    assert not (tmp_path / "data").exists()


def test_the_command_lists_converts_and_checks(strip, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(public_data, "SOURCES", {**public_data.SOURCES, "strip": strip[0]})
    run = lambda *words: cli.main(["data", *(str(word) for word in words)])
    run()
    listed = capsys.readouterr().out
    assert all(name in listed for name in public_data.SOURCES)
    run("strip", strip[1], "-o", tmp_path / "data")
    run("--check", "-o", tmp_path / "data")
    shown = capsys.readouterr().out
    assert "strip: same digest" in shown
    assert "samba: missing" in shown
    for words, sentence in ((("strip",), "give what was downloaded"), (("walk",), "sequence")):
        with pytest.raises(SystemExit):
            run(*words)
        assert sentence in capsys.readouterr().err


def test_the_real_sequences_have_their_digests():
    folder = data_folder() / "sequences"
    if not folder.is_dir():
        pytest.skip(
            f"{folder}: the real sequences are not here; UNDERSTUDY_DATA names their folder"
        )
    small = {name: public_data.SOURCES[name] for name in ("horse_gallop", "cat_poses")}
    for name, source in small.items():
        with np.load(folder / f"{name}.npz") as data:
            arrays = {key: data[key] for key in ("vertices", "rest", "faces")}
        assert public_data.digest_of(arrays) == source.digest
