"""Which channels of a rig are controls: the rule, on an arm of four bones in NumPy."""

import numpy as np
import pytest

from understudy.core.skin import Skin
from understudy.rigs.blender.calibration import AT_REST, SILENT_AT_REST, TWEAKS, WHOLE, calibrate
from understudy.rigs.blender.effects import RestState

BONES = ("base", "upper", "hand", "nail")  # each 10 units long, along x; they turn about z
X = np.linspace(-10, 30, 81)
OWNER = np.clip(X // 10 + 1, 0, 3).astype(int)
REST = np.stack([X, np.tile([-1.0, 1.0], 41)[:81], np.zeros(81)], axis=1)


def channel(name, kind, **more):
    bone = name.partition(".")[0] if kind != "property" else None
    rest = 1.0 if kind == "scale" else 0.0
    told = {"range": None, "limits": None, "left_out": "", "rest": rest, "owner": "rig"}
    return {"name": name, "kind": kind, "bone": bone, "axis": 0, **told, **more}


CHANNELS = {
    one["name"]: one
    for one in (
        channel("root.loc.x", "location"),
        channel("upper.rot.z", "rotation"),
        channel("upper.scale.x", "scale"),
        channel("hand.rot.z", "rotation"),
        channel("hand.loc.y", "location"),
        channel("nail.rot.z", "rotation", left_out="shapeless"),
        channel("nail_fk.rot.z", "rotation", left_out="hidden"),
        channel("hand_tweak.loc.x", "location"),
        channel("curl.scale.y", "scale"),
        channel("lip.loc.z", "location"),
        channel("idle.rot.x", "rotation"),
        channel("ik_fk", "property", range=(0.0, 1.0)),
        channel("nothing", "property", range=(0.0, 1.0)),
    )
}


def turned(degrees, pivot):
    """The transform (3,4) that turns about z at a point of the x axis."""
    c, s = np.cos(degrees), np.sin(degrees)
    made = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0]])
    made[:2, 3] = np.array([pivot, 0]) - made[:2, :2] @ [pivot, 0]
    return np.concatenate([made, [[0, 0, 0, 1]]])


def posed(value):
    """Vertices and bones of one pose; value: name -> of every channel."""
    switch = value["ik_fk"] * value["upper.rot.z"]  # does nothing at rest
    angles = (
        0.0,
        value["upper.rot.z"],
        value["hand.rot.z"] + 0.3 * switch,
        value["nail.rot.z"] + value["nail_fk.rot.z"] + 3 * (1 - value["curl.scale.y"]),
    )
    world = np.eye(4)
    world[0, 3] = value["root.loc.x"]
    bones, moves = [], []
    for bone, angle in enumerate(angles):
        world = world @ turned(angle, 10 * bone - 10)
        if bone == 2:
            world[0, 3] += value["hand_tweak.loc.x"]
            world[1, 3] += value["hand.loc.y"]
        move = world.copy()
        if bone == 1:
            move[:3, 0] *= value["upper.scale.x"]
        moves.append(move[:3])
        rest = np.eye(4)
        rest[0, 3] = 10 * bone - 10
        bones.append((move @ rest)[:3])
    points = np.concatenate([REST, np.ones((81, 1))], axis=1)
    vertices = np.einsum("vij,vj->vi", np.array(moves)[OWNER], points)
    vertices[-3:, 2] += value["lip.loc.z"]  # no bone tells of it
    return vertices, np.array(bones)


def calibrated(names=tuple(CHANNELS), curves=None, asked=False, change=()):
    channels = [CHANNELS[name] | dict(change).get(name, {}) for name in names]
    rest_values = {name: one["rest"] for name, one in CHANNELS.items()}
    vertices, bones = posed(rest_values)

    def use(some):
        def evaluate(rows):
            poses = [
                posed(rest_values | dict(zip([one["name"] for one in some], row))) for row in rows
            ]
            return tuple(np.array(part) for part in zip(*poses))

        return evaluate

    skin = Skin(OWNER[:, None].astype(np.int32), np.ones((81, 1), np.float32))
    size = float(np.linalg.norm(np.ptp(REST, axis=0)))
    edges = np.stack([np.arange(80), np.arange(1, 81)], axis=1)
    parents = np.array([-1, 0, 1, 2])
    rest = RestState(vertices, edges, bones, BONES, parents, size, "cm", skin)
    if curves is not None:
        curves = np.array(
            [[dict(row).get(one["name"], one["rest"]) for one in channels] for row in curves]
        )
    return calibrate(channels, rest, use, curves, asked)


