"""Methods by name. A method has one name: in the registry, on the command line and in reports.

Another package adds a method by entry point (group `understudy.methods`, see `system.plugins`); its
value is a `Method` subclass. A method is imported only when it is asked for, so listing the names
needs neither torch nor time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal, overload

from understudy.methods.base import Method, Traits
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.plugins import load_plugin, plugins

if TYPE_CHECKING:
    from understudy import methods

GROUP = "understudy.methods"
# Name -> module below understudy.methods, and its class: the one line to add for a new method.
_BUILT_IN = {
    "auto": "auto.auto:Auto",
    "corrected_skin": "corrected_skin:CorrectedSkin",
    "fdda": "fdda:Fdda",
    "differential": "differential.differential:Differential",
    "lbs": "lbs:Lbs",
    "temporal": "decomposition.temporal:Temporal",
    "ssdr": "decomposition.ssdr:Ssdr",
    "two_layer": "sparse_skinning.two_layer:TwoLayer",
}


def method_names() -> tuple[str, ...]:
    """The built-in methods, then those of plug-ins."""
    return tuple(dict.fromkeys([*_BUILT_IN, *plugins(GROUP)]))


def methods_by_name() -> tuple[dict[str, type[Method]], dict[str, str]]:
    """Name -> class of every method, and name -> problem of each plug-in that cannot be used."""
    methods, problems = {}, {}
    for name in method_names():
        try:
            methods[name] = method_type(name)
        except InputError as problem:
            problems[name] = str(problem)
    return methods, problems


# A type checker knows the options of what `understudy.methods` exports.
@overload
def method_type(name: Literal["auto"]) -> type[methods.Auto]: ...
@overload
def method_type(name: Literal["corrected_skin"]) -> type[methods.CorrectedSkin]: ...
@overload
def method_type(name: Literal["fdda"]) -> type[methods.Fdda]: ...
@overload
def method_type(name: Literal["differential"]) -> type[methods.Differential]: ...
@overload
def method_type(name: Literal["lbs"]) -> type[methods.Lbs]: ...
@overload
def method_type(name: Literal["temporal"]) -> type[methods.Temporal]: ...
@overload
def method_type(name: Literal["ssdr"]) -> type[methods.Ssdr]: ...
@overload
def method_type(name: Literal["two_layer"]) -> type[methods.TwoLayer]: ...
@overload
def method_type(name: str) -> type[Method[Any]]: ...
def method_type(name: str) -> type[Method[Any]]:
    """The class of a method; an unknown name is an error that offers the nearest one.

    >>> method_type("lbs").traits.needs_bones
    True
    """
    checks.one_of(name, "method", method_names())
    if name in _BUILT_IN:
        module, _, kind = _BUILT_IN[name].partition(":")
        return getattr(importlib.import_module(f"understudy.methods.{module}"), kind)
    entry = plugins(GROUP)[name]
    found = load_plugin(entry)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise InputError(
            f"the plug-in {name!r} ({entry.value}) is not an understudy.methods.Method subclass; "
            "repair or uninstall its package"
        )
    if getattr(found, "name", None) != name or not isinstance(
        getattr(found, "traits", None), Traits
    ):
        raise InputError(
            f"the plug-in {name!r} ({entry.value}) must set `name = {name!r}` and "
            "`traits = Traits(...)`; repair or uninstall its package"
        )
    return found


def built_in_class(name: str) -> type[Any]:
    """A built-in method by the name of its class, or its options by the name of theirs.

    >>> built_in_class("LbsConfig")().influences
    4
    """
    for place in _BUILT_IN.values():
        module, _, kind = place.partition(":")
        if name in (kind, f"{kind}Config"):
            return getattr(importlib.import_module(f"understudy.methods.{module}"), name)
    raise AttributeError(f"module 'understudy.methods' has no attribute {name!r}")
