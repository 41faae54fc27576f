"""Pose stores in a bucket of an S3-compatible object store: `s3://bucket/folder/hero.zarr`.

`place` turns the text of a path into a `Path` or a `BucketPath`; the pose store uses the few
methods that both have. An object appears whole or not at all, and is safe once it is written, so
there is nothing like a draft, a lock or a flush. Where the bucket is, and who asks for it, comes
from the usual variables of the environment: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION.

The client (obstore) repeats requests that time out or that the server could not answer, for a
limited time; what fails then is an `OSError`. `docs/farm.md` has the variables of both limits.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from understudy.system.errors import FileError, InputError, imported

SCHEME = "s3"
_MOST_TRIES = 100  # the time limit comes first


@dataclass(frozen=True)
class BucketPath:
    """A place in a bucket; its methods are those of `pathlib.Path`.

    bucket  its name
    key     of the object or folder, without slashes at its ends
    """

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{SCHEME}://{self.bucket}/{self.key}"

    def __truediv__(self, name: str) -> BucketPath:
        return BucketPath(self.bucket, f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self.name.rpartition(".")[0] or self.name

    def absolute(self) -> BucketPath:
        """Itself."""
        return self

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the text of the object; FileNotFoundError: there is none."""
        with os_errors(self):
            return bytes(_client(self.bucket).get(self.key).bytes()).decode(encoding)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write the object."""
        with os_errors(self):
            _client(self.bucket).put(self.key, text.encode(encoding))

    def sizes(self, start: str = "") -> dict[str, int]:
        """Return the bytes of all objects below this place: name below it -> bytes.

        start  with which their names start
        """
        with os_errors(self):
            # A prefix of whole folders; what is left is compared here.
            folder, _, _ = start.rpartition("/")
            prefix = f"{self.key}/{folder}".rstrip("/") + "/"
            found: dict[str, int] = {}
            for page in _client(self.bucket).list(prefix):
                for entry in page:
                    name = entry["path"][len(self.key) + 1 :]
                    if name.startswith(start):
                        found[name] = entry["size"]
            return found

    def remove(self) -> None:
        """Remove everything below this place."""
        names = list(self.sizes())
        with os_errors(self):
            for first in range(0, len(names), 500):
                keys = [f"{self.key}/{name}" for name in names[first : first + 500]]
                _client(self.bucket).delete(keys)

    def zarr_store(self) -> Any:
        """Return the place as a store of Zarr."""
        from zarr.storage import ObjectStore

        return ObjectStore(_client(self.bucket, self.key))


def is_bucket(path: object) -> bool:
    """Return whether a path or its text is a place in a bucket.

    A `Path` made from such a text has lost a slash.

    >>> is_bucket("s3://films/hero.zarr"), is_bucket(Path("s3://films/hero.zarr")), is_bucket("s3")
    (True, True, False)
    """
    return isinstance(path, BucketPath) or str(path).startswith(f"{SCHEME}:/")


def place(path: str | Path | BucketPath) -> Path | BucketPath:
    """Return a path on disk, or a place in a bucket.

    >>> str(place(Path("s3://films/hero.zarr")))
    's3://films/hero.zarr'
    """
    if isinstance(path, BucketPath):
        return path
    if not is_bucket(path):
        return Path(path)
    words = str(path)[len(SCHEME) + 1 :].strip("/").split("/", 1)
    if len(words) < 2 or not words[0]:
        raise InputError(f"{path}: expected {SCHEME}://BUCKET/PATH")
    return BucketPath(words[0], words[1])


@contextmanager
def os_errors(where: BucketPath) -> Iterator[None]:
    """Raise errors of the client as OSError; `where` is for the message."""
    _module()
    try:
        yield
    except OSError:
        raise
    except client_errors() as problem:
        raise OSError(errno.EIO, explained(problem), str(where)) from problem


def client_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the client; empty where it was not used."""
    if "obstore" not in sys.modules:
        return ()
    from obstore.exceptions import BaseError

    return (BaseError,)


def no_answer(path: BucketPath | Path, problem: Exception) -> FileError:
    """Return the error for a bucket that does not answer."""
    why = problem.strerror if isinstance(problem, OSError) else explained(problem)
    return FileError(
        f"{path}: the bucket does not answer ({why}); run the same command again when it does"
    )


def explained(problem: BaseException) -> str:
    """Return an error of the client in one line, without its inner structure.

    >>> explained(ValueError("Generic S3 error: timed out  Debug source: X {}"))
    'Generic S3 error: timed out'
    """
    text = str(problem).partition("Debug source:")[0]
    return " ".join(text.split())


def _module() -> Any:
    return imported("obstore", f"{SCHEME}://", "cloud")


@cache
def _client(bucket: str, prefix: str | None = None) -> Any:
    """Return the client of a bucket, or of a folder in it."""
    _module()
    from obstore.store import S3Store

    limit = float(os.environ.get("UNDERSTUDY_BUCKET_TIMEOUT", "60"))
    patience = float(os.environ.get("UNDERSTUDY_BUCKET_PATIENCE", "120"))
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    allow_http = endpoint.startswith("http://")
    return S3Store(
        bucket,
        prefix=prefix,
        client_options={"timeout": timedelta(seconds=limit), "allow_http": allow_http},
        retry_config={
            "max_retries": _MOST_TRIES,
            "retry_timeout": timedelta(seconds=patience),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=10),
                "base": 2,
            },
        },
    )


if hasattr(os, "register_at_fork"):  # the threads of a client exist only in the parent
    os.register_at_fork(after_in_child=_client.cache_clear)
