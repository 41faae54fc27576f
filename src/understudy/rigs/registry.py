"""Rigs by name: built in, from a plug-in, or a class in a module or file of the user's.

    tube                        the built-in rig
    human                       a rig of another package, by its entry point
    studio.rigs:Hero            a class (or a function without arguments) in an importable module
    path/to/lid.py:Lid          a class in a file
    path/to/hero.blend          a Blender file; hero.blend?mesh=Body names its meshes

Another package adds a rig by entry point (group `understudy.rigs`, see `system.plugins`); its value
is the class, which is imported only when it is asked for. `human` and `face` come that way too.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import Any

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.rigs.base import Rig
from understudy.rigs.blender.options import is_blend
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.tube import TubeRig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.plugins import load_plugin, plugins

GROUP = "understudy.rigs"
# What the names of the modules of rigs' files begin with.
_MODULE = "understudy_rig_"
# The characters that come with Understudy, in a package of their own.
_CHARACTERS = ("human", "face")
_NEEDED = "a rig needs `mesh`, `skeleton` (or None), `controls` and `evaluate(values) -> Poses`"


def rig_names() -> tuple[str, ...]:
    """The built-in tube, then the rigs of plug-ins."""
    return tuple(dict.fromkeys([TubeRig.name, *plugins(GROUP)]))


def load_rig(text: str) -> Rig:
    """The rig that `text` names.

    text  a built-in name (`tube`, tiny, for tests), that of a plug-in, such as `human` and `face`
          of the package `understudy-characters`, `package.module:Class`, `path/to/rig.py:Class`, or
          `path/to/hero.blend` (options: see `blender.parse_blend`)

    >>> load_rig("tube").mesh.vertex_count
    104
    """
    if is_blend(text):
        return BlenderRig.from_text(text)
    return checked_rig(_build(_factory(text), text), text)


def is_rig(text: str) -> bool:
    """Whether `text` names a rig, and not a file of poses.

    >>> is_rig("human"), is_rig("lid.py:Lid"), is_rig("hero.blend"), is_rig("walk.npz")
    (True, True, True, False)
    """
    if is_blend(text) or text.endswith(".py") or text in (*_CHARACTERS, *rig_names()):
        return True
    if text.isidentifier() and not Path(text).exists():
        return True  # a misspelled one
    where, colon, name = text.rpartition(":")
    # A drive letter also ends in a colon, but no class name holds a slash, a backslash or a dot.
    return bool(colon and where and name.isidentifier())


def portable_name(text: str) -> str:
    """`text` as a file records it: the path of a rig's file shortened to the file's name.

    >>> portable_name("/home/me/rigs/lid.py:Lid")
    'lid.py:Lid'
    """
    return _with_path(text, lambda path: path.replace("\\", "/").rpartition("/")[2])


def absolute_name(text: str) -> str:
    """`text` with the path of a rig's file made absolute, for processes in other folders.

    >>> absolute_name("human"), absolute_name("/rigs/lid.py:Lid")
    ('human', '/rigs/lid.py:Lid')
    """
    return _with_path(text, lambda path: str(Path(path).absolute()))


def _with_path(text: str, change: Callable[[str], str]) -> str:
    """`text` with the path of a rig's file changed."""
    if is_blend(text):
        path, mark, options = text.partition("?")
        return f"{change(path)}{mark}{options}"
    where, colon, name = text.rpartition(":")
    return f"{change(where)}{colon}{name}" if _is_file(where) else text


def checked_rig(rig: Any, who: str) -> Rig:
    """`rig`, or an `InputError` that names what it lacks. `who`: what the error calls it."""
    missing = [n for n in ("mesh", "skeleton", "controls", "evaluate") if not hasattr(rig, n)]
    if missing:
        raise InputError(
            f"{who}: {type(rig).__qualname__} has no {', no '.join(missing)}; {_NEEDED}"
        )
    for name, kind in (("mesh", Mesh), ("skeleton", Skeleton), ("controls", ControlSpec)):
        value = getattr(rig, name)
        if not isinstance(value, kind) and not (name == "skeleton" and value is None):
            raise InputError(
                f"{who}: {name} is a {type(value).__qualname__}, expected an "
                f"understudy.{kind.__name__}; {_NEEDED}"
            )
    if not callable(rig.evaluate):
        raise InputError(f"{who}: evaluate is not a method; {_NEEDED}")
    return rig


