import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save, save_file

from understudy import InputError
from understudy.system.progress import SILENT
from understudy.training import checkpoint as checkpoints
from understudy.training import stack_training
from understudy.training.grouped import GroupedTask, Stack, stack_order
from understudy.training.held_out import validation_poses
from understudy.training.schedule import Schedule
from understudy.training.trainer import train

SCHEDULE = Schedule(
    hidden=(16, 16),
    activation="tanh",
    epochs=100,
    batch_size=16,
    learning_rate=0.005,
    weight_decay=0.0,
    loss="l2",
    validation_fraction=0.1,
)
SHORT = replace(SCHEDULE, epochs=12, batch_size=64, device="cpu")
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    ),
]


def problem(samples=400, seed=0):
    """Three functions of different inputs and widths, one constant-zero target among them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, 9)).astype(np.float32)
    curved = np.stack([np.sin(x[:, 0]) * x[:, 1], x[:, 2] ** 2 - 1], axis=1).astype(np.float32)
    return x, [
        GroupedTask(np.arange(3), 5 * curved),
        GroupedTask(
            np.array([8, 2, 4, 5, 6]), (0.01 * np.tanh(x[:, [8, 4, 2]])).astype(np.float32)
        ),
        GroupedTask(np.array([7]), np.zeros((samples, 1), np.float32)),
    ]


def run(net, x, inputs):
    weights, biases = net
    h = x[:, inputs].astype(np.float64)
    for layer, (w, b) in enumerate(zip(weights, biases)):
        h = h @ w.T + b
        h = np.tanh(h) if layer < len(weights) - 1 else h
    return h


def test_nets_of_every_width_learn_at_once_and_come_back_in_order_and_in_their_own_units():
    x, tasks = problem()
    trained = train(x, tasks, SCHEDULE, SILENT)
    for net, task in zip(trained.nets, tasks):
        assert net[0][0].shape == (16, len(task.inputs))
        predicted = run(net, x, task.inputs)
        assert predicted.shape == task.targets.shape
        error = np.sqrt(np.mean((predicted - task.targets) ** 2))
        assert error < 0.15 * max(np.sqrt(np.mean(task.targets**2)), 1e-3)
    assert trained.validation_curve[-1] < 0.1 * trained.validation_curve[0]


def test_padding_changes_nothing():
    x, tasks = problem()
    wide = GroupedTask(
        np.arange(5), tasks[0].targets
    )  # wide enough to share a stack with, and so to pad, a net of three inputs
    assert stack_order([tasks[0], wide]) == [[1, 0]]
    features = torch.as_tensor(x)
    stack = Stack([wide, tasks[0]], features, (16, 16), "tanh", torch.Generator().manual_seed(0))
    with torch.no_grad():
        outputs = stack(stack.x)[1].double().numpy() * float(stack.scale[1])
    np.testing.assert_allclose(outputs, run(stack.frozen()[1], x, tasks[0].inputs), atol=1e-5)
    trained = train(x, [tasks[0], wide], SHORT, SILENT)
    assert trained.nets[0][0][0].shape == (16, 3)


def test_same_seed_same_weights_other_seed_other_weights():
    x, tasks = problem()
    one, two = (train(x, tasks, SHORT, SILENT) for _ in range(2))
    other = train(x, tasks, Schedule(**{**vars(SHORT), "seed": 1}), SILENT)
    for a, b in zip(one.nets, two.nets):
        for first, second in zip(a[0] + a[1], b[0] + b[1]):
            np.testing.assert_array_equal(first, second)
    assert not np.array_equal(one.nets[0][0][0], other.nets[0][0][0])


@contextlib.contextmanager
def interrupted_after(steps):
    """Ctrl-C in the middle of an epoch: step number `steps` is never made."""
    step, done = stack_training.Steps.__call__, 0

    def counted(self, *arguments):
        nonlocal done
        done += 1
        if done == steps:
            raise KeyboardInterrupt
        return step(self, *arguments)

    stack_training.Steps.__call__ = counted
    try:
        yield
    finally:
        stack_training.Steps.__call__ = step


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "steps", [3, 20, 24]
)  # in the first epoch, in the middle of a later one, at the end of one
def test_an_interrupted_training_resumes_to_the_very_same_weights(
    tmp_path, steps, device, monkeypatch
):
    if device != "cpu":  # where a state is kept only when it is written
        monkeypatch.setattr(checkpoints, "_WRITE_EVERY_S", 0.0)
    x, tasks = problem()
    schedule = replace(SHORT, device=device)
    straight = train(x, tasks, schedule, SILENT)
    checkpoint = tmp_path / "model.checkpoint"
    with pytest.raises(KeyboardInterrupt), interrupted_after(steps):
        train(x, tasks, schedule, SILENT, checkpoint)
    assert checkpoint.exists() == (steps > 6)  # six steps are an epoch
    resumed = train(x, tasks, schedule, SILENT, checkpoint)
    np.testing.assert_array_equal(resumed.training_curve, straight.training_curve)
    for a, b in zip(straight.nets, resumed.nets):
        for first, second in zip(a[0] + a[1], b[0] + b[1]):
            np.testing.assert_array_equal(first, second)


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_not_used(tmp_path):
    x, tasks = problem()
    checkpoint = tmp_path / "model.checkpoint"
    with pytest.raises(KeyboardInterrupt), interrupted_after(20):
        train(x, tasks, SHORT, SILENT, checkpoint)
    foreign = checkpoint.read_bytes()
    other = train(*problem(seed=5), SHORT, SILENT, checkpoint)
    assert len(other.training_curve) == SHORT.epochs
    assert np.array_equal(
        other.training_curve, train(*problem(seed=5), SHORT, SILENT).training_curve
    )
    nested = save({"a": torch.zeros(1)}, metadata={"checkpoint": "[" * 100_000})
    for damaged in (foreign[: len(foreign) // 2], nested):
        checkpoint.write_bytes(damaged)
        assert len(train(x, tasks, SHORT, SILENT, checkpoint).training_curve) == SHORT.epochs


def flipped_bit(found):
    found["weight.0"].view(torch.int32)[0, 0, 0] ^= 1 << 20


def not_a_number(found):
    found["exp_avg.1"].flatten()[3] = torch.nan


def another_shape(found):
    found["weight.1"] = found["weight.1"].flatten()


def no_moments(found):
    del found["exp_avg_sq.0"]


@pytest.mark.parametrize(
    ("damage", "with_its_sum"),
    [
        (flipped_bit, False), (not_a_number, False), (another_shape, False), (no_moments, False),
        (another_shape, True), (no_moments, True),
    ],
)  # fmt: skip
def test_a_checkpoint_is_not_believed(tmp_path, damage, with_its_sum, monkeypatch):
    x, tasks = problem()
    schedule = replace(SHORT, epochs=4)
    straight = train(x, tasks, schedule, SILENT)
    checkpoint = tmp_path / "model.checkpoint"
    with pytest.raises(KeyboardInterrupt), interrupted_after(20):
        train(x, tasks, schedule, SILENT, checkpoint)
    with safe_open(str(checkpoint), framework="pt") as opened:
        found = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
        metadata = opened.metadata()
    damage(found)
    if with_its_sum:
        monkeypatch.setattr(checkpoints, "_sum", lambda *given: "")
        metadata["checkpoint"] = json.dumps(json.loads(metadata["checkpoint"]) | {"sum": ""})
    save_file(found, checkpoint, metadata=metadata)
    resumed = train(x, tasks, schedule, SILENT, checkpoint)
    np.testing.assert_array_equal(resumed.training_curve, straight.training_curve)
    for a, b in zip(straight.nets, resumed.nets):
        for first, second in zip(a[0] + a[1], b[0] + b[1]):
            np.testing.assert_array_equal(first, second)


def test_a_device_that_is_not_there_is_named():
    if torch.cuda.is_available():
        assert (
            train(
                *problem(), Schedule(**{**vars(SCHEDULE), "device": "cuda"}), SILENT
            ).training_curve[-1]
            < 0.1
        )
    else:
        with pytest.raises(InputError, match="finds no CUDA device"):
            train(*problem(), Schedule(**{**vars(SCHEDULE), "device": "cuda"}), SILENT)


def test_one_pose_trains_without_a_validation_set():
    trained = train(
        np.zeros((1, 2), np.float32),
        [GroupedTask(np.array([0]), np.ones((1, 1), np.float32))],
        SCHEDULE,
        SILENT,
    )
    assert np.isnan(trained.validation_curve).all()
    assert trained.training_curve[-1] < 0.1


def test_mirror_images_are_kept_aside_with_their_poses():
    aside = validation_poses(400, Schedule(validation_fraction=0.1, mirrored=True))
    assert len(aside) == 40
    np.testing.assert_array_equal(aside[20:], aside[:20] + 200)
    assert aside[19] < 200


@pytest.mark.parametrize("loss", ["l1", "mixed"])
def test_curves_begin_near_one_whatever_the_loss(loss):
    trained = train(
        *problem(),
        Schedule(**{**vars(SHORT), "loss": loss, "epochs": 1, "learning_rate": 1e-6}),
        SILENT,
    )
    assert trained.training_curve[0] == pytest.approx(1, rel=0.1)
    assert trained.validation_curve[0] == pytest.approx(1, rel=0.1)


def test_a_mixed_loss_is_the_sum_of_both():
    x, tasks = problem()
    stack = Stack(tasks[:1], torch.as_tensor(x), (16, 16), "tanh", torch.Generator().manual_seed(0))
    poses = torch.arange(50)
    apart = (stack(stack.x[:, poses]) - stack.y[:, poses]).detach().double()
    sums = {kind: stack.loss(poses, kind).item() for kind in ("l1", "l2", "mixed")}
    assert sums["l1"] == pytest.approx(float(apart.abs().sum()) / 50, rel=1e-5)
    assert sums["l2"] == pytest.approx(float(apart.square().sum()) / 50, rel=1e-5)
    assert sums["mixed"] == pytest.approx(sums["l1"] + sums["l2"], rel=1e-5)


def test_early_stopping_keeps_each_networks_best_epoch():
    x, tasks = problem(60)  # few poses: the networks overfit
    schedule = replace(
        SCHEDULE,
        hidden=(64, 64),
        epochs=400,
        batch_size=16,
        learning_rate=0.02,
        decay="none",
        validation_fraction=0.3,
    )
    whole = train(x, tasks[:1], schedule, SILENT)
    early = train(x, tasks[:1], replace(schedule, patience=30), SILENT)
    best = int(early.validation_curve.argmin())
    assert len(early.validation_curve) == best + 1 + 30 < 400
    np.testing.assert_array_equal(
        early.validation_curve, whole.validation_curve[: len(early.validation_curve)]
    )
    held_out = validation_poses(len(x), schedule)
    wrong = (run(early.nets[0], x, tasks[0].inputs) - tasks[0].targets)[held_out]
    size = np.mean(np.square(tasks[0].targets).sum(axis=1))
    left = np.mean(np.square(wrong).sum(axis=1)) / size
    assert np.isclose(left, early.validation_curve.min(), rtol=1e-3)
    with pytest.raises(InputError, match="patience"):
        train(x, tasks, replace(schedule, patience=3, validation_fraction=0.0), SILENT)


def test_early_stopping_continues_from_a_checkpoint(tmp_path):
    x, tasks = problem(60)
    schedule = replace(
        SCHEDULE,
        hidden=(32,),
        epochs=300,
        batch_size=16,
        decay="none",
        validation_fraction=0.3,
        patience=20,
    )
    once = train(x, tasks, schedule, SILENT)
    with interrupted_after(40), pytest.raises(KeyboardInterrupt):
        train(x, tasks, schedule, SILENT, tmp_path / "state")
    twice = train(x, tasks, schedule, SILENT, tmp_path / "state")
    np.testing.assert_array_equal(once.validation_curve, twice.validation_curve)
    for a, b in zip(once.nets, twice.nets):
        np.testing.assert_array_equal(a[0][0], b[0][0])


def test_the_learning_rate_is_constant_without_decay():
    constant = Schedule(learning_rate=0.01, decay="none")
    assert constant.learning_rate_at(9, 10) == constant.learning_rate_at(0, 10) == 0.01


def test_a_loss_against_the_truth_sees_what_the_components_do_not_span():
    # An L1 loss after the map: the median of the truth, not of its projection, is learned.
    rng = np.random.default_rng(0)
    x = np.zeros((301, 1), np.float32)
    truth = np.stack([np.zeros(301), rng.exponential(size=301)], axis=1).astype(np.float32)
    basis = np.array([[0.6], [0.8]], np.float32)  # (Q,P)
    projected = truth @ basis
    beyond = truth - projected @ basis.T
    schedule = replace(
        SCHEDULE, hidden=(4,), epochs=200, batch_size=301, loss="l1", validation_fraction=0
    )
    found = []
    for rest in (None, beyond):
        trained = train(x, [GroupedTask(np.arange(1), projected, basis, rest)], schedule, SILENT)
        found.append(float(run(trained.nets[0], x[:1], np.arange(1))[0, 0]))
    grid = np.linspace(0, 2, 2001)
    best = lambda target: grid[
        [np.abs(c * basis[:, 0] - target).sum() for c in grid].index(
            min(np.abs(c * basis[:, 0] - target).sum() for c in grid)
        )
    ]
    assert np.isclose(found[0], best(projected @ basis.T), atol=0.03)
    assert np.isclose(found[1], best(truth), atol=0.03)
    assert abs(found[0] - found[1]) > 0.1
