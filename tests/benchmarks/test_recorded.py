"""`bench recorded`: clips are left out one at a time."""

import numpy as np
import pytest

from understudy.system.errors import FileError, InputError
from understudy_benchmarks import Request, run
from understudy_benchmarks.recorded_cases import load_recording


def test_a_case_learns_the_other_clips(real_data):
    recording = load_recording(real_data)
    assert len(recording.clips) == 6
    assert recording.poses.pose_count == 427
    for clip in recording.clips:
        training, test = recording.split(clip)
        assert training.pose_count + test.pose_count == 427
        assert (
            not (training.world_from_bone[:, None] == test.world_from_bone[:1]).all((2, 3, 4)).any()
        )


def test_bones_and_vertices_belong_together(real_data):
    """The head of a bone lies inside the body, so vertices are around it in every pose."""
    poses = load_recording(real_data).poses
    vertices = poses.read_poses(0, 5)
    for t in range(5):
        heads = poses.world_from_bone[t, :, :, 3]
        nearest = np.linalg.norm(vertices[t, None, ::7] - heads[:, None], axis=2).min(axis=1)
        assert nearest.max() < 0.2 * poses.mesh.height


@pytest.mark.slow
def test_rows(real_data, tmp_path):
    request = Request("quick", data=real_data, out=tmp_path, cases=("02_01",), methods=("lbs-4",))
    (row,) = run("recorded", request).results
    assert row.case == "02_01"
    assert 0 < row.figures["mean"] < row.figures["p99"] < row.figures["max"]


def test_wrong_names_and_missing_data(real_data, tmp_path):
    with pytest.raises(InputError, match="method of bench recorded"):
        run("recorded", Request(methods=("ssdr",)))
    with pytest.raises(InputError, match="case of bench recorded"):
        run("recorded", Request(data=real_data, cases=("99_99",)))
    with pytest.raises(FileError, match="UNDERSTUDY_DATA"):
        run("recorded", Request(data=tmp_path, out=tmp_path))
