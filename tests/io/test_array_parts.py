"""Parts of a job as files, with workers that are this process: the same bytes as without them."""

import pickle
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from understudy.io.array_parts import compute_parts
from understudy.io.pose_store import open_poses
from understudy.io.understudy import to_bytes
from understudy.methods import config_from_text, method_type
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system import cluster, threads
from understudy.system.progress import SILENT, Task


class Here:
    """Workers of a cluster that is this process; `done` are the parts that they did."""

    count, gpus = 2, 0

    def __init__(self, folder: Path):
        self.folder, self.done = folder, []

    @contextmanager
    def pool(self, work, most=None, gpu=False):
        work = pickle.loads(pickle.dumps(work))

        def run(parts, sizes, task):
            for k, size in zip(parts, sizes):
                work(k, lambda amount: None)
                task.advance(size)
                self.done.append(k)

        yield SimpleNamespace(run=run)


class Counting(Task):
    """A task that adds up its steps."""

    steps = 0.0

    def advance(self, steps=1):
        self.steps += steps


def scaled(factor, common, part, task, checkpoint):
    return {"value": factor * common["unit"] * part["value"]}


def test_finished_parts_are_not_computed_again_and_other_data_has_another_folder(tmp_path):
    workers = Here(tmp_path)
    parts = [{"value": np.arange(3.0)}, {"value": np.ones(2)}]

    def compute(factor, task):
        unit = {"unit": np.array([2.0])}
        work = partial(scaled, factor)
        return compute_parts(workers, "scaling", {"factor": factor}, unit, parts, work, 5, task)

    first, again = Counting(), Counting()
    assert [found["value"].tolist() for found in compute(3, first)] == [[0, 6, 12], [6, 6]]
    next(tmp_path.glob("scaling-*/1.found")).unlink()
    assert [found["value"].tolist() for found in compute(3, again)] == [[0, 6, 12], [6, 6]]
    assert workers.done == [0, 1, 1]
    assert first.steps == again.steps == 10
    compute(4, Counting())
    assert workers.done == [0, 1, 1, 0, 1]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("method", ["fdda", "local"])
def test_a_fit_that_is_divided_has_the_bytes_of_one_that_is_not(method, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    sample_poses("tube", SamplePlan(60, seed=1), tmp_path / "s.zarr")
    poses = open_poses(tmp_path / "s.zarr")
    kind = method_type(method)
    texts = {"epochs": "2", "hidden": "8", "inputs": "data"}
    fit = lambda: to_bytes(kind(config_from_text(kind.Config, texts)).fit(poses))
    with threads.using(1):
        alone = fit()
        workers = Here(tmp_path / "files")
        monkeypatch.setattr(cluster, "_current", workers)
        assert fit() == alone
    stages = {file.parent.name.partition("-")[0] for file in workers.folder.glob("*/*.found")}
    assert stages >= {"groups"}


def test_stacks_that_are_trained_apart_have_the_bytes_of_those_trained_together(
    tmp_path, monkeypatch
):
    pytest.importorskip("torch")
    # They need torch.
    from understudy.training.grouped import GroupedTask
    from understudy.training.schedule import Schedule
    from understudy.training.trainer import train

    x = np.random.default_rng(0).normal(size=(60, 9)).astype(np.float32)
    inputs = [np.arange(n) for n in (9, 3, 1)]
    tasks = [GroupedTask(own, np.sin(x[:, own[:2]])) for own in inputs]
    schedule = Schedule(hidden=(8,), epochs=3, batch_size=16, device="cpu")
    run = lambda: train(x, tasks, schedule, SILENT)
    alone = run()
    workers = Here(tmp_path)
    monkeypatch.setattr(cluster, "_current", workers)
    apart = run()
    assert len(workers.done) > 1
    np.testing.assert_array_equal(apart.training_curve, alone.training_curve)
    for (weights, biases), (w, b) in zip(apart.nets, alone.nets, strict=True):
        for one, other in zip((*weights, *biases), (*w, *b), strict=True):
            np.testing.assert_array_equal(one, other)