def _factory(text: str) -> Callable[[], Any]:
    """What builds the rig that `text` names: a class, or a function without arguments."""
    where, colon, name = text.rpartition(":")
    if colon:
        module = _file_module(where, text) if _is_file(where) else _module(where, text)
        found = getattr(module, name, None)
        if found is None:
            raise InputError(f"{text}: {where} has no class {name!r}{_offered(module)}")
        return found
    if _is_file(text):
        raise InputError(f"{text}: say which class of the file is the rig, as in {text}:Lid")
    if text == TubeRig.name:
        return TubeRig
    others = plugins(GROUP)
    if text in _CHARACTERS and text not in others:
        raise InputError(
            f"the rig {text!r} is in the package understudy-characters, which is not installed; "
            "run `pip install ./characters` in a checkout of Understudy"
        )
    try:
        checks.one_of(text, "rig", rig_names())
    except InputError as problem:
        raise InputError(
            f"{problem}. A rig of your own: package.module:Class, path/to/rig.py:Class or "
            "path/to/hero.blend"
        ) from None
    return load_plugin(others[text])


def _build(factory: Any, text: str) -> Any:
    if not callable(factory):
        raise InputError(
            f"{text}: names a {type(factory).__qualname__}, expected a class; {_NEEDED}"
        )
    try:
        inspect.signature(factory).bind()
    except TypeError as problem:
        raise InputError(
            f"{text}: the rig is built without arguments, but {problem}; give the arguments "
            "defaults, or name a function without arguments that builds the rig"
        ) from None
    return factory()


def _module(name: str, text: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        # A module that the rig itself imports is missing: that error says more than ours would.
        if problem.name is None or not f"{name}.".startswith(f"{problem.name}."):
            raise
        raise InputError(
            f"{text}: there is no module {problem.name!r}; give the path of the rig's file "
            "(path/to/rig.py:Class), or install its package"
        ) from None


def _file_module(where: str, text: str) -> ModuleType:
    """The module in the file at `where`, run anew."""
    path = Path(where).resolve()
    if not path.is_file():
        raise InputError(f"{text}: there is no file {where}")
    # The same in every process, so that errors of the rig's own classes travel between them.
    name = f"{_MODULE}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    loader = _Anew(name, str(path)) if path.suffix == ".py" else None
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise InputError(f"{text}: {where} cannot be imported; expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    _import_from(path.parent)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Anew(SourceFileLoader):
    """Compiles the file: what Python keeps compiled is told from an edit by second and size."""

    def path_stats(self, path: Any) -> Any:
        """Without these, Python neither looks for a compiled file nor writes one."""
        raise OSError


def _import_from(folder: Path) -> None:
    """Lets a rig's file import the modules beside it, as when it is run as a script.

    Two rigs may each have a `helper.py`: that of a rig loaded earlier, from another folder, is
    forgotten, or this rig would move by the other's rules.
    """
    loaded = [module for name, module in sys.modules.items() if name.startswith(_MODULE)]
    others = {Path(str(module.__file__)).parent for module in loaded} - {folder}
    for name in list(sys.modules):
        top = name.partition(".")[0]
        file = Path(getattr(sys.modules[name], "__file__", None) or "")
        of_another = any(file == o / f"{top}.py" or file.is_relative_to(o / top) for o in others)
        if of_another and ((folder / f"{top}.py").is_file() or (folder / top).is_dir()):
            del sys.modules[name]
    kinds = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (_Anew, SOURCE_SUFFIXES))
    sys.path_importer_cache[str(folder)] = FileFinder(str(folder), *kinds)
    # After every installed module, before the folders of other rigs.
    paths = [str(other) for other in others]
    first = next((k for k, entry in enumerate(sys.path) if entry in paths), len(sys.path))
    if str(folder) not in sys.path[:first]:
        sys.path[first:] = [str(folder), *(e for e in sys.path[first:] if e != str(folder))]


def _offered(module: ModuleType) -> str:
    """The classes that `module` itself defines, as the end of a sentence."""
    names = [n for n, kind in vars(module).items() if inspect.isclass(kind)]
    own = [n for n in names if vars(module)[n].__module__ == module.__name__]
    return f" (it has {', '.join(own)})" if own else " (it defines no class)"


def _is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where or "\\" in where
