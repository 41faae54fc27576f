"""What a test does where something that it needs is missing."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test; fail it if the environment variable CI is set, where `make test` installs all
    that tests need.

    reason  what is missing and how to get it
    """
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
