"""The human with Rigify: body, weights, correctives, modifiers, actions."""

import human_fit
import human_motion
import human_shapes
import human_weights
import scene


def build(request, body):
    """Build `rigify` or, without actions, `rigify_bare`."""
    rig, _ = dressed_rig(request, body)
    if request["name"] == "rigify":
        human_motion.add_keyed(rig, request["keyed"], request["step"])
        human_motion.add_walk(rig)


def dressed_rig(request, body):
    """The armature and the body, bound, with correctives and modifiers."""
    points = body["vertices"]
    rig = human_fit.generate(request["joints"], points)
    ob = scene.add_mesh("Body", points, body["quads"], body["uvs"])
    weights = human_weights.human_weights(rig, body)
    scene.set_weights(ob, weights)
    human_shapes.add_correctives(rig, ob, points, weights, body["mirror"])
    scene.attach(ob, rig)
    smooth = ob.modifiers.new("CorrectiveSmooth", "CORRECTIVE_SMOOTH")
    smooth.factor, smooth.iterations = 0.5, 5
    # In the viewport a subdivided body would have 53,000 vertices.
    subdivision = ob.modifiers.new("Subdivision", "SUBSURF")
    subdivision.levels, subdivision.render_levels = 0, 1
    return rig, ob
