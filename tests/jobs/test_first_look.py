"""The first look at a slow rig: something to see, and a stand-in, before the long work."""

import numpy as np
import pytest

from understudy import Deformer, jobs
from understudy.core.skin import Skin
from understudy.jobs.first_look import FIRST_POSES
from understudy.rigs import load_rig
from understudy.system.progress import Progress

pytestmark = pytest.mark.slow
QUICK = {"epochs": 4, "regions": 2, "hidden": (16,)}


class ExternalTube(type(load_rig("tube"))):
    """The tube, as a rig that another program evaluates, with poor weights of its own."""

    skin = Skin(np.zeros((104, 1), int), np.ones((104, 1)))

    def sibling(self):
        return ExternalTube()

    def close(self):
        pass


class Interrupted(Progress):
    """The user stops the work after the first look."""

    def say(self, text):
        if text.startswith("First look"):
            raise KeyboardInterrupt


def test_a_stand_in_and_a_page_are_there_before_all_poses_are_learned(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        jobs.learn(ExternalTube(), tmp_path, options=QUICK, count=640, progress=Interrupted())
    (found,) = tmp_path.glob("*.understudy")
    first = Deformer.load(found)
    assert first.method == "corrected_skin"
    assert (tmp_path / "preview/page.html").exists()
    assert "Training poses" in (tmp_path / "preview/report.html").read_text()

    made = jobs.learn(ExternalTube(), tmp_path, options=QUICK, count=640)  # goes on
    assert not any(note.startswith("First look") for note in made.notes)
    assert len(made.deformer.provenance["sample"]["plan"]) > 3
    assert made.file == found


def test_few_poses_and_named_methods_need_no_first_look(tmp_path):
    made = jobs.learn(ExternalTube(), tmp_path / "few", options=QUICK, count=2 * FIRST_POSES)
    named = jobs.learn(ExternalTube(), tmp_path / "named", method="lbs", count=640)
    for result in (made, named):
        assert not (result.file.parent / "preview").exists()
