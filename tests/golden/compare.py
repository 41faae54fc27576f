"""`python -m golden.compare REVISION`, in tests/: which results differ from those of a revision.

The cases of the revision are run with its own package, in a work tree in a temporary folder, and
with the compiled modules that are installed here. Works on any machine.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from golden.results import differences, results

import understudy

_ROOT = Path(__file__).parents[2]
# An editable install comes before any path: without it the package is that of the revision.
_SHOW = """
import json, sys
sys.meta_path = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]
import understudy
assert understudy.__file__.startswith(sys.argv[1]), understudy.__file__
from golden.results import results
print(json.dumps(dict(results())))
"""


def results_of(revision: str) -> dict[str, dict[str, object]]:
    """The results of all cases of a revision."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        _git("worktree", "add", "--quiet", "--detach", str(tree), revision)
        try:
            _copy_compiled(tree)
            packages = [str(path) for path in (tree / "src", *tree.glob("*/src")) if path.is_dir()]
            path = os.pathsep.join([str(tree / "tests"), *packages])
            run = subprocess.run(
                [sys.executable, "-c", _SHOW, str(tree)],
                env={**os.environ, "PYTHONPATH": path},
                cwd=folder,
                check=True,
                stdout=subprocess.PIPE,
            )
        finally:
            _git("worktree", "remove", "--force", str(tree))
    return json.loads(run.stdout.splitlines()[-1])


def _copy_compiled(tree: Path) -> None:
    """Copy the compiled modules that are installed to where the revision's own build puts them."""
    build = (tree / "CMakeLists.txt").read_text(encoding="utf-8")
    for module in Path(understudy.__file__).parent.rglob(f"*{EXTENSION_SUFFIXES[0]}"):
        target = f"install(TARGETS {module.name.split('.')[0]} LIBRARY DESTINATION "
        destination = build.partition(target)[2].partition(")")[0]
        shutil.copy2(module, tree / "src" / destination)


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=_ROOT, check=True)


if __name__ == "__main__":
    before = results_of(sys.argv[1])
    now = dict(results())
    for name in sorted(before.keys() ^ now.keys()):
        print(f"{name}: only {'before' if name in before else 'now'}")
    changed = {
        name: found
        for name in now.keys() & before.keys()
        if (found := differences(now[name], before[name], hashes=True))
    }
    for name, found in sorted(changed.items()):
        print(f"{name}: {'; '.join(found)}")
    print(f"{len(changed)} of {len(now)} cases differ from {sys.argv[1]}")
    sys.exit(bool(changed))
