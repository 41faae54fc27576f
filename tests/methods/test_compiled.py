"""An installation without the compiled part of a method says so."""

import pytest

from understudy import MissingDependencyError
from understudy.methods.compiled import compiled_part


def test_a_missing_part_names_what_to_do():
    with pytest.raises(MissingDependencyError, match=r"lacks; install .* a C\+\+ comp"):
        compiled_part("decomposition._nothing")
