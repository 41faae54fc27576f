"""Cases, rows and reports that the benchmarks on mesh sequences share.

A case is `<sequence>/<bones>`, optionally followed by `:<variant>`. Its sequence is the file
`sequences/<sequence>.npz` of the data folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.evaluation import machine
from understudy.evaluation.report import write_report
from understudy.evaluation.result import CaseResult, ReportData
from understudy.io.registry import read_sequence
from understudy.system.errors import FileError, InputError
from understudy_benchmarks import Request
from understudy_benchmarks.real_data import data_folder
from understudy_benchmarks.tuning import marked

EXACT_SKINS = "gt_lbs_"  # sequences whose names start with this were made by skinning

# The figures of a row in the tables; the reports have all of them.
_TABLE_FIGURES = (
    "e", "paper_e", "e_sphere", "delta_e", "memory_pct", "erms",
    "disper", "max_avg_dist", "norm_distort", "crp", "delta_w",
    "paper_delta_w", "bones", "influences", "virtual_bones",
    "bytes", "fit_s", "time_ratio", "error_ratio", "peak_mb", "true_bones", "joints_outside",
    "joint_outermost", "joints_in_wrong_limb", "joints_found", "joints_true", "smallest_patch",
    "paper_bones",
    "paper_erms", "rival_erms", "erms_low", "erms_high", "rounds_to_fesam", "cg_ms",
    "direct_ms",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A sequence, and the number of bones to fit to it."""

    name: str
    file: Path
    bones: int

    @property
    def influences(self) -> int | None:
        """Four; unlimited for exact skins."""
        return None if self.name.startswith(EXACT_SKINS) else 4


def find_cases(
    request: Request, default: Sequence[str], example: str = "horse_gallop/30"
) -> tuple[list[Case], list[str]]:
    """Return the cases for which there is data, and a note about missing ones.

    default  names of the cases to run if the request names none
    example  a case name for error messages

    Every case that the request names must exist.
    """
    folder = data_folder(request.data) / "sequences"
    cases, missing = [], []
    for name in request.cases or default:
        sequence, _, bones = name.partition(":")[0].rpartition("/")
        if not sequence or not bones.isdigit() or int(bones) < 1:
            raise InputError(f"case {name!r}: expected sequence/bones, for example {example}")
        file = folder / f"{sequence}.npz"
        if file.is_file():
            cases.append(Case(name, file, int(bones)))
        elif request.cases:
            raise FileError(
                f"{file}: no such file; the case {name!r} needs it. Point --data or "
                f"UNDERSTUDY_DATA at the folder above sequences/"
            )
        else:
            missing.append(name)
    if not cases:
        raise FileError(
            f"{folder}: holds none of the sequences of this benchmark; point --data or "
            f"UNDERSTUDY_DATA at the real data"
        )
    return cases, [f"No data for {', '.join(missing)} in {folder}: left out."] if missing else []


def lean_row(result: CaseResult) -> CaseResult:
    """Return a row with the figures of the decomposition papers only, without curves and images."""
    return CaseResult(
        result.case,
        result.method,
        {name: result.figures[name] for name in _TABLE_FIGURES if name in result.figures},
    )


def write_sequence_report(
    file: Path, results: Sequence[CaseResult], request: Request, command: str
) -> None:
    """Write the report of the rows of one sequence."""
    write_poses_report(read_sequence(file), file.stem, results, request, command)


def write_poses_report(
    poses: Poses,
    title: str,
    results: Sequence[CaseResult],
    request: Request,
    command: str,
    skins: Mapping[str, tuple[Skeleton, Skin]] | None = None,
    true_joints: np.ndarray | None = None,
) -> None:
    """Write the report of rows that approximate the same poses.

    skins        method -> skeleton and skin to show
    true_joints  (n,3) joints of the character's own rig that move, or None
    """
    mesh = poses.mesh
    data = ReportData(
        title=title,
        mesh=mesh,
        results=marked(command.split()[-1], results),
        machine=machine.describe(),
        notes=[
            "Every row is measured on the sequence it was fitted to: these are compression errors."
        ],
        provenance={
            "understudy": __version__,
            "command": f"understudy {command} ({request.size})",
            "seed": request.seed,
        },
        skins=skins or {},
        true_joints=true_joints,
    )
    write_report(request.out / f"{title}.html", data)
