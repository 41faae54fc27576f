"""`BlenderRig`: a character in a .blend file, evaluated by Blender in a process of its own.

The file is read, its controls are found and calibrated once; the result is cached, by the content
of the file and the options. Blender starts when the first pose is evaluated. A process that dies,
hangs or grows too large is replaced, and the poses it had not answered are evaluated again.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.poses import Poses
from understudy.rigs.blender.connection import Connection, LostBlender
from understudy.rigs.blender.description import Description, choose_request, read_description
from understudy.rigs.blender.effects import factor_of
from understudy.rigs.blender.options import BlenderOptions, blend_text, parse_blend
from understudy.system import checks
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

_TRIES = 3  # of one pose that makes Blender die or hang
_STEP = 16  # poses of one request
_OPEN_TIMEOUT = 600.0  # seconds to read a file
# Plain, gzip and zstd, as Blender writes files.
_MAGIC = (b"BLENDER", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")


class BlenderRig:
    """A character of a .blend file as a `Rig`. Several in one program do not disturb each other.

    mesh      the chosen meshes in the bind pose, in world space; a part for each object
    skeleton  the bones that deform the meshes, or None
    controls  `bone.loc.x`, `bone.rot.x` (degrees), `bone.property`, `mesh.shape_key`
    skin, deforms, switches, left_out, notes  as in `Description`
    animation_names  the actions of the file that animate the rig

    >>> BlenderRig("hero.txt")
    Traceback (most recent call last):
    understudy.system.errors.FileError: hero.txt: no such file
    """

    def __init__(
        self,
        path: str | Path,
        options: BlenderOptions | None = None,
        progress: Progress = SILENT,
        described: Description | None = None,
    ):
        self._path = Path(path).absolute()
        self._options = options or BlenderOptions()
        self._session: Connection | None = None
        self._finalizer: Any = None
        self._closed = False
        self._evaluated = 0
        self.restarts = 0
        self._check_file(path)
        try:
            self._facts = described or read_description(
                self._path, self._options, self._open, self._connect, progress
            )
        except BaseException:
            self.close()
            raise
        facts = self._facts
        self.mesh, self.skeleton, self.skin = facts.mesh, facts.skeleton, facts.skin
        self.controls, self.deforms, self.switches = facts.controls, facts.deforms, facts.switches
        self.left_out, self.notes = facts.left_out, facts.notes
        self.animation_names = tuple(facts.animations)
        self._factors = np.array([factor_of(channel) for channel in facts.channels])

    @staticmethod
    def from_text(text: str) -> BlenderRig:
        """Return the rig of `hero.blend?mesh=Body&control=arm_*` (see `parse_blend`)."""
        return BlenderRig(*parse_blend(text))

    @property
    def name(self) -> str:
        """The file and the options, as `load_rig` takes them."""
        return blend_text(self._path, self._options)

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        """The controls (T,C) at every frame of an action, and the frame rate."""
        checks.one_of(name, "animation", self.animation_names)
        low, high = self.controls.limit_low, self.controls.limit_high
        return np.clip(self._facts.animations[name], low, high), self._facts.frame_rate

    @property
    def process_id(self) -> int | None:
        """The id of the Blender process; None: none is running."""
        return self._session.process_id if self._session else None

    def evaluate(self, values: np.ndarray) -> Poses:
        """The T poses at control values (T,C)."""
        values = self.controls.check(values)
        bones = 0 if self.skeleton is None else self.skeleton.bone_count
        vertices = np.empty((len(values), self.mesh.vertex_count, 3), np.float32)
        world = np.empty((len(values), bones, 3, 4))
        for start in range(0, len(values), _STEP):
            some = slice(start, start + _STEP)
            vertices[some], world[some] = self._evaluate(values[some] * self._factors)
        return Poses(
            self.mesh,
            vertices,
            self.skeleton,
            world if self.skeleton is not None else None,
            self.controls,
            values,
            name=self.name,
            skin=self.skin,
        )

    def sibling(self) -> BlenderRig:
        """The same rig with a Blender process of its own."""
        return BlenderRig(self._path, self._options, described=self._facts)

    def close(self) -> None:
        """End the Blender process for good."""
        self._closed = True
        self._end()

    def __enter__(self) -> BlenderRig:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_file(self, given: str | Path) -> None:
        try:
            with self._path.open("rb") as file:
                start = file.read(7)
        except FileNotFoundError:
            raise FileError(f"{given}: no such file") from None
        except OSError as problem:
            raise FileError(f"{given}: cannot be read ({problem.strerror})") from None
        if not start.startswith(_MAGIC):
            raise FileError(f"{given}: this is not a .blend file")

    def _evaluate(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Vertices and bones at values (n,C) in Blender's units, by a process that answers."""
        try:
            return self._ask(values)
        except LostBlender:
            if self._closed:
                raise
        pairs = [self._evaluate_alone(row[None]) for row in values]
        vertices, bones = zip(*pairs, strict=True)
        return np.concatenate(vertices), np.concatenate(bones)

    def _evaluate_alone(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        for left in reversed(range(_TRIES)):
            try:
                return self._ask(values)
            except LostBlender as problem:
                if self._closed:
                    raise
                if not left:
                    raise InputError(
                        f"Blender dies or hangs at this pose, {_TRIES} times in a row: {problem}"
                    ) from problem
        raise AssertionError

    def _ask(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        session = self._running()
        try:
            _, arrays = session.ask(
                {"request": "evaluate"}, {"values": values}, self._options.timeout
            )
        except LostBlender:
            self._end()
            self.restarts += 1
            raise
        self._evaluated += len(values)
        if session.resident > self._options.memory or self._evaluated >= self._options.poses:
            self._end()
        return arrays["vertices"], arrays["bones"]

    def _running(self) -> Connection:
        """The Blender process with the channels of the controls set up."""
        if self._session is None:
            session, _, _ = self._open()
            session.ask({"request": "channels", "channels": list(self._facts.channels)})
            self._evaluated = 0
        assert self._session is not None
        return self._session

    def _open(self) -> tuple[Connection, dict[str, Any], dict[str, np.ndarray]]:
        """Start Blender with the file and the meshes; also its description of them."""
        if self._closed:
            raise LostBlender(f"{self._path.name}: the rig was closed")
        self._end()
        self._session, header, arrays = self._connect()
        # Also ended when nobody uses the rig any more, and when the program ends.
        self._finalizer = weakref.finalize(self, self._session.close)
        return self._session, header, arrays

    def _connect(self) -> tuple[Connection, dict[str, Any], dict[str, np.ndarray]]:
        """A further Blender with the file and the meshes; who asks for it closes it."""
        session = Connection()
        try:
            opened, _ = session.ask(
                {
                    "request": "open",
                    "file": os.fspath(self._path),
                    "trust_scripts": self._options.trust_scripts,
                    "moved": self._options.libraries,
                },
                timeout=_OPEN_TIMEOUT,
            )
            header, arrays = session.ask(choose_request(self._options), timeout=_OPEN_TIMEOUT)
        except LostBlender as problem:
            session.close()
            raise FileError(f"{self._path}: Blender cannot open it: {problem}") from problem
        except InputError as problem:
            session.close()
            raise FileError(f"{self._path}: {problem}") from problem
        except BaseException:
            session.close()
            raise
        return session, {**opened, **header}, arrays

    def _end(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        self._session, self._finalizer = None, None
