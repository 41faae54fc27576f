"""Which data chose which constant, and the marks of benchmark rows that took part in a choice.

A row of a benchmark is a test only if nobody looked at its data to set the constants of its method.
`CHOICES` lists every constant that was set by looking at figures. `benchmarks.run` and the reports
mark the rows that took part, and `benchmarks/write_tables.py` writes the list into
notes/tuning.md. To add a choice, add an entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from understudy.evaluation.result import CaseResult


@dataclass(frozen=True)
class Choice:
    """Constants that were set by looking at figures of some data.

    constants  names of constants or options, as they are spelled in `file`
    file       below src/understudy or below this package
    methods    rows of benchmarks that use them; `*` stands for any text, as in `two_layer*`
    rows       rows of benchmarks that were looked at, as benchmark:case, such as
               `two-layer:horse_gallop/*`
    data       other data that were looked at, in words; "" if there are none
    """

    constants: tuple[str, ...]
    file: str
    methods: tuple[str, ...]
    rows: tuple[str, ...] = ()
    data: str = ""

    def covers(self, benchmark: str, case: str, method: str) -> bool:
        """Whether a row of a benchmark took part in the choice."""
        return any(fnmatchcase(method, pattern) for pattern in self.methods) and any(
            fnmatchcase(f"{benchmark}:{case}", pattern) for pattern in self.rows
        )


_WALK_AND_KICK = ("body:*/walk", "body:*/kick")
_SEEN_CLIPS = ("body:*/cmu_02_01", "body:*/cmu_10_01", "body:*/cmu_13_29")
_TWO_LAYER = (
    "two-layer:samba/*",
    "two-layer:horse_gallop/*",
    "two-layer:horse_collapse/*",
    "two-layer:elephant_gallop/*",
)
_FACE = ("face:face/speech", "face:face/expressions")

_SEQUENCES = tuple(f"temporal:{name}*" for name in ("horse_gallop", "elephant_gallop", "samba"))
_SKELETON_ROWS = tuple(
    f"temporal:corpus/{name}"
    for name in (
        "animal_khr_Fox/1",
        "animal_qfarm_*/2",
        "animal_qplat_Bee/2",
        "animal_qplat_Crab/3",
        "human_khr_RiggedFigure/0",
        "human_q_*/3",
        "robot_qmech_*/3",
    )
)
_SKELETON_DATA = (
    "the middle animation of all corpus characters that are not human_qman or human_qwoman, and "
    "human_qman_King/3, Suit/2, human_qwoman_Medieval/3, human_qwoman_anim_Witch/3"
)
_OTHER_ROWS = tuple(
    f"temporal:corpus/{name}"
    for name in ("animal_khr_Fox/0", "animal_qfarm_Cow/0", "human_khr_RiggedFigure/0")
)
_OTHER_DATA = "one more animation of every corpus character"
CHOICES: tuple[Choice, ...] = (
    Choice(
        ("CORRECTED", "DIFFERENTIAL"),
        "methods/auto/candidates.py",
        ("auto",),
        ("auto:human/*", "auto:face/*", "auto:blenrig_face/*"),
    ),
    Choice(
        ("_FIRST_GAIN", "_TWO_LAYERS", "_SHRINKABLE"),
        "methods/auto/walk.py",
        ("auto",),
        ("auto:human/*", "auto:face/*", "auto:blenrig_face/*"),
    ),
    Choice(("FAMILIES",), "methods/auto/sequences.py", ("auto",), ("auto:samba/*",)),
    Choice(
        ("networks", "hidden", "linear", "weight_decay", "epochs"),
        "methods/corrected_skin.py",
        ("corrected_skin", "auto"),
        ("body:human/walk", "body:human/kick", "body:human/cmu_02_01", "body:human/cmu_10_01"),
    ),
    Choice(
        ("_CLEARLY_LESS", "_LEAST_GAIN"),
        "methods/correctives/evidence.py",
        ("corrected_skin", "fdda", "differential", "auto"),
        ("recorded:85_02", "recorded:126_03"),
        "BlenRig's body, the built-in human",
    ),
    Choice(
        ("skin_rings", "seam_rings"),
        "methods/fdda.py",
        ("fdda", "fdda-noclamp", "fdda-tight", "fdda-open", "fdda-adamw"),
        _WALK_AND_KICK,
    ),
    Choice(
        ("clamp_margin",),
        "methods/correctives/config.py",
        ("fdda", "fdda-noclamp", "fdda-tight", "fdda-open", "fdda-adamw"),
        _WALK_AND_KICK,
    ),
    Choice(
        ("_CLUSTERS", "_MARGIN", "FADE_END", "_SAMPLED_MARGIN"),
        "methods/correctives/bounds.py",
        ("corrected_skin", "auto", "fdda", "differential", "local", "pca_regression"),
        ("recorded:*", "outside:*"),
        "poses of the built-in tube, human and face outside the range of their controls; "
        "animations of the tube",
    ),
    Choice(
        ("_readings_of_single_controls",),
        "methods/correctives/bounds.py",
        ("differential", "local", "pca_regression"),
        ("face:facecap",),
    ),
    Choice(
        ("rom_share",),
        "methods/correctives/config.py",
        ("fdda", "differential", "local", "corrected_skin"),
        ("body:human/walk", "body:human/kick", *_FACE, "outside:*"),
    ),
    Choice(
        ("weight_decay",),
        "methods/fdda.py",
        ("fdda", "fdda-noclamp", "fdda-tight", "fdda-open"),
        (*_WALK_AND_KICK, "recorded:05_02", "recorded:49_02"),
    ),
    Choice(
        ("_STEPS_PER_EPOCH", "_LEAST_BATCH"),
        "training/schedule.py",
        ("fdda", "differential", "local", "corrected_skin", "auto"),
        (*_WALK_AND_KICK, "recorded:05_02", "recorded:49_02"),
    ),
    Choice(
        ("learning_rate",),
        "methods/fdda.py",
        ("fdda", "fdda-noclamp", "fdda-tight", "fdda-open"),
        data="training loss on the built-in human",
    ),
    Choice(
        ("_BODY_NETS",),
        "body_fits.py",
        ("differential", "local", "fdda-adamw"),
        (*_WALK_AND_KICK, *_SEEN_CLIPS),
    ),
    Choice(
        ("hidden", "activation", "epochs", "weight_decay", "loss"),
        "methods/correctives/config.py",
        ("differential", "local"),
        ("face:blenrig", *_FACE),
        "splits 0 to 9 of blenrig",
    ),
    Choice(
        ("regions",),
        "methods/correctives/config.py",
        ("differential", "local"),
        ("face:blenrig", *_FACE),
        "splits 0 to 9 of blenrig",
    ),
    Choice(
        ("anchors", "anchor_hidden", "omega"),
        "methods/differential/config.py",
        ("differential",),
        ("face:blenrig", *_FACE),
        "500 random poses of the built-in face",
    ),
    Choice(
        ("_LARGEST_ERROR_RATIO",),
        "methods/correctives/mirror.py",
        ("differential", "local"),
        ("face:blenrig",),
    ),
    Choice(
        ("_POSE_TERM",),
        "methods/correctives/skins.py",
        ("differential*", "local*", "kpsa"),
        data="smoothness of the displacements of the built-in face",
    ),
    Choice(
        ("_CLEARLY_LESS", "_LEAST_GAIN", "_WIDTHS", "_RIDGES"),
        "methods/correctives/evidence.py",
        ("fdda", "differential", "local", "understudy"),
        ("blender:blenrig_body", "recorded:85_02", "recorded:126_03"),
        "random poses of the built-in human",
    ),
    Choice(
        ("anchor_share",),
        "baselines/rotational_regression.py",
        ("rotational_regression*",),
        _WALK_AND_KICK,
        "twelve random poses of the built-in human",
    ),
    Choice(
        ("GAMMA", "visible", "INVISIBLE"),
        "methods/decomposition/bones/bone_count.py",
        ("temporal",),
        ("temporal:horse_gallop*", "temporal:elephant_gallop*", "temporal:samba*"),
    ),
    Choice(
        ("exact", "negligible", "rise", "collapse", "steep", "overfit"),
        "methods/decomposition/bones/bone_count.py",
        ("temporal",),
        data="corpus characters of the families that the networks were trained on, the errors by "
        "number of bones of all sequences, and three characters of other families (Cow, Pug, Pig)",
    ),
    Choice(
        ("SPLIT_SHARES",),
        "methods/decomposition/solve/starts.py",
        ("ssdr-affine", "ssdr-rigid", "temporal", "temporal-skeleton"),
        ("decompose:*", *_SEQUENCES),
    ),
    Choice(
        ("AFFINE", "RIGID", "THOROUGH_ITERATIONS", "THOROUGH"),
        "methods/decomposition/solve/plan.py",
        ("ssdr-affine", "ssdr-rigid", "temporal", "temporal-skeleton"),
        ("decompose:*", *_SEQUENCES),
    ),
    Choice(
        ("_VERTICES", "_PERTURBATIONS", "_REPETITIONS"),
        "methods/decomposition/skeleton/skeleton_solve.py",
        ("temporal-skeleton",),
        _SEQUENCES,
    ),
    Choice(
        ("_BENEATH",),
        "methods/decomposition/skeleton/body.py",
        ("temporal-skeleton",),
        (
            "temporal:corpus/robot_qmech_Leela/3",
            "temporal:corpus/animal_qfarm_Pig/2",
            "temporal:corpus/animal_qfarm_Horse/2",
            "temporal:corpus/animal_qfarm_Cow/2",
            "temporal:corpus/human_q_KnightCharacter/3",
        ),
        "skeletons of the corpus characters animal_qfarm_Pug/2 and Llama/2",
    ),
    Choice(
        ("_HOLD",),
        "methods/decomposition/skeleton/local_skeleton.py",
        ("temporal-skeleton",),
        data="the skeleton of the corpus character animal_qfarm_Pig/2",
    ),
    Choice(
        ("small", "exact", "nearly", "few", "splits", "less", "share", "tries"),
        "methods/decomposition/bones/patch_search.py",
        ("temporal-skeleton",),
        _SKELETON_ROWS,
        _SKELETON_DATA,
    ),
    Choice(
        ("_SMALL_MESH", "_CLOSED", "_MORE"),
        "methods/decomposition/bones/local_bones.py",
        ("temporal-skeleton",),
        _SKELETON_ROWS,
        _SKELETON_DATA,
    ),
    Choice(
        ("_NOISE", "_SPREAD", "_MIDDLE", "_SPINE"),
        "methods/decomposition/skeleton/joints.py",
        ("temporal-skeleton",),
        _SKELETON_ROWS,
        _SKELETON_DATA,
    ),
    Choice(
        ("_APART", "_FAR", "_MIN_APART", "_LITTLE"),
        "methods/decomposition/skeleton/local_skeleton.py",
        ("temporal-skeleton",),
        _SKELETON_ROWS,
        _SKELETON_DATA,
    ),
    Choice(
        ("precision",),
        "methods/decomposition/bones/patch_search.py",
        ("temporal-skeleton",),
        _OTHER_ROWS,
        f"{_OTHER_DATA}, animal_khr_Fox/2",
    ),
    Choice(
        ("_GROUND", "_ASIDE", "_SAME", "_MIDDLE", "_BEYOND"),
        "methods/decomposition/skeleton/root_bone.py",
        ("temporal-skeleton",),
        _OTHER_ROWS,
        _OTHER_DATA,
    ),
    Choice(
        ("_CHORD",),
        "methods/decomposition/skeleton/body.py",
        ("temporal-skeleton",),
        _OTHER_ROWS,
        _OTHER_DATA,
    ),
    Choice(
        ("_FAINT",),
        "methods/decomposition/solve/pruning.py",
        ("temporal",),
        (*_SKELETON_ROWS, *_OTHER_ROWS),
        _OTHER_DATA,
    ),
    Choice(
        ("_EXACT", "_RISE"),
        "methods/decomposition/temporal.py",
        ("temporal",),
        (*_SKELETON_ROWS, *_OTHER_ROWS),
        _OTHER_DATA,
    ),
    Choice(
        ("CONVEXITY",),
        "baselines/temporal_paper.py",
        ("temporal-paper*",),
        ("temporal:horse_gallop*",),
    ),
    Choice(
        ("iterations", "starts"),
        "baselines/fesam.py",
        ("fesam",),
        ("temporal:horse_gallop*",),
    ),
    Choice(
        (
            "finish",
            "per_vertex",
            "max_coefficient",
            "smoothness",
            "detail",
            "_SMOOTHNESS",
            "_WEIGHTS_SMOOTHNESS",
        ),
        "methods/sparse_skinning/config.py",
        ("two_layer", "two_layer-ex"),
        _TWO_LAYER,
    ),
    Choice(
        ("_ROOM",),
        "methods/sparse_skinning/two_layer.py",
        ("two_layer", "two_layer-ex"),
        _TWO_LAYER,
    ),
    Choice(
        ("_INDIVIDUAL", "_FEW"),
        "methods/sparse_skinning/dense.py",
        ("two_layer", "two_layer-ex", "dense"),
        _TWO_LAYER,
    ),
    Choice(
        ("PAPER_INDIVIDUAL",),
        "two_layer.py",
        (
            "two_layer-paper*",
            "k_largest",
            "smooth",
            "geometry",
            "poisson",
            "dense-paper",
            "ssdr-8-paper",
        ),
        _TWO_LAYER[:3],
    ),
)


def is_tuned(benchmark: str, case: str, method: str) -> bool:
    """Whether a row of a benchmark took part in choosing a constant of its method.

    >>> is_tuned("two-layer", "horse_gallop/30", "two_layer")
    True
    >>> is_tuned("two-layer", "horse_gallop/30", "ssdr-4")
    False
    """
    return any(choice.covers(benchmark, case, method) for choice in CHOICES)


def marked(benchmark: str, results: Iterable[CaseResult]) -> list[CaseResult]:
    """The rows of a benchmark, with those that took part in a choice marked as tuned."""
    return [replace(r, tuned=is_tuned(benchmark, r.case, r.method)) for r in results]


def tuning_table(choices: Sequence[Choice] = CHOICES) -> str:
    """The list of choices as a Markdown table."""
    lines = ["| constants | where | methods | data that chose them |", "| --- | --- | --- | --- |"]
    code = lambda names: ", ".join(f"`{name}`" for name in names)
    for choice in choices:
        data = "; ".join(part for part in (code(choice.rows), choice.data) if part)
        lines.append(
            f"| {code(choice.constants)} | `{choice.file}` | {code(choice.methods)} | {data} |"
        )
    return "\n".join(lines)
