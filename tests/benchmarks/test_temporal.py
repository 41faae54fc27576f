"""`bench temporal` on tiny data: every row, figure and file exists."""

import json
import math

import numpy as np
import pytest
from sequence_builders import bending_strip

from understudy import FileError, InputError
from understudy.cli import app as cli
from understudy.io.registry import read_sequence
from understudy.io.sequences import sequence_from_arrays
from understudy.system.progress import SILENT
from understudy_benchmarks import Request, temporal, temporal_cases
from understudy_benchmarks.trajectory_training.generated import generate_character


@pytest.fixture
def data(tmp_path):
    sequences, corpus = tmp_path / "data" / "sequences", tmp_path / "data" / "corpus"
    sequences.mkdir(parents=True)
    corpus.mkdir()
    vertices, faces, rest = bending_strip(8)
    np.savez(sequences / "strip.npz", vertices=vertices, faces=faces, rest=rest)
    made = generate_character(1, frames=12)
    index = np.tile(np.arange(made.bones), (made.mesh.vertex_count, 1))
    world = np.tile(np.eye(4), (made.bones, 1, 1))
    animations = {"anim_00": made.transforms, "anim_01": made.transforms[::-1]}
    weights = {"weight_index": index, "weight_value": made.weights}
    np.savez(
        corpus / "animal_qfarm_Made.npz",
        rest=made.mesh.vertices,
        faces=made.mesh.triangles,
        inverse_bind=world,
        **weights,
        **animations,
    )
    return tmp_path / "data"


@pytest.mark.slow
def test_it_writes_its_rows(data, no_pages, tmp_path, capsys):
    where = ["--data", data, "--json", tmp_path / "a.json", "-o", tmp_path / "out"]
    cli.main([str(a) for a in ["bench", "temporal", "--cases", "strip", *where]])
    shown = capsys.readouterr().out
    rows = {row["method"]: row for row in json.loads((tmp_path / "a.json").read_text())["rows"]}
    single = {name for name in temporal.PAPER_NETWORKS if name != temporal.PAPER}
    assert set(rows) == set(temporal.METHODS) - set(temporal.ABLATIONS) - single
    for row in rows.values():
        for name in (
            "erms",
            "disper",
            "max_avg_dist",
            "norm_distort",
            "crp",
            "bones",
            "influences",
            "fit_s",
            "peak_mb",
            "e",
            "bytes",
            "joints_outside",
        ):
            assert math.isfinite(row[name])
        assert row["influences"] <= 6
    found, paper = rows["temporal"], rows["temporal-paper"]
    assert all(rows[name]["bones"] <= found["bones"] for name in ("fesam", "ssdr-affine"))
    assert rows["fesam-paper"]["bones"] <= paper["bones"]
    assert 0.99 * paper["erms_low"] <= paper["erms"] <= 1.01 * paper["erms_high"]
    assert found["cg_ms"] > 0
    assert found["direct_ms"] > 0
    assert "x the ERMS of FESAM-WT" in shown
    assert "x the ERMS of ssdr-rigid" in shown
    assert (tmp_path / "out" / "strip_rounds.png").stat().st_size > 0
    assert no_pages == ["strip.html"]


@pytest.mark.slow
def test_unseen_characters_are_found_and_counted(data, no_pages, tmp_path):
    request = Request("default", data, out=tmp_path / "out")
    names, notes = temporal_cases.find_cases(request)
    assert names == ["corpus/animal_qfarm_Made/1"]
    assert "horse_gallop" in notes[0]
    outcome = temporal.run(
        Request(
            "default",
            data,
            cases=tuple(names),
            methods=("temporal", "ssdr-affine"),
            out=tmp_path / "out",
        ),
        SILENT,
    )
    own = outcome.results[0].figures
    assert own["true_bones"] == generate_character(1).with_merged_bones().bones
    assert any("within a factor of 1.25" in note for note in outcome.notes)
    assert any("DisPer below that of ssdr" in note for note in outcome.notes)


