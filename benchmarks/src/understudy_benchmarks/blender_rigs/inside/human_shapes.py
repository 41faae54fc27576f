"""Corrective shape keys of the human: bulges and creases that the bend of a joint drives."""

import numpy as np
import scene


def add_correctives(rig, ob, points, weights, mirror):
    """Add the shape keys of both sides and their drivers."""
    normals = scene.normals_of(ob)
    normals = 0.5 * (normals + normals[mirror] * [-1, 1, 1])
    for name, bone, axis, start, full, offsets in correctives(rig, points, normals, weights):
        left = scene.add_shape(ob, f"{name}.L", offsets)
        right = scene.add_shape(ob, f"{name}.R", offsets[mirror] * [-1, 1, 1])
        scene.drive_by_turn(rig, left, f"{bone}.L", axis, start, full)
        # The mirror image of a turn.
        turned = axis * np.array([1, -1, -1])
        scene.drive_by_turn(rig, right, f"{bone}.R", turned, start, full)


def correctives(rig, points, normals, weights):
    """(name, bone, axis of the turn, degrees from and to, offsets (V,3)) of the left side."""
    joint = lambda name: np.array(rig.data.bones[name].head_local)
    shoulder, elbow, wrist = joint("ORG-upper_arm.L"), joint("ORG-forearm.L"), joint("ORG-hand.L")
    hip, knee, ankle = joint("ORG-thigh.L"), joint("ORG-shin.L"), joint("ORG-foot.L")
    arm = sum(w for n, w in weights.items() if n.startswith(("DEF-upper_arm.L", "DEF-forearm.L")))
    leg = sum(w for n, w in weights.items() if n.startswith(("DEF-thigh.L", "DEF-shin.L")))
    left = np.clip(points[:, 0] / 0.03, 0, 1)
    ball = lambda at, radius: np.exp(-(((points - at) ** 2).sum(axis=1)) / radius**2)[:, None]
    arm, leg, left = arm[:, None], leg[:, None], left[:, None]
    elbow_axis, elbow_tip = hinge(shoulder, elbow, wrist)
    knee_axis, knee_tip = hinge(hip, knee, ankle)
    raised, forward, lifted = (np.array(v, float) for v in ((0, -1, 0), (0, 0, -1), (-1, 0, 0)))
    biceps = shoulder + 0.55 * (elbow - shoulder) - 0.04 * elbow_tip
    calf = knee + 0.33 * (ankle - knee) - 0.05 * knee_tip
    at = lambda origin, *offset: origin + np.array(offset)
    return [
        ("elbow", "ORG-forearm", elbow_axis, 10, 90,
         arm * (0.012 * ball(elbow + 0.03 * elbow_tip, 0.04) * elbow_tip
                + 0.003 * ball(elbow - 0.03 * elbow_tip, 0.03) * normals)),
        ("biceps", "ORG-forearm", elbow_axis, 20, 100,
         0.010 * arm * ball(biceps, 0.055) * normals),
        ("knee", "ORG-shin", knee_axis, 10, 100,
         leg * 0.016 * ball(knee + 0.04 * knee_tip, 0.05) * knee_tip),
        ("calf", "ORG-shin", knee_axis, 20, 110,
         0.009 * leg * ball(calf, 0.07) * normals),
        ("shoulder_up", "ORG-upper_arm", raised, 10, 80,
         left * (0.010 * ball(at(shoulder, -0.02, 0, 0.05), 0.06) * normals
                 + 0.012 * ball(at(shoulder, -0.01, 0, -0.09), 0.06) * normals)),
        ("shoulder_forward", "ORG-upper_arm", forward, 10, 80,
         left * (0.009 * ball(at(shoulder, -0.05, -0.08, -0.05), 0.07) * normals
                 + 0.007 * ball(at(shoulder, -0.05, 0.07, -0.04), 0.07) * normals)),
        ("hip", "ORG-thigh", lifted, 20, 100,
         left * (0.022 * ball(at(hip, 0.01, 0.10, -0.04), 0.09) * normals
                 - 0.006 * ball(at(hip, 0, -0.09, 0.01), 0.05) * normals)),
        ("hip_side", "ORG-thigh", raised, 10, 50,
         -0.008 * left * ball(at(hip, 0.08, 0, 0.03), 0.06) * normals),
    ]  # fmt: skip


def hinge(start, joint, end):
    """The axis that bends a hinge further, and the direction in which its tip points."""
    u, f = (
        (joint - start) / np.linalg.norm(joint - start),
        (end - joint) / np.linalg.norm(end - joint),
    )
    axis, tip = np.cross(u, f), u - f
    return axis / np.linalg.norm(axis), tip / np.linalg.norm(tip)
