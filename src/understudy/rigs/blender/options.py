"""What of a .blend file is the rig: meshes, controls, modifiers, and whether scripts may run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
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


def is_blend(text: str) -> bool:
    """Return whether `text` names a rig in a .blend file.

    >>> is_blend("rigs/hero.blend?mesh=Body"), is_blend("human")
    (True, False)
    """
    return text.partition("?")[0].lower().endswith(SUFFIX)


def parse_blend(text: str) -> tuple[Path, BlenderOptions]:
    """Return the file and the options of `hero.blend?mesh=Body&mesh=Shirt&control=arm_*`.

    Options are mesh, control, collection, modifiers, bendy, simulations and ignore-drivers. Whether
    scripts are trusted, and where other files lie, cannot be part of the text, because files record
    it.

    >>> parse_blend("hero.blend?mesh=Body&bendy=3")[1].meshes
    ('Body',)
    """
    path, _, query = text.partition("?")
    given: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        checks.one_of(
            name,
            f"option in {text}",
            (
                "mesh",
                "control",
                "collection",
                "modifiers",
                "bendy",
                "simulations",
                "ignore-drivers",
            ),
        )
        given.setdefault(name, []).append(value)
    bendy = given.get("bendy", ["0"])[-1]
    if not bendy.isdecimal():
        raise InputError(f"{text}: bendy: expected a whole number, got {bendy!r}")
    return Path(path), BlenderOptions(
        meshes=tuple(given.get("mesh", ())),
        controls=tuple(given.get("control", ())),
        collections=tuple(given.get("collection", ())),
        simulations="simulations" in given,
        modifiers=given.get("modifiers", ["viewport"])[-1],
        bendy=int(bendy),
        ignore_drivers="ignore-drivers" in given,
    )


def blend_text(path: Path, options: BlenderOptions) -> str:
    """Return the text that `parse_blend` reads, with the name of the file alone.

    >>> blend_text(Path("rigs/hero.blend"), BlenderOptions(meshes=("Body",)))
    'hero.blend?mesh=Body'
    """
    parts = [f"mesh={quote(name)}" for name in options.meshes]
    parts += [f"control={quote(pattern, safe='*?[]!')}" for pattern in options.controls]
    parts += [f"collection={quote(name)}" for name in options.collections]
    if options.simulations:
        parts.append("simulations")
    if options.modifiers != "viewport":
        parts.append(f"modifiers={options.modifiers}")
    if options.bendy:
        parts.append(f"bendy={options.bendy}")
    if options.ignore_drivers:
        parts.append("ignore-drivers")
    return path.name + ("?" + "&".join(parts) if parts else "")
