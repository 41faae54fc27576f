"""Writes what is generated from `understudy.core.form`, and says whether it was up to date:

    runtime/src/form.h     the entries, from which the checks of the C++ reader are compiled
    docs/file-format.md    its tables, between <!-- form: PART --> and <!-- end of form -->

`python runtime/tools/write_form.py` writes; `--check` only compares.
"""

import re
import sys
from pathlib import Path

from understudy.core import form

ROOT = Path(__file__).resolve().parents[2]
HEADER, PAGE = ROOT / "runtime/src/form.h", ROOT / "docs/file-format.md"
PARTS = list(dict.fromkeys(entry.part for entry in form.ENTRIES))
NARROW = {"": "no", "one grid": "grid"}
TYPES = {"bool": "boolean"}
NARROW_TEXT = {
    "": "",
    "half": "F16",
    "grid": "U16 on a grid",
    "one grid": "U16 on one grid",
    "whole": "U8, U16 or steps",
}
FILE_TYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "bool": "BOOL"}


def header() -> str:
    """Return runtime/src/form.h."""
    names = ",\n    ".join(_word(entry.name) for entry in form.ENTRIES)
    rows = ",\n".join(map(_row, form.ENTRIES))
    parts = ",\n    ".join(part or "deformer" for part in PARTS)
    always = ",\n    ".join(str(part in form.ALWAYS).lower() for part in PARTS)
    return f"""\
// Written by runtime/tools/write_form.py from src/understudy/core/form.py.
// clang-format off
#pragma once

#include <cstdint>

namespace understudy {{

constexpr std::uint64_t kFormatVersion = {form.FORMAT_VERSION};

enum class FormType : std::uint8_t {{ float32, float64, int32, boolean, text, texts, object }};
enum class Narrow : std::uint8_t {{ no, half, grid, whole }};  // in a file in 16 bits
enum class FormPart : std::uint8_t {{
    {parts}
}};
// Whether every file has the part.
constexpr bool kAlways[] = {{
    {always}
}};

struct FormEntry {{
    const char* name;  // # stands for a number
    FormType type;
    Narrow narrow;
    FormPart part;
    bool needed;  // by a file that has the part
    std::uint8_t axes;
    std::int8_t lengths[4];  // negative: a letter, of one length in all of the file; 0: any
}};

enum class Form : std::uint8_t {{
    {names}
}};

constexpr FormEntry kForm[] = {{
{rows}
}};

}}  // namespace understudy
"""


def page(text: str) -> str:
    """Return docs/file-format.md with its tables as they are to be."""

    def table(found: re.Match[str]) -> str:
        part = found[1]
        rows = _axes() if part == "axes" else _table("" if part == "deformer" else part)
        return f"<!-- form: {part} -->\n{rows}\n<!-- end of form -->"

    return re.sub(r"<!-- form: (\w+) -->\n.*?<!-- end of form -->", table, text, flags=re.DOTALL)


def _word(name: str) -> str:
    return name.replace(".#.", "_").replace(".", "_")


def _row(entry: form.Entry) -> str:
    lengths = [_length(axis) for axis in entry.axes]
    return (
        f'    {{"{entry.name}",\n     FormType::{TYPES.get(entry.type, entry.type)}, '
        f"Narrow::{NARROW.get(entry.narrow, entry.narrow)}, "
        f"FormPart::{entry.part or 'deformer'}, {str(entry.needed).lower()}, {len(lengths)}, "
        f"{{{', '.join(map(str, lengths))}}}}}"
    )


def _length(axis: str | int) -> str | int:
    if isinstance(axis, int):
        return axis
    return f"-'{axis}'" if axis.isupper() else 0


def _table(part: str) -> str:
    lines = ["| name | type | shape | in 16 bits | what it is |", "| --- | --- | --- | --- | --- |"]
    for entry in form.entries_of(part):
        shape = "" if entry.type in ("text", "object") else f"({', '.join(map(str, entry.axes))})"
        kind = FILE_TYPES.get(entry.type, entry.type)
        meaning = entry.meaning if entry.needed else f"optional: {entry.meaning}"
        if entry.since > 1:
            meaning += f"; since format {entry.since}"
        narrow = NARROW_TEXT[entry.narrow]
        lines.append(f"| `{entry.name}` | {kind} | {shape} | {narrow} | {meaning} |")
    return "\n".join(lines)


def _axes() -> str:
    rows = "\n".join(f"| {letter} | {meaning} |" for letter, meaning in form.AXES.items())
    return f"| letter | length |\n| --- | --- |\n{rows}"


def outdated() -> list[Path]:
    """Return the files that differ from what the form generates."""
    wanted = {HEADER: header(), PAGE: page(PAGE.read_text())}
    return [path for path, text in wanted.items() if path.read_text() != text]


if __name__ == "__main__":
    late = outdated() if HEADER.exists() else [HEADER]
    if "--check" not in sys.argv:
        HEADER.write_text(header())
        PAGE.write_text(page(PAGE.read_text()))
    print("written:" if late else "up to date", *(path.relative_to(ROOT) for path in late))
    sys.exit(bool(late) and "--check" in sys.argv)
