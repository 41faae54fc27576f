"""The ablations of the differential paper (Tables 2 to 4, Figure 5) on the built-in face.

Each row changes one option. Rows are named `differential-<what>`: layers-1 .. -5; anchors-1, -2, -5
(per cent of the vertices); single (one network for all anchors); scalp, random and hand (other
anchors); data-25 .. -100 (per cent of the poses); pcs-1 .. -10 (components as per cent of V, one
region). All start from `differential-base`, whose training is shorter than the default's because
there are thirty rows. Compare them with that row, not with the main table.

alone-<choice> are anchors in the reconstruction of the paper, where nothing else fixes the mesh.
They have one ReLU network for the coordinates, components for 5 % of V, 2 % anchors and omega 1.
Compare these with each other: errors (the automatic choice there), hand, scalp, random-0 .. -3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from understudy.core.mesh import Mesh
from understudy.evaluation.measure import Reference, deform_poses, measure
from understudy.evaluation.result import CaseResult
from understudy.methods.differential.reconstruction import Laplacian
from understudy.system.progress import Progress
from understudy_benchmarks import Request
from understudy_benchmarks.face_data import Subject, face_subject
from understudy_benchmarks.face_rows import deformer_row, fit_deformer
from understudy_benchmarks.seeds import at_once

POSES = {"quick": 200, "default": 1500, "full": 5000}
BASE = {
    "quick": {"epochs": "2", "anchor_epochs": "2", "hidden": "32,32", "input_poses": "1"},
    "default": {"epochs": "20", "anchor_epochs": "30", "hidden": "128,128", "input_poses": "10"},
    "full": {},
}
ALONE = {
    "omega": "1",
    "metric": "differential",
    "regions": "1",
    "components": "0.05",
    "linear": "false",
    "activation": "relu",
    "loss": "l1",
}
_RANDOM_LISTS = 4
# Anchors as an artist would place them, on the middle line and the left half, as (x, y) in cm seen
# from the front; the right half mirrors them.
# fmt: off
_MIDDLE = [
    (0, 170), (0, 167), (0, 164.3), (0, 161.5), (0, 159.9), (0, 158.6), (0, 157.6), (0, 157.0),
    (0, 156.6), (0, 155.8), (0, 154.8), (0, 153), (0, 152),
]
_LEFT = [
    (1.2, 166.2), (2.4, 166.6), (3.6, 166.5), (4.8, 165.9), (1.5, 164.0), (2.1, 164.5),
    (2.9, 164.8), (3.8, 164.6), (4.5, 163.9), (2.1, 163.3), (2.9, 163.0), (3.8, 163.1),
    (3.0, 161.8), (4.6, 161.4), (5.8, 162.5), (1.4, 160.2), (1.7, 159.2), (2.9, 159.0),
    (4.4, 159.3), (5.8, 158.6), (0.7, 157.7), (1.4, 157.4), (2.0, 157.0), (2.6, 156.7),
    (0.7, 156.9), (1.4, 156.8), (0.7, 156.6), (1.4, 156.5), (2.0, 156.3), (1.2, 155.6),
    (3.6, 157.5), (4.4, 156.3), (3.4, 155.2), (1.8, 154.2), (5.2, 154.6), (2.0, 152.6),
    (3.0, 169.5), (5.2, 168.0), (6.6, 158.0),
]
# fmt: on


def ablations(request: Request, progress: Progress) -> list[CaseResult]:
    """The rows of all variants, fitted to the same poses and measured on the same others."""
    subject = face_subject(
        POSES[request.size], request.seed, request.out / "ablations.zarr", progress
    )
    references = [Reference.of(case, test()) for case, test in subject.tests.items()]
    rows = at_once(
        [
            partial(_measured, *variant, subject, references, request, progress)
            for variant in _variants(subject)
        ],
        request.jobs,
    )
    return [result for results in rows for result in results]


def _measured(
    name: str,
    fraction: float,
    options: dict[str, str],
    subject: Subject,
    references: Sequence[Reference],
    request: Request,
    progress: Progress,
) -> list[CaseResult]:
    """The rows of one variant, fitted to a fraction of the poses."""
    sample = subject.sample.take(np.arange(round(fraction * subject.sample.pose_count)))
    basic = {"seed": str(request.seed), "device": request.device, **BASE[request.size]}
    deformer = fit_deformer(
        "differential", replace(subject, sample=sample), {**basic, **options}, progress
    )
    figures = {
        **deformer_row(deformer, sample),
        "anchors": deformer.training["anchors"],
        "components": deformer.training["components"],
    }
    return [
        measure(f"differential-{name}", deform_poses(deformer), reference, figures)
        for reference in references
    ]


def _variants(subject: Subject) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Name, fraction of the poses, and options of each row."""
    mesh = subject.sample.mesh

    def listed(anchors: np.ndarray) -> dict[str, str]:
        return {"anchor_list": ",".join(str(int(a)) for a in anchors)}

    yield "base", 1.0, {}
    for layers in range(1, 6):
        yield f"layers-{layers}", 1.0, {"hidden": ",".join(["128"] * layers)}
    for percent in (1, 2, 5):
        yield f"anchors-{percent}", 1.0, {"anchors": str(percent / 100)}
    yield "single", 1.0, {"anchor_nets": "single"}
    yield "scalp", 1.0, listed(scalp_anchors(mesh))
    shell = Laplacian.of(mesh).shell
    yield "random", 1.0, listed(random_anchors(shell, round(0.02 * mesh.vertex_count), 0))
    yield "hand", 1.0, listed(hand_made_anchors(mesh))
    for percent in (25, 50, 75, 100):
        yield f"data-{percent}", percent / 100, {}
    for percent in (1, 2, 5, 10):
        yield f"pcs-{percent}", 1.0, {"components": str(percent / 100), "regions": "1"}
    yield "alone-errors", 1.0, ALONE
    lists = {"hand": hand_made_anchors(mesh), "scalp": scalp_anchors(mesh)}
    lists |= {
        f"random-{seed}": random_anchors(shell, round(0.02 * mesh.vertex_count), seed)
        for seed in range(_RANDOM_LISTS)
    }
    for choice, anchors in lists.items():
        yield f"alone-{choice}", 1.0, {**ALONE, **listed(anchors)}


