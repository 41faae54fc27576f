"""`Budget`: what reading one file may take, where a file can stand for more than its bytes."""

from __future__ import annotations

from understudy.system.errors import FileError

# A file of up to `SMALL_FILE` bytes may have arrays of `ROOM` bytes. Larger ones get `PER_BYTE` for
# each further byte: files repeat references to the same bytes, pack them and interpolate keys, so
# their size alone is no bound.
SMALL_FILE = 2**21
ROOM = 2**29
PER_BYTE = 64


class Budget:
    """Counts the bytes that arrays take, and refuses more than a file of its size may need.

    where     the file, for errors; "": the caller adds it
    size      its bytes
    per_byte  what each byte beyond the first 2 MiB may stand for

    Things that take time rather than memory are counted too, as bytes by their number, so that the
    time to read a file is bounded as well.
    """

    def __init__(self, where: object, size: int, per_byte: int = PER_BYTE):
        self.where = where
        self.limit = ROOM + per_byte * max(0, size - SMALL_FILE)
        self.left = self.limit

    def take(self, count: int, what: str) -> None:
        """Account for `count` bytes before they are taken."""
        self.left -= count
        if self.left < 0:
            where = f"{self.where}: " if self.where else ""
            raise FileError(
                f"{where}{what} would need more than {self.limit / 2**30:.1f} GiB in all; "
                "read fewer meshes or animations, choose a lower frame rate, or split the file"
            )
