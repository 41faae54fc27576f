"""What `learn` keeps: exact weights of the file, and nothing that loses to a skin."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import Deformer, jobs
from understudy.core.skin import Skin
from understudy.jobs.choosing import Contender, choose, comparison
from understudy.methods import method_type
from understudy.methods.character_deformer import OWN_SKIN, deformer_of_skin, is_exact
from understudy.rigs import load_rig
from understudy.rigs.sampling import SamplePlan, gaussian

OURS = Contender("auto", "corrected_skin", 1.0, 5.0, 9.0)
LBS = Contender("lbs", "lbs", 2.0, 6.0, 7.0)
QUICK = {"epochs": 8, "regions": 2, "hidden": (16,)}


@pytest.mark.parametrize(
    ("skins", "kept"),
    [
        ([], "auto"),
        ([LBS], "auto"),
        ([replace(LBS, p99=4.9)], "lbs"),
        ([replace(LBS, mean=0.9)], "lbs"),
        ([LBS, replace(LBS, name="own_skin", mean=0.5, p99=3.0)], "own_skin"),
        ([replace(LBS, missed=1, mean=0.0)], "auto"),
        ([replace(LBS, mean=float("nan"), p99=float("nan")), LBS], "auto"),
    ],
)
def test_what_is_learned_is_kept_unless_a_skin_is_better_in_a_figure(skins, kept):
    assert choose(OURS, skins).name == kept


def test_a_skin_that_follows_more_parts_is_kept():
    assert choose(replace(OURS, missed=2), [replace(LBS, mean=9.0)]).name == "lbs"
    nan = replace(OURS, mean=float("nan"))
    assert choose(nan, [LBS]).name == "lbs"
    assert choose(replace(LBS, mean=0.0), [replace(LBS, mean=0.0)]).mean == 0.0


def test_the_comparison_names_every_skin():
    said = comparison(OURS, [LBS, replace(LBS, name=OWN_SKIN, mean=0.0)])
    assert "50.0 % of that of linear blend skinning" in said
    assert "more than 100 % of that of the file's own skin" in said


def skinned_poses(count=120):
    """Poses of the tube, exactly by some weights; and what its own swelling adds."""
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, count, 0))
    made = method_type("lbs")().fit(poses)
    exact = made.deform(poses.world_from_bone).astype(np.float32)
    return replace(poses, vertices=exact, skin=made.skin), poses


def test_own_weights_are_exact_or_not():
    exact, swollen = skinned_poses()
    deformer = deformer_of_skin(exact)
    assert deformer is not None
    assert is_exact(deformer, exact)
    assert not is_exact(deformer, swollen)
    assert deformer_of_skin(swollen) is None


def test_nothing_is_fitted_where_the_weights_of_the_file_are_exact(tmp_path):
    exact, _ = skinned_poses()
    made = jobs.learn(exact, tmp_path)
    assert made.deformer.method == OWN_SKIN
    assert "exact: no network is needed" in made.notes[-1]
    assert sorted(file.name for file in tmp_path.glob("*.understudy")) == [
        "auto.understudy",
        "tube.understudy",
    ]
    assert made.deformer.posing is not None
    assert [row.method for row in made.measured.rows] == [OWN_SKIN]


def test_exact_is_not_said_where_held_out_poses_disagree(tmp_path):
    exact, swollen = skinned_poses()
    vertices = np.concatenate([exact.vertices[:102], swollen.vertices[102:]])
    made = jobs.learn(replace(exact, vertices=vertices), tmp_path)
    assert made.notes[-1].startswith("Warning: the weights of the file gave every training pose")
    assert not any("no network is needed" in note for note in made.notes)


@pytest.mark.slow
def test_the_skin_of_the_file_is_a_row_and_wins_where_it_is_better(tmp_path):
    exact, swollen = skinned_poses()
    poor = Skin(np.zeros((104, 1), int), np.ones((104, 1)))
    made = jobs.learn(replace(swollen, skin=poor), tmp_path / "poor", options=QUICK)
    rows = [row.method for row in made.measured.rows]
    assert rows == ["corrected_skin", "lbs", OWN_SKIN]
    assert made.deformer.method == "corrected_skin"
    spoiled = {"learning_rate": 0.5, "guard": False, "epochs": 1}
    # One vertex, in what is fitted alone, is not as the weights say.
    vertices = exact.vertices.copy()
    vertices[:100, -1, 1] += 1e-2
    made = jobs.learn(replace(exact, vertices=vertices), tmp_path / "good", options=spoiled)
    assert made.deformer.method == OWN_SKIN
    assert made.deformer.posing is not None
    assert any("skin and the blend shapes that the file has are kept" in n for n in made.notes)
    named = jobs.learn(
        replace(exact, vertices=vertices), tmp_path / "named", method="corrected_skin",
        options=spoiled,
    )  # fmt: skip
    assert named.deformer.method == "corrected_skin"


class SkinnedTube(type(load_rig("tube"))):
    """The tube, with weights in its file."""

    skin = Skin(np.zeros((104, 1), int), np.ones((104, 1)))


@pytest.mark.slow
def test_the_weights_of_a_rig_go_through_its_pose_store(tmp_path):
    made = jobs.learn(
        SkinnedTube(), tmp_path, method="lbs", plan=SamplePlan(60), processes=1
    )  # fmt: skip
    assert [row.method for row in made.measured.rows][-1] == OWN_SKIN
    own = Deformer.load(tmp_path / f"{OWN_SKIN}.understudy")
    assert own.skin is not None
    assert own.skin.influences == 1