def random_anchors(shell: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Random anchors (n,): one in every connected component (V,) of the mesh, others anywhere."""
    order = np.random.default_rng([seed, 7]).permutation(len(shell))
    first = order[np.unique(shell[order], return_index=True)[1]]
    return np.concatenate([first, order[~np.isin(order, first)]])[: max(count, len(first))]


def hand_made_anchors(mesh: Mesh) -> np.ndarray:
    """Anchors (n,) on both sides of the face, and one on each of eyeballs, teeth and tongue.

    They are on lids, brows, nose, lips, cheeks, jaw and forehead.
    """
    places = np.array([*_MIDDLE, *_LEFT, *((-x, y) for x, y in _LEFT)])
    skin = mesh.parts["skin"]
    front = skin[mesh.vertices[skin, 2] > 8.0]
    points = mesh.vertices[front]
    # Of the vertices near a place as seen from the front, take the frontmost one, not the inside of
    # the mouth or the socket behind the lid.
    flat = np.linalg.norm(points[None, :, :2] - places[:, None], axis=2)
    chosen = front[(flat - 0.15 * points[None, :, 2]).argmin(axis=1)]
    return np.unique(
        np.concatenate([chosen, *(part[:1] for name, part in mesh.parts.items() if name != "skin")])
    )


def scalp_anchors(mesh: Mesh) -> np.ndarray:
    """As many anchors (n,) on the crown of the head, and one on each of the other parts."""
    skin = mesh.parts["skin"]
    crown = skin[mesh.vertices[skin, 1] > np.quantile(mesh.vertices[skin, 1], 0.8)]
    count = len(hand_made_anchors(mesh)) - len(mesh.parts) + 1
    spread = crown[np.linspace(0, len(crown) - 1, count).round().astype(int)]
    return np.unique(
        np.concatenate([spread, *(part[:1] for name, part in mesh.parts.items() if name != "skin")])
    )
