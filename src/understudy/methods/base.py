"""What every method is: a name, its traits, one typed config, and `fit(poses) -> Deformer`.

The config is the defaults, the command line (`--set name=value`) and the documentation at once: a
frozen dataclass whose fields each have a default and a description in its docstring.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Generic, Self, TypeVar

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.methods.fit_arguments import check_fit, say_if_worse, usable_poses
from understudy.rigs.base import Rig
from understudy.system import checks, tasks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

_FITTING: ContextVar[bool] = ContextVar("fitting", default=False)
PRESET = "preset"  # `--set preset=NAME` is `--preset NAME`
_RESULT_INDEPENDENT = ("checkpoint", "device")


@dataclass(frozen=True)
class Traits:
    """What a method can do. The command line's errors and the contract suite read this.

    needs_bones       it refuses poses without a skeleton
    finds_bones       it ignores the skeleton of the poses and finds its own bones, whose motion its
                      deformer keeps as clips
    takes_sequences   it fits poses that have neither bones nor controls (a mesh sequence)
    controls_suffice  it fits poses that have controls and no bones
    reduces_skin      it has `reduce`, which gives the skin of a fitted deformer fewer influences
    asks_rig          it evaluates the live rig during the fit, where there is one
    needs_torch       it trains networks
    affine_weights    its skin weights sum to one but may be negative
    baseline          the method that is better; this one is in the package for comparison with a
                      paper. Empty: it is a product
    quick             options (as for `--set`) that make the fit of a small mesh take about a
                      second; the contract suite uses them
    """

    needs_bones: bool = False
    finds_bones: bool = False
    takes_sequences: bool = False
    controls_suffice: bool = False
    reduces_skin: bool = False
    asks_rig: bool = False
    needs_torch: bool = False
    affine_weights: bool = False
    baseline: str = ""
    quick: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Limit:
    """The range of a number: at least `low`, at most `high`, greater than `above`."""

    low: float | None = None
    high: float | None = None
    above: float | None = None


AT_LEAST_ONE = Limit(low=1)
NOT_NEGATIVE = Limit(low=0)
POSITIVE = Limit(above=0)
FRACTION = Limit(above=0, high=1)


@dataclass(frozen=True)
class Config:
    """Options every method has.

    seed  the same seed and data give the same file on the same machine, byte for byte
    """

    # The values that a text option may take, where its type does not say.
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # Option -> the range of its value, or of each number of a tuple; an option that is none passes.
    limits: ClassVar[Mapping[str, Limit]] = {}
    # Preset -> the options that it sets, such as "paper": the method as published. Declare it
    # beside the defaults, each number with the section of the paper that states it.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    seed: int = 0

    def __new__(cls, *values: Any, **options: Any) -> Self:
        for name in options:
            cls.need_option(name)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for option in dataclasses.fields(self):
            value = checks.of_type(getattr(self, option.name), option.name, hints[option.name])
            object.__setattr__(self, option.name, value)
        checks.between(self.seed, "seed", 0)
        for name, allowed in self.choices.items():
            checks.one_of(getattr(self, name), name, allowed)
        for name, limit in self.limits.items():
            value = getattr(self, name)
            for number in value if isinstance(value, tuple) else (value,):
                if number is not None:
                    checks.between(number, name, limit.low, limit.high, above=limit.above)

    @classmethod
    def need_option(cls, name: str) -> None:
        """Raise an error that offers the nearest option if there is none called `name`."""
        known = {option.name for option in dataclasses.fields(cls)}
        checks.one_of(name, f"option of {cls.__qualname__}", known)

    @classmethod
    def of_preset(cls, preset: str, **options: Any) -> Self:
        """The config of a preset, or of "default"; `options` replace its values."""
        return cls(**{**cls.preset_options(preset), **options})

    @classmethod
    def preset_options(cls, preset: str) -> Mapping[str, Any]:
        """The options that a preset sets; those of "default" are none.

        >>> Config.preset_options("default")
        {}
        """
        if not cls.presets and preset != "default":
            raise InputError(f"preset {preset!r}: this method has none; leave it out")
        checks.one_of(preset, "preset", ("default", *cls.presets))
        return cls.presets.get(preset, {})

    def header(self) -> dict[str, Any]:
        """The options as a file records them, without those that cannot change the result."""
        return {
            name: value for name, value in asdict(self).items() if name not in _RESULT_INDEPENDENT
        }


ConfigType = TypeVar("ConfigType", bound=Config)


class Method(Generic[ConfigType]):
    """A way to make a Deformer. A subclass sets `name`, `traits` and `Config` and writes `fit`.

    The first line of its docstring is what `understudy methods` prints. What `fit` is given is
    checked before it runs. While it runs, BLAS uses one thread; work for several goes through
    `understudy.system.tasks`.
    """

    name: ClassVar[str]
    traits: ClassVar[Traits]
    Config: ClassVar[type[Any]] = Config

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.fit = _checked(inspect.unwrap(cls.fit), cls)  # type: ignore[method-assign]

    def __init__(self, config: ConfigType | None = None):
        self.config: ConfigType = self.Config() if config is None else config
        if not isinstance(self.config, self.Config):
            raise InputError(
                f"{self.name}: expected a {self.Config.__qualname__}, got "
                f"{type(self.config).__qualname__}"
            )

    @classmethod
    def summary(cls) -> str:
        """One sentence that says what the method does."""
        return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses`; `rig` is the live rig, if there is one (`traits.asks_rig`)."""
        raise TypeError(f"{type(self).__qualname__} does not define fit")


