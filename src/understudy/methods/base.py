"""What every method is: a name, one typed config, and `fit(poses) -> Deformer`.

The config is the defaults, the command line (`--set name=value`) and the documentation at once: a
frozen dataclass whose fields each have a default and are described in its docstring.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.rigs.base import Rig


@dataclass(frozen=True)
class Config:
    """Options every method has.

    seed: same seed, same data, same machine: the same file, byte for byte.
    """

    seed: int = 0

    def __post_init__(self):
        checks.between(self.seed, "seed", 0)


ConfigType = TypeVar("ConfigType", bound=Config)


class Method(Generic[ConfigType]):
    """A way to make a Deformer. Subclasses set `name` and `Config` and write `fit`."""

    name: ClassVar[str]
    Config: ClassVar[type[Any]] = Config

    def __init__(self, config: ConfigType | None = None):
        self.config: ConfigType = self.Config() if config is None else config
        if not isinstance(self.config, self.Config):
            raise InputError(
                f"{self.name}: expected a {self.Config.__qualname__}, got "
                f"{type(self.config).__qualname__}"
            )

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Learn `poses`; `rig` is the live rig, where there is one, for methods that ask it
        questions.
        """
        raise TypeError(f"{type(self).__qualname__} does not define fit")


def config_from_text(config_type: type[ConfigType], options: Mapping[str, str]) -> ConfigType:
    """A config from `name=value` texts, each read as its field's type.

    >>> config_from_text(Config, {"seed": "7"}).seed
    7
    """
    fields = {f.name: f for f in dataclasses.fields(config_type)}
    hints = typing.get_type_hints(config_type)
    values = {}
    for name, text in options.items():
        checks.one_of(name, f"option of {config_type.__qualname__}", fields)
        values[name] = _read(text, hints[name], name)
    return config_type(**values)


def _read(text: str, hint, name: str):
    """One option's text as its type: int, float, bool, str, tuples of those, and `none` where the
    type allows it.
    """
    if isinstance(hint, types.UnionType):
        options = typing.get_args(hint)
        if type(None) in options and text.lower() == "none":
            return None
        hint = next(option for option in options if option is not type(None))
    origin = typing.get_origin(hint)
    if origin is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_read(part, inner, name) for part in text.split(",") if part)
    if origin is typing.Literal:
        return checks.one_of(text, f"value of {name}", typing.get_args(hint))
    if hint is bool:
        if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise InputError(f"{name}: expected true or false, got {text!r}")
        return text.lower() in ("true", "yes", "1")
    try:
        return hint(text)
    except ValueError:
        raise InputError(f"{name}: expected {hint.__name__}, got {text!r}") from None
