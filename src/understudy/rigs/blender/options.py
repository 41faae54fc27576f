"""What of a .blend file is the rig: meshes, controls, modifiers, and whether scripts may run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from understudy.system import checks
from understudy.system.errors import FileError, InputError

SUFFIX = ".blend"
MODIFIERS = ("viewport", "render")


@dataclass(frozen=True)
class BlenderOptions:
    """Which part of a .blend file is the rig, and how it is evaluated.

    meshes          mesh objects to learn, also hidden ones; empty: all visible ones that an
                    armature or shape keys deform
    controls        patterns of control names (`mouth_*`, `*.rot.?`); without any, those an animator
                    uses. Those that match `!PATTERN` are left out
    trust_scripts   run the scripts in the file and evaluate drivers that need Python
    ignore_drivers  go on although drivers are evaluated to 0
    modifiers       "viewport" or "render": which setting says whether a modifier is enabled
    bendy           joints between the segments of each bendy bone that are bones of their own; 0:
                    the bone alone
    timeout         seconds without an answer after which Blender is replaced
    poses           poses after which Blender is replaced, against memory leaks
    memory          bytes of memory above which Blender is replaced
    collections     names of bone collections: controls of other bones are left out; empty: none are
    animations      .blend, .fbx or .bvh files whose actions are the rig's animations, in place of
                    those of its file
    libraries       (OLD, NEW): files that the file links to by a path that begins with OLD lie at
                    NEW
    simulations     keep modifiers that depend on earlier frames, such as cloth
    """

    meshes: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    trust_scripts: bool = False
    ignore_drivers: bool = False
    modifiers: str = "viewport"
    bendy: int = 0
    timeout: float = 120.0
    poses: int = 20_000
    memory: int = 6 << 30
    collections: tuple[str, ...] = ()
    animations: tuple[str, ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()
    simulations: bool = False

    def __post_init__(self):
        for name in ("meshes", "controls", "collections", "animations"):
            object.__setattr__(self, name, checks.names(getattr(self, name), name))
        for file in self.animations:
            if not Path(file).is_file():
                raise FileError(f"{file}: no such file of animations")
        checks.one_of(self.modifiers, "modifiers", MODIFIERS)
        checks.between(self.bendy, "bendy", low=0, high=33)
        checks.between(self.timeout, "timeout", above=0)
        checks.between(self.poses, "poses", low=1)
        checks.between(self.memory, "memory", low=1)

    @property
    def asks(self) -> bool:
        """Whether the user names the controls."""
        named = any(not pattern.startswith("!") for pattern in self.controls)
        return named or bool(self.collections)


_PLAIN = BlenderOptions()
# Options in the name of a rig, in the order in which files record them, and their fields.
_IN_TEXT = {
    "mesh": "meshes",
    "control": "controls",
    "collection": "collections",
    "simulations": "simulations",
    "modifiers": "modifiers",
    "bendy": "bendy",
    "ignore-drivers": "ignore_drivers",
}


def is_blend(text: str) -> bool:
    """Return whether `text` names a rig in a .blend file.

    >>> is_blend("rigs/hero.blend?mesh=Body"), is_blend("human")
    (True, False)
    """
    return text.partition("?")[0].lower().endswith(SUFFIX)


def parse_blend(text: str) -> tuple[Path, BlenderOptions]:
    """Return the file and the options of `hero.blend?mesh=Body&mesh=Shirt&control=arm_*`.

    Options are those of `_IN_TEXT`. Whether scripts are trusted, and where other files lie, cannot
    be part of the text, because files record it.

    >>> parse_blend("hero.blend?mesh=Body&bendy=3")[1].meshes
    ('Body',)
    """
    path, _, query = text.partition("?")
    given: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        field = _IN_TEXT[checks.one_of(name, f"option in {text}", _IN_TEXT)]
        plain = getattr(_PLAIN, field)
        if isinstance(plain, tuple):
            given[field] = (*given.get(field, ()), value)
        elif isinstance(plain, int) and plain is not False and not value.isdecimal():
            raise InputError(f"{text}: {name}: expected a whole number, got {value!r}")
        else:
            given[field] = plain is False or type(plain)(value)
    return Path(path), BlenderOptions(**given)


def blend_text(path: Path, options: BlenderOptions) -> str:
    """Return the text that `parse_blend` reads, with the name of the file alone.

    >>> blend_text(Path("rigs/hero.blend"), BlenderOptions(meshes=("Body",)))
    'hero.blend?mesh=Body'
    """
    parts = []
    for name, field in _IN_TEXT.items():
        value = getattr(options, field)
        if isinstance(value, tuple):
            parts += [f"{name}={quote(part, safe='*?[]!' * (name == 'control'))}" for part in value]
        elif value != getattr(_PLAIN, field):
            parts.append(name if value is True else f"{name}={value}")
    return path.name + ("?" + "&".join(parts) if parts else "")


def together(options: BlenderOptions, asked: BlenderOptions) -> BlenderOptions:
    """Return the options of a text and those of a command; `asked` wins where one can be given."""
    both: dict[str, Any] = {}
    for field in _IN_TEXT.values():
        own, other = getattr(options, field), getattr(asked, field)
        both[field] = own + other if isinstance(own, tuple) else other
        if other == getattr(_PLAIN, field):
            both[field] = own
    return replace(asked, **both)