def test_decimation_keeps_a_share_of_the_vertices_and_the_surface():
    vertices, faces, rest = bending_strip(6, columns=40, rows=9)
    poses = sequence_from_arrays(vertices, faces, rest)
    few = temporal_cases.decimated(poses, 0.5)
    assert few.vertex_count == 180
    kept = {tuple(v) for v in np.asarray(poses.mesh.vertices)}
    assert all(tuple(v) in kept for v in np.asarray(few.mesh.vertices))
    triangles = few.mesh.triangles
    assert len(np.unique(triangles)) > 0.9 * few.vertex_count
    area = lambda mesh: np.linalg.norm(
        np.cross(
            mesh.vertices[mesh.triangles[:, 1]] - mesh.vertices[mesh.triangles[:, 0]],
            mesh.vertices[mesh.triangles[:, 2]] - mesh.vertices[mesh.triangles[:, 0]],
        ),
        axis=1,
    ).sum()
    assert area(few.mesh) == pytest.approx(area(poses.mesh), rel=0.25)
    assert few.pose_count == 6


def test_a_character_of_another_folder(data):
    (data / "bodies").mkdir()
    corpus = (data / "corpus" / "animal_qfarm_Made.npz").read_bytes()
    (data / "bodies" / "rig_made.npz").write_bytes(corpus)
    case = temporal_cases.read_case("bodies/rig_made/1", data)
    same = temporal_cases.read_case("corpus/animal_qfarm_Made/1", data)
    assert case.true_bones == same.true_bones
    np.testing.assert_array_equal(case.poses.vertices, same.poses.vertices)


def test_wrong_requests(data, tmp_path):
    ask = lambda **options: temporal.run(
        Request("quick", data, out=tmp_path / "out", **options), SILENT
    )
    with pytest.raises(FileError, match="no such file"):
        ask(cases=("nothing",))
    with pytest.raises(InputError, match="percent of its vertices"):
        ask(cases=("strip:many",))
    with pytest.raises(InputError, match="expected corpus/character/animation"):
        ask(cases=("corpus/animal_qfarm_Made",))
    with pytest.raises(FileError, match="above corpus/"):
        ask(cases=("corpus/animal_qfarm_Other/0",))
    with pytest.raises(InputError, match="animation of animal_qfarm_Made"):
        ask(cases=("corpus/animal_qfarm_Made/9",))
    with pytest.raises(InputError, match="method of bench temporal"):
        ask(cases=("strip",), methods=("temporl",))
    with pytest.raises(FileError, match="none of the sequences"):
        temporal.run(Request("quick", tmp_path, out=tmp_path / "out"), SILENT)


def test_a_case_can_be_read_by_name(data):
    case = temporal_cases.read_case("strip:50", data)
    whole = read_sequence(data / "sequences" / "strip.npz")
    assert case.poses.vertex_count == round(whole.vertex_count / 2)
    assert (
        temporal_cases.read_case("corpus/animal_qfarm_Made/0", data).true_bones
        == generate_character(1).with_merged_bones().bones
    )


def test_true_bones_count_bones_that_move_apart(data):
    file = data / "corpus" / "animal_qfarm_Made.npz"
    with np.load(file) as made:
        arrays = dict(made)
    before = temporal_cases.read_case("corpus/animal_qfarm_Made/0", data).true_bones
    arrays["anim_00"][:, 1] = arrays["anim_00"][:, 0]  # two bones move as one
    np.savez(file, **arrays)
    assert temporal_cases.read_case("corpus/animal_qfarm_Made/0", data).true_bones < before


def test_networks_of_other_batch_sizes_are_named_where_they_are_missing(data, tmp_path):
    with pytest.raises(FileError, match="understudy train temporal --paper --batch-sizes 512"):
        temporal.run(
            Request(
                "default",
                data,
                cases=("strip",),
                methods=("temporal-paper-cnn-512",),
                out=tmp_path / "out",
            ),
            SILENT,
        )
