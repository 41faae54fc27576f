"""Runs inside Blender: builds one character and saves it (`understudy.io.blender.launch`)."""

import importlib
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import bpy
import numpy as np
import scene

MODULES = {
    "rigify": "human",
    "rigify_bare": "human",
    "clothed": "clothed",
    "quadruped": "quadruped",
    "unmovable": "unmovable",
}

asked, answered = (Path(name) for name in sys.argv[-2:])
request = json.loads(asked.read_text(encoding="utf-8"))
packed = asked.with_suffix(".npz")
body = dict(np.load(packed)) if packed.exists() else {}
random.seed(0)  # Rigify draws the name of its panel
scene.empty(frame_rate=30)
importlib.import_module(MODULES[request["name"]]).build(request, body)
bpy.ops.wm.save_as_mainfile(filepath=request["out"], compress=True)
answered.write_text(json.dumps(scene.counts()), encoding="utf-8")
