"""Adds one option to a command of the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def with_option(
    wrapped: Callable[..., None], command: Callable[..., None], name: str, annotation: Any
) -> Callable[..., None]:
    """Return `wrapped`, which calls `command`, with the signature of the command and one option.

    name        keyword of `wrapped` that gets the option; None where it is not given
    annotation  the option, as typer takes it
    """
    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )
    wrapped.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option]
    )
    wrapped.__annotations__ = {**command.__annotations__, name: annotation}
    return wrapped