def test_what_a_channel_does_decides():
    found = calibrated()
    assert set(found.controls.names) == {
        "upper.rot.z",
        "hand.rot.z",
        "curl.scale.y",
        "lip.loc.z",
        "ik_fk",
    }
    assert found.left_out == {
        WHOLE: ["root.loc.x"],
        AT_REST: ["upper.scale.x", "hand.loc.y"],
        TWEAKS: ["hand_tweak.loc.x"],
        SILENT_AT_REST: ["idle.rot.x", "nothing"],
        "are shapeless": ["nail.rot.z"],
        "are hidden": ["nail_fk.rot.z"],
    }
    assert not found.missing
    numeric = dict(zip(found.controls.names, found.controls.numeric))
    assert numeric["lip.loc.z"]
    assert not numeric["upper.rot.z"]
    low = dict(zip(found.controls.names, found.controls.low))
    # The scale curls the nail by 34 degrees at a fifth; its range curls it by about 90.
    assert low["curl.scale.y"] == pytest.approx(1 - 0.2 * 90 / 34.4, abs=0.05)
    assert -45 <= low["upper.rot.z"] < -20  # a large region


def test_a_bone_that_nothing_usual_moves_gets_a_shapeless_or_hidden_control():
    without = [name for name in CHANNELS if name != "curl.scale.y"]
    assert "nail.rot.z" in calibrated(without).controls.names
    without.remove("nail.rot.z")
    assert "nail_fk.rot.z" in calibrated(without).controls.names
    without.remove("nail_fk.rot.z")
    found = calibrated(without)
    assert found.missing == ["nail"]
    assert next(iter(found.said())).startswith("Warning: no control moves 1 bone")


def test_what_an_animation_moves_is_a_control_over_what_it_shows():
    found = calibrated(curves=[{}, {"hand.loc.y": 2.0, "upper.rot.z": np.pi / 2}])
    assert "hand.loc.y" in found.controls.names
    high = dict(zip(found.controls.names, found.controls.high))
    assert high["hand.loc.y"] >= 2
    assert high["upper.rot.z"] == 90


def test_a_declared_range_is_kept():
    found = calibrated(change={"hand.loc.y": {"range": (-0.5, 0.75)}})
    at = found.controls.names.index("hand.loc.y")
    assert (found.controls.low[at], found.controls.high[at]) == (-0.5, 0.75)


def test_all_that_the_user_names_and_that_moves_is_a_control():
    names = ("root.loc.x", "hand.loc.y", "hand_tweak.loc.x", "idle.rot.x")
    assert calibrated(names, asked=True).controls.names == names[:3]


def test_many_channels_are_tried_in_groups_with_the_same_result(monkeypatch):
    expected = calibrated()
    monkeypatch.setattr("understudy.rigs.blender.calibration._GROUPS_ABOVE", 0)
    found = calibrated()
    assert found.controls.names == expected.controls.names
    assert found.left_out == expected.left_out


def test_what_acts_at_the_other_end_of_a_switch_is_a_control(monkeypatch):
    still = posed

    def switched(value):
        # In FK the hidden bone turns the nail, in IK it does nothing.
        hidden = value["nail_fk.rot.z"] * value["ik_fk"]
        return still({**value, "nail_fk.rot.z": hidden})

    monkeypatch.setitem(globals(), "posed", switched)
    found = calibrated()
    assert "nail_fk.rot.z" in found.controls.names
    switches = dict(zip(found.controls.names, found.switches))
    assert switches.pop("ik_fk")
    assert not any(switches.values())
    at = found.controls.names.index("nail_fk.rot.z")
    assert not found.deforms[0, at].any()
    assert found.deforms[1, at].any()


def test_controls_say_which_patches_they_deform():
    found = calibrated()
    deforms = dict(zip(found.controls.names, found.deforms[0]))
    assert deforms["upper.rot.z"].any()
    assert not (deforms["upper.rot.z"] & deforms["curl.scale.y"]).any()  # other joints