def _checked(fit: Callable[..., Deformer], kind: type[Method]) -> Callable[..., Deformer]:
    """The `fit` of a method with its arguments checked first, and with BLAS on one thread.

    Of a fit inside another fit, as of a candidate of `auto`, nothing is said.
    """

    @functools.wraps(fit)
    def checked(self: Any, /, *arguments: Any, **options: Any) -> Deformer:
        if not isinstance(self, Method):
            name = kind.__qualname__
            raise InputError(f"fit: {name} is a class; make an object of it: {name}().fit(poses)")
        check_fit(arguments, options, self.traits.asks_rig)
        poses = options.pop("poses", None) or arguments[0]
        with tasks.one_blas_thread():
            if _FITTING.get():
                return fit(self, poses, **options)
            progress = options.get("progress", SILENT)
            poses = usable_poses(poses, self.traits.finds_bones, progress)
            inside = copy_context()
            inside.run(_FITTING.set, True)
            deformer = inside.run(fit, self, poses, **options)
            say_if_worse(deformer, poses, progress)
            return deformer

    return checked


@dataclass(frozen=True)
class Option:
    """One option of a config: its name, type, default and meaning as texts."""

    name: str
    type: str
    default: str
    meaning: str


def option_table(config_type: type[Config]) -> tuple[Option, ...]:
    """The options of a config in the order of its fields: what the command line and docs show.

    >>> [option.name for option in option_table(Config)]
    ['seed']
    >>> option_table(Config)[0].type
    'int'
    """
    hints = typing.get_type_hints(config_type)
    meanings = _meanings(config_type)
    defaults = config_type()
    return tuple(
        Option(
            field.name,
            _type_text(hints[field.name], config_type.choices.get(field.name)),
            _value_text(getattr(defaults, field.name)),
            meanings.get(field.name, ""),
        )
        for field in dataclasses.fields(config_type)
    )


def config_from_text(config_type: type[ConfigType], options: Mapping[str, Any]) -> ConfigType:
    """A config from options by name. A text, as `--set` gives it, is read as its field's type.

    `preset=paper` starts from that preset; the other options replace its values.

    >>> config_from_text(Config, {"seed": "7"}).seed
    7
    """
    options = dict(options)
    preset = config_type.preset_options(options.pop(PRESET, "default"))
    hints = typing.get_type_hints(config_type)
    values = {}
    for name, value in options.items():
        config_type.need_option(name)
        values[name] = _read(value, hints[name], name) if isinstance(value, str) else value
    return config_type(**{**preset, **values})


def preset_lines(config_type: type[Config]) -> list[str]:
    """One line for each preset of a config: its name and the options that it sets.

    >>> preset_lines(Config)
    []
    """
    return [
        f"{preset}: " + ", ".join(f"{name}={_value_text(value)}" for name, value in values.items())
        for preset, values in config_type.presets.items()
    ]


def _meanings(config_type: type[Config]) -> dict[str, str]:
    """Option name -> meaning, from the docstrings of the config and its base classes.

    An option starts a line with its name; the lines of its meaning that follow are indented.
    """
    found: dict[str, list[str]] = {}
    for kind in config_type.__mro__:
        if not (dataclasses.is_dataclass(kind) and "__doc__" in vars(kind)):
            continue
        names = {f.name for f in dataclasses.fields(kind)} - found.keys()
        lines = None
        for line in inspect.cleandoc(kind.__doc__ or "").splitlines():
            start = re.match(r"(\w+) +(\S.*)", line)
            if start and start[1] in names and start[1] not in found:
                lines = found[start[1]] = [start[2]]
            elif line.startswith(" ") and lines is not None:
                lines.append(line.strip())
            else:
                lines = None
    return {name: " ".join(lines) for name, lines in found.items()}


def _type_text(hint: Any, choices: tuple[str, ...] | None = None) -> str:
    if choices is not None:
        return " | ".join(choices)
    if isinstance(hint, types.UnionType):
        return " | ".join(_type_text(part) for part in typing.get_args(hint))
    origin = typing.get_origin(hint)
    if origin is tuple:
        return f"{_type_text(typing.get_args(hint)[0])},..."
    if origin is typing.Literal:
        return " | ".join(str(value) for value in typing.get_args(hint))
    return "none" if hint is type(None) else str(hint.__name__)


def _value_text(value: Any) -> str:
    """A value as `--set` reads it."""
    if isinstance(value, tuple):
        return ",".join(_value_text(part) for part in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _read(text: str, hint: Any, name: str) -> Any:
    """The value of an option's text: int, float, bool, str, tuples of those, or `none`."""
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


def check_device(device: str) -> None:
    """Raise unless `device` is auto, cpu, cuda or cuda:N."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
        raise InputError(f"device: expected auto, cpu, cuda or cuda:N, got {device!r}")
